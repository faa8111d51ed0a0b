"""Convert rows to examples: the columns of texts and targets, their allowed values, and errors of bad rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from mixling.answers.questions import Answers
from mixling.data.config import ColumnsConfig, column_option
from mixling.data.readers import OnBadRow, Row, RowBlock, read_row_blocks
from mixling.data.readers.rows import SKIP
from mixling.data.values import has_no_words, is_blank, mark_of, row_error, shown_value, string_of, words_of
from mixling.errors import ConfigError, DataError, near_miss
from mixling.features.cells import cells_in, with_cells
from mixling.features.columns import check_cell
from mixling.features.kinds import parse_features
from mixling.text.encoder import Text, text_size

Target = str | tuple[str, ...] | float | None
"""A label; a set of labels, or the IOB slots of a sentence; a number; None if unlabeled."""


@dataclass(frozen=True, slots=True)
class Example:
    """A text with its target, if it has one, and its origin: file and 1-based line (or row).

    The text of a question is the pair of question and context; it has `answers`, if they are known, instead of a
    target, and may have an `id`. Examples of one `group` belong together.
    """

    text: Text
    target: Target
    path: str
    line: int
    id: str | None = None
    answers: Answers | None = None
    group: str | None = None

    @property
    def size(self) -> int:
        """The characters of the text."""
        return text_size(self.text)


@dataclass(frozen=True, slots=True)
class ExampleBlock:
    """Examples of consecutive lines of a file, with one text and one target each; it saves an object for each of them.

    Attributes:
        line: the 1-based line of the first.
    """

    texts: list[str]
    targets: list[Target]
    path: str
    line: int

    def __iter__(self) -> Iterator[Example]:
        for number, (text, target) in enumerate(zip(self.texts, self.targets, strict=True)):
            yield Example(text, target, self.path, self.line + number)


_HEADER_WORD = 40  # characters; names of columns are shorter
_RENAMED = 0.7  # similarity of a column to a default name, such as of `texts` or `lable`


class RowReader(ABC):
    """Makes the examples of a task from rows; an instance reads one list of sources and may remember their values.

    Args:
        labeled: False for prediction: the target is optional, and its column may be missing.

    Attributes:
        wanted: the keys of `ColumnsConfig` for the task's columns; the last is the target's.
        of_words: texts are lists of words, not strings.
        of_sets: targets are sets of labels, which may be in several columns.
        has_features: texts may have columns beside them.
        further: columns that are read where a wanted one is absent.
    """

    wanted: ClassVar[tuple[str, ...]]
    further: ClassVar[tuple[str, ...]] = ()
    of_words: ClassVar[bool] = False
    of_sets: ClassVar[bool] = False
    has_features: ClassVar[bool] = False

    def __init__(self, columns: ColumnsConfig, *, labeled: bool = True) -> None:
        self.columns = columns
        self.labeled = labeled
        self._features = parse_features(columns.features)
        self._beside = tuple(self._features)
        if self._beside and not self.has_features:
            raise ConfigError("--features: columns beside the text are for tasks with labels, or a number, of texts")
        for key in ("labels", "label_delimiter"):
            if not self.of_sets and getattr(columns, key) != ColumnsConfig.model_fields[key].default:
                raise ConfigError(f"data.columns.{key}: is for several labels a text, --task multi_label")

    def check_columns(self, row: Row) -> None:
        """Check that a row, or the file that it is the first row of, has all columns.

        Raises:
            DataError: a column is missing; the message names the nearest one.
        """
        for key, name in self._needed(row):
            if name not in row.values:
                raise self.missing(key, name, row)

    def column(self, key: str, row: Row) -> str | None:
        """Return the name of a row's column for a key of `ColumnsConfig`; None: there is no such column."""
        name: str | None = getattr(self.columns, key)
        return name

    def missing(self, key: str, name: str, row: Row) -> DataError:
        """Return the error of a row, or of its file, that lacks a column."""
        message = f"no column {name!r}; {self._known(key, name, row)}; choose a column with {column_option(key)}"
        marks = [name for name, mark in row.values.items() if mark_of(mark) is not None and f"_{name}"[-3:] != "_id"]
        if key == "label" and len(marks) > 1:
            message += f", or columns of 0 and 1, one for each label, with --label {','.join(marks)}"
        if row.own_columns:
            return row_error(row, f"{message}, add it to the row, {SKIP}")
        return DataError(message, path=row.path)

    def rows(self, rows: Iterator[Any], on_bad_row: OnBadRow) -> Iterator[Any]:
        """Prepare the rows of a file, and blocks of them; a task may join them, or look ahead."""
        from mixling.data.readers.annotations import annotated  # not for predictions

        return annotated(rows, on_bad_row) if self.labeled else rows

    def _needed(self, row: Row) -> Iterator[tuple[str, str]]:
        """Yield the keys and names of the columns that a row must have."""
        for key in self.wanted if self.labeled else self.wanted[:-1]:
            if key == "text_pair":
                for further in self.columns.text_pair:
                    yield key, further
            elif (name := self.column(key, row)) is not None:
                yield key, name
        for name in self._beside:
            yield "features", name

    def _known(self, key: str, name: str, row: Row) -> str:
        """Return what columns there are, for the message about one that is missing."""
        if not row.values:
            return "there are none"
        if not row.own_columns and any(len(column) > _HEADER_WORD for column in row.values):
            return "the first line must name the columns, such as text,label, and this one looks like a row"
        if name == ColumnsConfig.model_fields[key].default:  # nobody wrote `text`, which resembles `intent`
            return near_miss(name, row.values, cutoff=_RENAMED)
        return near_miss(name, row.values)

    @abstractmethod
    def example(self, row: Row) -> Example:
        """Return the example of a row that has all columns.

        Raises:
            DataError: a value is invalid.
        """


