"""Where the time of the native engine goes: samples of `perf record` while texts are labeled again and again.

    python benchmarks/native_profile.py --data ../shared/data

The models and texts are those of benchmarks/native.py. Needs Linux's `perf`. Written to
benchmarks/results/native_profile.json: microseconds a text, from a list of strings to a list of predictions, and the
part of each stage.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from side_by_side import arguments, on_one_core

from mixling.provenance import provenance
from mixling.runtime import ONNX_FILE
from mixling.storage import write_json
from native import CASES, prepared

STAGES = {
    "split": ("next_word", "words_split", "look", "describe", "is_longer", "unicode_class", "words_count"),
    "word table": ("table_row", "encode"),
    "new words": (
        *(
            "sum_int8",
            "features_of",
            "vocabulary_find",
            "minhash",
            "table_complete",
            "halve",
            "ngrams_of_word",
            "forget",
        ),
        *("table_prepare", "normalize", "unit_of"),
    ),
    "hidden layer from the products of words": ("hidden", "token_of", "embed", "run_layers", "round_", "scale_"),
    "products with integers": ("multiply_vnni", "multiply_avx2", "multiply_dot"),
    "products with floats, GELU": ("product_", "gelu", "expand", "multiply_", "pair_", "mix_"),
    "norms, pools, output": ("norm", "pool", "dot", "transform", "body_run", "combine", "add_", "apply"),
    "n-gram branch": ("ngrams_add", "add_pairs", "locate"),
    "texts and windows": ("text_run", "mixling_predict", "run_windows"),
    "Python objects": ("decide", "run", "read_text", "new_prediction"),
}
STARTS = 4_000  # milliseconds in which a process has begun to predict
LOOP = """
import json, sys, time
from mixling import Predictor
predictor, texts = Predictor(sys.argv[1]), json.load(open(sys.argv[2]))
predictor.predict(texts)
times, end = [], time.monotonic() + {seconds}
while time.monotonic() < end:
    begin = time.thread_time()
    predictor.predict(texts)
    times.append(time.thread_time() - begin)
print(1e6 * sorted(times)[len(times) // 2] / len(texts))
"""


def main() -> None:
    """Write benchmarks/results/native_profile.json."""
    parser = arguments(__doc__ or "", "native_profile")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seconds", type=float, default=5)
    args = parser.parse_args()
    on_one_core()
    origin = provenance(seed=0, packages=("numpy",))
    results = {}
    for case, (data, preset) in CASES.items():
        content, _, _, timed = prepared(args.data / data, preset)
        results[case] = profile(content, timed, args.seconds)
    write_json(args.out, {**origin, "results": results})
    print(json.dumps(results, indent=2))


def profile(content: bytes, texts: list[str], seconds: float) -> dict[str, Any]:
    """Microseconds of a text, and the fraction of the samples in each stage."""
    with tempfile.TemporaryDirectory() as folder:
        model, rows, data = (Path(folder) / name for name in (ONNX_FILE, "texts.json", "perf.data"))
        model.write_bytes(content)
        rows.write_text(json.dumps(texts))
        loop = [sys.executable, "-c", LOOP.format(seconds=seconds + STARTS / 1000), str(model), str(rows)]
        recorded = subprocess.run(
            ["perf", "record", "-q", "-D", str(STARTS), "-o", str(data), *loop],
            capture_output=True,
            check=True,
            text=True,
        )
        report = ["perf", "report", "-q", "-i", str(data), "--stdio", "--no-children", "-F", "overhead,dso,symbol"]
        lines = subprocess.run(report, capture_output=True, check=True, text=True).stdout.splitlines()
    parts = dict.fromkeys([*STAGES, "other"], 0.0)
    for line in filter(str.strip, lines):
        overhead, library, _, symbol = line.split(None, 3)
        parts[stage_of(library, symbol)] += float(overhead.rstrip("%")) / 100
    return {
        "us_per_text": round(float(recorded.stdout), 2),
        "fractions": {name: round(value, 3) for name, value in parts.items() if value >= 0.0005},
    }


def stage_of(library: str, symbol: str) -> str:
    """The stage of a function of the extension module, or of the interpreter; "other" for the rest."""
    if library.startswith(("libpython", "python")):
        return "Python objects"
    if "_core" not in library:
        return "other"
    return next((name for name, starts in STAGES.items() if symbol.startswith(starts)), "other")


if __name__ == "__main__":
    main()
