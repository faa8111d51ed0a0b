"""Train the model of live.html: the languages of `mixling demo`, with word features that the browser's engine computes.

    python docs/live_model.py FOLDER    # with the extras demo and train; about two minutes of one core

The demo's own model reads character n-grams, which the native engine does not know; this one hashes subwords.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mixling.cli.demo import demo_config, language_examples, report
from mixling.config import parse
from mixling.data.dataset import Dataset
from mixling.runs.config import RunConfig
from mixling.runs.evaluation import evaluate
from mixling.runs.training import fit
from mixling.runtime.predictor import Predictor
from mixling.training.progress import TrainingProgress

SEED, EPOCHS = 0, 5
TEXT = {"projection": {"type": "minhash", "num_features": 8192, "num_hashes": 64}, "vocabulary_size": 8000}


def config() -> RunConfig:
    """Return the demo's configuration with MinHash features in place of character n-grams."""
    values = demo_config(epochs=EPOCHS, seed=SEED).to_dict()
    values["model"] |= {"text": TEXT}
    return parse(RunConfig, values, where="live_model")


def main(folder: Path) -> None:
    """Train the model and print its metrics on test examples."""
    examples = language_examples(SEED)
    stores = {part: Dataset.from_examples(examples[part]) for part in ("train", "validation")}
    progress = TrainingProgress()
    fit(config(), stores["train"], stores["validation"], folder=folder, callback=progress, log=progress.log)
    print(report(evaluate(Predictor(folder), examples["test"]).metrics))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