class TextReader(RowReader):
    """Reads a text, several texts or a list of words, and a target from the label column."""

    wanted = ("text", "text_pair", "label")
    has_features = True

    @abstractmethod
    def target(self, row: Row, column: str, value: Any) -> Target:
        """Return the target of a row from the value of its column.

        Raises:
            DataError: the value is invalid.
        """

    def example(self, row: Row) -> Example:
        columns = self.columns
        value = row.values.get(columns.text)
        text: Text
        if columns.text_pair:
            text = tuple(string_of(row, name) for name in columns.texts)
        elif isinstance(value, list):
            text = words_of(row, columns.text) if value else []
        else:
            text = string_of(row, columns.text)
        if self._beside:
            text = self._with_cells(row, text)
        value = self.label_value(row)
        target = None
        if self.labeled or not is_blank(value):
            try:
                target = self.target(row, columns.label, value)
            except DataError:  # predictions do not depend on it
                if self.labeled:
                    raise
        return Example(text, target, row.path, row.line)

    def _with_cells(self, row: Row, text: Text) -> Text:
        if isinstance(text, list):
            raise row_error(row, f"columns beside the text need a text, not a list of words; join the words {SKIP}")
        try:
            cells = cells_in(row.values, self._beside)
            for (name, kind), cell in zip(self._features.items(), cells, strict=True):
                if kind is not None:
                    check_cell(name, kind, cell)
            return with_cells(text, cells)
        except DataError as error:
            raise row_error(row, f"{error} {SKIP}") from None

    def label_value(self, row: Row) -> Any:
        """Return what a row has in the column of the target."""
        return row.values.get(self.columns.label)

    def targets(self, values: list[Any], path: str, line: int) -> list[Target]:
        """Return the targets of consecutive lines from the values of their columns; raises as `target` does."""
        column = self.columns.label
        if not self.labeled and set(map(type, values)) == {type(None)}:
            return values
        if set(map(type, values)) != {str}:
            return [self.target(Row({column: value}, path, line + i), column, value) for i, value in enumerate(values)]
        known = {value: self.target(Row({column: value}, path, line), column, value) for value in dict.fromkeys(values)}
        return [known[value] for value in values]


def read_examples(
    sources: Sequence[str | Path],
    *,
    reader: type[RowReader],
    columns: ColumnsConfig,
    on_bad_row: OnBadRow,
    labeled: bool = True,
    file_format: str | None = None,
    grouped: bool = False,
) -> Iterator[Example]:
    """Stream the examples of files and hub data sets, in order.

    A text is a string, unchanged, or (unless it is one of several) a list of tokens; it may have no words.

    Args:
        sources: files and hub data sets that `read_rows` reads.
        reader: the reader of the task (`mixling.tasks`), which documents the allowed targets.
        labeled: False reads rows for prediction: the target is optional, and its column may be missing.
        grouped: read the group column, if one is configured; values are converted to strings.

    Raises:
        DataError: the file has no such column; a row is bad (in JSONL also: it has no such column), unless `on_bad_row`
            skips it; or no usable row is left.
    """
    how: dict[str, Any] = {"labeled": labeled, "file_format": file_format, "grouped": grouped}
    for item in read_blocks(sources, reader=reader, columns=columns, on_bad_row=on_bad_row, **how):
        if isinstance(item, Example):
            yield item
        else:
            yield from item


