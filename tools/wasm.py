"""Compile the native engine to WebAssembly, for browsers and node.

    pip install ziglang==0.17.1
    python tools/wasm.py

writes src/mixling/browser/package/mixling.wasm and, with what training needs, src/mixling/browser/trainer/trainer.wasm.
They are committed, so that installing mixling needs no compiler. They are the same bytes wherever they are built, and
end with a section that has the SHA-256 of the sources; tests compare both. Run this after a change of the C sources.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ZIG = "0.17.1"
ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mixling"
ENGINE = SOURCE / "browser" / "package" / "mixling.wasm"
TRAINER = SOURCE / "browser" / "trainer" / "trainer.wasm"
TRAINING = (  # of the trainer alone
    *("browser/random.c", "browser/steps.c", "browser/training.c", "native/linear/descent.c"),
    *(f"native/training/{name}.c" for name in ("kernels", "losses", "memory", "network", "step", "threads", "updates")),
)
SECTION = b"mixling.sources"
FLAGS = (
    *("-target", "wasm32-wasi", "-msimd128", "-std=gnu11", "-g0", "-fno-math-errno", "-fno-trapping-math"),
    "-fvisibility=hidden",
)
FAST = ("-O2",)  # of the kernels, which all but make up the time
SMALL = ("-Os", "-fno-inline-functions", "-fno-vectorize", "-fno-slp-vectorize")  # of the rest
LINK = ("-mexec-model=reactor", "-s", "-Wl,-z,stack-size=1048576")


def exports(file: Path) -> list[str]:
    """Return the functions that JavaScript calls and the C sources have."""
    scripts = [ENGINE.parent / "engine.js", *([TRAINER.parent / "core.js"] if file == TRAINER else [])]
    called = {name for script in scripts for name in re.findall(r"\bmixling_\w+", script.read_text("utf-8"))}
    headers = ["native/mixling.h", "browser/metadata.c", *(TRAINING if file == TRAINER else ())]
    declared = "".join((SOURCE / header).read_text("utf-8") for header in headers)
    return ["malloc", "free", *sorted(called & set(re.findall(r"\b(mixling_\w+)\(", declared)))]


def sources(file: Path) -> list[Path]:
    """Return the C files that are compiled."""
    training = [SOURCE / name for name in TRAINING]
    native = [found for found in sorted(SOURCE.glob("native/*.c")) if found.name not in ("python.c", "example.c")]
    own = [found for found in sorted(SOURCE.glob("browser/*.c")) if found not in training]
    return [*native, *own, *(training if file == TRAINER else ())]


def digest(file: Path) -> bytes:
    """Return the SHA-256 of the sources and of how they are compiled."""
    sha256 = hashlib.sha256(" ".join([ZIG, *FLAGS, *FAST, *SMALL, *LINK, *exports(file)]).encode())
    folders = ("native", "native/linear", "native/training") if file == TRAINER else ("native",)
    headers = sorted(header for folder in folders for header in SOURCE.glob(f"{folder}/*.h"))
    for source in [*sources(file), *headers, SOURCE / "native/unicode_tables.inc"]:
        sha256.update(source.name.encode() + b"\0" + hashlib.sha256(source.read_bytes()).digest())
    return sha256.digest()


def section(file: Path) -> bytes:
    """Return the section of the file that has the digest."""
    content = bytes([len(SECTION)]) + SECTION + digest(file)
    return bytes([0, len(content)]) + content


def build(file: Path) -> bytes:
    """Compile; needs ziglang of the version `ZIG`."""
    if (found := importlib.metadata.version("ziglang")) != ZIG:
        sys.exit(f"ziglang is {found}; other versions make other bytes: pip install ziglang=={ZIG}")
    with tempfile.TemporaryDirectory() as temporary:
        out, inputs = Path(temporary) / "mixling.wasm", []
        for source in sources(file):
            inputs.append(str(source.relative_to(SOURCE)))
            if source.name.startswith(("kernels", "descent")):
                made = str(Path(temporary) / f"{len(inputs)}.o")
                compile_with(*FAST, "-c", inputs[-1], "-o", made)
                inputs[-1] = made
        compile_with(*SMALL, *LINK, *(f"-Wl,--export={name}" for name in exports(file)), *inputs, "-o", str(out))
        return out.read_bytes() + section(file)


def compile_with(*arguments: str) -> None:
    """Call the compiler."""
    subprocess.run([sys.executable, "-m", "ziglang", "cc", *FLAGS, *arguments], cwd=SOURCE, check=True)


if __name__ == "__main__":
    for file in (ENGINE, TRAINER):
        file.write_bytes(build(file))
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")
