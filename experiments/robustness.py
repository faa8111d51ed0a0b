"""Augmentation of training texts: accuracy on clean and noisy texts, with and without it, and of linear baselines.

No paper. `default` is what `mixling train` does without options; `before` has no augmentation, `after` the first
default, a tenth of pseudo-words and a tenth of typos of three kinds; `typos` and `pseudo_words` are its two halves. All
choices are made on validation examples: SNIPS and CLINC150 have their own, of SST-2 and CoLA a tenth of the training
examples is set aside, and GLUE's public split is the test. Half of them is the validation data of each training, with
which the exported n-gram branch is fitted again; the other half, with the same noise as the test texts, is what the
results call validation. The baselines are logistic regressions over TF-IDF of words, and of words and characters, with
C chosen on the first half and fitted on it and the training examples together. The test examples are read with
`--test` only, once, by the models in the folder of runs.

    python experiments/robustness.py --data ../shared/data --variants before after default
    python experiments/robustness.py --data ../shared/data --variants before default --test

Runs in the folder are not trained again. Results go to results/robustness.json, one item for each set, variant and
seed, with the commit that trained it and the CPU seconds of its training.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tables.markdown import as_markdown, percent
from text_sets import load

from mixling import Dataset, Predictor, fit
from mixling.comparison import LinearBaseline, TfidfFeatures
from mixling.data import Target
from mixling.provenance import provenance
from mixling.runs.resolve import LABELS, resolve
from mixling.storage import write_json
from mixling.tasks import Classification, Task
from mixling.text import NOISES, NoiseLevel, Text, noisy_texts

SETS = ("snips", "clinc150", "sst2", "cola")
KINDS = ("swap", "delete", "keyboard")


def augmented(pseudo_words: float, typos: float) -> Mapping[str, Any]:
    """Return the options of a training with typos of three kinds."""
    rates = {"pseudo_words": pseudo_words, "typos": typos, "typo_kinds": KINDS}
    return {"train": {"augmentation": rates, "token_dropout": 0.2}}


VARIANTS: dict[str, Mapping[str, Any]] = {
    "default": {},
    "before": augmented(0, 0),
    "after": augmented(0.1, 0.1),
    "typos": augmented(0, 0.1),
    "pseudo_words": augmented(0.1, 0),
}
BASELINES = ("word", "word+char")
TFIDF_STRENGTHS = (1.0, 3.0, 10.0, 30.0)
RATES = (0.1, 0.3)
OUT = Path(__file__).parent / "results" / "robustness.json"


def accuracies(predict: Any, texts: Sequence[Text], targets: Sequence[Target], task: Task) -> dict[str, float]:
    """Return the accuracy on texts as they are (`clean`), and with each noise at each rate."""

    def accuracy(of: Sequence[Text]) -> float:
        return round(task.score(targets, predict(of)).numbers["accuracy"], 5)

    levels = [NoiseLevel(noise, rate) for noise in NOISES for rate in RATES]
    noisy = {f"{level.noise} {level.rate:g}": accuracy(noisy_texts(texts, level)) for level in levels}
    return {"clean": accuracy(texts), **noisy}


def trained(
    name: str, variant: str, seed: int, train: Dataset, validation: Dataset, runs: Path
) -> tuple[Path, dict[str, Any]]:
    """Return the folder of a run and how it was made; train it if it is missing."""
    folder, record = runs / name / variant / str(seed), runs / name / variant / f"{seed}.json"
    if not record.exists():
        values = {"task": "classification", "train": {"seed": seed}, "ngrams": {"refit": True}}
        config = resolve(values, spec=LABELS, overrides=VARIANTS[variant]).for_examples(train).config
        made = provenance(seed=seed)
        began = time.process_time()
        run = fit(config, train, validation, folder=folder)
        assert run is not None
        seconds = round(time.process_time() - began, 1)
        write_json(record, {"cpu_seconds": seconds, "epochs": run.report["epochs"], "provenance": made})
    return folder, json.loads(record.read_text())


def answer(folder: Path) -> Any:
    """Return the function that predicts the labels of texts with model.onnx of a run."""
    predictor = Predictor(folder / "model.onnx", num_threads=1)
    return lambda texts: [prediction.label for prediction in predictor.predict_stream(texts)]


def baseline(features: str, train: Dataset, validation: Dataset, task: Task) -> tuple[Any, dict[str, Any]]:
    """Return the best baseline on validation, fitted on validation examples too, and its options."""
    rows, more = (list(part.texts) for part in (train, validation))
    targets, truth = list(train.targets), list(validation.targets)
    encode = TfidfFeatures(features)
    encoded = encode.fit_transform(rows)
    fitted = [
        LinearBaseline(type(task), encode, encoded, targets, {"features": features, "C": strength})
        for strength in TFIDF_STRENGTHS
    ]
    best = max(fitted, key=lambda one: task.score(truth, one.predict(more)).numbers["accuracy"])
    full = TfidfFeatures(features)
    refitted = LinearBaseline(type(task), full, full.fit_transform([*rows, *more]), [*targets, *truth], best.options)
    return refitted.predict, best.options


def lines_of(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the results of one set."""
    train, rows, test = load(name, options.data)
    validation, held = rows[::2], rows[1::2]
    task = Classification(Classification.label_set(train))

    def evaluated(predict: Any) -> dict[str, Any]:
        splits = {"validation": held, **({"test": test} if options.test else {})}
        return {key: accuracies(predict, list(part.texts), list(part.targets), task) for key, part in splits.items()}

    lines = []
    for variant in options.variants:
        for seed in options.seeds:
            folder, made = trained(name, variant, seed, train, validation, options.runs)
            predict = answer(folder)
            lines.append({"set": name, "variant": variant, "seed": seed, **made, **evaluated(predict)})
            print(name, variant, seed, made["cpu_seconds"], lines[-1]["validation"], flush=True)
    for features in BASELINES if options.baselines else ():
        begin = time.process_time()
        predict, chosen = baseline(features, train, validation, task)
        made = {"cpu_seconds": round(time.process_time() - begin, 1), "options": chosen, "provenance": provenance()}
        lines.append({"set": name, "variant": f"tf-idf {features}", "seed": 0, **made, **evaluated(predict)})
    return lines


