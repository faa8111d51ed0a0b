"""A linear n-gram branch and calibration: what they gain, and what pruning and 8 bits cost.

No paper: the network is mixling's default for the examples, trained by the default command, without the branch and kept
in `--runs`; the branch is then fitted as the default command does it (`mixling.ngrams.choose`), so that all variants
have the same networks. Every choice is made on validation: a tenth of train, another one for each seed, or the set's
own. Three parts:

    python experiments/ngrams.py validation --data ../shared/data   # variants: characters, bytes
    python experiments/ngrams.py ratios --data ../shared/data       # with and without log-count ratios
    python experiments/ngrams.py test --data ../shared/data         # the default one, and the baselines

`validation` gives the loss and the accuracy on validation for the n-grams' lengths and numbers of bytes, `ratios` for
the powers of the log-count ratios that features are multiplied by, and the power that is chosen. `test` reads the test
split once, with the exported file of each seed: the network as it was before calibration (its logits divided
by the temperature that is folded into its weights), the calibrated network, and the network with a branch. It compares
them with TF-IDF + logistic regression over words, and over words and characters, C chosen on validation, both refitted
on training and validation examples; intervals are of a paired bootstrap over the test examples, of the mean of the
seeds less the baseline. All of them read the test texts with noise in 30% of the words, too. Thresholds to abstain are
chosen on validation and read on test.

SST-2 are the whole sentences among GLUE's phrases; where GLUE's test labels are not public, its validation split is the
test. Results go to results/ngrams.json, a line for each part and set.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from text_sets import Set, sentences

from mixling import Dataset, Predictor, fit, read_examples
from mixling.comparison import TFIDF_STRENGTHS, LinearBaseline, TfidfFeatures
from mixling.data import ColumnsConfig, OnBadRow, split_validation
from mixling.export import amend
from mixling.metrics import choose_abstention, resampled
from mixling.ngrams import LinearData, budget, fit_ngrams
from mixling.provenance import provenance
from mixling.runs.resolve import LABELS, resolve
from mixling.storage import write_json
from mixling.tasks import task_type
from mixling.text import NoiseLevel, noisy_texts
from mixling.training import AugmentationConfig, NgramConfig

PAIR: Mapping[str, str] = {"text_pair": "text_pair"}
SETS = {
    "sst2": Set("sst2_glue", None, "dev"),
    "clinc150": Set("clinc150", "val", "test"),
    "snips": Set("snips", "dev", "test", columns={"text": "tokens", "label": "intent"}),
    "cola": Set("cola", None, "dev"),
    "mrpc": Set("mrpc", None, "dev", columns=PAIR),
    "rte": Set("rte", None, "dev", columns=PAIR),
    "stsb": Set("stsb", None, "dev", task="regression", columns=PAIR),
    "imdb": Set("imdb", None, "test"),
}
VARIANTS = [(2, 5), (3, 4), (3, 5)]
NOISE = ("swap", "delete", "insert", "keyboard", "ocr", "emoji")
WANTED = (0.95, 0.99)  # accuracy of what is answered
BYTES = [10_000_000, 600_000, 300_000, 200_000, 100_000, 50_000, 20_000]
OUT = Path(__file__).parent / "results" / "ngrams.json"


class Rows(NamedTuple):
    """The examples of a set for one seed."""

    train: Dataset
    validation: Dataset
    test: Dataset


def load(name: str, data: Path, seed: int) -> Rows:
    """The examples as the command line splits them."""
    about = SETS[name]

    def read(split: str) -> Dataset:
        path = data / about.folder / f"{split}.jsonl.gz"
        reader, columns = task_type(about.task).reader, ColumnsConfig(**about.columns)
        return Dataset.from_examples(
            read_examples([path], reader=reader, columns=columns, on_bad_row=OnBadRow("error"))
        )

    train = Dataset.from_examples(sentences(data)) if name == "sst2" else read("train")
    if about.validation is not None:
        return Rows(train, read(about.validation), read(about.test))
    train, validation = split_validation(train, fraction=0.1, seed=seed)
    return Rows(train, validation, read(about.test))


def network(name: str, rows: Rows, options: argparse.Namespace, seed: int) -> tuple[Path, float]:
    """The folder of the network without a branch, trained if it is not there, and the seconds that it took."""
    about, folder = SETS[name], options.runs / f"{name}-{seed}"
    record = folder / "seconds.json"
    if not record.exists():
        values: dict[str, Any] = {
            "task": about.task,
            "data": {"columns": {key: value for key, value in about.columns.items() if key != "text"}},
            "train": {"seed": seed},
        }
        resolved = resolve(values, spec=LABELS, overrides={"ngrams": {"use": "never"}}).for_examples(rows.train)
        began = time.process_time()
        fit(resolved.config, rows.train, rows.validation, folder=folder, log=print)
        write_json(record, time.process_time() - began)
    return folder, float(json.loads(record.read_text()))


def beside(folder: Path, rows: Rows, logits: np.ndarray | None = None) -> LinearData:
    """What a branch is fitted on beside a network."""
    predictor = Predictor(folder)
    if logits is None:
        logits = answers(predictor, rows.validation)
    return LinearData(
        task=predictor.task,
        train=rows.train,
        validation=rows.validation,
        network=logits,
        predict=predictor.text_logits,
        weights=None,
        text=predictor.text_config,
        vocabulary=predictor.encoder.vocabulary,
        augmentation=AugmentationConfig(),
    )


def answers(predictor: Predictor, examples: Dataset) -> np.ndarray:
    """Logits (R, C)."""
    texts = list(examples.texts)
    parts = [texts[first : first + 1024] for first in range(0, len(texts), 1024)]
    return np.stack([row for part in parts for row in predictor.logits(predictor.tokenize(part))])


def scored(data: LinearData, logits: np.ndarray, examples: Dataset) -> dict[str, float]:
    """The metrics of logits, and the loss that the mixture is fitted by."""
    targets = np.asarray(data.task.targets(examples.targets))
    found = data.task.evaluate(list(logits), targets, tables=False).numbers()
    return {**{key: float(value) for key, value in found.items()}, "loss": data.task.score_loss(logits, targets)[0]}


def validation_part(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The variants of all seeds, on validation."""
    lines = []
    for seed in options.seeds:
        rows = load(name, options.data, seed)
        folder, _ = network(name, rows, options, seed)
        data = beside(folder, rows)
        lines.append({"seed": seed, "variant": "none", **scored(data, data.network, rows.validation)})
        for low, high in VARIANTS:
            strength = None
            for size in BYTES if (low, high) == VARIANTS[1] else BYTES[:1] + BYTES[2:5:2]:
                config = NgramConfig(use="always", min_n=low, max_n=high, max_bytes=size, strength=strength)
                began = time.process_time()
                fitted = fit_ngrams(config, data, max_bytes=size)
                assert fitted is not None
                strength = strength or fitted.report["strength"]  # of the whole branch, for the pruned ones too
                line = {"seed": seed, "variant": f"{low}-{high}", "max_bytes": size, **fitted.report}
                line |= {"seconds": round(time.process_time() - began, 1)}
                logits = np.stack(fitted.combine(data.network))
                lines.append({**line, **scored(data, logits, rows.validation)})
                print(json.dumps({"set": name, **lines[-1]}), flush=True)
    return {"part": "validation", "set": name, "lines": lines}


