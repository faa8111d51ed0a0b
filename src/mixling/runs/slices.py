"""Where a model is worse: its score by the columns of a file, by the length of texts and by their unknown words."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from mixling.answers.predictions import Prediction
from mixling.data.config import ColumnsConfig
from mixling.data.examples import Example, RowReader, names_of
from mixling.data.kept import KeptColumns
from mixling.data.readers import OnBadRow, read_rows
from mixling.drift.profile import KnownWords, Profile, profile_words, unknown_fraction
from mixling.drift.report import labels_of
from mixling.errors import ConfigError
from mixling.features.cells import as_cell
from mixling.metrics.base import LESS_IS_BETTER, Score
from mixling.metrics.slice_report import SliceReport
from mixling.metrics.slices import Floats, Slice, SliceColumn, each_value, worst_slices
from mixling.tasks.base import Task

LENGTH, UNKNOWN = "words", "unknown words"
_MOST_VALUES = 20  # of a column; the others are one
_OTHERS = "(others)"
_MISSING = "(missing)"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?")
_LEAST_IN_VALUE = 5  # rows: of a column with rarer values auto makes no slices


class SlicedRows:
    """Remembers the columns of rows while examples are read.

    Args:
        by: the names of columns; None: all that stand in the first row of the first file, but for `columns`.

    Raises:
        ConfigError: a column is the text.
        DataError: the first file cannot be read.
    """

    def __init__(self, by: Sequence[str] | None, sources: Sequence[str], columns: ColumnsConfig) -> None:
        read = columns.names() - set(columns.beside)
        self.is_auto = by is None
        if by is None:
            row = next(iter(read_rows(sources[0], on_bad_row=OnBadRow("skip"))), None)
            by = [name for name in (row.values if row else {}) if name not in read]
        elif columns.text in by:
            raise ConfigError(f"--by: {columns.text} is the column of the texts; name one that few values stand in")
        self.names = tuple(by)
        self._kept = KeptColumns(self.names, option="--by", required=not self.is_auto)
        self._cells: dict[str, list[str | None]] = {name: [] for name in self.names}
        self._lists: set[str] = set()

    def reader(self, reader: type[RowReader]) -> type[RowReader]:
        """Return a reader of the same examples."""
        return self._kept.reader(reader)

    def watch(self, examples: Iterable[Example]) -> Iterator[Example]:
        """Yield the examples that this reader makes."""
        for example in examples:
            values = self._kept.take(example.line)
            for name, cells in self._cells.items():
                try:
                    cells.append(as_cell(values.get(name)))
                except TypeError:
                    self._lists.add(name)
                    cells.append(None)
            yield example

    def dimensions(self) -> tuple[list[SliceColumn], dict[str, str]]:
        """Return the columns as dimensions, and why others are none.

        Raises:
            ConfigError: a column that was named is none.
        """
        found: list[SliceColumn] = []
        left_out: dict[str, str] = {}
        for name, cells in self._cells.items():
            if name in self._lists:
                left_out[name] = "has lists or objects"
                continue
            dimension = column_dimension(name, cells)
            counts = np.bincount(dimension.codes, minlength=len(dimension.values))
            if len(dimension.values) < 2:
                left_out[name] = "has one value"
            elif dimension.values[-1] == _OTHERS and (counts[:-1].max() < _LEAST_IN_VALUE or self.is_auto):
                left_out[name] = f"has more than {_MOST_VALUES} values"
            else:
                found.append(dimension)
        if left_out and not self.is_auto:
            name = next(iter(left_out))
            raise ConfigError(f"--by: the column {name!r} {left_out[name]}; name one with 2 to {_MOST_VALUES} values")
        return found, left_out


def column_dimension(name: str, cells: Sequence[str | None]) -> SliceColumn:
    """Return the values of a column; many numbers or dates as four bins of about as many rows, rare values as one."""
    given: list[str | None] = []
    for cell in cells:
        given.append((cell or "").strip() or None)
    counts = Counter(filter(None, given))
    if len(counts) > _MOST_VALUES:
        if all(map(_NUMBER.fullmatch, counts)):
            return binned(name, given, float)
        if all(map(_DATE.fullmatch, counts)):
            return binned(name, given, lambda cell: cell[:10])
    frequent = sorted(counts, key=lambda value: (-counts[value], value))[:_MOST_VALUES]
    names: list[str] = []
    for value in given:
        names.append(_MISSING if value is None else value if value in frequent else _OTHERS)
    return _coded(name, names, [*frequent, _MISSING, _OTHERS])


def binned(name: str, cells: Sequence[Any], key: Callable[[Any], Any]) -> SliceColumn:
    """Return values in their order as up to four bins of about as many rows; None is a bin of its own.

    Args:
        key: makes a number, or a text with this order, of a value.
    """
    keys: list[Any] = []
    for cell in cells:
        keys.append(None if cell is None else key(cell))
    ordered = sorted(filter(lambda value: value is not None, keys))
    edges: list[Any] = []
    for part in (1, 2, 3):
        if (end := len(ordered) * part // 4) and ordered[end - 1] not in edges:
            edges.append(ordered[end - 1])
    inside: dict[int, list[Any]] = defaultdict(list)
    for value in ordered:
        inside[bisect_left(edges, value)].append(value)
    names: dict[int, str] = {}
    for place, values in inside.items():
        low, high = (f"{end:.4g}" if isinstance(end, float) else end for end in (values[0], values[-1]))
        names[place] = low if low == high else f"{low} to {high}"
    shown: list[str] = []
    for value in keys:
        shown.append(_MISSING if value is None else names[bisect_left(edges, value)])
    return _coded(name, shown, [*names.values(), _MISSING])


def _coded(name: str, cells: Sequence[str], values: Sequence[str]) -> SliceColumn:
    """Return cells as places in the values that occur."""
    met = set(cells)
    places: dict[str, int] = {}
    for value in values:
        if value in met:
            places.setdefault(value, len(places))
    return SliceColumn(name, np.array(list(map(places.__getitem__, cells)), np.int64), tuple(places))


def text_dimensions(examples: Sequence[Example], profile: Profile | None) -> list[SliceColumn]:
    """Return the number of words of texts, and their fraction of words that are rare in the model's texts.

    Args:
        profile: of the model's data; None: it keeps none, and no word is unknown.
    """
    known = None if profile is None else KnownWords(profile.known_words)
    lengths: list[float] = []
    fractions: list[float] = []
    for example in examples:
        words = profile_words(example.text)
        lengths.append(len(words))
        fractions.append(0.0 if known is None else round(unknown_fraction(words, known), 2))
    found = [binned(LENGTH, lengths, float), binned(UNKNOWN, fractions, float)]
    return [dimension for dimension in found if len(dimension.values) > 1]


def slice_report(
    task: Task,
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    rows: SlicedRows,
    *,
    profile: Profile | None,
) -> SliceReport:
    """Compare the slices of examples by the score of each: 1 for right answers, for numbers the absolute error.

    Args:
        predictions: for the examples.
        rows: which `watch` has seen the examples.
        profile: of the model's data.

    Raises:
        ConfigError: a column cannot be sliced by.
    """
    columns, left_out = rows.dimensions()
    name, scores, score = row_scores(task, examples, predictions)
    kind = type(task)
    known = filter(score.numbers.__contains__, (task.metric, kind.headline, *kind.aside))
    beside_name = next((metric for metric in known if metric != name), "")
    values: list[Slice] = []
    names: set[str] = set()
    for dimension in columns:
        names.add(dimension.name)
        values += each_value(
            dimension, scores, metric=(lambda some: score.sample(some)[beside_name]) if beside_name else None
        )
    rates = _rates(task, examples, predictions, columns)
    texts = [dimension for dimension in text_dimensions(examples, profile) if dimension.name not in names]
    worst, beside = worst_slices(
        [*columns, *texts], scores, less_is_better=name in LESS_IS_BETTER, beside=[*values, *rates]
    )
    by_column: dict[str, list[Slice]] = {}
    for item in beside[: len(values)]:
        by_column.setdefault(next(iter(item.where)), []).append(item)
    return SliceReport(
        metric=name,
        beside=beside_name,
        columns=by_column,
        worst=worst,
        rates=sorted(beside[len(values) :], key=lambda item: (item.chance, -abs(item.value - item.rest))),
        left_out=left_out,
    )


def row_scores(task: Task, examples: Sequence[Example], predictions: Sequence[Prediction]) -> tuple[str, Floats, Score]:
    """Return the metric that rows have, its value for each row (R,), and the score of all."""
    targets: list[Any] = []
    answers: list[Any] = []
    for example, prediction in zip(examples, predictions, strict=True):
        targets.append(example.answers if task.windows else example.target)
        answers.append(task.answer(prediction, example.text))
    score = task.score(targets, answers)
    if score.hits is not None:
        return type(task).headline, score.hits, score
    (name, *_) = filter(score.numbers.__contains__, ("sentence_accuracy", "exact_match", "mae"))
    values = np.zeros(score.rows)
    for row in range(score.rows):
        values[row] = score.sample(np.array([row]))[name]
    return name, values, score


def _rates(
    task: Task, examples: Sequence[Example], predictions: Sequence[Prediction], columns: Sequence[SliceColumn]
) -> list[Slice]:
    given = list(map(labels_of, predictions))
    wanted: list[tuple[str, ...]] | None = None
    if task.has_classes or task.has_label_thresholds:
        wanted = list(map(names_of, map(attrgetter("target"), examples)))
    found: list[Slice] = []
    for label in sorted(set().union(*given)):
        truth = None if wanted is None else _having(label, wanted)
        for dimension in columns:
            found += each_value(dimension, _having(label, given), label=label, truth=truth)
    return found


def _having(label: str, rows: Sequence[Sequence[str]]) -> Floats:
    return np.array([label in labels for labels in rows], np.float64)
