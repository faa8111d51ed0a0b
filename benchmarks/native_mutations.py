"""Changed model files opened and asked by the native engine under the address and undefined behavior sanitizers.

    make native-asan          # or: python benchmarks/native_mutations.py --copies 100000

tests/native/mutate.c, built with gcc, changes bytes of a model's file (bits, digits, stretches from elsewhere, its
length), renews the checksum of seven copies in eight, opens the copy and predicts with what still opens. The first
finding ends the run with the sanitizer's report. Models: channel and token MLPs, in 8 bits and in float32, with first
weights, without and with an n-gram branch whose weights are stored in full and one by one.
Written to benchmarks/results/native_mutations.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from mixling import PRESETS, Predictor, Vocabulary, build_model
from mixling.config import merge, parse
from mixling.cost.provenance import provenance
from mixling.export.onnx import amend, export_onnx
from mixling.models.model import ModelConfig
from mixling.runtime.session import Precision
from mixling.storage import write_json
from mixling.text.labels import LabelSet
from mixling.text.ngram_branch import NgramBranch, NgramMetadata
from mixling.text.ngrams import Words

ROOT = Path(__file__).resolve().parents[1]
NATIVE = ROOT / "src" / "mixling" / "native"
FLAGS = ("-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
PARTS: tuple[tuple[str, Precision, bool, float | None], ...] = (  # the last: share of the branch's weights
    ("mixling-tiny", "int8", False, None),
    ("mixling-tiny", "float32", True, None),
    ("mixling-mixer", "int8", False, None),
    ("mixling-tiny", "int8", False, 1.0),
    ("mixling-tiny", "int8", True, 0.2),
)
NGRAMS = NgramMetadata(min_n=3, max_n=4, network=0.5)
# Small tables, so that changes meet the structure of the file more often than a weight.
SMALL = {"text": {"max_len": 32, "projection": {"num_features": 64, "num_hashes": 8}}, "dim": 24}
WORDS = ["what", "a", "film", "unbelievable", "ça", "alors", "the", "quick", "brown", "fox", "over", "lazy", "dogs"]


def main() -> None:
    """Write benchmarks/results/native_mutations.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=100_000, help="of all models together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "native_mutations.json")
    args = parser.parse_args()
    origin = provenance(seed=args.seed, packages=("onnx",))
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        sources = [str(file) for file in NATIVE.glob("*.c") if file.name not in ("python.c", "example.c")]
        program = f"{folder}/mutate"
        main_file = str(ROOT / "tests" / "native" / "mutate.c")
        subprocess.run(["gcc", *FLAGS, f"-I{NATIVE}", main_file, *sources, "-lm", "-o", program], check=True)
        for preset, precision, pairs, density in PARTS:
            path = Path(folder) / "model.onnx"
            content = exported(preset, precision, pairs=pairs)
            if density is not None:
                content = amend(content, branch=(branch(content, density), NGRAMS))
            path.write_bytes(content)
            begin = time.perf_counter()
            command = [program, str(path), str(args.copies // len(PARTS)), str(args.seed)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            counts = dict(part.rsplit(" ", 1) for part in done.stdout.strip().split(", "))
            results[f"{preset}, {precision}{', pairs' * pairs}{f', branch {density}' if density else ''}"] = {
                **{name: int(count) for name, count in counts.items()},
                "seconds": round(time.perf_counter() - begin, 1),
            }
    write_json(args.out, {**origin, "flags": list(FLAGS), "findings": 0, "results": results})
    print(json.dumps(results, indent=2))


def exported(preset: str, precision: Precision, *, pairs: bool) -> bytes:
    """A small model of the preset's kind."""
    marks = {"text": {"segments": pairs, "overlap": pairs}}
    config = parse(ModelConfig, merge(merge(PRESETS[preset].config.to_dict(), SMALL), marks), where=preset)
    labels = LabelSet(("bad", "good", "über"), "single")
    return export_onnx(
        build_model(config, num_outputs=len(labels), output="text", seed=0),
        text=config.text,
        task="classification",
        labels=labels,
        vocabulary=Vocabulary.train(WORDS * 3, size=100),
        precision=precision,
        pairs=pairs,
    )


def branch(content: bytes, density: float) -> NgramBranch:
    """A branch of the words' terms, with random weights, of which this share is not 0."""
    encoder = Predictor(content).encoder
    encoder.encode([" ".join(WORDS)])
    words = Words.of_table(encoder, 0, NGRAMS.min_n, NGRAMS.max_n)
    terms = np.unique(np.concatenate([words.hashes, words.grams]))
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (len(terms), 3)).astype(np.int8)
    weights[rng.random(weights.shape) > density] = 0
    return NgramBranch(terms, weights, np.full(3, 0.01, np.float32), np.zeros(3, np.float32))


if __name__ == "__main__":
    main()
