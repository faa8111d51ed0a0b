"""Accuracy of the pNLP-Mixer presets on public data: trained on train, chosen on validation, test read once.

    python benchmarks/accuracy.py --data ../shared/data snips:x-small mtop_en:x-small --seeds 0 1 2

Each SET:SIZE[+KEY=VALUE...] is one line of `benchmarks/results/accuracy.json`: validation and test metrics of the
exported model (8 bits, onnxruntime), seconds of training, bytes of model.onnx. Hyper-parameters are those of RECIPES
below, chosen on validation; the baselines on the same rows are those of benchmarks/baselines.py.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mixling import Dataset, Predictor, RunConfig, fit, model_config, read_examples
from mixling.answers import LabelSet
from mixling.config import merge, parse, read_overrides
from mixling.data import ColumnsConfig, OnBadRow, split_validation
from mixling.metrics import Metrics
from mixling.provenance import provenance
from mixling.tasks import task_type

SETS: dict[str, dict[str, Any]] = {
    "snips": {"validation": "dev", "test": "test", "columns": {"text": "tokens", "label": "intent"}},
    "clinc150": {"validation": "val", "test": "test", "columns": {}},
    # GLUE's test labels are not public: its validation split is the test here, and 5% of train choose.
    "sst2_glue": {"validation": None, "test": "dev", "columns": {}},
    "mtop_en": {"validation": "dev", "test": "test", "task": "tagging", "columns": {}},
}
# Beside the defaults; CLINC150 has 100 rows a class, and gained on validation from stronger regularization.
DEFAULTS: dict[str, dict[str, Any]] = {
    "snips": {},
    "clinc150": {"model": {"head": {"dropout": 0.3}}, "train": {"epochs": 24, "token_dropout": 0.3}},
    "sst2_glue": {},
    "mtop_en": {},
}


def load(paths: list[Path], task: str, columns: dict[str, str]) -> Dataset:
    """Examples of files, every row required to be good."""
    examples = read_examples(
        paths, reader=task_type(task).reader, columns=ColumnsConfig(**columns), on_bad_row=OnBadRow("error")
    )
    return Dataset.from_examples(examples)


def evaluate_files(folder: Path, examples: Dataset) -> Metrics:
    """Measures of the exported model; words and labels that training did not know count as errors."""
    predictor = Predictor(folder / "model.onnx", num_threads=torch.get_num_threads())
    texts = list(examples.texts)
    logits = [row for text in chunks(texts) for row in predictor.logits(predictor.encoder.encode(text))]
    # Labels that training did not know are added with logits that never win: what carries them counts as wrong.
    unknown = sorted(set(examples.label_counts()) - set(predictor.labels.names))
    task = type(predictor.task)(LabelSet((*predictor.labels.names, *unknown), predictor.labels.kind))
    widened = [np.concatenate([row, np.full((*row.shape[:-1], len(unknown)), -1e9, np.float32)], -1) for row in logits]
    return task.evaluate(widened, task.targets(examples.targets))


def chunks(texts: list[Any], size: int = 1024) -> list[list[Any]]:
    """Texts in groups that fit memory."""
    return [texts[i : i + size] for i in range(0, len(texts), size)]


def run(name: str, data: Path, seed: int) -> dict[str, Any]:
    """Train and measure one line."""
    spec, *overrides = name.split("+")
    dataset, size = spec.split(":")
    about = SETS[dataset]
    task = about.get("task", "classification")
    values = {"task": task, "model": model_config(f"pnlp-mixer-{size}").to_dict(), "train": {"seed": seed}}
    config = parse(RunConfig, merge(merge(values, DEFAULTS[dataset]), read_overrides(overrides)), where=name)
    folder = data / dataset
    train = load([folder / "train.jsonl.gz"], task, about["columns"])
    if about["validation"] is None:
        train, validation = split_validation(train, fraction=0.05, seed=0)
    else:
        validation = load([folder / f"{about['validation']}.jsonl.gz"], task, about["columns"])
    test = load([folder / f"{about['test']}.jsonl.gz"], task, about["columns"])
    with tempfile.TemporaryDirectory() as out:
        begin = time.perf_counter()
        result = fit(config, train, validation, folder=Path(out), log=print)
        seconds = time.perf_counter() - begin
        assert result is not None
        report = {
            "run": name,
            "seed": seed,
            "config": config.model_dump(mode="json", include={"model", "train"}),
            "parameters": result.parameters,
            "precision": result.report["precision"],
            "quantization": result.report["quantization"],
            "onnx_bytes": (Path(out) / "model.onnx").stat().st_size,
            "seconds": round(seconds, 1),
            "best_epoch": result.best["epoch"],
            "validation": scores(result.metrics),
            "test": scores(evaluate_files(Path(out), test)),
        }
    print(
        json.dumps({key: report[key] for key in ("run", "seed", "seconds", "onnx_bytes", "validation", "test")}),
        flush=True,
    )
    return report


def scores(metrics: Metrics) -> dict[str, Any]:
    """The single numbers of a report."""
    return {key: round(v, 5) for key, v in metrics.to_dict().items() if isinstance(v, int | float)}


def over_seeds(lines: list[dict[str, Any]], name: str) -> dict[str, tuple[float, float, int]]:
    """Return mean and standard deviation over seeds, and their number, of each test metric of a run."""
    found = [line["test"] for line in lines if line["run"] == name]
    out = {}
    for metric in ("accuracy", "word_accuracy", "word_accuracy_without_o", "span_f1", "sentence_accuracy"):
        values = [item[metric] for item in found if metric in item]
        if values:
            deviation = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
            out[metric] = float(np.mean(values)), deviation, len(values)
    return out


def main() -> None:
    """Run the lines that are named and add them to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="SET:SIZE[+KEY=VALUE]")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "accuracy.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    lines = json.loads(options.out.read_text()) if options.out.exists() else []
    for name in options.runs:
        for seed in options.seeds:
            made = provenance(seed=seed, packages=("onnxruntime", "tokenizers"))
            line = run(name, options.data, seed)
            lines = [old for old in lines if (old["run"], old["seed"]) != (name, seed)]
            lines.append({**line, "provenance": made})
            options.out.parent.mkdir(exist_ok=True)
            options.out.write_text(json.dumps(lines, indent=1) + "\n")
    for name in options.runs:
        for metric, (mean, deviation, seeds) in over_seeds(lines, name).items():
            print(f"{name} test {metric}: {mean:.4f}, standard deviation {deviation:.4f}, {seeds} seeds")


if __name__ == "__main__":
    main()
