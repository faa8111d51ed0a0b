"""Tables of mixling's own models, beside baselines and with other settings."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from text_sets import SETS

from tables.markdown import as_markdown, fraction, interval, percent, percent_spread, percents, read_results, spread

BASELINES = {"tf-idf": "TF-IDF + LR", "fasttext": "fastText", "embeddings": "MiniLM + LR"}
LEXICAL = ("tf-idf", "fasttext")
BRANCH = (
    "network, accuracy",
    "network and n-gram branch, accuracy",
    "seeds",
    "log-loss of the network, and with the branch",
    "calibration error before calibration, after, with the branch",
    "beside TF-IDF over words",
    "beside TF-IDF over words and characters",
    "file",
    "seconds of CPU, network and branch",
)
SYSTEMS = {
    "default": "`mixling train`",
    "tfidf": "TF-IDF + logistic regression",
    "encoder": "all-MiniLM-L6-v2 + logistic regression",
    "student": "`mixling distill --teacher encoder:DIR --unlabeled FILE`",
}
TITLES = {"snips": "SNIPS", "cola": "CoLA", "clinc150": "CLINC150", "sst2": "SST-2"}


def own_models(folder: Path) -> str:
    """Classifiers beside the baselines of `mixling compare`, in the order of SETS."""
    lines = [line for line in read_results(folder, "own_models") if line["measure"] == "accuracy"]
    rows = [["set", "model", "initialized from", "teacher", "test, mean ± sd (seeds)", *BASELINES.values()]]
    rows[0] += ["ahead of the best, 95%", "calibration error (by chance)", "MB", "seconds", "8-bit agreement, %"]
    for line in sorted(lines, key=lambda line: (list(SETS).index(line["set"]), line["teacher"] or "", line["start"])):
        seeds = line["seeds"]
        name = [line["set"], line["model"].removeprefix("mixling-") + "".join(f", {item}" for item in line["changes"])]
        costs = [
            f"{max(one['bytes'] for one in seeds) / 1e6:.2f}",
            f"{statistics.median(one['seconds'] for one in seeds):.0f}",
            percent(min(1.0 if one["agreement"] is None else one["agreement"] for one in seeds)),
        ]
        start = "reviews" if line["start"] or line["teacher"] else "rows"
        accuracies = [one["test"]["accuracy"] for one in seeds]
        found = f"{percent_spread(accuracies)} ({percents(accuracies)})"
        baselines = line["baselines"]
        beside = [percent(baselines[one]["test"]) if one in baselines else "" for one in BASELINES]
        apart = best_of(baselines)["difference"]
        ahead = interval(apart["mean"], apart["low"], apart["high"])
        means = [
            f"{statistics.mean(one['test'][key] for one in seeds):.3f}"
            for key in ("calibration_error", "calibration_error_by_chance")
            if key in seeds[0]["test"]
        ]
        error = " ".join([*means[:1], *(f"({chance})" for chance in means[1:])])
        rows.append([*name, start, line["teacher"] or "", found, *beside, ahead, error, *costs])
    return as_markdown(rows)


def best_of(found: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the results of the best of those baselines that need no pretrained model, chosen by validation."""
    return max((found[name] for name in LEXICAL if name in found), key=lambda one: float(one["validation"]))


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
        rows.append([set_, names.get(variant, variant), *map(percent, means)])
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


def ngram_powers(folder: Path) -> str:
    """The n-gram branch by how much less is regularized what distinguishes labels: means on validation."""
    lines = {found["set"]: found["lines"] for found in read_results(folder, "ngrams") if found["part"] == "ratios"}
    rows = [["power", "SST-2: loss, accuracy", "CoLA", "SNIPS", "CPU seconds (SST-2, CoLA, SNIPS)"]]
    for power in (0, 0.5, 1, None):
        found = [[line for line in lines[name] if line["power"] == power] for name in ("sst2", "cola", "snips")]
        rows.append(["chosen" if power is None else f"{power:g}"])
        for seeds in found:
            loss = fraction(_mean(seeds, "mixture_loss"), 4)
            rows[-1].append(f"{loss}, {percent(_mean(seeds, 'accuracy'))}%")
        rows[-1].append(", ".join(f"{_mean(seeds, 'seconds'):.1f}" for seeds in found))
    return as_markdown(rows)


def ngram_branch(folder: Path) -> str:
    """Models without the n-gram branch and with it, on test."""
    found = {one["set"]: one for one in read_results(folder, "ngrams") if one["part"] == "test"}
    columns = [["", *BRANCH], *([TITLES[name], *_with_branch(found[name])] for name in ("clinc150", "snips", "sst2"))]
    return as_markdown(list(zip(*columns, strict=True)))


