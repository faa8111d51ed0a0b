"""Compile libmixling for AArch64, run it under qemu, and compare its logits with those of this machine.

    pip install ziglang==0.17.1; apt-get install qemu-user
    python tools/aarch64.py

Models of each kind with first weights, in float32 and in 8 bits, read texts of all writing systems on two processors:
one of ARMv8.0, and one with all extensions that qemu has, among them dot products of integers. Prints the greatest
difference of a logit, and fails where it is beyond what the tests of the native engine allow.
"""

from __future__ import annotations

import argparse
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mixling import PRESETS, Vocabulary, build_model
from mixling.answers import LabelSet
from mixling.export import export_onnx
from mixling.runtime import load_native

ROOT = Path(__file__).parents[1]
NATIVE = ROOT / "src/mixling/native"
FLAGS = ("-target", "aarch64-linux-musl", "-O2", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math")
PROCESSORS = ("cortex-a57", "max")
MODELS = ("mixling-tiny", "mixling-small", "mixling-base", "mixling-mixer", "pnlp-mixer-x-small")
WORDS = "what a film un be lievable ça alors the quick brown fox jumps over lazy dogs isn't ΟΔΟΣ 你 好 각 हिन्दी".split()  # noqa: SIM905
FLOAT_TOLERANCE, INTEGER_TOLERANCE = 1e-5, 0.015  # of a logit; of the range of logits


def main() -> None:
    """Compare, and exit with 1 if logits differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zig", default=f"{sys.executable} -m ziglang", help="the command of the compiler")
    args = parser.parse_args()
    if shutil.which("qemu-aarch64") is None:
        sys.exit("qemu-aarch64 is missing: apt-get install qemu-user")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        program, model = Path(folder) / "logits", Path(folder) / "model.onnx"
        compile_for_aarch64(shlex.split(args.zig), program)
        for preset in MODELS:
            for precision in ("float32", "int8"):
                model.write_bytes(exported(preset, precision))
                expected = logits_here(model)
                for processor in PROCESSORS:
                    name, got = logits_of([*("qemu-aarch64", "-cpu", processor), str(program), str(model)])
                    difference, span = float(np.abs(got - expected).max()), float(np.ptp(expected))
                    right = difference <= (FLOAT_TOLERANCE if precision == "float32" else INTEGER_TOLERANCE * span)
                    failed |= not right
                    same = np.mean(got.argmax(1) == expected.argmax(1))
                    print(
                        f"{preset:20} {precision:8} {processor:11} {name}: difference {difference:.2g} of a range "
                        f"of {span:.2g}, {same:.1%} same labels{'' if right else ': TOO MUCH'}"
                    )
    sys.exit(failed)


def compile_for_aarch64(zig: list[str], program: Path) -> None:
    """Compile the program of the tests that prints logits."""
    sources = sorted(str(file) for file in NATIVE.glob("*.c") if file.name not in ("python.c", "example.c"))
    main_file = str(ROOT / "tests/native/logits.c")
    subprocess.run([*zig, "cc", *FLAGS, f"-I{NATIVE}", main_file, *sources, "-lm", "-o", str(program)], check=True)


def texts() -> list[str]:
    """Texts of one line each."""
    rng = random.Random(0)
    out = [" ".join(rng.choices(WORDS, k=rng.randint(1, 60))) for _ in range(100)]
    kinds = (0x110000, 0x3000, 0x300, 0x80)
    random_texts = ("".join(chr(rng.randrange(32, rng.choice(kinds))) for _ in range(40)) for _ in range(300))
    return out + [text for text in random_texts if text.isprintable()]


def exported(preset: str, precision: str) -> bytes:
    """A model of three labels."""
    vocabulary = Vocabulary.train(WORDS * 3, size=150)
    config = PRESETS[preset].config
    return export_onnx(
        build_model(config, num_outputs=3, output="text", seed=3), text=config.text, task="classification",
        labels=LabelSet(("a", "b", "c"), "single"), vocabulary=vocabulary, precision=precision,
    )  # fmt: skip


def logits_here(model: Path) -> npt.NDArray[np.float32]:
    """Compute the logits (texts, 3) by the engine of this machine."""
    engine, reason = load_native(model.read_bytes())
    if engine is None:
        sys.exit(reason)
    logits = engine.logits(texts())[0]
    assert isinstance(logits, np.ndarray)
    return logits


def logits_of(command: list[str]) -> tuple[str, npt.NDArray[np.float64]]:
    """Return the instructions and logits that a program prints."""
    given = "".join(f"{text}\n" for text in texts()).encode()
    name, *rows = subprocess.run(command, input=given, capture_output=True, check=True).stdout.decode().splitlines()
    return name, np.array([list(map(float, row.split())) for row in rows])


if __name__ == "__main__":
    main()
