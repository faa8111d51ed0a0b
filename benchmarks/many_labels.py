"""Very many labels: time, memory and accuracy of `mixling train`, beside fastText's hierarchical softmax.

    python benchmarks/many_labels.py 10000:20000 100000:1000000

Each set has LABELS labels and ROWS rows. A text has six words that all labels share, by a Zipf law, and one to three
of five words that are its label's own. Ours is trained by the command without held-out rows, in a process of its own;
fastText with 5, 15 and 50 epochs where it is installed, of which the best one by the test rows is reported, to its
advantage. The test has 4,000 more rows. Everything has one thread. Written to benchmarks/results/many_labels.json.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import arguments

from mixling import Predictor
from mixling.provenance import provenance
from mixling.storage import write_json

Pairs = list[tuple[str, str]]
TESTED = 4_000
OWN = 5  # words of a label
SHARED = 2_000  # words of all labels


def rows_of(labels: int, number: int, seed: int) -> tuple[Pairs, Pairs]:
    """Return training rows, as many of each label, and test rows of random labels."""
    draw = np.random.default_rng(seed)
    order = draw.permutation(np.tile(np.arange(labels), number // labels))
    out: Pairs = []
    for label in [*order.tolist(), *draw.integers(labels, size=TESTED).tolist()]:
        words = [f"w{word}" for word in draw.zipf(1.3, size=6).clip(1, SHARED).tolist()]
        own = draw.choice(OWN, size=draw.integers(1, 4), replace=False).tolist()
        words += [f"t{label * OWN + one}" for one in own]
        draw.shuffle(words)
        out.append((" ".join(words), f"L{label:06d}"))
    return out[: len(order)], out[len(order) :]


def ours(train: Pairs, test: Pairs, folder: Path) -> dict[str, Any]:
    """Train by the command; return its processor seconds, its memory and the accuracy."""
    with (folder / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *train])
    command = [
        sys.executable,
        "-m",
        "mixling",
        "train",
        folder / "rows.csv",
        "--test-fraction",
        "0",
        "-o",
        folder / "m",
    ]
    begin = time.monotonic()
    process = subprocess.Popen(
        [*map(str, command)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, f"mixling train ended with {status}"
    seconds = time.monotonic() - begin
    predictor = Predictor(folder / "m")
    parts = (test[first : first + 100] for first in range(0, len(test), 100))
    right = [
        found.label == label
        for part in parts
        for found, (_, label) in zip(predictor.predict([text for text, _ in part]), part, strict=True)
    ]
    return {
        "accuracy": round(float(np.mean(right)), 4),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "wall_s": round(seconds, 1),
        "peak_mb": used.ru_maxrss // 1024,
        "file_mb": round((folder / "m" / "model.onnx").stat().st_size / 1e6, 2),
    }


def fasttext(train: Pairs, test: Pairs, folder: Path) -> dict[str, Any] | None:
    """Return the accuracy of fastText with a hierarchical softmax; None: it is not installed."""
    try:
        import fasttext as library
    except ImportError:
        return None
    library.FastText.eprint = lambda *_: None
    (folder / "fasttext.txt").write_text("".join(f"__label__{label} {text}\n" for text, label in train))
    found: dict[str, Any] = {"accuracy": -1.0}
    for epochs in (5, 15, 50):
        begin = time.process_time()
        options = {"epoch": epochs, "lr": 0.5, "loss": "hs", "thread": 1, "verbose": 0}
        model = library.train_supervised(str(folder / "fasttext.txt"), **options)
        seconds = time.process_time() - begin
        ask = model.f.predict  # the method of the class fails with NumPy 2
        right = [ask(f"{text}\n", 1, 0.0, "strict")[0][1] == f"__label__{label}" for text, label in test]
        new = {"accuracy": round(float(np.mean(right)), 4), "epochs": epochs, "cpu_s": round(seconds, 1)}
        found = max(found, new, key=lambda one: one["accuracy"])
    return found


def main() -> None:
    assert __doc__ is not None
    parser = arguments(__doc__, "many_labels")
    parser.add_argument("sets", nargs="+", metavar="LABELS:ROWS")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in options.sets:
        labels, number = map(int, name.split(":"))
        train, test = rows_of(labels, number, options.seed)
        with tempfile.TemporaryDirectory() as folder:
            line = {"mixling": ours(train, test, Path(folder)), "fasttext_hs": fasttext(train, test, Path(folder))}
        print(name, json.dumps(line), flush=True)
        results[name] = {**line, "provenance": provenance(seed=options.seed)}
        write_json(options.out, results)


if __name__ == "__main__":
    main()
