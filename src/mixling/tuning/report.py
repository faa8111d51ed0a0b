"""The report of a search: a table of all trials, a plot, and lines for a terminal."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mixling.export.figures import new_figure, save
from mixling.runs.plots import if_possible
from mixling.storage import write_atomic
from mixling.training.callbacks import Log
from mixling.tuning.expected import expected_best
from mixling.tuning.study import Result
from mixling.tuning.tune import Search

TABLE_FILE = "trials.csv"
EXPECTED_FILE = "expected.png"
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


def _shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def trial_line(result: Result) -> str:
    """Return the values of a trial on one line, in the form of `--set`."""
    return " ".join(f"{key}={_shown(value)}" for key, value in result.params.items()) or "the default configuration"


def write_reports(search: Search, *, metric: str, log: Log) -> None:
    """Write the table of trials into the folder of a search, and the plot if there are enough trials for it.

    Raises:
        StorageError: a file cannot be written.
    """
    plan = search.plan
    results = search.results()
    folder = search.folder
    write_table(results, folder, metric=metric)
    models = [model for model in plan.bases if len(complete_trials(results, model)) > 1]

    def draw() -> None:
        plot_expected(results, models, folder / EXPECTED_FILE, metric=metric, less_is_better=plan.less_is_better)

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