def ratios_part(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Each power of the ratios, and the one that is chosen, for all seeds, on validation; sizes as by default."""
    lines: list[dict[str, Any]] = []
    for seed in options.seeds:
        rows = load(name, options.data, seed)
        folder, _ = network(name, rows, options, seed)
        data, size = beside(folder, rows), len((folder / "model.onnx").read_bytes())
        for power in (0.0, 0.5, 1.0, None):
            config = NgramConfig(use="always", ratio_power=power)
            began = time.process_time()
            fitted = fit_ngrams(config, data, max_bytes=budget(config, size))
            assert fitted is not None
            line = {"seed": seed, "power": power, **fitted.report, "seconds": round(time.process_time() - began, 1)}
            line |= {"branch_alone": scored(data, fitted.held_out, rows.validation)}
            lines.append({**line, **scored(data, np.stack(fitted.combine(data.network)), rows.validation)})
            print(json.dumps({"set": name, **lines[-1]}), flush=True)
    return {"part": "ratios", "set": name, "lines": lines}


def test_part(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The exported files of all seeds and the baselines, on test."""
    lines, hits = [], []
    task = None
    for seed in options.seeds:
        rows = load(name, options.data, seed)
        folder, seconds = network(name, rows, options, seed)
        content = (folder / "model.onnx").read_bytes()
        data, alone = beside(folder, rows), Predictor(folder)
        calibrated = answers(alone, rows.test)
        slope = (json.loads((folder / "metrics.json").read_text())["calibration"] or {"slope": 1.0})["slope"]
        task, config = data.task, NgramConfig(use="auto")
        began = time.process_time()
        fitted = fit_ngrams(config, data, max_bytes=budget(config, len(content)), log=print)
        spent = time.process_time() - began
        file = content if fitted is None else amend(content, branch=(fitted.branch, fitted.metadata))
        predictor = Predictor(file)
        given = answers(predictor, rows.test)
        held_out = data.network if fitted is None else np.stack(fitted.combine(data.network))
        hits.append(task.score(list(rows.test.targets), named(data, given)).hits)
        lines.append(
            {
                "seed": seed,
                "slope": slope,
                "uncalibrated": scored(data, calibrated / slope, rows.test),
                "network": scored(data, calibrated, rows.test),
                "with_branch": scored(data, given, rows.test),
                "noise": noise(task, partial(labels_of, predictor, data), rows.test),
                "validation": scored(data, held_out, rows.validation),
                "abstention": abstentions(data, held_out, rows.validation, given, rows.test),
                "report": None if fitted is None else fitted.report,
                "bytes_network": len(content),
                "bytes": len(file),
                "seconds_network": round(seconds, 1),
                "seconds_branch": round(spent, 1),
                **times(alone, predictor, rows.test),
            }
        )
        print(json.dumps({"set": name, **lines[-1]}), flush=True)
    assert task is not None
    mean = np.mean(hits, axis=0)
    baselines = []
    for features in () if options.skip_baselines else ("word", "word+char"):
        found = baseline(name, task, features, options)
        ahead = mean - found.pop("hits")
        interval = {"mean": float(ahead.mean()), **asdict(resampled(ahead))}
        baselines.append({**found, "difference": interval})
        print(json.dumps({"set": name, **baselines[-1]}), flush=True)
    return {"part": "test", "set": name, "lines": lines, "baselines": baselines}


def abstentions(
    data: LinearData, held_out: np.ndarray, validation: Dataset, given: np.ndarray, test: Dataset
) -> list[dict[str, Any]]:
    """Thresholds chosen on validation, as `--abstain-at` does, and their coverage and accuracy on test."""
    task = data.task
    if not task.abstains:
        return []
    gold = np.asarray(task.targets(validation.targets))
    probabilities = task.probabilities(held_out)
    lines = []
    for wanted in WANTED:
        found = choose_abstention(probabilities.argmax(1) == gold, probabilities.max(1), wanted=wanted)
        task.threshold = found.threshold
        metrics = task.evaluate(list(given), np.asarray(task.targets(test.targets)), tables=False).numbers()
        chosen = {key: metrics[key] for key in ("coverage", "accuracy_of_answered") if key in metrics}
        lines.append({"validation": asdict(found), "test": chosen})
    task.threshold = None
    return lines


def named(data: LinearData, logits: np.ndarray) -> list[Any]:
    """Logits as targets: names of labels, or numbers."""
    if data.task.has_labels:
        return [data.task.labels.names[int(row.argmax())] for row in logits]
    return data.task.values(list(logits)).tolist()  # type: ignore[attr-defined]


def noise(task: Any, predict: Callable[[list[Any]], list[Any]], examples: Dataset) -> dict[str, float]:
    """The metric with noise of each kind in 30% of the words."""
    texts, targets = list(examples.texts), list(examples.targets)
    levels = [NoiseLevel(kind, 0.3) for kind in NOISE]
    scores = [task.score(targets, predict(noisy_texts(texts, level))) for level in levels]
    return {level.noise: float(score.numbers[task.headline]) for level, score in zip(levels, scores, strict=True)}


def labels_of(predictor: Predictor, data: LinearData, texts: list[Any]) -> list[Any]:
    """The answers for texts, as targets."""
    return named(data, np.stack(predictor.text_logits(texts)))


def times(alone: Predictor, both: Predictor, examples: Dataset, texts: int = 500) -> dict[str, float]:
    """Microseconds a text, one at a time and in batches, medians of turns, when the words are known."""
    some = list(examples.texts)[:texts]
    found: dict[str, list[float]] = {}
    for turn in range(6):
        for name, predictor in (("network", alone), ("branch", both)):
            for way in ("one", "batch"):
                began = time.perf_counter()
                if way == "one":
                    for text in some:
                        predictor.predict_one(text)
                else:
                    list(predictor.predict_stream(some))
                if turn:
                    found.setdefault(f"us_{way}_{name}", []).append(1e6 * (time.perf_counter() - began) / len(some))
    return {name: round(statistics.median(values), 1) for name, values in found.items()}


def baseline(name: str, task: Any, features: str, options: argparse.Namespace) -> dict[str, Any]:
    """TF-IDF and a linear model, C chosen on the validation rows of the first seed, fitted anew on all rows."""
    rows = load(name, options.data, options.seeds[0])
    encode, kind = TfidfFeatures(features), type(task)
    texts, targets = list(rows.train.texts), list(rows.train.targets)
    known, gold = list(rows.validation.texts), list(rows.validation.targets)
    encoded = encode.fit_transform(texts)
    sign = -1 if task.less_is_better or not task.has_labels else 1
    tried = {}
    for strength in options.strengths:
        one = LinearBaseline(kind, encode, encoded, targets, {"C": strength})
        tried[strength] = task.score(gold, one.predict(known)).numbers[task.headline]
    best = max(tried, key=lambda strength: sign * tried[strength])
    again = TfidfFeatures(features)
    whole = LinearBaseline(kind, again, again.fit_transform(texts + known), targets + gold, {"C": best})
    found = task.score(list(rows.test.targets), whole.predict(list(rows.test.texts)))
    return {
        "features": features,
        "C": best,
        "validation": {str(key): value for key, value in tried.items()},
        "test": {key: float(value) for key, value in found.numbers.items()},
        "noise": noise(task, whole.predict, rows.test),
        "bytes": whole.size(),
        "hits": found.hits,
    }


def main() -> None:
    """Run a part for the sets and add it to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["validation", "ratios", "test"])
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}; by default all")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--strengths", type=float, nargs="+", default=list(TFIDF_STRENGTHS), help="of the baselines")
    parser.add_argument("--skip-baselines", action="store_true", help="they take minutes with many labels")
    parser.add_argument("--runs", type=Path, default=Path("runs/ngrams"))
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    if unknown := set(options.sets) - set(SETS):
        parser.error(f"unknown sets {sorted(unknown)}; allowed: {', '.join(SETS)}")
    torch.set_num_threads(1)
    run = {"validation": validation_part, "ratios": ratios_part, "test": test_part}[options.part]
    for name in options.sets or SETS:
        made = provenance(packages=("onnxruntime", "tokenizers", "scikit-learn"))
        line = {**run(name, options), "provenance": made}
        lines = json.loads(options.out.read_text()) if options.out.exists() else []
        lines = [old for old in lines if (old["part"], old["set"]) != (line["part"], name)]
        write_json(options.out, [*lines, line])


if __name__ == "__main__":
    main()
