"""Train the model of live.html: the languages of `mixling demo`, with word features that the browser's engine computes.

    python docs/live_model.py FOLDER                   # with the extras demo and train; about two minutes of one core
    python docs/live_model.py FOLDER --seeds 0 1 2     # the accuracy over seeds; the first is the page's

The demo's own model reads character n-grams, which the native engine does not know; this one hashes subwords. With
several seeds the accuracies are written to benchmarks/results/live_model.json.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from mixling.cli.demo import demo_config, language_examples, report
from mixling.config import parse
from mixling.cost.environment import provenance
from mixling.data.dataset import Dataset
from mixling.runs.config import RunConfig
from mixling.runs.evaluation import evaluate
from mixling.runs.training import fit
from mixling.runtime.predictor import Predictor
from mixling.storage import write_json
from mixling.training.progress import TrainingProgress

EPOCHS = 5
TEXT = {"projection": {"type": "minhash", "num_features": 8192, "num_hashes": 64}, "vocabulary_size": 8000}
OUT = Path(__file__).parents[1] / "benchmarks" / "results" / "live_model.json"


def config(seed: int) -> RunConfig:
    """Return the demo's configuration with MinHash features in place of character n-grams."""
    values = demo_config(epochs=EPOCHS, seed=seed).to_dict()
    values["model"] |= {"text": TEXT}
    return parse(RunConfig, values, where="live_model")


def train(folder: Path, seed: int) -> tuple[float, int]:
    """Train a model and print its metrics on test examples; return its accuracy and the number of examples."""
    examples = language_examples(seed)
    stores = {part: Dataset.from_examples(examples[part]) for part in ("train", "validation")}
    progress = TrainingProgress()
    fit(config(seed), stores["train"], stores["validation"], folder=folder, callback=progress, log=progress.log)
    metrics = evaluate(Predictor(folder), examples["test"]).metrics
    print(report(metrics))
    return metrics.numbers()["accuracy"], metrics.n


def main() -> None:
    """Train the model of each seed, the first one into the folder itself."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the model; those of further seeds are beside it, FOLDER-SEED")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments = parser.parse_args()
    origin, (first, *others) = provenance(), arguments.seeds
    runs = [(seed, *train(arguments.folder.with_name(f"{arguments.folder.name}-{seed}"), seed)) for seed in others]
    runs.insert(0, (first, *train(arguments.folder, first)))
    if others:
        accuracies = [accuracy for _, accuracy, _ in runs]
        found = {"mean": statistics.mean(accuracies), "deviation": statistics.stdev(accuracies)}
        seeds = [{"seed": seed, "accuracy": accuracy, "test_examples": number} for seed, accuracy, number in runs]
        write_json(OUT, {"accuracy": found, "seeds": seeds, "provenance": origin})


if __name__ == "__main__":
    main()
