"""Time of an explanation: a text of 10 words, one core, both engines.

    mixling train SNIPS.csv -o runs/snips          # texts and intents
    python benchmarks/explain.py runs/snips

The process is pinned to one core. Written to benchmarks/results/explain.json: milliseconds at the median and at the
ninth decile of leave-one-out and of exact Shapley values, and of one prediction for comparison. They are processor time
of the one thread that computes: other processes of the machine do not count.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mixling import Predictor
from mixling.provenance import provenance
from mixling.runtime import VARIABLE
from mixling.storage import write_json

OUT = Path(__file__).parent / "results" / "explain.json"
TEXT = "play the song little robin redbreast on my phone now"


def milliseconds(call: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Return the median and the ninth decile of the calls."""
    call()
    spent = []
    for _ in range(repeats):
        began = time.thread_time()
        call()
        spent.append(1e3 * (time.thread_time() - began))
    return {"p50": round(float(np.median(spent)), 4), "p90": round(float(np.quantile(spent, 0.9)), 4)}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    engines: dict[str, Any] = {}
    for engine in ("native", "onnx"):
        os.environ[VARIABLE] = engine
        predictor = Predictor(options.model)
        engines[engine] = {
            "predict": milliseconds(lambda: predictor.predict(TEXT), options.repeats),  # noqa: B023 (called at once)
            "leave_one_out": milliseconds(lambda: predictor.explain(TEXT, method="leave_one_out"), options.repeats),  # noqa: B023
            "shapley": milliseconds(lambda: predictor.explain(TEXT, method="shapley"), options.repeats // 10),  # noqa: B023
        }
        print(engine, engines[engine])
    words = len(predictor.explain(TEXT).words)
    write_json(options.out, {**provenance(), "words": words, "milliseconds": engines})


if __name__ == "__main__":
    main()
