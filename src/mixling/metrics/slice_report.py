"""What `evaluate --by` reports of slices: as a table, as HTML and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from mixling.errors import printable
from mixling.metrics.base import metric_title
from mixling.metrics.slices import LEVEL, Slice
from mixling.notebook import html_table
from mixling.tables import fit_columns

_SHOWN_WORST = 5
_SHOWN_RATES = 8
_NAME = 44  # characters
_MARK = f"* another value than the other rows' (p < {LEVEL:g}, corrected by Holm's method)"


@dataclass(frozen=True, kw_only=True)
class SliceReport:
    """The scores of slices; all chances are corrected together.

    Attributes:
        metric: the name of the score of a row, whose mean is shown.
        beside: the name of a metric of each value's rows; "": there is none.
        columns: the slices of each column's values.
        worst: the worst ones among columns, words of the text, unknown words and pairs of them.
        rates: how often each label is the answer, by value, the most certain differences first.
        left_out: columns that are no slices, with the reason.
    """

    metric: str
    beside: str
    columns: dict[str, list[Slice]]
    worst: list[Slice]
    rates: list[Slice]
    left_out: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""

        def values(slices: Sequence[Slice]) -> list[dict[str, Any]]:
            return list(map(Slice.to_dict, slices))

        return {
            "metric": self.metric,
            "beside": self.beside,
            "correction": "Holm",
            "columns": {name: values(part) for name, part in self.columns.items()},
            "worst": values(self.worst),
            "rates": values(self.rates),
            "left_out": self.left_out,
        }

    def _sections(self, *, short: bool) -> list[tuple[str, str, list[Slice]]]:
        """Return the titles of tables, the names of their values, and their slices."""
        metric = metric_title(self.metric)
        tables: list[tuple[str, str, list[Slice]]] = []
        for name, part in self.columns.items():
            tables.append((f"by {name}", metric, part))
        if worst := self.worst[: _SHOWN_WORST if short else None]:
            remark = "" if any(map(attrgetter("significant"), worst)) else ", none of them worse than chance makes one"
            tables.append((f"the worst slices{remark}", metric, worst))
        if rates := list(filter(attrgetter("significant"), self.rates)):
            title = f"labels that some rows get more often than others, {len(rates)} differences"
            tables.append((title, "rate", rates[: _SHOWN_RATES if short else None]))
        return tables

    def __str__(self) -> str:
        return self.table(None)

    def table(self, width: int | None) -> str:
        """Return the tables as text.

        Args:
            width: characters of a line; None: any.
        """
        parts = []
        for title, value, slices in self._sections(short=True):
            header, rows = _cells(slices, value, self.beside)
            columns = dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))
            table = fit_columns(columns, width, drop=("p", "among labels", "difference"), left=("label",))
            parts.append(f"{title}\n{table}")
        lines = [_MARK]
        for name, reason in self.left_out.items():
            lines.append(f"no slices by {printable(name)}: it {reason}")
        return "\n\n".join([*parts, "\n".join(lines)])

    def _repr_html_(self) -> str:
        tables = []
        for title, value, slices in self._sections(short=False):
            header, rows = _cells(slices, value, self.beside)
            tables.append(html_table(header, rows, caption=title))
        return "\n".join([*tables, f"<p>{_MARK}</p>"])


def _cells(slices: Sequence[Slice], value: str, beside: str) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a table."""
    has_label = any(item.label for item in slices)
    has_expected = any(item.expected is not None for item in slices)
    has_metric = any(item.metric is not None for item in slices)
    header = ["slice", *["label"] * has_label, "rows", value, "95%", "others", "difference"]
    rows = []
    for item in slices:
        name = printable(item.name)
        name = name if len(name) <= _NAME else name[: _NAME - 1] + "…"
        interval = f"{item.interval.low:.3f}-{item.interval.high:.3f}"
        others, difference = "-", "-"
        if not math.isnan(item.rest):
            others = f"{item.rest:.3f}"
            difference = f"{item.value - item.rest:+.3f}{'*' if item.significant else ' '}"
        labels = [printable(item.label)] if has_label else []
        row = [name, *labels, f"{item.rows:,}", f"{item.value:.3f}", interval, others, difference]
        row += ["-" if item.expected is None else f"{item.expected:.3f}"] * has_expected
        if item.metric is not None and item.metric_interval is not None:
            row += [f"{item.metric:.3f}", f"{item.metric_interval.low:.3f}-{item.metric_interval.high:.3f}"]
        rows.append([*row, f"{item.chance:.2g}"])
    more = [metric_title(beside), "95% of it"] * has_metric
    return [*header, *["among labels"] * has_expected, *more, "p"], rows
