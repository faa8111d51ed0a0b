"""gMLP, section 4.4, scaled down: what models of equal size gain from masked language modeling.

Paper (C4, 110-365 million parameters): fine-tuned accuracy follows perplexity; gMLP is behind the Transformer on pairs
of texts (MNLI), and aMLP's tiny attention closes the gap. It trains nothing from scratch. The pNLP-Mixer paper leaves
open whether pretraining helps models with hashed features, which have no table of subwords. Here HyperMixer on MinHash
features predicts the 8,192 most frequent words by a softmax, whose table is dropped for fine-tuning.

    python experiments/pretraining.py pretrain --data ../shared/data --runs runs/gmlp    # 1 hour of one core
    python experiments/pretraining.py transfer --data ../shared/data --runs runs/gmlp    # 5 minutes
    python experiments/pretraining.py tune --data ../shared/data --runs runs/gmlp        # 2 hours of one core

`pretrain`: IMDB's unlabeled reviews (15.8 million subwords), width 128, bodies of 0.6 million parameters (three layers
of BERT and aMLP, four of gMLP) over 8,192 subwords, and one on MinHash features with at most a million in all. `tune`:
each on SST-2 (all 67,349 rows of GLUE), IMDB (the first 128 subwords) and pairs (RTE, MRPC, ConjNLI), from the
pretrained weights and from scratch with the same subwords. The epoch is chosen on a part of the training rows, and so
is the learning rate, with the first model for all; GLUE's validation split is used once, at the end. Every training is
a run folder; finished ones are not repeated. The paper reports medians of five fine-tunings: `tune --seeds 5`, whose
results have the median beside the seeds.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import torch
from gmlp_ablation import DIM, encode_text, family, train

from mixling import Dataset, ModelConfig, Predictor, RunConfig, fit, read_examples
from mixling.artifacts import RUN_FILE, is_finished
from mixling.comparison import choose, fit_tfidf
from mixling.config import merge, parse
from mixling.data import ColumnsConfig, OnBadRow, split_validation
from mixling.mixers import HyperMixingConfig
from mixling.networks import WORDS_AS_THEY_ARE, BlockConfig, FeedForwardConfig, own
from mixling.provenance import provenance
from mixling.research.pretraining import evaluate_text
from mixling.runs import FINE_TUNING, pretrained_config
from mixling.storage import write_json
from mixling.tasks import Classification


class Task(NamedTuple):
    """Files of one data set, without .jsonl.gz; a part of train chooses, or another task has chosen the rates."""

    train: str
    test: str
    epochs: int
    validation_fraction: float
    pairs: bool = False
    rates: dict[str, tuple[float, ...]] | None = None


TASKS = {
    "sst2_glue": Task("train", "dev", 3, 0.05),
    "imdb": Task("train", "test", 2, 0.1, rates={"pretrained": (2e-3,), "scratch": (4e-3,)}),  # those of SST-2
    "rte": Task("train", "dev", 10, 0.1, pairs=True),
    "mrpc": Task("train", "dev", 10, 0.1, pairs=True),
    "conjnli": Task("train_adversarial", "dev", 4, 0.1, pairs=True),
}


def hypermixer_on_hashes() -> ModelConfig:
    """Three layers of HyperMixer on 4,096 MinHash features of words, and our own head."""
    layer = BlockConfig(
        mixers=(HyperMixingConfig(hidden_dim=256),), feed_forward=FeedForwardConfig(ffn_dim=2 * DIM), dropout=0.0
    )
    return own(num_features=4096, dim=DIM, ffn_dim=256).model_copy(
        update={"layers": (layer,), "num_layers": 3, "final_norm": True}
    )


MODELS = {
    "gmlp": family("gmlp", 4),
    "amlp": family("amlp", 3),
    "transformer": family("transformer", 3),
    "hypermixer-minhash": hypermixer_on_hashes(),
}
STARTS = {
    "pretrained": (5e-4, 2e-3),
    "scratch": (1e-3, 4e-3),
}  # and the rates that validation chooses from, by the first model


def pretrain_all(options: argparse.Namespace) -> None:
    """Pretrain the models that are named."""
    for name in options.models:
        text = options.runs / ("words" if name == "hypermixer-minhash" else "text")
        source = options.data / "imdb_unsup_lm" / "train.txt.gz"
        encode_text(source, text, MODELS[name] if name == "hypermixer-minhash" else None)
        train(MODELS[name], text, options.runs / "long" / name, steps=options.steps, lr=options.rate, evaluations=10)


def transfer(options: argparse.Namespace) -> dict[str, Any]:
    """Perplexity of the pretrained models on other text, which no model was chosen by."""
    source = str(options.data / "wikitext2" / "test.txt.gz")
    found = {}
    for name in options.models:
        found[name] = evaluate_text(options.runs / "long" / name, [source])
        print("wikitext2", name, {key: round(value, 4) for key, value in found[name].items()}, flush=True)
    return found


def load(task: Task, name: str, split: str, data: Path) -> Dataset:
    """The examples of a split."""
    columns = ColumnsConfig(text_pair="text_pair" if task.pairs else None)
    path = data / name / f"{split}.jsonl.gz"
    return Dataset.from_examples(
        read_examples([path], reader=Classification.reader, columns=columns, on_bad_row=OnBadRow("error"))
    )


def tune(folder: Path, source: Path, start: str, task: Task, rows: tuple[Dataset, Dataset]) -> float:
    """Fine-tune, or train from scratch, into RATE/SEED, unless that is done; accuracy on the choosing rows."""
    rate, seed = float(folder.parent.name), int(folder.name)
    if not (folder / RUN_FILE).exists() or not is_finished(folder):
        training = {"optim": {"lr": rate}, "epochs": task.epochs, "seed": seed, **WORDS_AS_THEY_ARE}
        defaults = merge(FINE_TUNING, training)
        values: dict[str, Any] = {"model": pretrained_config(str(source)), "train": defaults}
        values["decisions"] = {"precision": "float32"}
        if start == "pretrained":
            values["init"] = {"pretrained": str(source)}
        fit(parse(RunConfig, values, where=str(folder)), *rows, folder=folder)
    validation = json.loads((folder / "metrics.json").read_text())["validation"]["accuracy"]
    print(folder, round(validation, 4), flush=True)
    return validation


def tune_all(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """All models on one task."""
    task = TASKS[name]
    rows = split_validation(load(task, name, task.train, options.data), fraction=task.validation_fraction, seed=0)
    report: dict[str, Any] = {}
    best: dict[str, float] = {}
    for model in options.models:
        source = options.runs / "long" / model
        for start in options.starts:
            tried = (best[start],) if start in best else (task.rates or STARTS)[start]
            folders = {rate: options.runs / name / model / start / f"{rate:g}" for rate in tried}
            validation = {rate: tune(path / "0", source, start, task, rows) for rate, path in folders.items()}
            rate = best[start] = max(validation, key=validation.__getitem__)
            for seed in range(1, options.seeds):
                tune(folders[rate] / str(seed), source, start, task, rows)
            runs = [folders[rate] / str(seed) for seed in range(options.seeds)]
            report[f"{model}, {start}"] = {
                "rates": {f"{k:g}": v for k, v in validation.items()},
                "rate": rate,
                "runs": runs,
            }
    if options.validation_only:
        return report
    test = load(task, name, task.test, options.data)
    texts, labels = list(test.texts), list(test.targets)

    def accuracy(answers: list[Any]) -> float:
        return statistics.mean(answer == label for answer, label in zip(answers, labels, strict=True))

    for row in report.values():
        predictors = [Predictor(folder) for folder in row.pop("runs")]
        row["test"] = [accuracy([item.label for item in each.predict_stream(texts)]) for each in predictors]
        row["median"] = statistics.median(row["test"])
        row["parameters"] = predictors[0].metadata.parameters
    train_texts, validation_texts = (list(part.texts) for part in rows)
    train_labels, validation_labels = (list(part.targets) for part in rows)
    baseline, _ = choose(
        fit_tfidf(Classification, train_texts, train_labels, seed=0),
        lambda fitted: statistics.mean(
            a == b for a, b in zip(fitted.predict(validation_texts), validation_labels, strict=True)
        ),
    )
    report["tf-idf + lr"] = {"test": [accuracy(list(baseline.predict(texts)))], "parameters": baseline.parameters}
    return report


def main() -> None:
    """Pretrain, or fine-tune and add the tasks to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("pretrain", "transfer", "tune"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=list(STARTS))
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=3e-3, help="of pretraining")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--validation-only", action="store_true", help="train only; read no test split, write nothing")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "pretraining.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.what == "pretrain":
        pretrain_all(options)
        return
    if options.what == "transfer":
        made = provenance()
        results = json.loads(options.out.read_text()) if options.out.exists() else {}
        write_json(options.out, {**results, "wikitext2": {"provenance": made, "models": transfer(options)}})
        return
    for name in options.tasks:
        made = provenance(packages=("onnxruntime", "tokenizers", "scikit-learn"))
        report = tune_all(name, options)
        if options.validation_only:
            continue
        for system, row in report.items():
            print(name, system, [round(100 * value, 2) for value in row["test"]], flush=True)
        results = json.loads(options.out.read_text()) if options.out.exists() else {}
        held_out = {
            model: json.loads((options.runs / "long" / model / "metrics.json").read_text())["validation"]
            for model in options.models
        }
        results[name] = {"provenance": made, "epochs": TASKS[name].epochs, "pretraining": held_out, "models": report}
        write_json(options.out, results)


if __name__ == "__main__":
    main()
