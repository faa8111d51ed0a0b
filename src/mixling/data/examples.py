"""Rows to examples: which columns hold text and target, what they may hold, and how a bad row is told."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from mixling.config import Config
from mixling.data.readers import OnBadRow, Row, read_rows
from mixling.data.readers.squad import read_answers
from mixling.errors import ConfigError, DataError, near_miss
from mixling.text.answers import Answers
from mixling.text.encoder import Text

Target = str | tuple[str, ...] | None
"""A label; a set of labels or the IOB slots of a sentence; nothing."""

Task = Literal["classification", "multi_label", "tagging", "question_answering"]

_WANTED = {"tagging": ("tokens", "slots"), "question_answering": ("question", "context", "answers")}
_SKIP = "or pass --on-bad-row skip"
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
    dev: tuple[str, ...] = Field((), description="empty: a share of the training rows is set aside")
    dev_fraction: float = Field(0.1, gt=0, lt=1)
    columns: ColumnsConfig = ColumnsConfig()
    on_bad_row: Literal["error", "skip"] = "error"
    file_format: str | None = None

    @model_validator(mode="after")
    def _groups_are_set_aside(self) -> DataConfig:
        if self.columns.group is not None and self.dev:
            raise ValueError(
                f"columns.group: got {self.columns.group!r} (--group) beside dev (--dev); groups decide which rows are "
                "set aside, and with rows of their own to measure on none are: leave one of them out"
            )
        return self


def read_examples(
    sources: Sequence[str | Path],
    *,
    task: Task,
    columns: ColumnsConfig,
    on_bad_row: OnBadRow,
    labelled: bool = True,
    file_format: str | None = None,
    grouped: bool = False,
) -> Iterator[Example]:
    """Stream the examples of files and hub data sets, in their order.

    - text: a string, kept as it stands, or a list of tokens (only where there is no pair); never empty.
    - label: a string, outer spaces stripped; in JSON, Parquet and on the hub also an integer (1 becomes "1"), a float
      that is an integer (1.0 becomes "1") or a boolean ("true", "false"). The text of a CSV stays as it is.
    - multi_label: a list of labels, or a string of labels joined by `|`; an empty list or string is the empty set.
    - question_answering: question and context are texts; answers as `read_answers` takes them; an `id` is a string or
      an integer, and stands once in all the sources.
    - tagging: tokens and slots are two lists of equal length, or two strings that split at spaces; slots are IOB2.

    Args:
        labelled: False reads rows for prediction: a target is read where its column stands and may be empty, and a
            tagger takes the column of text where there are no tokens.
        grouped: read the column of groups, if there is one; a string, or a value that becomes one.

    Raises:
        DataError: a column that the file lacks, always; a bad row, unless `on_bad_row` skips it (in JSONL, where each
            row has columns of its own, that is also one that lacks a column); no row left that can be used.
    """
    if not sources:
        raise ConfigError("no input; name at least one file")
    empty = True
    seen: set[str] = set()  # ids of questions
    kinds: dict[str, type] = {}  # of the values that labels were written as
    wanted = {"id", *(name for name in columns.to_dict().values() if name is not None)}
    for source in sources:
        checked = False
        for row in read_rows(source, on_bad_row=on_bad_row, file_format=file_format, columns=wanted):
            if not (row.own_columns or checked):
                _check_columns(row, task, columns, labelled)
                if grouped:
                    _check_group(row, columns)
                checked = True
            try:
                if row.own_columns:
                    _check_columns(row, task, columns, labelled)
                if task == "question_answering":
                    example = _question(row, columns, labelled, seen)
                elif task == "tagging":
                    example = _tagged(row, columns, labelled)
                else:
                    example = _texts(row, task, columns, labelled, kinds)
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


def _check_columns(row: Row, task: Task, columns: ColumnsConfig, labelled: bool) -> None:
    if task == "tagging" and not labelled and columns.text in row.values:
        return
    wanted = _WANTED.get(task, ("text", "text_pair", "label"))
    for option in wanted if labelled else wanted[:-1]:
        name = getattr(columns, option)
        if name is not None and name not in row.values:
            known = near_miss(name, row.values) if row.values else "there are none"
            how = (
                f"--set data.columns.{option}=NAME" if task == "question_answering" else f"--{option.replace('_', '-')}"
            )
            message = f"no column {name!r}; {known}; choose a column with {how}"
            if row.own_columns:
                raise _fault(row, f"{message}, give the row one, {_SKIP}")
            raise DataError(message, path=row.path)


def _check_group(row: Row, columns: ColumnsConfig) -> None:
    if columns.group is not None and columns.group not in row.values:
        message = f"no column {columns.group!r}; {near_miss(columns.group, row.values)}; choose a column with --group"
        raise DataError(message, path=row.path)


def _group(row: Row, column: str) -> str:
    value = row.values.get(column)
    if _is_blank(value) or isinstance(value, list | dict):
        got = "empty" if _is_blank(value) else _shown(value)
        raise _fault(row, f"column {column!r} is {got}; give the row the name of its group {_SKIP}")
    return str(value)


def _texts(row: Row, task: Task, columns: ColumnsConfig, labelled: bool, kinds: dict[str, type]) -> Example:
    value = row.values.get(columns.text)
    text: Text
    if columns.text_pair is not None:
        text = (_string(row, columns.text), _string(row, columns.text_pair))
    elif isinstance(value, list):
        text = _words(row, columns.text)
    else:
        text = _string(row, columns.text)
    target: Target = None
    value = row.values.get(columns.label)
    if labelled or not _is_blank(value):
        if task == "classification" and isinstance(value, list):
            got = f"column {columns.label!r} holds {_shown(value)}"
            raise _fault(row, f"{got}; one label is allowed, and several with --task multi_label; correct it {_SKIP}")
        target = (_labels if task == "multi_label" else _label)(row, columns.label, value, kinds)
    return Example(text, target, row.path, row.line)


def _tagged(row: Row, columns: ColumnsConfig, labelled: bool) -> Example:
    if not labelled and columns.tokens not in row.values:
        return Example(_string(row, columns.text), None, row.path, row.line)
    tokens = _words(row, columns.tokens)
    if not labelled and _is_blank(row.values.get(columns.slots)):
        return Example(tokens, None, row.path, row.line)
    slots = _split(row.values.get(columns.slots))
    fault = slots_fault(tokens, slots, f"column {columns.slots!r}")
    if fault:
        raise _fault(row, f"{fault}, {_SKIP}")
    return Example(tokens, tuple(slots), row.path, row.line)


def _question(row: Row, columns: ColumnsConfig, labelled: bool, seen: set[str]) -> Example:
    name = row.values.get("id")
    if name is not None and (isinstance(name, bool) or not isinstance(name, str | int)):
        raise _fault(row, f"column 'id' is {_shown(name)}; a string or an integer is allowed; correct it {_SKIP}")
    text = (_string(row, columns.question), _string(row, columns.context))
    answers = None
    value = row.values.get(columns.answers)
    if labelled or value is not None:
        read = read_answers(value, text[1])
        if isinstance(read, str):
            where = "" if name is None else f"question {name!r}: "
            raise _fault(row, f"{where}{read}; correct the row {_SKIP}")
        answers = read
    if name is not None:
        name = str(name)
        if name in seen:
            raise _fault(row, f"the id {name!r} stands twice; give each question its own {_SKIP}")
        seen.add(name)
    return Example(text, None, row.path, row.line, name, answers)


def kinds_fault(label: str, value: object, kinds: dict[str, type]) -> str:
    """What is wrong with a value whose label another kind of value had before, as 1 and "1"; nothing if it is none.

    Args:
        kinds: of the values of the labels so far; extended.
    """
    kind = kinds.setdefault(label, type(value))
    if kind is type(value):
        return ""
    return f"{_shown(value)}, which stood before as {_KINDS[kind.__name__]}; write each label in one way"


def words_fault(words: object, where: str, what: str = "token") -> str:
    """What is wrong with the words of a sentence, which stand in `where`; nothing if they are strings, none empty."""
    if words is None or words == []:
        return f"{where} is empty; give at least one {what}"
    if not isinstance(words, list):
        return f"{where} is {_shown(words)}; a list of strings is allowed"
    for number, word in enumerate(words, 1):
        if not isinstance(word, str) or not word.strip():
            got = "empty" if _is_blank(word) else f"not text but {_shown(word)}"
            return f"{where}: {what} {number} is {got}; a string is needed"
    return ""


def slots_fault(tokens: Sequence[str], slots: object, where: str) -> str:
    """What is wrong with the slots of sound tokens, which stand in `where`; nothing if they are IOB2, one a token."""
    fault = words_fault(slots, where, "slot")
    if fault:
        return fault
    assert isinstance(slots, list)
    if len(slots) != len(tokens):
        return f"{where}: {len(tokens)} tokens but {len(slots)} slots; give each token one slot"
    previous = "O"
    for number, (token, slot) in enumerate(zip(tokens, slots, strict=True), 1):
        place = f"{where}: bad IOB at token {number} ({token[:40]!r}): "
        if not _SLOT.fullmatch(slot):
            return f"{place}got {slot!r}; O, B-name and I-name are allowed (IOB2, not BIOES)"
        if slot[0] == "I" and previous[2:] != slot[2:]:
            return f"{place}{slot!r} follows {previous!r}; a span begins with B-{slot[2:]} (IOB2)"
        previous = slot
    return ""


def _string(row: Row, column: str) -> str:
    value = row.values.get(column)
    if _is_blank(value):
        raise _fault(row, f"column {column!r} is empty; give a text {_SKIP}")
    if not isinstance(value, str):
        raise _fault(row, f"column {column!r} is not text but {_shown(value)}; write it as a string {_SKIP}")
    return value


def _words(row: Row, column: str) -> list[str]:
    words = _split(row.values.get(column))
    fault = words_fault(words, f"column {column!r}")
    if fault:
        raise _fault(row, f"{fault}, {_SKIP}")
    return words


def _split(value: Any) -> Any:
    return value.split() if isinstance(value, str) else value


def _labels(row: Row, column: str, value: Any, kinds: dict[str, type]) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.split("|") if value.strip() else []
    if not isinstance(value, list):
        got = "empty" if value is None else _shown(value)
        allowed = "a list of labels or a string such as 'a|b' is allowed ([] for none)"
        raise _fault(row, f"column {column!r} is {got}; {allowed}, {_SKIP}")
    return tuple(dict.fromkeys(_label(row, column, item, kinds) for item in value))


def _label(row: Row, column: str, value: Any, kinds: dict[str, type]) -> str:
    if _is_blank(value):
        raise _fault(row, f"column {column!r} is empty; give a label {_SKIP}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int | str):
        allowed = "a string, an integer or a boolean is allowed"
        raise _fault(row, f"column {column!r} holds {_shown(value)}; {allowed}, {_SKIP}")
    label = str(value).strip() if not isinstance(value, bool) else "true" if value else "false"
    if message := kinds_fault(label, value, kinds):
        raise _fault(row, f"column {column!r} holds {message} {_SKIP}")
    if any("\ud800" <= sign <= "\udfff" for sign in label):
        raise _fault(row, f"column {column!r} holds half of a UTF-16 pair: {label!r}; give another label {_SKIP}")
    return label


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _shown(value: Any) -> str:
    return f"{_KINDS.get(type(value).__name__, type(value).__name__)} ({str(value)[:40]})"


def _fault(row: Row, message: str) -> DataError:
    return DataError(message, path=row.path, line=row.line)
