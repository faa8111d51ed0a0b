"""Speed of a saved classifier beside TF-IDF + logistic regression on the same texts, in one process and in turn.

    mixling train ../shared/data/snips/train.jsonl.gz --validation ../shared/data/snips/dev.jsonl.gz \\
        --text tokens --label intent --model pnlp-mixer-x-small --epochs 8 -o runs/snips
    python benchmarks/latency.py runs/snips --data ../shared/data/snips

One core: the process and its children are pinned to one, both systems use one thread. Written to
benchmarks/results/latency.json: p50 and p90 of one text (str -> label), texts/s in batches with cold and warm caches,
process start + load + first answer, where our time goes, and the machine's limit (its float32 matrix product rate).

    python benchmarks/latency.py --beside ../older --data ../shared/data/snips

`--beside` names the checkout of another commit, with its modules built: each of both trains a model of its defaults,
and what they need is measured in turn, in processes of their own on one core. The file keeps the other results.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from mixling import Predictor
from mixling.provenance import provenance

OURS = "from mixling import Predictor; print(Predictor({path!r}).predict({text!r}).label)"
# Answers each line, texts as JSON, with the median of the seconds of an answer, and texts/s.
ANSWER = """
import json, statistics, sys, time
from mixling import Predictor
predictor = Predictor(sys.argv[1])
for line in sys.stdin:
    texts, spent = json.loads(line), []
    predictor.predict(texts)
    for text in texts:
        begin = time.perf_counter()
        predictor.predict_one(text)
        spent.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    for _ in range(20):
        predictor.predict(texts)
    print([statistics.median(spent), 20 * len(texts) / (time.perf_counter() - begin)], flush=True)
"""
RIVAL = "import joblib; print(joblib.load({path!r}).predict([{text!r}])[0])"


def read(path: Path) -> tuple[list[str], list[str]]:
    """Texts and intents of a file of SNIPS."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [" ".join(row["tokens"]) for row in rows], [row["intent"] for row in rows]


def in_turn(systems: dict[str, Callable[[str], Any]], texts: list[str], rounds: int) -> dict[str, dict[str, float]]:
    """Microseconds of one call, the systems in turn on each text."""
    spent: dict[str, list[float]] = {name: [] for name in systems}
    for text in texts * rounds:
        for name, call in systems.items():
            begin = time.perf_counter()
            call(text)
            spent[name].append(1e6 * (time.perf_counter() - begin))
    return {
        name: {"p50_us": round(statistics.median(values), 1), "p90_us": round(float(np.percentile(values, 90)), 1)}
        for name, values in spent.items()
    }


def rate(call: Callable[[list[str]], Any], texts: list[str]) -> float:
    """Texts per second of one call."""
    begin = time.perf_counter()
    call(texts)
    return len(texts) / (time.perf_counter() - begin)


def start(code: str, environment: dict[str, str] | None = None) -> float:
    """Seconds of a new process that runs the code."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - begin


def profile(predictor: Predictor, texts: list[str]) -> dict[str, float]:
    """Microseconds a text of each stage in batches of 256, caches warm."""
    stages = {"encode": 0.0, "rows and graph": 0.0, "decode": 0.0}
    for first in range(0, len(texts), 256):
        part = texts[first : first + 256]
        begin = time.perf_counter()
        encoded = predictor.tokenize(part)
        after_encode = time.perf_counter()
        logits = np.stack(predictor.logits(encoded))
        after_graph = time.perf_counter()
        predictor.task.decode_many(logits, encoded, part)
        end = time.perf_counter()
        stages["encode"] += after_encode - begin
        stages["rows and graph"] += after_graph - after_encode
        stages["decode"] += end - after_graph
    return {name: round(1e6 * seconds / len(texts), 1) for name, seconds in stages.items()}


def gemm_rate() -> float:
    """GFLOP/s of NumPy's float32 matrix product on this core."""
    a = np.ones((768, 768), np.float32)
    best = min(_timed(lambda: a @ a) for _ in range(15))
    return round(2 * 768**3 / best / 1e9, 1)


