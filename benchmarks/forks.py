"""Fork a process while threads predict, again and again, and count the forked processes that answer.

    OMP_NUM_THREADS=1 python benchmarks/forks.py --forks 200 --threads 16

The threads give the predictor new words all the time, so that every fork finds one of them within its tables or within
ONNX Runtime. A forked process asks the predictor that it got, a new one and one with another table, must find what its
parent found, and ends in the usual way; one that has not after `--limit` seconds is counted as silent. The result is
benchmarks/results/forks.json; exit code 1 where one did not answer.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from mixling import Predictor
from mixling.provenance import provenance

MODEL = Path(__file__).parents[1] / "tests" / "golden" / "model-v1.onnx"
TEXT = "what a film"


def same(predictor: Predictor, expected: dict[str, float]) -> bool:
    """Whether the predictor gives `TEXT` these probabilities."""
    found = predictor.predict_one(TEXT).probabilities
    return found is not None and all(abs(found[name] - value) < 1e-5 for name, value in expected.items())


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--forks", type=int, default=200, help="for each number of threads of a prediction")
    parser.add_argument("--threads", type=int, default=16, help="that predict meanwhile")
    parser.add_argument("--limit", type=int, default=30, help="seconds of a forked process")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "forks.json")
    options = parser.parse_args()
    result = {"provenance": provenance(), "threads": options.threads, "limit_seconds": options.limit, "runs": []}
    for num_threads in (1, 2):
        begin = time.monotonic()
        counts = fork_all(options, num_threads)
        result["runs"].append({"num_threads": num_threads, **counts, "seconds": round(time.monotonic() - begin, 1)})
        print(json.dumps(result["runs"][-1]), flush=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(run["answered"] == options.forks for run in result["runs"]) else 1


def fork_all(options: argparse.Namespace, num_threads: int) -> dict[str, int]:
    """How many forked processes answered, answered wrongly or failed, and never answered."""
    predictor = Predictor(options.model, num_threads=num_threads)
    expected = predictor.predict_one(TEXT).probabilities
    assert expected is not None
    ended = threading.Event()
    asked = [0] * options.threads

    def ask(number: int) -> None:
        while not ended.is_set():
            asked[number] += 1
            predictor.predict([f"word{number}x{asked[number]} film", TEXT])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(options.threads)]
    for thread in threads:
        thread.start()
    counts = {"forks": options.forks, "answered": 0, "wrong": 0, "silent": 0}
    for number in range(options.forks):
        child = os.fork()
        if not child:
            signal.alarm(options.limit)
            fresh = Predictor(options.model, num_threads=num_threads)
            right = same(predictor, expected) and same(fresh, expected)
            right = right and predictor.predict_one(f"words of the child {number}").label is not None
            sys.exit(0 if right else 1)
        status = os.waitpid(child, 0)[1]
        silent = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
        counts["answered" if status == 0 else "silent" if silent else "wrong"] += 1
    ended.set()
    for thread in threads:
        thread.join()
    return {**counts, "answers_meanwhile": sum(asked)}


if __name__ == "__main__":
    sys.exit(main())
