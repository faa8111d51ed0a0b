"""Rows to examples: which columns hold text and target, what they may hold, and how a bad row is told."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from mixling.config import Config
from mixling.data.readers import OnBadRow, Row, read_rows
from mixling.errors import ConfigError, DataError, near_miss
from mixling.text.answers import Answers
from mixling.text.encoder import Text

Target = str | tuple[str, ...] | float | None
"""A label; a set of labels or the IOB slots of a sentence; a number; nothing."""

SKIP = "or pass --on-bad-row skip"
_KINDS = {"list": "a list", "dict": "an object", "int": "a number", "float": "a number", "bool": "a boolean"}
_KINDS["str"] = "a string"
_SLOT = re.compile(r"O|[BI]-\S.*")


@dataclass(frozen=True, slots=True)
class Example:
    """A text, its target where it has one, and where it stands: file and 1-based line (or row).

    Of a question the text is the pair of question and context, and `id` its name, if it has one; it has no target but
    answers, if they are known. Examples of one `group` belong together.
    """

    text: Text
    target: Target
    path: str
    line: int
    id: str | None = None
    answers: Answers | None = None
    group: str | None = None


class ColumnsConfig(Config):
    """The names of the columns; None means that there is no such column."""

    text: str = "text"
    text_pair: str | None = None
    label: str = "label"
    tokens: str = "tokens"
    slots: str = "slots"
    question: str = "question"
    context: str = "context"
    answers: str = "answers"
    group: str | None = Field(None, description="rows of one group are set aside together, or not at all")


class DataConfig(Config):
    """Where the examples are."""

    train: tuple[str, ...] = ()
    validation: tuple[str, ...] = Field((), description="empty: a share of the training rows is set aside")
    validation_fraction: float = Field(0.1, gt=0, lt=1)
    columns: ColumnsConfig = ColumnsConfig()
    on_bad_row: Literal["error", "skip"] = "error"
    file_format: str | None = None

    @model_validator(mode="after")
    def _groups_are_set_aside(self) -> DataConfig:
        if self.columns.group is not None and self.validation:
            raise ValueError(
                f"columns.group: got {self.columns.group!r} (--group) beside validation (--validation); groups "
                f"decide which rows are "
                "set aside, and with rows of their own to measure on none are: leave one of them out"
            )
        return self


class RowReader(ABC):
    """Makes the examples of a task from rows; one object reads one list of sources, of which it may remember values.

    Args:
        labeled: False for prediction: a target is read where its column is present, and may be empty.

    Attributes:
        wanted: the keys of `ColumnsConfig` that hold the task's columns; the last is that of the target.
        option: how the user names a column on the command line.
        of_words: the texts are lists of words, not strings.
    """

    wanted: ClassVar[tuple[str, ...]]
    option: ClassVar[str] = "--{}"
    of_words: ClassVar[bool] = False

    def __init__(self, columns: ColumnsConfig, *, labeled: bool = True) -> None:
        self.columns, self.labeled = columns, labeled

    def check_columns(self, row: Row) -> None:
        """Refuse a row, or the file that it is the first of, where a column is missing.

        Raises:
            DataError: one is missing; the message names the nearest one.
        """
        for key in self.wanted if self.labeled else self.wanted[:-1]:
            name = getattr(self.columns, key)
            if name is not None and name not in row.values:
                known = near_miss(name, row.values) if row.values else "there are none"
                how = self.option.format(key.replace("_", "-") if self.option == RowReader.option else key)
                message = f"no column {name!r}; {known}; choose a column with {how}"
                if row.own_columns:
                    raise row_error(row, f"{message}, give the row one, {SKIP}")
                raise DataError(message, path=row.path)

    @abstractmethod
    def example(self, row: Row) -> Example:
        """Make the example of a row that has all columns.

        Raises:
            DataError: a value cannot be used.
        """


class TextReader(RowReader):
    """Reads a text, a pair of texts or a list of words, and a target in the column of the label."""

    wanted = ("text", "text_pair", "label")

    @abstractmethod
    def target(self, row: Row, column: str, value: Any) -> Target:
        """Make the target of a row from the value of its column.

        Raises:
            DataError: the value cannot be used.
        """

    def example(self, row: Row) -> Example:
        columns = self.columns
        value = row.values.get(columns.text)
        text: Text
        if columns.text_pair is not None:
            text = (string_of(row, columns.text), string_of(row, columns.text_pair))
        elif isinstance(value, list):
            text = words_of(row, columns.text)
        else:
            text = string_of(row, columns.text)
        value = row.values.get(columns.label)
        wanted = self.labeled or not is_blank(value)
        return Example(text, self.target(row, columns.label, value) if wanted else None, row.path, row.line)


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
    """Stream the examples of files and hub data sets, in their order.

    A text is a string, kept as it is, or a list of tokens (only where there is no pair); never empty.

    Args:
        reader: that of the task (`mixling.tasks`), which documents the targets that it takes.
        labeled: False reads rows for prediction: a target is read where its column is present and may be empty.
        grouped: read the column of groups, if there is one; a string, or a value that becomes one.

    Raises:
        DataError: a column that is missing in the file, always; a bad row, unless `on_bad_row` skips it (in JSONL,
            where each row has columns of its own, that is also one without a column); no row left that can be used.
    """
    if not sources:
        raise ConfigError("no input; name at least one file")
    empty = True
    read = reader(columns, labeled=labeled)
    wanted = {"id", *(name for name in columns.to_dict().values() if name is not None)}
    for source in sources:
        checked = False
        for row in read_rows(source, on_bad_row=on_bad_row, file_format=file_format, columns=wanted):
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
            yield example
    if empty:
        first = f"; the first: {on_bad_row.messages[0]}" if on_bad_row.messages else ""
        raise DataError(f"no row is left, {on_bad_row.skipped} were skipped{first}", path=sources[0])


def _check_group(row: Row, columns: ColumnsConfig) -> None:
    if columns.group is not None and columns.group not in row.values:
        message = f"no column {columns.group!r}; {near_miss(columns.group, row.values)}; choose a column with --group"
        raise DataError(message, path=row.path)


def _group(row: Row, column: str) -> str:
    value = row.values.get(column)
    if is_blank(value) or isinstance(value, list | dict):
        got = "empty" if is_blank(value) else shown_value(value)
        raise row_error(row, f"column {column!r} is {got}; give the row the name of its group {SKIP}")
    return str(value)


def names_of(target: Target) -> tuple[str, ...]:
    """Return the labels of a target, none, one or several."""
    return (target,) if isinstance(target, str) else target if isinstance(target, tuple) else ()


def kinds_problem(label: str, value: object, kinds: dict[str, type]) -> str:
    """What is wrong with a value whose label another kind of value had before, as 1 and "1"; nothing if it is none.

    Args:
        kinds: of the values of the labels so far; extended.
    """
    kind = kinds.setdefault(label, type(value))
    if kind is type(value):
        return ""
    return f"{shown_value(value)}, which stood before as {_KINDS[kind.__name__]}; write each label in one way"


def words_problem(words: object, where: str, what: str = "token") -> str:
    """What is wrong with the words of a sentence, which stand in `where`; nothing if they are strings, none empty."""
    if words is None or words == []:
        return f"{where} is empty; give at least one {what}"
    if not isinstance(words, list):
        return f"{where} is {shown_value(words)}; a list of strings is allowed"
    for number, word in enumerate(words, 1):
        if not isinstance(word, str) or not word.strip():
            got = "empty" if is_blank(word) else f"not text but {shown_value(word)}"
            return f"{where}: {what} {number} is {got}; a string is needed"
    return ""


def slots_problem(tokens: Sequence[str], slots: object, where: str) -> str:
    """What is wrong with the slots of sound tokens, which stand in `where`; nothing if they are IOB2, one a token."""
    problem = words_problem(slots, where, "slot")
    if problem:
        return problem
    assert isinstance(slots, list)
    if len(slots) != len(tokens):
        return f"{where}: {len(tokens)} tokens but {len(slots)} slots; give each token one slot"
    previous = "O"
    for number, (token, slot) in enumerate(zip(tokens, slots, strict=True), 1):
        location = f"{where}: bad IOB at token {number} ({token[:40]!r}): "
        if not _SLOT.fullmatch(slot):
            return f"{location}got {slot!r}; O, B-name and I-name are allowed (IOB2, not BIOES)"
        if slot[0] == "I" and previous[2:] != slot[2:]:
            return f"{location}{slot!r} follows {previous!r}; a span begins with B-{slot[2:]} (IOB2)"
        previous = slot
    return ""


def string_of(row: Row, column: str) -> str:
    """Return the text in a column; raises DataError where it is empty or no text."""
    value = row.values.get(column)
    if is_blank(value):
        raise row_error(row, f"column {column!r} is empty; give a text {SKIP}")
    if not isinstance(value, str):
        raise row_error(row, f"column {column!r} is not text but {shown_value(value)}; write it as a string {SKIP}")
    return value


def words_of(row: Row, column: str) -> list[str]:
    """Return the words in a column, a list or a string that splits at spaces; raises DataError as `string_of`."""
    words = split(row.values.get(column))
    problem = words_problem(words, f"column {column!r}")
    if problem:
        raise row_error(row, f"{problem}, {SKIP}")
    return words


def split(value: Any) -> Any:
    """Return the parts of a string between spaces; another value as it is."""
    return value.split() if isinstance(value, str) else value


def label_of(row: Row, column: str, value: Any, kinds: dict[str, type]) -> str:
    """Return the name of a label: outer spaces are stripped, 1.0 becomes "1", a boolean "true" or "false".

    Args:
        kinds: as of `kinds_problem`.

    Raises:
        DataError: the value is empty or cannot be a label.
    """
    if is_blank(value):
        raise row_error(row, f"column {column!r} is empty; give a label {SKIP}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int | str):
        allowed = "a string, an integer or a boolean is allowed"
        raise row_error(row, f"column {column!r} holds {shown_value(value)}; {allowed}, {SKIP}")
    label = str(value).strip() if not isinstance(value, bool) else "true" if value else "false"
    if message := kinds_problem(label, value, kinds):
        raise row_error(row, f"column {column!r} holds {message} {SKIP}")
    if any("\ud800" <= sign <= "\udfff" for sign in label):
        raise row_error(row, f"column {column!r} holds half of a UTF-16 pair: {label!r}; give another label {SKIP}")
    return label


def is_blank(value: Any) -> bool:
    """Return whether a value is missing, or text without a character that is visible."""
    return value is None or (isinstance(value, str) and not value.strip())


def shown_value(value: Any) -> str:
    """Return the type and the beginning of a value, for messages."""
    return f"{_KINDS.get(type(value).__name__, type(value).__name__)} ({str(value)[:40]})"


def row_error(row: Row, message: str) -> DataError:
    """Return the error of a row, with file and line."""
    return DataError(message, path=row.path, line=row.line)
