"""Remixer, sections 3.1 and 3.2, scaled down: span corruption of unlabeled text, then tasks as text to text.

Paper (pretrained on C4, SuperGLUE's average): Remixer above T5.1.1 of its size. Here: IMDB's reviews, Unigram subwords
trained on them, two layers of width 192 in encoder and decoder, and Remixer's block as wide as it takes to have as many
parameters. Both models take the same number of steps, at the rate with which T5.1.1 has the lower held-out perplexity.

    python experiments/span_corruption.py pretrain --data ../shared/data --runs runs/spans    # 40 minutes of one core
    python experiments/span_corruption.py tune --data ../shared/data --runs runs/spans        # 2 hours more

`tune`: RTE, CB and BoolQ (a fifth of its validation split, chosen by a hash, is the test set), each from the pretrained
weights and from scratch; sources are truncated to 256 subwords. The best evaluation is chosen on a tenth of the
training rows, and so is the learning rate, with T5.1.1 for both; the test rows are used once.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import statistics
from pathlib import Path
from typing import Any

import torch
from parsing import MODELS, SHAPE, matched, size

from mixling import TextGenerator
from mixling.artifacts import RUN_FILE, is_finished
from mixling.config import merge
from mixling.data import OnBadRow
from mixling.provenance import provenance
from mixling.research.seq2seq import (
    SEQ2SEQ_DEFAULTS,
    EncoderDecoderConfig,
    PairColumns,
    PairRunConfig,
    evaluate_task,
    fit_pairs,
    read_pairs,
)
from mixling.storage import write_json

SUBWORDS, SENTINELS = 8000, 100
OWN = SHAPE.model_copy(update={"max_source_len": 256, "max_target_len": 64, "dropout": 0.1})  # as the paper
SYSTEMS = {name: matched(MODELS[name], OWN, SUBWORDS + SENTINELS) for name in ("T5.1.1", "Remixer")}
RATES = {"pretraining": (2e-3, 5e-3), "pretrained": (5e-4, 2e-3), "scratch": (1e-3, 4e-3)}
TASKS = {"rte": 10, "cb": 30, "boolq": 5}  # and epochs


def run(folder: Path, model: EncoderDecoderConfig, training: dict[str, Any], **values: Any) -> dict[str, Any]:
    """Train into a folder, unless that is done; return its metrics.json."""
    if not (folder / RUN_FILE).exists() or not is_finished(folder):
        config = PairRunConfig.model_validate(
            {
                "model": model.to_dict(),
                "generation": {"max_len": model.max_target_len},
                "train": merge({**SEQ2SEQ_DEFAULTS.to_dict(), "batch_size": 32, "precision": "bfloat16"}, training),
                **values,
            }
        )
        fit_pairs(config, folder=folder, resume=(folder / RUN_FILE).exists(), log=lambda text: print(text, flush=True))
    report: dict[str, Any] = json.loads((folder / "metrics.json").read_text())
    print(folder, {key: round(value, 4) for key, value in report["held_out"].items()}, flush=True)
    return report


def pretrain(options: argparse.Namespace) -> dict[str, Any]:
    """Both models, as long as each other; the text is encoded once."""
    corpus: dict[str, Any] = {
        "files": [str(options.data / "imdb_unsup_lm" / "train.txt.gz")],
        "keep": True,
        "validation_tokens": 65_536,
    }
    subwords = {"size": SUBWORDS, "sentinels": SENTINELS}
    run(options.runs / "text", SYSTEMS["T5.1.1"], {"steps": 1, "evaluations": 1}, corpus=corpus, subwords=subwords)
    corpus = {"prepared": str(options.runs / "text")}
    report: dict[str, Any] = {}
    tried = RATES["pretraining"]
    for name, model in SYSTEMS.items():
        found = {}
        for rate in tried:
            training = {"steps": options.steps, "evaluations": 5, "optim": {"lr": rate}}
            done = run(options.runs / "pretrained" / name / f"{rate:g}", model, training, corpus=corpus)
            found[rate] = done["held_out"]["perplexity"]
        best = min(found, key=found.__getitem__)
        tried = (best,)  # type: ignore[assignment]
        report[name] = {"parameters": size(model, SUBWORDS + SENTINELS), "rate": best, "perplexity": found[best]}
    return report


def rows_of(task: str, data: Path, runs: Path) -> tuple[Path, Path]:
    """The files of a task: to train on, and to measure on."""
    if task != "boolq":
        return data / task / "train.jsonl.gz", data / task / "dev.jsonl.gz"
    parts = runs / "boolq_train.jsonl", runs / "boolq_test.jsonl"
    with gzip.open(data / "boolq" / "dev.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = file.readlines()
    fifth = [hashlib.sha256(line.encode()).digest()[0] < 51 for line in lines]
    for path, kept in zip(parts, (False, True), strict=True):
        path.write_text("".join(line for line, taken in zip(lines, fifth, strict=True) if taken == kept), "utf-8")
    return parts


def tune(task: str, pretrained: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Both models on one task, from the pretrained weights and from random numbers."""
    train, test = rows_of(task, options.data, options.runs)
    pairs = list(read_pairs([test], columns=PairColumns(), on_bad_row=OnBadRow("error"), template=task, training=False))
    report: dict[str, Any] = {}
    best: dict[str, float] = {}
    for name in SYSTEMS:
        source = options.runs / "pretrained" / name / f"{pretrained[name]['rate']:g}"
        for start in ("pretrained", "scratch"):
            begin = {"pretrained": str(source)} if start == "pretrained" else {
                "tokenizer": {"vocabulary": str(source / "tokenizer.json")}
            }  # fmt: skip
            folders = options.runs / task / name / start

            def validation(
                rate: float, seed: int, name: str = name, folders: Path = folders, begin: dict[str, Any] = begin
            ) -> float:
                settings = {
                    "name": task,
                    "template": task,
                    "train": [str(train)],
                    "validation_fraction": 0.1,
                    "cut": True,
                }
                training = {"epochs": TASKS[task], "seed": seed, "optim": {"lr": rate}}
                made = run(folders / f"{rate:g}" / str(seed), SYSTEMS[name], training, tasks=[settings], **begin)
                return float(made["held_out"]["exact_match"])

            tried = {rate: validation(rate, 0) for rate in ((best[start],) if start in best else RATES[start])}
            rate = best[start] = max(tried, key=tried.__getitem__)
            scores = []
            for seed in range(options.seeds):
                validation(rate, seed)
                generator = TextGenerator(folders / f"{rate:g}" / str(seed))
                scores.append(evaluate_task(generator, pairs, template=task, cut=True)[0].to_dict())
            report[f"{name}, {start}"] = {"rates": {f"{key:g}": value for key, value in tried.items()}, "test": scores}
            accuracies = [each["metrics"]["accuracy"] for each in scores]
            print(f"| {task} | {name}, {start} | {100 * statistics.mean(accuracies):.1f} | {accuracies}", flush=True)
    return report


def main() -> None:
    """Pretrain, or fine-tune and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("pretrain", "tune"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "span_corruption.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    pretrained = pretrain(options)
    if options.what == "pretrain":
        return
    for task in options.tasks:
        made = provenance(packages=("scikit-learn",))
        report = tune(task, pretrained, options)
        results = json.loads(options.out.read_text()) if options.out.exists() else {}
        settings = {"steps": options.steps, "shape": OWN.to_dict(), "epochs": TASKS[task]}
        results[task] = {"provenance": made, "settings": settings, "pretraining": pretrained, "models": report}
        write_json(options.out, results)


if __name__ == "__main__":
    main()