def _timed(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def train(checkout: Path, data: Path, out: Path) -> None:
    """Train a model of texts alone with the defaults of a checkout."""
    command = [sys.executable, "-m", "mixling", "train", str(data / "train.jsonl.gz"), "--text", "tokens"]
    command += ["--validation", str(data / "dev.jsonl.gz"), "--label", "intent", "-o", str(out)]
    subprocess.run(command, check=True, env=of_checkout(checkout), stdout=subprocess.DEVNULL)


def of_checkout(checkout: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src")}


def checkouts_in_turn(checkouts: dict[str, Path], data: Path, rounds: int, starts: int) -> dict[str, Any]:
    """Seconds of the start, p50 of an answer, texts/s, and bytes, of each checkout."""
    texts = json.dumps(read(data / "test.jsonl.gz")[0])
    spent: dict[str, dict[str, list[float]]] = {name: {"start": [], "p50": [], "texts_per_s": []} for name in checkouts}
    out: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as open_ones:
        asked: dict[str, subprocess.Popen[str]] = {}
        for name, checkout in checkouts.items():
            train(checkout, data, Path(folder) / name)
            asked[name] = open_ones.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", ANSWER, str(Path(folder) / name)],
                    env=of_checkout(checkout), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                )
            )  # fmt: skip
            package = checkout.resolve() / "src" / "mixling"
            files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
            out[name] = {
                "commit": subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=checkout, text=True).strip(),
                "file_bytes": (Path(folder) / name / "model.onnx").stat().st_size,
                "package_bytes": sum(path.stat().st_size for path in files),
            }
        for _ in range(rounds):
            for name, process in asked.items():
                assert process.stdin is not None
                assert process.stdout is not None
                print(texts, file=process.stdin, flush=True)
                p50, rate = json.loads(process.stdout.readline())
                spent[name]["p50"].append(p50)
                spent[name]["texts_per_s"].append(rate)
        for process in asked.values():
            process.communicate()
        for number in range(starts + 1):
            for name, checkout in checkouts.items():
                code = OURS.format(path=str(Path(folder) / name), text="book a table for two")
                seconds = start(code, of_checkout(checkout))
                if number:  # the first one reads the files from the disk
                    spent[name]["start"].append(seconds)
    for name, values in spent.items():
        median = {key: statistics.median(numbers) for key, numbers in values.items()}
        out[name] |= {"start_s": median["start"], "p50_us": 1e6 * median["p50"], "texts_per_s": median["texts_per_s"]}
    new, old = out.values()
    return out | {"ratio": {key: new[key] / old[key] for key in new if key != "commit"}}


def evaluate(model: Path, data: Path, rounds: int, starts: int) -> dict[str, Any]:
    """All figures."""
    texts, labels = read(data / "train.jsonl.gz")
    test, gold = read(data / "test.jsonl.gz")
    rival = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=10, max_iter=1000))
    rival.fit(texts, labels)
    cold = Predictor(model)
    cold_rate = rate(cold.predict, test)
    predictor = Predictor(model)
    predictor.predict(texts)  # caches the words of the training texts; those that only the test texts have stay new
    warm = [(rate(predictor.predict, test), rate(rival.predict, test)) for _ in range(rounds)]
    out: dict[str, Any] = {
        "test_accuracy": {
            "mixling": float(np.mean([p.label == y for p, y in zip(predictor.predict(test), gold, strict=True)])),
            "tfidf": float(np.mean(rival.predict(test) == np.array(gold))),
        },
        "words_per_text": float(np.mean([len(text.split()) for text in test])),
        "one_text": in_turn({"mixling": predictor.predict_one, "tfidf": lambda t: rival.predict([t])}, test, rounds),
        "texts_per_second": {
            "mixling": round(statistics.median(a for a, _ in warm)),
            "mixling, cold cache": round(cold_rate),
            "tfidf": round(statistics.median(b for _, b in warm)),
        },
        "profile_us_per_text": profile(predictor, test),
        "gemm_gflops": gemm_rate(),
    }
    out["one_text"]["ratio_p50"] = round(out["one_text"]["mixling"]["p50_us"] / out["one_text"]["tfidf"]["p50_us"], 3)
    with tempfile.TemporaryDirectory() as folder:
        saved = str(Path(folder) / "rival.joblib")
        joblib.dump(rival, saved)
        ours = OURS.format(path=str(model), text=test[0])
        theirs = RIVAL.format(path=saved, text=test[0])
        pairs = [(start(ours), start(theirs)) for _ in range(starts + 1)][1:]
    out["start_load_answer"] = {
        "mixling_s": round(statistics.median(a for a, _ in pairs), 3),
        "tfidf_s": round(statistics.median(b for _, b in pairs), 3),
        "ratio": round(statistics.median(a / b for a, b in pairs), 3),
    }
    return out


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="another commit, built; instead of a model")
    parser.add_argument("--data", type=Path, required=True, help="folder of SNIPS")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--starts", type=int, default=11)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "latency.json")
    options = parser.parse_args()
    if (options.model is None) == (options.beside is None):
        parser.error("give a model, or --beside CHECKOUT")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ["OMP_NUM_THREADS"] = "1"
    made = provenance(seed=0, packages=("onnxruntime", "tokenizers", "scikit-learn"))
    known = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    if options.beside is not None:
        checkouts = {"this": Path(__file__).resolve().parent.parent, "beside": options.beside}
        found = checkouts_in_turn(checkouts, options.data, options.rounds, options.starts)
        report = {**known, "checkouts": {**found, "provenance": made}}
    else:
        with threadpool_limits(1):
            found = evaluate(options.model, options.data, options.rounds, options.starts)
        report = {**known, **found, "provenance": made}
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