def read_blocks(
    sources: Sequence[str | Path],
    *,
    reader: type[RowReader],
    columns: ColumnsConfig,
    on_bad_row: OnBadRow,
    labeled: bool = True,
    file_format: str | None = None,
    grouped: bool = False,
) -> Iterator[Example | ExampleBlock]:
    """Stream the examples of `read_examples`, many at a time as long as the rows of a file are plain."""
    if not sources:
        raise ConfigError("no input; name at least one file")
    empty = True
    read = reader(columns, labeled=labeled)
    has_blocks = not (grouped and columns.group is not None)
    wanted = columns.names() | set(reader.further)
    for source in sources:
        checked = False
        items = read_row_blocks(source, on_bad_row=on_bad_row, file_format=file_format, columns=wanted)
        for row in read.rows(_rows_or_blocks(items, read if has_blocks else None), on_bad_row):
            if isinstance(row, ExampleBlock):
                empty = False
                on_bad_row.without_words += sum(map(has_no_words, row.texts))
                yield row
                continue
            if not (row.own_columns or checked):
                read.check_columns(row)
                if grouped:
                    _check_group(row, columns)
                checked = True
            try:
                if row.own_columns:
                    read.check_columns(row)
                example = read.example(row)
                if grouped and columns.group is not None:
                    example = replace(example, group=_group(row, columns.group))
            except DataError as error:
                on_bad_row(error)
                continue
            empty = False
            on_bad_row.without_words += has_no_words(example.text)
            yield example
    if empty:
        first = f"; the first: {on_bad_row.messages[0]}" if on_bad_row.messages else ""
        unlabeled = f", {on_bad_row.unlabeled} have no annotation that is accepted" if on_bad_row.unlabeled else ""
        raise DataError(f"no rows are left, {on_bad_row.skipped} were skipped{unlabeled}{first}", path=sources[0])


def _rows_or_blocks(items: Iterator[Row | RowBlock], read: RowReader | None) -> Iterator[Row | ExampleBlock]:
    """Yield the examples of blocks of rows that are plain, and other rows one by one.

    Args:
        read: makes examples; None: no row is plain.
    """
    for item in items:
        if isinstance(item, Row):
            yield item
        elif (block := _block(item, read)) is not None:
            yield block
        else:
            yield from item


def _block(rows: RowBlock, read: RowReader | None) -> ExampleBlock | None:
    """Return the examples of rows if each has one text and, if at all, a good target; otherwise None."""
    if not isinstance(read, TextReader) or type(read).example is not TextReader.example:
        return None
    columns = read.columns
    if columns.text_pair or columns.labels is not None or columns.features:
        return None
    texts: list[Any] = [row.get(columns.text) for row in rows.values]
    values = [row.get(columns.label) for row in rows.values]
    if set(map(type, texts)) != {str}:
        return None
    try:
        return ExampleBlock(texts, read.targets(values, rows.path, rows.line), rows.path, rows.line)
    except DataError:  # of a row, which is then read again with those before it
        return None


def _check_group(row: Row, columns: ColumnsConfig) -> None:
    if columns.group is not None and columns.group not in row.values:
        near = near_miss(columns.group, row.values)
        message = f"no column {columns.group!r}; {near}; choose a column with {column_option('group')}"
        raise DataError(message, path=row.path)


def _group(row: Row, column: str) -> str:
    value = row.values.get(column)
    if is_blank(value) or isinstance(value, list | dict):
        got = "empty" if is_blank(value) else shown_value(value)
        raise row_error(row, f"column {column!r} is {got}; enter the name of the row's group {SKIP}")
    return str(value)


def names_of(target: Target) -> tuple[str, ...]:
    """Return the labels of a target, none, one or several."""
    return (target,) if isinstance(target, str) else target if isinstance(target, tuple) else ()