def table(lines: Sequence[Mapping[str, Any]], split: str) -> str:
    """Return the means over the seeds, in percent, as a markdown table."""
    columns = ("clean", *(f"{noise} 0.3" for noise in NOISES))
    rows = [["set", "model", "seeds", *columns]]
    for name, variant in dict.fromkeys((line["set"], line["variant"]) for line in lines):
        found = [line for line in lines if (line["set"], line["variant"]) == (name, variant) and split in line]
        if found:
            means = [sum(line[split][column] for line in found) / len(found) for column in columns]
            rows.append([name, variant, str(len(found)), *map(percent, means)])
    return as_markdown(rows)


def main() -> None:
    """Train what is missing, evaluate, and add it to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}; by default all")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=["before", "default"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--baselines", action="store_true", help="also fit and evaluate the linear baselines")
    parser.add_argument("--test", action="store_true", help="also read the test examples: once, after all choices")
    parser.add_argument("--runs", type=Path, default=Path("runs/robustness"))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="print the results and exit")
    options = parser.parse_args()
    if options.table:
        lines = json.loads(options.out.read_text())
        print("\n\n".join(f"{split}:\n\n{table(lines, split)}" for split in ("validation", "test")))
        return
    if unknown := set(options.sets) - set(SETS):
        parser.error(f"unknown sets {sorted(unknown)}; allowed: {', '.join(SETS)}")
    torch.set_num_threads(1)
    for name in options.sets or SETS:
        new = lines_of(name, options)
        lines = json.loads(options.out.read_text()) if options.out.exists() else []
        keys = {(line["set"], line["variant"], line["seed"]) for line in new}
        lines = [old for old in lines if (old["set"], old["variant"], old["seed"]) not in keys]
        write_json(options.out, [*lines, *new])


if __name__ == "__main__":
    main()
