"""The results of a comparison as a table in text or Markdown, and as JSON."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from mixling.comparison.conclusion import conclusion_of
from mixling.comparison.evaluation import SystemResult
from mixling.comparison.outcome import Comparison
from mixling.comparison.speed import BATCH_TEXTS, ROUNDS, SINGLE_TEXTS
from mixling.metrics.base import metric_title
from mixling.metrics.intervals import RESAMPLES, Interval
from mixling.metrics.robustness import noise_cells, noise_values
from mixling.tables import fit_columns, in_blocks

_PAIRED = (
    f"of differences a paired bootstrap, {RESAMPLES:,} resamples of the rows. They cover the choice of rows, not "
    "repeated training."
)
_SEEDS = (
    "means over them, and their range. Seconds of training are of all seeds together; file and speed are of the first. "
    "A baseline is fitted once."
)
_SIZE = (
    "MB: model.onnx; of regressions what would have to be saved: weights in float32 (as value and index, where that "
    "is less) and the vocabulary as lines of text; fastText's as it saves itself, not quantized."
)
_SPEED = (
    f"train s: all that was tried on validation included. Speed: one thread, in turn on the same texts, medians of "
    f"{ROUNDS} "
    f"rounds; texts/s of up to {BATCH_TEXTS:,} texts in one call, p50 of {SINGLE_TEXTS} texts one by one. Our models "
    "keep what they computed for words; cold is the first call after loading, when they know none."
)


def as_text(found: Comparison, width: int = 100) -> str:
    """Return a table, the remarks and the conclusion, in lines of at most `width` characters.

    Columns that there is no room for are left out; Markdown and JSON have all, and say what each system is.
    """
    lines = [
        _table(found, width),
        *(in_blocks(table, width, keys=table[0].index(found.reference)) for table in _more_tables(found)),
        "",
    ]
    rows = f"{len(found.held_out.texts):,} {found.split} rows that no system was trained or chosen on"
    rows += "" if found.split == "test" else " (--test FILE names others)"
    notes = [f"{rows}; in brackets 95% intervals, paired for differences.", *found.remarks]
    lines += ["\n".join(textwrap.wrap(note, width, subsequent_indent="  ")) for note in notes]
    return "\n".join([*lines, "", *textwrap.wrap(conclusion_of(found).sentence, width)])


def _table(found: Comparison, width: int) -> str:
    """Return a row for each system, and how to get those that are missing."""
    metric = metric_title(found.task.headline)
    columns: dict[str, list[str]] = {
        "": [],
        metric: [],
        f"vs {found.reference}": [],
        "MB": [],
        "ms/text": [],
        "train s": [],
    }
    for one in found.systems:
        result = found.test[one.name]
        cells = iter(columns.values())
        difference = ""
        if result.difference is not None and result.difference_interval is not None:
            difference = _short(f"{result.difference:+.3f} {_shown(result.difference_interval, sign=True)}")
        values = (
            one.name,
            _short(f"{result.mean:.3f} {_shown(result.interval)}"),
            difference,
            f"{one.file_bytes / 1e6:.2f}",
            f"{1e3 * found.speeds[one.name].p50:.3f}",
            f"{sum(one.seconds):.1f}",
        )
        for value in values:
            next(cells).append(value)
    if (usual := type(found.task).headline) != found.task.headline:
        means = (np.mean([numbers[usual] for numbers in found.test[one.name].by_seed]) for one in found.systems)
        columns = {**columns, metric_title(usual): [_short(f"{mean:.3f}") for mean in means]}
        order = ["", metric, f"vs {found.reference}", metric_title(usual)]
        columns = {name: columns[name] for name in (*order, *(one for one in columns if one not in order))}
    text = fit_columns(columns, width, drop=[*columns][:2:-1])
    missing = [
        line
        for one in found.failed
        for line in textwrap.wrap(f"{one.name}  {one.reason}", width, subsequent_indent="  ")
    ]
    return "\n".join([text, *missing])


def _short(text: str) -> str:
    """Return numbers below 1 without their zero, which 80 columns have no room for."""
    return re.sub(r"(?<!\d)0\.", ".", text)


def as_markdown(found: Comparison, command: str) -> str:
    """Return all columns, what each system is, and all remarks as Markdown."""
    tables = [_cells(found), *_more_tables(found)]
    lines = [line for table in tables for line in (*_markdown(table), "")]
    legend = [f"- *{name}*: {about}" for name, about in _legend(found)]
    notes = [f"- {note}" for note in _notes(found)]
    heading = ["# Comparison", "", f"    {command}", "", conclusion_of(found).sentence, ""]
    return "\n".join([*heading, *lines, *legend, "", *notes]) + "\n"


def to_dict(found: Comparison, origin: dict[str, Any]) -> dict[str, Any]:
    """Return all numbers as JSON values."""
    results = [
        {
            "name": one.name,
            "about": one.about,
            "chosen": one.options,
            "tried": list(map(asdict, one.tried)),
            "parameters": one.parameters,
            "file_bytes": one.file_bytes,
            "train_seconds": list(one.seconds),
            "validation": {
                "metric": found.task.metric,
                "mean": sum(one.validation) / len(one.validation),
                "by_seed": list(one.validation),
            },
            "test": _numbers(found.test[one.name]),
            "speed": asdict(found.speeds[one.name]),
            "noise": noise_values(found.noisy[one.name]) if found.noisy else None,
            "few": {str(count): values.get(one.name) for count, values in found.few.items()} or None,
        }
        for one in found.systems
    ]
    return {
        "provenance": origin,
        "conclusion": asdict(conclusion_of(found)),
        "metric": found.task.headline,
        "reference": found.reference,
        "split": found.split,
        "rows": found.rows,
        "seeds": list(found.seeds),
        "results": results,
        "failed": list(map(asdict, found.failed)),
        "remarks": _notes(found),
    }


def _numbers(result: SystemResult) -> dict[str, Any]:
    """Return scores as JSON values; of metrics that are undefined, such as a correlation with a constant, null."""
    by_seed = [
        {name: value if math.isfinite(value) else None for name, value in numbers.items()} for numbers in result.by_seed
    ]
    return {**asdict(result), "by_seed": by_seed}


def _more_tables(found: Comparison) -> list[list[list[str]]]:
    """Return the tables with noise and with few examples, if any."""
    last = {name: result.mean for name, result in found.test.items()}
    out = []
    if found.noisy:
        out.append(noise_cells(last, found.noisy))
    if found.few:
        curve = {**{f"{count:,}": values for count, values in found.few.items()}, "all": last}
        rows = [
            [count, *(f"{values[name]:.4f}" if name in values else "-" for name in last)]
            for count, values in curve.items()
        ]
        out.append([["per label", *last], *rows])
    return out


def _markdown(table: Sequence[Sequence[str]]) -> list[str]:
    header, *lines = (" | ".join(cells) for cells in table)
    rule = "|".join(["---", *("---:" for _ in table[0][1:])])
    return [f"| {header} |", f"|{rule}|", *(f"| {line} |" for line in lines)]


def _cells(found: Comparison) -> list[list[str]]:
    second = next(name for name in (type(found.task).headline, *found.task.aside) if name != found.task.headline)
    evaluate, aside = map(metric_title, (found.task.headline, second))
    several = len(found.seeds) > 1
    header = ["", f"{found.split} {evaluate}"]
    header += [f"{found.split} seeds"] * several
    header += [f"vs {found.reference}", aside, "parameters", "MB", "train s", "texts/s", "cold", "p50 ms"]
    out = [header]
    for one in found.systems:
        result = found.test[one.name]
        speed = found.speeds[one.name]
        values = [numbers[found.task.headline] for numbers in result.by_seed]
        row = [one.name, f"{result.mean:.3f} {_shown(result.interval)}"]
        if several:
            row.append(f"{min(values):.3f}-{max(values):.3f}" if len(values) > 1 else "-")
        difference = result.difference
        interval = result.difference_interval
        if difference is None or interval is None:
            row.append("-")
        else:
            row.append(f"{difference:+.3f} {_shown(interval, sign=True)}")
        beside = sum(numbers[second] for numbers in result.by_seed) / len(result.by_seed)
        row += [
            f"{beside:.3f}" if math.isfinite(beside) else "-",
            f"{one.parameters:,}",
            f"{one.file_bytes / 1e6:.2f}",
            f"{sum(one.seconds):.1f}",
            f"{speed.texts_per_second:,.0f}",
            f"{speed.cold_texts_per_second:,.0f}",
            f"{1e3 * speed.p50:.3f}",
        ]
        out.append(row)
    out += [[one.name, "failed", *["-"] * (len(header) - 2)] for one in found.failed]
    return out


def _shown(interval: Interval, *, sign: bool = False) -> str:
    low, high = (f"{value:+.3f}" if sign else f"{value:.3f}" for value in (interval.low, interval.high))
    return f"[{low}, {high}]"


def _legend(found: Comparison) -> list[tuple[str, str]]:
    out = []
    for one in found.systems:
        chosen = ", ".join(f"{key.replace('_', ' ')} {_value(value)}" for key, value in one.options.items())
        mean = sum(one.validation) / len(one.validation)
        metric = found.task.metric.replace("_", " ")
        out.append((one.name, f"{one.about} ({chosen}; {metric} {mean:.4f} on validation, where it was chosen)"))
    return out + [(one.name, f"{one.about}; failed: {one.reason}") for one in found.failed]


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "/".join(dict.fromkeys(map(_value, value)))
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _notes(found: Comparison) -> list[str]:
    rows = ", ".join(f"{count:,} {split}" for split, count in found.rows.items())
    chose = "validation chose epochs and options" + (
        ", and was trained on afterwards, as by `mixling train`" * found.fits_validation
    )
    if found.split == "test":
        chose += "; test was read once, after all choices"
    else:
        chose += (
            "; the held-out rows, a part of the training files, were set aside before, so that no system was trained "
            "or chosen on them (--test FILE names others)"
        )
    interval = (
        f"of {RESAMPLES:,} resamples of {found.task.resamples or 'the rows'}"
        if found.task.resamples or found.task.headline != type(found.task).headline
        else "Wilson's score interval"
    )
    notes = [f"rows: {rows}. {chose}.", f"In brackets 95% intervals: {interval}; {_PAIRED}"]
    if found.task.less_is_better:
        notes.append(f"Lower is better for {metric_title(found.task.headline)}.")
    if len(found.seeds) > 1:
        notes.append(f"Seeds {', '.join(map(str, found.seeds))}: {_SEEDS}")
    if found.noisy:
        what = metric_title(found.task.headline)
        notes.append(f"Noise: {what} on the {found.split} texts, with the change in points in parentheses.")
    if found.few:
        notes.append("Few examples: training examples per label, a fraction of them for validation; all trained anew.")
    notes += [_SIZE, _SPEED]
    return [*notes, *found.remarks]
