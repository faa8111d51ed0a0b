"""Tables of mixling's own models."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path

from tables.markdown import as_markdown, fraction, read_results, spread

SLOTS = ("word_accuracy", "word_accuracy_without_o", "span_f1", "sentence_accuracy")


def slots(folder: Path) -> str:
    """Taggers of MTOP English: the papers' sizes and mixling's own, on the test split."""
    rows = [["model", "word accuracy", "without O", "span F1", "sentence accuracy", "paper's exact match", "commit"]]
    lines = read_results(folder, "accuracy", "benchmarks")
    plain = [line for line in lines if line["run"] == "mtop_en:x-small"]
    rows.append(["X-SMALL", *_metrics(line["test"] for line in plain), ".774", plain[0]["provenance"]["commit"][:7]])
    results = read_results(folder, "pnlp_mixer")
    for label, row in results.get("table 5, ours", {}).items():
        if len(row["seeds"]) >= 3:
            paper = "" if row["paper"] is None else fraction(row["paper"] / 100)
            tested = _metrics(seed["test"] for seed in row["seeds"])
            rows.append([label, *tested, paper, row["provenance"]["commit"][:7]])
    for line in read_results(folder, "own_models"):
        if line["set"] == "mtop_en":
            tested = _metrics(seed["test"] for seed in line["seeds"])
            rows.append([line["model"], *tested, "", line["provenance"]["commit"][:7]])
    return as_markdown(rows)


def _metrics(seeds: Iterable[dict[str, float]]) -> list[str]:
    found = list(seeds)
    return [spread([seed[metric] for seed in found]) for metric in SLOTS]


def fine_tuned(folder: Path) -> str:
    """A fine-tuned MiniLM beside the models of `mixling train` without other text; one row for each set."""
    tuned = {(line["set"], line["seed"]): line for line in read_results(folder, "fine_tuned")}
    rows = [["set", "mixling", "MiniLM fine-tuned (seeds)", "learning rates tried"]]
    for line in read_results(folder, "own_models"):
        lines = [tuned[key] for key in sorted(tuned) if key[0] == line["set"]]
        if line["measure"] == "accuracy" and not line["start"] and not line["teacher"]:
            own = spread([seed["test"]["accuracy"] for seed in line["seeds"]])
            accuracy = (
                f"{fraction(statistics.mean(one['test'] for one in lines))} ({len(lines)})" if lines else "not run"
            )
            rates = sorted({float(rate) for one in lines for rate in one["validation"]})
            rows.append([line["set"], own, accuracy, ", ".join(f"{rate:g}" for rate in rates)])
    return as_markdown(rows)


def noise(folder: Path) -> str:
    """Accuracy on test with three tenths of the words changed: the default, without typos in training, baselines."""
    lines = read_results(folder, "robustness")
    columns = ["clean", *(f"{kind} 0.3" for kind in ("swap", "delete", "insert", "keyboard", "ocr", "emoji"))]
    rows = [["set", "model", *(column.removesuffix(" 0.3") for column in columns)]]
    names = {"before": "without changes of training texts", "tf-idf word": "TF-IDF of words"}
    names["tf-idf word+char"] = "TF-IDF of words and characters"
    for set_, variant in sorted({(line["set"], line["variant"]): None for line in lines}, key=_default_first):
        found = [line["test"] for line in lines if (line["set"], line["variant"]) == (set_, variant)]
        means = [statistics.mean(one[column] for one in found) for column in columns]
        rows.append([set_, names.get(variant, variant), *(f"{100 * mean:.1f}" for mean in means)])
    return as_markdown(rows)


def _default_first(key: tuple[str, str]) -> tuple[str, bool, str]:
    return key[0], key[1] != "default", key[1]


def patience(folder: Path) -> str:
    """What early stopping saves, and how many trainings it ends before the evaluation that is chosen."""
    results = read_results(folder, "patience")
    rows = [["evaluations without", "number", "evaluations saved", "ended too early"]]
    for rule in results["rules"]:
        kind = "a better one or a lower loss" if rule["either"] else "a better one"
        rows.append([kind, str(rule["patience"]), f"{100 * rule['saved']:.0f}%", str(len(rule["too_early"]))])
    return as_markdown(rows)
