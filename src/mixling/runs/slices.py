"""Where a model is worse: its score by the columns of a file, by the length of texts and by their unknown words."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
from mixling.metrics.base import LESS_IS_BETTER
from mixling.metrics.slice_report import SliceReport
from mixling.metrics.slices import Dimension, Floats, Slice, each_value, worst_slices
from mixling.tasks.base import Task

LENGTH, UNKNOWN = "words", "unknown words"
_MOST_VALUES = 20  # of a column; the others are one
_OTHERS, _MISSING = "(others)", "(missing)"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?")
_LEAST_IN_VALUE = 5  # rows: of a column with rarer values auto makes no slices


class SlicedRows:
    """Remembers the columns of rows while examples are read.

    Args:
        by: the names of columns; None: all that the first row of the first file has, but for those of `columns`.

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

    def dimensions(self) -> tuple[list[Dimension], dict[str, str]]:
        """Return the columns as dimensions, and why others are none.

        Raises:
            ConfigError: a column that was named is none.
        """
        found: list[Dimension] = []
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


def column_dimension(name: str, cells: Sequence[str | None]) -> Dimension:
    """Return the values of a column; many numbers or dates as four bins of about as many rows, rare values as one."""
    given = [cell.strip() if cell is not None and cell.strip() else None for cell in cells]
    counts = Counter(cell for cell in given if cell is not None)
    if len(counts) > _MOST_VALUES:
        if all(_NUMBER.fullmatch(value) for value in counts):
            return binned(name, [None if cell is None else float(cell) for cell in given])
        if all(_DATE.fullmatch(value) for value in counts):
            return binned(name, [None if cell is None else cell[:10] for cell in given])
    values = [value for value, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_VALUES]]
    names = [_MISSING if cell is None else cell if cell in values else _OTHERS for cell in given]
    extra = [special for special in (_MISSING, _OTHERS) if special in set(names) - set(values)]
    return _coded(name, names, [*values, *extra])


def binned(name: str, cells: Sequence[Any]) -> Dimension:
    """Return numbers, or texts in their order, as up to four bins of about as many rows; None is a bin of its own."""
    ordered = sorted(cell for cell in cells if cell is not None)
    edges = sorted({ordered[len(ordered) * part // 4 - 1] for part in (1, 2, 3) if len(ordered) * part // 4})
    places = [None if cell is None else bisect_left(edges, cell) for cell in cells]
    names = {}
    for place in sorted({place for place in places if place is not None}):
        inside = [cell for cell, at in zip(cells, places, strict=True) if at == place]
        low, high = (f"{end:.4g}" if isinstance(end, float) else str(end) for end in (min(inside), max(inside)))
        names[place] = low if low == high else f"{low} to {high}"
    values = [_MISSING if place is None else names[place] for place in places]
    return _coded(name, values, [*names.values(), *([_MISSING] if None in places else [])])


def _coded(name: str, cells: Sequence[str], values: Sequence[str]) -> Dimension:
    values = tuple(dict.fromkeys(values))
    places = {value: place for place, value in enumerate(values)}
    return Dimension(name, np.array([places[cell] for cell in cells], np.int64), values)


def text_dimensions(examples: Sequence[Example], profile: Profile | None) -> list[Dimension]:
    """Return the number of words of texts, and their fraction of words that are rare in the model's texts.

    Args:
        profile: of the model's data; None: it keeps none, and no word is unknown.
    """
    split = [profile_words(example.text) for example in examples]
    found = [binned(LENGTH, [float(len(words)) for words in split])]
    if profile is not None:
        known = KnownWords(profile.known_words)
        found.append(binned(UNKNOWN, [round(unknown_fraction(words, known), 2) for words in split]))
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
    name, scores = row_scores(task, examples, predictions)
    values = [item for dimension in columns for item in each_value(dimension, scores)]
    rates = _rates(task, examples, predictions, columns)
    names = {dimension.name for dimension in columns}
    texts = [dimension for dimension in text_dimensions(examples, profile) if dimension.name not in names]
    worst, beside = worst_slices(
        [*columns, *texts], scores, less_is_better=name in LESS_IS_BETTER, beside=[*values, *rates]
    )
    return SliceReport(
        metric=name,
        columns={
            dimension.name: [item for item in beside[: len(values)] if dimension.name in item.where]
            for dimension in columns
        },
        worst=worst,
        rates=sorted(beside[len(values) :], key=lambda item: (item.chance, -abs(item.value - item.rest))),
        left_out=left_out,
    )


def row_scores(task: Task, examples: Sequence[Example], predictions: Sequence[Prediction]) -> tuple[str, Floats]:
    """Return the metric that rows have, and its value for each row (R,)."""
    targets: list[Any] = [example.answers if task.windows else example.target for example in examples]
    answers = [task.answer(item, example.text) for item, example in zip(predictions, examples, strict=True)]
    score = task.score(targets, answers)
    if score.hits is not None:
        return type(task).headline, score.hits
    name = next(name for name in ("sentence_accuracy", "exact_match", "mae") if name in score.numbers)
    return name, np.array([score.sample(np.array([row]))[name] for row in range(score.rows)], np.float64)


def _rates(
    task: Task, examples: Sequence[Example], predictions: Sequence[Prediction], columns: Sequence[Dimension]
) -> list[Slice]:
    given = [set(labels_of(item)) for item in predictions]
    wanted: list[set[str]] | None = None
    if task.has_classes or task.has_label_thresholds:
        wanted = [set(names_of(example.target)) for example in examples]
    found: list[Slice] = []
    for label in sorted(set().union(*given)):
        scores = np.array([label in one for one in given], np.float64)
        truth = None if wanted is None else np.array([label in one for one in wanted], np.float64)
        for dimension in columns:
            found += each_value(dimension, scores, label=label, truth=truth)
    return found
