"""The report of a search: a table of all trials, plots, and lines for a terminal."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from mixling.export.figures import new_figure, save
from mixling.runs.plots import if_possible
from mixling.storage import write_atomic
from mixling.training.callbacks import Log
from mixling.tuning.expected import expected_best
from mixling.tuning.space import Dimension, Space, Value
from mixling.tuning.study import Result
from mixling.tuning.tune import Search

TABLE_FILE = "trials.csv"
EXPECTED_FILE = "expected.png"
PARALLEL_FILE = "parallel_coordinates.png"
IMPORTANCE_FILE = "importance.png"
_SHOWN = (1, 2, 5, 10, 20, 40, 80, 160, 320, 640)  # numbers of trials in the table for a terminal


def write_table(results: Sequence[Result], folder: Path, *, metric: str) -> None:
    """Write all trials as CSV, with a column for each key of their spaces."""
    keys = list(dict.fromkeys(key for result in results for key in result.params))
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["model", "trial", "state", metric, "loss", "seconds", *keys, "error"])
    for result in results:
        values = [result.params.get(key, "") for key in keys]
        number = "default" if result.number is None else result.number
        numbers = map(_cell, (result.value, result.loss, result.seconds))
        table.writerow([result.model, number, result.state, *numbers, *values, result.error or ""])
    write_atomic(folder / TABLE_FILE, out.getvalue())


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def complete_trials(results: Sequence[Result], model: str) -> list[Result]:
    """Return the complete trials of a model, without its default configuration."""
    return [item for item in results if item.model == model and item.number is not None and item.value is not None]


def expected_lines(
    results: Sequence[Result], models: Sequence[str], *, less_is_better: bool, room: int | None = None
) -> list[str]:
    """Return a table of the expected best metric of n random trials, for the models with complete trials.

    Args:
        room: characters of a line, which has fewer numbers of trials where it is narrow; None: any.
    """
    observed = {
        model: values for model in models if (values := [item.value or 0 for item in complete_trials(results, model)])
    }
    if not observed:
        return []
    most = max(map(len, observed.values()))
    counts = [number for number in _SHOWN if number < most] + [most]
    width = max(map(len, ("trials", *observed)))
    while len(counts) > 2 and room is not None and width + 8 * len(counts) > room:
        del counts[-2]
    lines = [f"{'trials':<{width}}" + "".join(f"{number:>8}" for number in counts)]
    for model, values in observed.items():
        mean = expected_best(values, counts, less_is_better=less_is_better).mean
        cells = (
            f"{value:>8.4f}" if number <= len(values) else " " * 8 for number, value in zip(counts, mean, strict=True)
        )
        lines.append(f"{model:<{width}}" + "".join(cells))
    return [line.rstrip() for line in lines]


def plot_expected(
    results: Sequence[Result], models: Sequence[str], path: Path, *, metric: str, less_is_better: bool
) -> None:
    """Plot the expected best metric of each model against the number of trials, and against their time.

    The bands have one standard deviation. Source: HyperMixer, Figure 4; Dodge et al. 2019.

    Raises:
        StorageError, MissingPackage: see `mixling.export.figures`.
    """
    figure = new_figure(10.0, 4.2)
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    by_trials, by_time = figure.subplots(1, 2, sharey=True)
    for model in models:
        found = complete_trials(results, model)
        if not found:
            continue
        values = [item.value or 0.0 for item in found]
        seconds = [item.seconds for item in found if item.seconds is not None]
        counts = np.arange(1, len(values) + 1)
        mean, deviation = expected_best(values, counts.tolist(), less_is_better=less_is_better)
        minutes = counts * (float(np.mean(seconds)) if seconds else math.nan) / 60
        for axes, x in ((by_trials, counts), (by_time, minutes)):
            (line,) = axes.plot(x, mean, label=model)
            low, high = np.clip((mean - deviation, mean + deviation), min(values), max(values))
            axes.fill_between(x, low, high, color=line.get_color(), alpha=0.15)
    by_trials.set_ylabel(f"expected best validation {metric}")
    by_trials.set_xlabel("trials")
    by_time.set_xlabel("minutes of training")
    most = max((len(complete_trials(results, model)) for model in models), default=0)
    for axes in (by_trials, by_time):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter() if most > 10 else StrMethodFormatter("{x:.2g}"))
        axes.grid(alpha=0.3)
    by_trials.legend()
    save(figure, path)


def plot_parallel(results: Sequence[Result], space: Space, path: Path, *, metric: str, less_is_better: bool) -> None:
    """Plot the trials of one model as lines over the keys of its space; the color is the rank of the metric.

    Raises:
        StorageError, MissingPackage: see `mixling.export.figures`.
    """
    figure = new_figure(2.0 + 1.5 * (len(space) + 1), 4.5)
    import matplotlib

    axes = figure.add_subplot()
    values = np.array([item.value for item in results], float)
    _, rank = np.unique(values, return_inverse=True)
    rank = rank / max(rank.max(), 1)
    colors = matplotlib.colormaps["viridis"](1 - rank if less_is_better else rank)
    span = float(np.ptp(values)) or 1.0
    rows = [
        [_height(space[key], result.params[key]) for key in space] + [(value - values.min()) / span]
        for result, value in zip(results, values, strict=True)
    ]
    for index in np.argsort(-rank if less_is_better else rank):  # the best on top
        axes.plot(rows[index], color=colors[index], alpha=0.8)
    ends = [_ends(item) for item in space.values()] + [(f"{values.min():.4g}", f"{values.max():.4g}")]
    for x, (low, high) in enumerate(ends):
        axes.vlines(x, 0, 1, color="black", linewidth=0.8)
        axes.text(x, -0.02, low, ha="center", va="top", fontsize=8, parse_math=False)
        axes.text(x, 1.02, high, ha="center", va="bottom", fontsize=8, parse_math=False)
    axes.set_xticks(range(len(ends)), [*(_two_lines(key) for key in space), metric], fontsize=8)
    axes.tick_params(axis="x", pad=14, length=0)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_ylim(-0.08, 1.08)
    save(figure, path)


def plot_importance(importances: Mapping[str, float], path: Path) -> None:
    """Plot the importance of each key as bars.

    Raises:
        StorageError, MissingPackage: see `mixling.export.figures`.
    """
    names = sorted(importances, key=lambda name: importances[name])
    figure = new_figure(7.0, 1.2 + 0.35 * len(names))
    axes = figure.add_subplot()
    axes.barh(range(len(names)), [importances[name] for name in names])
    axes.set_yticks(range(len(names)), names, fontsize=9, parse_math=False)
    axes.set_xlabel("importance (PED-ANOVA)")
    save(figure, path)


def _height(item: Dimension, value: Value) -> float:
    """Return where a value is between the ends of its axis, from 0 to 1."""
    if item.choices is not None:
        return item.choices.index(value) / max(len(item.choices) - 1, 1)
    assert item.low is not None
    assert item.high is not None
    scale: Callable[[float], float] = math.log if item.log else float
    low = scale(item.low)
    high = scale(item.high)
    return (scale(float(value)) - low) / ((high - low) or 1.0)


def _ends(item: Dimension) -> tuple[str, str]:
    low, high = (item.choices[0], item.choices[-1]) if item.choices is not None else (item.low, item.high)
    return _shown(low), _shown(high)


def _shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _two_lines(key: str) -> str:
    parent, _, leaf = key.rpartition(".")
    return f"{leaf}\n({parent})" if parent else leaf


def trial_line(result: Result) -> str:
    """Return the values of a trial on one line, in the form of `--set`."""
    return " ".join(f"{key}={_shown(value)}" for key, value in result.params.items()) or "the default configuration"


def write_reports(search: Search, *, metric: str, log: Log) -> None:
    """Write the table of trials into the folder of a search, and the plots that there are enough trials for.

    Raises:
        StorageError: a file cannot be written.
    """
    plan = search.plan
    results = search.results()
    folder = search.folder
    write_table(results, folder, metric=metric)
    models = [model for model in plan.bases if len(complete_trials(results, model)) > 1]

    def draw() -> None:
        less = plan.less_is_better
        plot_expected(results, models, folder / EXPECTED_FILE, metric=metric, less_is_better=less)
        for model in models:
            prefix = f"{model}_" if len(plan.bases) > 1 else ""
            trials = complete_trials(results, model)
            path = folder / f"{prefix}{PARALLEL_FILE}"
            plot_parallel(trials, plan.spaces[model], path, metric=metric, less_is_better=less)
            if importances := search.studies.importances(model):
                plot_importance(importances, folder / f"{prefix}{IMPORTANCE_FILE}")

    if models:
        if_possible(draw, log)


def search_summary(search: Search, chosen: Result, *, metric: str, examples: int, room: int | None = None) -> list[str]:
    """Return lines with the best trial, what the default configuration reaches, and the expected performance.

    Args:
        examples: the number of validation examples.
        room: characters of a line; None: any.
    """
    plan = search.plan
    results = search.results()
    name = "the default configuration" if chosen.number is None else f"trial {chosen.number}"
    several = f" of {chosen.model}" if len(plan.bases) > 1 else ""
    default = search.studies.default(chosen.model)
    beside = "" if default is None or default.value is None else f" (default configuration {default.value:.4f})"
    lines = [f"best: {name}{several}, validation {metric} {chosen.value:.4f}{beside}"]
    if chosen.number is not None:
        lines.append(f"  {trial_line(chosen)}")
    states = [result.state for result in results]
    if count := states.count("failed"):
        lines.append(f"{count} trial{'s' * (count != 1)} failed; see {TABLE_FILE}")
    less = plan.less_is_better
    if table := expected_lines(results, [*plan.bases], less_is_better=less, room=room):
        lines += [f"expected best validation {metric} of n random trials:", *table]
    lines.append(
        f"these metrics are on the {examples:,} validation examples that the best was chosen by; on new text, expect "
        "lower ones"
    )
    return lines