def _with_branch(found: dict[str, Any]) -> list[str]:
    """A column of BRANCH."""
    seeds, baselines = found["lines"], {one["features"]: one["difference"] for one in found["baselines"]}
    network, both, raw = ([seed[key] for seed in seeds] for key in ("network", "with_branch", "uncalibrated"))
    column = [f"{100 * _mean(model, 'accuracy'):.2f}%" for model in (network, both)]
    column.append(", ".join(f"{100 * seed['accuracy']:.2f}" for seed in both))
    column.append(", ".join(fraction(_mean(model, "log_loss")) for model in (network, both)))
    column.append(", ".join(fraction(_mean(model, "calibration_error")) for model in (raw, network, both)))
    for features in ("word", "word+char"):
        apart = baselines.get(features)
        column.append(interval(apart["mean"], apart["low"], apart["high"]) if apart else "not measured")
    column.append(f"{max(seed['bytes'] for seed in seeds) / 1e6:.2f} MB")
    return [*column, ", ".join(f"{_mean(seeds, f'seconds_{part}'):.2g}" for part in ("network", "branch"))]


def batch_size(folder: Path) -> str:
    """Validation accuracy and CPU seconds by examples per step."""
    lines = read_results(folder, "batch_size")["results"]
    rows = [["examples per step, rate", *TITLES.values(), "CPU seconds"]]
    for setting, name in (("64", "64, 0.002"), ("256+train.optim.lr=3e-3", "256, 0.003")):
        found = [[line for line in lines if (line["set"], line["batch_size"]) == (set_, setting)] for set_ in TITLES]
        rows.append([name])
        for set_, seeds in zip(TITLES, found, strict=True):
            deviation = 100 * statistics.stdev(seed["val_accuracy"] for seed in seeds)
            digits = 1 if set_ == "sst2" else 2
            mean = f"{100 * _mean(seeds, 'val_accuracy'):.{digits}f}"
            rows[-1].append(f"{mean} ± {fraction(deviation, digits)}")
        rows[-1].append(", ".join(f"{_mean(seeds, 'cpu_s'):.0f}" for seeds in found))
    return as_markdown(rows)


def refit(folder: Path) -> str:
    """What a refit on all labeled examples brings, in percent."""
    lines = read_results(folder, "refit")
    rows = [["examples", "`mixling train`", "with `--refit`"]]
    for set_, examples in dict.fromkeys((line["set"], line["examples"]) for line in lines):
        found = [line for line in lines if (line["set"], line["examples"]) == (set_, examples)]
        means = [percent(_mean([line[kind] for line in found], "accuracy")) for kind in ("plain", "refit")]
        rows.append([f"{TITLES[set_]}, {examples}", *means])
    return as_markdown(rows)


def few_labels(folder: Path) -> str:
    """SNIPS by the number of examples per label."""
    lines = read_results(folder, "few_labels")
    rows = [["examples per label", "`mixling train`, mean", "seeds 0, 1, 2", "TF-IDF, mean", "seeds 0, 1, 2"]]
    for count in sorted({line["count"] for line in lines if line["set"] == "snips"}):
        accuracies = [_mean_beside_seeds(lines, "snips", count, system) for system in ("default", "tfidf")]
        rows.append([str(count), *accuracies[0], *accuracies[1]])
    return as_markdown(rows)


def few_labels_systems(folder: Path) -> str:
    """All systems with ten examples per label."""
    lines = read_results(folder, "few_labels")
    rows = [["system", "SNIPS, mean", "seeds 0, 1, 2", "CLINC150, mean", "seeds 0, 1, 2"]]
    for system, name in SYSTEMS.items():
        accuracies = [_mean_beside_seeds(lines, set_, 10, system) for set_ in ("snips", "clinc150")]
        rows.append([name, *accuracies[0], *accuracies[1]])
    return as_markdown(rows)


def _mean_beside_seeds(lines: list[dict[str, Any]], set_: str, count: int, system: str) -> list[str]:
    """Accuracy on test, in percent: the mean, and each seed; empty where there are fewer than three."""
    found = [line for line in lines if (line["set"], line["count"], line["split"]) == (set_, count, "test")]
    values = [line[system]["accuracy"] for line in found if system in line]
    return [percent(statistics.mean(values)), percents(values)] if len(values) >= 3 else ["", ""]


def _mean(lines: Iterable[Mapping[str, Any]], key: str) -> float:
    return statistics.mean(line[key] for line in lines)
