"""Speed of the native engine beside ONNX Runtime, TF-IDF + logistic regression and fastText, on the same texts.

    python benchmarks/native.py --data ../shared/data

One core, one thread; in every round the systems take turns in a new order, each on all texts, and then on each of some
texts one after another, so that the caches of the processor hold what the others left there. The models are
`mixling-small` (SNIPS) and `mixling-base` (IMDB), what `mixling train` takes for these data, with first weights, since
speed does not depend on them, and a vocabulary of the training texts; the others are trained. "labels" is the way to
the label alone (`predict_proba`), the other lines of mixling give `Prediction` objects. Written to
benchmarks/results/native.json.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import arguments, on_one_core
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from mixling import PRESETS, Predictor, build_model
from mixling.comparison.fast_text import as_line, is_installed
from mixling.cost.provenance import provenance
from mixling.export.onnx import export_onnx
from mixling.storage import write_json
from mixling.text.encoder import train_vocabulary
from mixling.text.labels import LabelSet

PRESET = {"snips": "mixling-small", "imdb": "mixling-base"}
TRAINED, TIMED, SINGLE = 10_000, 2_000, 300  # texts
Call = Callable[[Sequence[str]], Any]
START = "from mixling.runtime.predictor import Predictor; print(Predictor({path!r}).predict({text!r}).label)"


def main() -> None:
    """Write benchmarks/results/native.json."""
    parser = arguments(__doc__ or "", "native")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sets", nargs="+", default=["snips", "imdb"], choices=sorted(PRESET))
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    on_one_core()
    origin = provenance(seed=0, packages=("onnxruntime", "scikit-learn", "numpy"))
    results = {name: evaluate(args.data / name, PRESET[name], args.rounds) for name in args.sets}
    write_json(args.out, {**origin, "rounds": args.rounds, "results": results})
    print(json.dumps(results, indent=2))


def read(path: Path) -> tuple[list[str], list[str]]:
    """Texts and labels of a file of one of the data sets."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    texts = [row["text"] if "text" in row else " ".join(row["tokens"]) for row in rows]
    return texts, [str(row["intent"] if "intent" in row else row["label"]) for row in rows]


def evaluate(folder: Path, preset: str, rounds: int) -> dict[str, Any]:
    """All systems on the texts of a data set."""
    texts, labels = read(folder / "train.jsonl.gz")
    chosen = random.Random(0).sample(range(len(texts)), min(TRAINED, len(texts)))
    texts, labels = [texts[i] for i in chosen], [labels[i] for i in chosen]
    timed, _ = read(folder / "test.jsonl.gz")
    timed = random.Random(0).sample(timed, min(TIMED, len(timed)))
    content = exported(preset, texts, sorted(set(labels)))
    fresh: dict[str, Callable[[], Call]] = {
        "native": lambda: opened(content, "native").predict,
        "native, labels": lambda: only_labels(opened(content, "native")),
        "onnx": lambda: opened(content, "onnx").predict,
    }
    tfidf = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=200)).fit(texts, labels)
    fresh["tf-idf + lr"] = lambda: tfidf.predict
    if is_installed():
        fast = fasttext(texts, labels)
        fresh["fasttext, split as for its training"] = lambda: lambda given: fast.predict(list(map(as_line, given)))
    with threadpool_limits(1):
        found = in_turns(fresh, timed, rounds)
    return {
        "preset": preset,
        "texts": len(timed),
        "words": round(statistics.mean(len(text.split()) for text in timed), 1),
        "engine": opened(content, "native").engine,
        "systems": found,
        "start": {name: start(content, name, timed[0]) for name in ("native", "onnx")},
    }


def exported(preset: str, texts: list[str], labels: list[str]) -> bytes:
    """A model of the preset in 8 bits."""
    config = PRESETS[preset].config
    vocabulary = train_vocabulary(texts, config.text)
    model = build_model(config, num_outputs=len(labels), output="text", seed=0)
    named = LabelSet(tuple(labels), "single")
    return export_onnx(
        model, text=config.text, task="classification", labels=named, vocabulary=vocabulary, precision="int8"
    )


def opened(content: bytes, engine: str) -> Predictor:
    """A predictor with this engine, which knows no word yet."""
    os.environ["MIXLING_ENGINE"] = engine
    try:
        return Predictor(content)
    finally:
        del os.environ["MIXLING_ENGINE"]


def only_labels(predictor: Predictor) -> Call:
    """What gives the labels without objects."""
    names = predictor.labels.names
    return lambda texts: [names[i] for i in predictor.predict_proba(texts).argmax(1).tolist()]


def fasttext(texts: list[str], labels: list[str]) -> Any:
    """A trained model of fastText with word pairs."""
    import fasttext as package

    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.writelines(f"__label__{label} {as_line(text)}\n" for text, label in zip(texts, labels, strict=True))
        file.flush()
        return package.train_supervised(file.name, wordNgrams=2, bucket=1 << 18, thread=1, verbose=0, minn=0, maxn=0)


def in_turns(fresh: dict[str, Callable[[], Call]], texts: list[str], rounds: int) -> dict[str, dict[str, float]]:
    """Texts per second with warm and cold caches, and microseconds of one text."""
    warm: dict[str, list[float]] = {name: [] for name in fresh}
    cold: dict[str, list[float]] = {name: [] for name in fresh}
    single: dict[str, list[float]] = {name: [] for name in fresh}
    calls = {name: make() for name, make in fresh.items()}
    for call in calls.values():
        call(texts)
    order = list(calls)
    rng = random.Random(0)
    for _ in range(rounds):
        rng.shuffle(order)
        for name in order:
            cold[name].append(len(texts) / seconds(fresh[name](), texts))
            warm[name].append(len(texts) / seconds(calls[name], texts))
    for text in texts[:SINGLE]:
        rng.shuffle(order)
        for name in order:
            single[name].append(1e6 * seconds(calls[name], [text]))
    return {
        name: {
            "warm_texts_per_second": round(statistics.median(warm[name])),
            "cold_texts_per_second": round(statistics.median(cold[name])),
            "p50_us": round(statistics.median(single[name]), 1),
            "p90_us": round(float(np.percentile(single[name], 90)), 1),
            "warm_by_tf_idf": round(statistics.median(np.divide(warm[name], warm["tf-idf + lr"])), 2),
            "cold_by_tf_idf": round(statistics.median(np.divide(cold[name], cold["tf-idf + lr"])), 2),
        }
        for name in calls
    }


def seconds(call: Call, texts: Sequence[str]) -> float:
    """Processor seconds of one call: a machine that does other work would add its waiting."""
    begin = time.thread_time()
    call(texts)
    return time.thread_time() - begin


def start(content: bytes, engine: str, text: str) -> dict[str, float]:
    """Seconds from the start of a process to its first answer (median of 7), and its largest memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(content)
        code = START.format(path=str(path), text=text)
        code += "; import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        spent, memory = [], 0
        for _ in range(7):
            begin = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-c", code],
                check=True,
                capture_output=True,
                text=True,
                env={**os.environ, "MIXLING_ENGINE": engine},
            )
            spent.append(time.perf_counter() - begin)
            memory = max(memory, int(done.stdout.split()[-1]))
    return {"seconds": round(statistics.median(spent), 3), "memory_mb": round(memory / 1024, 1)}


if __name__ == "__main__":
    main()
