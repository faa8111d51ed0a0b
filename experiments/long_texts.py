"""Reviews above a model's maximum length: windows against truncation, and how the windows' answers are pooled.

A model of `mixling train` on IMDB reads as many words at a time as its file states. The number is lowered to see what
windows do where more texts are long. Poolings are compared on the validation examples of the run, which are split off
again as in its training; the test examples are read once, with the chosen one.

    mixling train ../shared/data/imdb/train.jsonl.gz --time-budget 4m --set train.seed=0 -o runs/imdb-0    # and 1, 2
    python experiments/long_texts.py runs/imdb-0 ../shared/data/imdb/train.jsonl.gz --length 128
    python experiments/long_texts.py runs/imdb-0 ../shared/data/imdb/test.jsonl.gz --test

Results are added to results/long_texts.json, an item for each run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixling import Dataset, Predictor, read_examples
from mixling.answers import softmax
from mixling.data import ColumnsConfig, OnBadRow, split_validation
from mixling.export import amend
from mixling.provenance import provenance

OUT = Path(__file__).parent / "results" / "long_texts.json"


def mean_of_logits(logits: np.ndarray) -> np.ndarray:
    return logits.mean(0)


def mean_of_probabilities(logits: np.ndarray) -> np.ndarray:
    return np.log(softmax(logits.astype(np.float64)).mean(0) + 1e-12)


def most_certain(logits: np.ndarray) -> np.ndarray:
    return logits[softmax(logits.astype(np.float64)).max(1).argmax()]


POOLINGS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (mean_of_logits, mean_of_probabilities, most_certain)


def opened(content: bytes, length: int | None, too_long: str = "windows") -> Predictor:
    predictor = Predictor(content)
    if length is None:
        return Predictor(content, too_long=too_long)
    text = predictor.metadata.text.model_copy(update={"max_len": length})
    return Predictor(amend(content, text=text.to_dict()), too_long=too_long)


def measured(predictor: Predictor, examples: Dataset, long: np.ndarray) -> dict[str, float]:
    """Return accuracy and log-loss on all texts and on long ones (B,), and texts per second."""
    texts = list(examples.texts)
    list(predictor.predict_stream(texts[:50]))
    began = time.process_time()
    logits = np.stack(predictor.text_logits(texts))
    seconds = time.process_time() - began
    targets = predictor.labels.ids(examples.targets)
    right = logits.argmax(1) == targets
    losses = -np.log(softmax(logits.astype(np.float64))[np.arange(len(targets)), targets])
    return {
        "accuracy": float(right.mean()),
        "long_accuracy": float(right[long].mean()) if long.any() else float("nan"),
        "log_loss": float(losses.mean()),
        "long_log_loss": float(losses[long].mean()),
        "texts_per_cpu_second": len(texts) / seconds,
    }


def is_long(predictor: Predictor, texts: Sequence[Any]) -> np.ndarray:
    return np.array([item.truncated for item in predictor.encoder.encode(list(texts))])


def compare(content: bytes, length: int | None, examples: Dataset, poolings: Sequence[Any]) -> dict[str, Any]:
    truncating = opened(content, length, "truncate")
    long = is_long(truncating, examples.texts)
    out: dict[str, Any] = {"long_texts": int(long.sum()), "truncate": measured(truncating, examples, long)}
    for pooling in poolings:
        predictor = opened(content, length)
        predictor.task.pool_windows = pooling  # type: ignore[method-assign]
        out[pooling.__name__] = measured(predictor, examples, long)
    print(length, json.dumps(out), flush=True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("file", help="training examples, or with --test the test examples")
    parser.add_argument("--length", type=int, help="words that are read at a time [the model's own]")
    parser.add_argument("--test", action="store_true")
    options = parser.parse_args()
    content = (options.model / "model.onnx").read_bytes()
    data = json.loads((options.model / "run.json").read_text())["config"]
    reader = Predictor(content).task.reader
    rows = read_examples([options.file], reader=reader, columns=ColumnsConfig(), on_bad_row=OnBadRow("error"))
    examples = Dataset.from_examples(rows)
    if not options.test:
        fraction, seed = data["data"]["validation_fraction"], data["train"]["seed"]
        examples = split_validation(examples, fraction=fraction, seed=seed)[1]
    found = compare(content, options.length, examples, POOLINGS[:1] if options.test else POOLINGS)
    item = {
        "split": "test" if options.test else "validation",
        "words": options.length or Predictor(content).text_config.max_len,
        "examples": len(examples),
        **found,
        **provenance(seed=data["train"]["seed"]),
    }
    items = json.loads(OUT.read_text())["items"] if OUT.exists() else []
    OUT.write_text(json.dumps({"items": [*items, item]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
