"""Make src/mixling/samples/demo.onnx, the packaged model that `mixling predict demo` uses, and the record of it.

python tools/demo_model.py    # trains as `mixling demo` does, in about a minute; writes demo.onnx and demo.json

The record holds what the file depends on and what it reaches; a test compares both with the file. Another machine or
version of PyTorch may round differently, so that another training may give a file with other bytes.
"""

from __future__ import annotations

import csv
import hashlib
import io
import tempfile
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).resolve().parents[1] / "src" / "mixling" / "samples"
OPTIONS = {"epochs": 25}
DATA = ("messages.csv", "no_topic.csv", "no_topic_train.csv")


def measure(model: Path) -> dict[str, Any]:
    """Return what a model reaches on the test messages, and on the test messages without a topic."""
    from mixling.runtime.predictor import Predictor
    from mixling.samples import read_sample

    def rows(file: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(read_sample(file).decode(), newline="")))

    predictor = Predictor(model)
    test = rows("messages_test.csv")
    answers = list(predictor.predict_stream([row["message"] for row in test]))
    right = [answer.label == row["topic"] for answer, row in zip(answers, test, strict=True)]
    answered = [good for good, answer in zip(right, answers, strict=True) if not answer.abstained]
    outside = list(predictor.predict_stream([row["message"] for row in rows("no_topic_test.csv")]))
    return {
        "accuracy": round(sum(right) / len(right), 4),
        "answered": round(len(answered) / len(right), 4),
        "accuracy_of_answered": round(sum(answered) / len(answered), 4),
        "no_topic_abstained": round(sum(answer.abstained for answer in outside) / len(outside), 4),
    }


def record(model: Path) -> dict[str, Any]:
    """Return the record of a model file that was trained on the sample."""
    hashes = {name: hashlib.sha256((SAMPLES / name).read_bytes()).hexdigest() for name in DATA}
    sha256 = hashlib.sha256(model.read_bytes()).hexdigest()
    return {"options": OPTIONS, "data": hashes, "sha256": sha256, "test": measure(model)}


def main() -> None:
    from mixling.cli.commands.demo import train_demo
    from mixling.storage import write_atomic, write_json

    with tempfile.TemporaryDirectory() as folder:
        train_demo(Path(folder), **OPTIONS)
        write_atomic(SAMPLES / "demo.onnx", (Path(folder) / "model" / "model.onnx").read_bytes())
    write_json(SAMPLES / "demo.json", record(SAMPLES / "demo.onnx"))


if __name__ == "__main__":
    main()
