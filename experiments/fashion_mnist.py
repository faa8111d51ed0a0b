"""gMLP, Figure 2 and Table 2 in small: gMLP beside ViT, MLP-Mixer and ResMLP of equal size, on Fashion-MNIST.

    apt-get install dataset-fashion-mnist                              # Debian's package, 31 MB
    python experiments/fashion_mnist.py --runs runs/fashion            # about 80 minutes of one core
    python experiments/fashion_mnist.py --runs runs/fashion --layers 1 2               # Figure 2: 80 minutes more

Paper (ImageNet, Table 2): gMLP is as accurate as DeiT, a regularized ViT, of the same size, and more so than MLP-Mixer
and ResMLP; it stays so from 6 to 73 million parameters (Figure 2). Here: 60,000 images of clothes in gray, 28 x 28
pixels, 49 patches of 4 x 4, four blocks and less than half a million parameters (`--layers` has other sizes), and as
many epochs as fit into an hour of one core. All models have the same rate, batches and changes of images; nothing is
chosen per model. 6,000 training images are kept apart for validation, which chooses the best epoch. The test images are
read once by each finished run.

A linear model of the pixels (logistic regression) is beside them. Runs that are finished in --runs are not repeated,
and unfinished ones are resumed, so that an interrupted command is given again to go on.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from mixling.artifacts import is_finished, read_metrics
from mixling.errors import UserError
from mixling.metrics import wilson
from mixling.provenance import provenance
from mixling.research.vision import IMAGE_RUNS, ImageClassifier, ImageShape, fit_images, read_labeled
from mixling.runs.resolve import resolve
from mixling.storage import read_json, write_json

MODELS = ("gmlp-images", "vit-images", "mixer-images", "resmlp-images")
LAYERS = 4  # of the presets
DATA = Path("/usr/share/datasets/fashion-mnist")  # where Debian's package has it
TRAIN, TEST = "train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz"
SETTINGS: dict[str, Any] = {
    "augment": {"flip": 0.5, "shift": 0.08},
    "train": {"optim": {"lr": 2e-3, "weight_decay": 0.05, "warmup": 0.1}, "batch_size": 128},
}


def run_folder(runs: Path, name: str, layers: int, epochs: int, seed: int) -> Path:
    """Where a model is trained, in the folder of its name."""
    return runs / name / (f"{epochs}-{seed}" if layers == LAYERS else f"{layers}-layers-{epochs}-{seed}")


def train(name: str, folder: Path, *, layers: int, data: Path, epochs: int, seed: int) -> None:
    """Train one model, or finish its run, and write what it took beside the folder's files."""
    options = {"data": {"train": [str(data / TRAIN)]}, "model": name, "augment": SETTINGS["augment"]}
    options["train"] = {**SETTINGS["train"], "epochs": epochs, "seed": seed}
    config = resolve(options, spec=IMAGE_RUNS, overrides={"model": {"num_layers": layers}}).config
    resume = (folder / "run.json").exists()
    spent = folder.with_suffix(".json")
    before = read_json(spent) if resume and spent.exists() else {**provenance(seed=seed), "cpu_minutes": 0.0}
    began = time.process_time()
    try:
        fit_images(config, folder=folder, resume=resume, log=print)
    finally:
        minutes = before["cpu_minutes"] + (time.process_time() - began) / 60
        write_json(spent, {**before, "cpu_minutes": minutes})


def result(folder: Path, *, data: Path) -> dict[str, Any]:
    """The record of a finished run, with the accuracy on the test images."""
    classifier, metrics = ImageClassifier(folder), read_metrics(folder)
    found = classifier.evaluate(classifier.read([str(data / TEST)]))
    interval = wilson(found.accuracy, found.n)
    return {
        "model": folder.parent.name,
        "parameters": metrics["parameters"],
        "epochs": metrics["epochs"],
        "best_epoch": metrics["best"]["epoch"],
        "validation": metrics["validation"]["accuracy"],
        "test": found.accuracy,
        "test_interval": [interval.low, interval.high],
        "test_of_label": {row.label: row.recall for row in found.per_class},
        **read_json(folder.with_suffix(".json")),
    }


def linear(data: Path) -> dict[str, Any]:
    """The accuracy of logistic regression on the pixels, of the training images without those of validation."""
    shape = ImageShape(size=28, channels=1)
    parts = [read_labeled([str(data / name)], shape) for name in (TRAIN, TEST)]
    (train_x, train_y), (test_x, test_y) = (
        (part.pixels.reshape(len(part), -1).astype(np.float32) / 255, np.array(part.labels)) for part in parts
    )
    chosen = np.random.default_rng(0).permutation(len(train_x))[:10_000]
    model = LogisticRegression(C=0.1, max_iter=1000).fit(train_x[chosen], train_y[chosen])
    return {"images": len(chosen), "test": float(model.score(test_x, test_y))}


_RUN = ("model", "parameters", "epochs", "seed")


def _others(out: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of earlier commands, with other models, epochs or seeds."""
    made = {tuple(row[key] for key in _RUN) for row in rows}
    old = read_json(out)["models"] if out.exists() else []
    return [row for row in old if tuple(row[key] for key in _RUN) not in made]


def main() -> None:
    """Train what is missing, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--layers", nargs="+", type=int, default=[LAYERS], help="sizes of each model")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--train-only", action="store_true", help="train only; read and write no results")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "fashion_mnist.json")
    options = parser.parse_args()
    made = provenance(seed=options.seed)
    torch.set_num_threads(1)
    trainings = {"data": options.data, "epochs": options.epochs, "seed": options.seed}
    folders = []
    try:
        for name, layers in itertools.product(options.models, options.layers):
            folder = run_folder(options.runs, name, layers, options.epochs, options.seed)
            folder.parent.mkdir(parents=True, exist_ok=True)
            if not ((folder / "run.json").exists() and is_finished(folder)):
                train(name, folder, layers=layers, **trainings)
            folders.append(folder)
        if options.train_only:
            return
        rows = [result(folder, data=options.data) for folder in folders]
        others = _others(options.out, rows)
        found = {"settings": SETTINGS, "linear": linear(options.data), "models": [*others, *rows]}
        write_json(options.out, {**made, **found})
    except UserError as error:
        raise SystemExit(str(error)) from None
    for row in rows:
        found = f"test {row['test']:.4f}, validation {row['validation']:.4f}"
        print(f"{row['model']}: {row['parameters']:,} parameters, {found}")


if __name__ == "__main__":
    main()
