"""Do the texts that `mixling suggest` chooses teach a model more than random ones? Learning curves on CLINC150.

No paper. Each seed begins with random labeled examples of the training split; in each round a model is trained on the
labeled ones and chooses more from the rest, whose labels are then revealed. Random texts are added in the other arm,
from the same beginning. The area under the curve is the mean accuracy over the rounds after the first.

    python experiments/suggestions.py --data ../shared/data                     # on validation examples
    python experiments/suggestions.py --data ../shared/data --split test --seeds 0 1 2 3 4

Every training is for a fixed number of epochs without a choice of the best one. Results go to
results/suggestions.json, an item for each seed and split. Options of the selection were chosen on validation.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from text_sets import load

from mixling import Dataset, Predictor, fit
from mixling.audit import suggest
from mixling.provenance import provenance
from mixling.runs.resolve import LABELS, resolve
from mixling.storage import write_json

OUT = Path(__file__).parent / "results" / "suggestions.json"


def trained(train: Dataset, validation: Dataset, epochs: int, seed: int) -> Predictor:
    """Return a model of the examples."""
    options = {"task": "classification", "train": {"seed": seed, "epochs": epochs, "load_best_at_end": False}}
    config = resolve(options, spec=LABELS, overrides={"decisions": {"precision": "float32"}}).for_examples(train).config
    with tempfile.TemporaryDirectory() as folder:
        fit(config, train, validation, folder=Path(folder) / "run")
        return Predictor(Path(folder) / "run")


def accuracy(predictor: Predictor, examples: Dataset) -> float:
    """Return the fraction of right answers."""
    answers = predictor.predict_stream(examples.texts)
    return float(np.mean([answer.label == target for answer, target in zip(answers, examples.targets, strict=True)]))


def curves(train: Dataset, validation: Dataset, held_out: Dataset, options: argparse.Namespace, seed: int) -> Any:
    """Return the accuracies after each round, of both arms; the first, with the same examples, is shared."""
    rng = np.random.default_rng(seed)
    begin = rng.permutation(len(train))[: options.begin]
    first = trained(train.subset(begin), validation, options.epochs, seed)
    shared = accuracy(first, held_out)
    out: dict[str, list[float]] = {}
    for arm in ("random", "suggested"):
        labeled, predictor, found = list(begin), first, [round(shared, 4)]
        for _ in range(options.rounds):
            rest = np.setdiff1d(np.arange(len(train)), labeled)
            if arm == "random":
                more = rng.choice(rest, options.size, replace=False)
            else:
                texts = list(train.subset(rest).texts)
                more = rest[[item.index for item in suggest(predictor, texts, options.size)]]
            labeled += more.tolist()
            predictor = trained(train.subset(labeled), validation, options.epochs, seed)
            found.append(round(accuracy(predictor, held_out), 4))
        out[arm] = found
    return out


def main() -> None:
    """Draw the curves, and add them to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--set", default="clinc150")
    parser.add_argument("--split", choices=("validation", "test"), default="validation")
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11])
    parser.add_argument("--begin", type=int, default=600)
    parser.add_argument("--size", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    train, validation, test = load(options.set, options.data)
    for seed in options.seeds:
        made = provenance(seed=seed)
        held_out = validation if options.split == "validation" else test
        found = curves(train, validation[:300], held_out, options, seed)
        areas = {arm: round(float(np.mean(values[1:])), 4) for arm, values in found.items()}
        names = ("set", "split", "begin", "size", "rounds", "epochs")
        line = {**{name: getattr(options, name) for name in names}, "seed": seed, "area": areas, "accuracy": found}
        print(json.dumps(line), flush=True)
        lines = json.loads(options.out.read_text()) if options.out.exists() else []
        same = (*names, "seed")
        lines = [old for old in lines if any(old[key] != line[key] for key in same)]
        write_json(options.out, [*lines, {**line, "provenance": made}])


if __name__ == "__main__":
    main()
