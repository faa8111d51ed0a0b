"""The values of a row's columns as texts, words, labels and slots, and the errors of those that are none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mixling.data.cells import read_cell
from mixling.data.readers import Row
from mixling.data.readers.rows import SKIP
from mixling.data.similar_labels import is_invisible
from mixling.errors import DataError, shown

_KINDS = {"list": "a list", "dict": "an object", "int": "a number", "float": "a number", "bool": "a boolean"}
_KINDS["str"] = "a string"
_LIST = re.compile(
    r"""\s*([\w.]*\(?\[\s*["']|[\[{].*[\s,]\.\.\.[\s,])""", re.DOTALL
)  # which NumPy abbreviates with ...
_MARKS = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}


def kinds_problem(label: str, value: object, kinds: dict[str, type]) -> str:
    """Describe the problem if a label was another kind of value before, such as 1 and "1"; otherwise return "".

    Args:
        kinds: the types of the values of earlier labels; updated.
    """
    kind = kinds.setdefault(label, type(value))
    if isinstance(value, bool):  # Python finds 1 and True equal
        kind = kinds.setdefault(str(int(value)), kind)
    if kind is type(value):
        return ""
    return f"{shown_value(value)}, which was {_KINDS[kind.__name__]} before; write each label in one way"


def words_problem(words: object, where: str, what: str = "token") -> str:
    """Describe the problem with the words of a sentence in `where`; return "" if they are nonempty strings."""
    if words is None or words == []:
        return f"{where} is empty; give at least one {what}"
    if not isinstance(words, list):
        return f"{where} is {shown_value(words)}; allowed: a list of strings"
    for number, word in enumerate(words, 1):
        if not isinstance(word, str) or not word.strip():
            got = "empty" if is_blank(word) else f"not text but {shown_value(word)}"
            return f"{where}: {what} {number} is {got}; a string is required"
    return ""


def words_with_blanks(texts: Iterable[object]) -> list[Any] | None:
    """Return the first of texts that are lists of words, if each of them has a word with blanks; else None.

    They are pairs of texts, or parts of a text, but no words.
    """
    first: list[Any] | None = None
    for text in texts:
        if not isinstance(text, list) or not any(isinstance(word, str) and len(word.split()) > 1 for word in text):
            return None
        first = text if first is None else first
    return first


def slots_problem(tokens: Sequence[str], slots: object, where: str) -> str:
    """Describe the problem with the slots of tokens in `where`; return "" if they are strings, one per token."""
    problem = words_problem(slots, where, "slot")
    if problem:
        return problem
    assert isinstance(slots, list)
    if len(slots) != len(tokens):
        return f"{where}: {len(tokens)} tokens but {len(slots)} slots; give each token one slot"
    return ""


def string_of(row: Row, column: str, *, needs_words: bool = False) -> str:
    """Return the text in a column, which may be one of no words.

    Raises:
        DataError: there is none, or it is not a string, or has no words and `needs_words`.
    """
    value = row.values.get(column)
    if value is None:
        hint = "" if needs_words else "; one without words is an empty string"
        raise row_error(row, f"column {column!r} is null{hint}; enter a text {SKIP}")
    if not isinstance(value, str):
        raise row_error(row, f"column {column!r} is not text but {shown_value(value)}; write it as a string {SKIP}")
    if needs_words and is_blank(value):
        raise row_error(row, f"column {column!r} is empty; enter a text {SKIP}")
    return value


def has_no_words(text: Any) -> bool:
    """Return whether a text, list of words or pair of texts is empty or blank."""
    return not text or text.isspace() if isinstance(text, str) else all(map(has_no_words, text))


def words_of(row: Row, column: str) -> list[str]:
    """Return the words in a column, a list or a string with spaces; raise a DataError as `string_of` does."""
    words: list[str] = split(row.values.get(column))
    problem = words_problem(words, f"column {column!r}")
    if problem:
        raise row_error(row, f"{problem}, {SKIP}")
    return words


def split(value: Any) -> Any:
    """Split a string at white space, unless it is a list that is written as text; return other values unchanged."""
    found = read_cell(value)
    return value.split() if isinstance(value, str) and not isinstance(found, list) else found


def mark_of(value: Any) -> bool | None:
    """Return the truth value of 0, 1, a boolean, or one of these as text; None for anything else."""
    if isinstance(value, str):
        return _MARKS.get(value.strip().lower())
    return bool(value) if isinstance(value, int | float) and value in (0, 1) else None


def marked(values: Mapping[str, Any]) -> list[str] | None:
    """Return the names whose value is 1 or true; None if a value is neither that nor 0 or false."""
    marks = {name: mark_of(value) for name, value in values.items()}
    return None if None in marks.values() else [name for name, mark in marks.items() if mark]


def labels_in(value: Any, *, bare: bool = False) -> list[Any] | None:
    """Return the labels in a list, or in an object such as {"a": 1, "b": 0}, also if it is written as text.

    Args:
        bare: as of `read_cell`.

    Returns:
        None if the value is none of these, or is a list of lists or objects.
    """
    found = read_cell(value, bare=bare)
    if isinstance(found, dict) and found.keys() != {"choices"}:
        return marked(found)
    found = found["choices"] if isinstance(found, dict) else found  # Label Studio's tables, of several choices
    return found if isinstance(found, list) and not any(isinstance(item, list | dict) for item in found) else None


def label_of(row: Row, column: str, value: Any, kinds: dict[str, type]) -> str:
    """Return the name of a label: outer spaces are stripped, 1.0 becomes "1", a boolean "true" or "false".

    Args:
        kinds: as for `kinds_problem`.

    Raises:
        DataError: the value is empty or cannot be a label.
    """
    if is_blank(value):
        raise row_error(row, f"column {column!r} is empty; enter a label {SKIP}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int | str):
        allowed = "allowed: a string, an integer or a boolean"
        raise row_error(row, f"column {column!r} is {shown_value(value)}; {allowed}, {SKIP}")
    if problem := list_problem(value):
        raise row_error(row, f"column {column!r} {problem}; correct it {SKIP}")
    label = str(value).strip() if not isinstance(value, bool) else "true" if value else "false"
    if message := kinds_problem(label, value, kinds):
        raise row_error(row, f"column {column!r} is {message} {SKIP}")
    if any("\ud800" <= sign <= "\udfff" for sign in label):
        raise row_error(row, f"column {column!r} has a lone UTF-16 surrogate: {label!r}; use another label {SKIP}")
    return label


def list_problem(value: Any) -> str:
    """Describe the problem with a label that is a list which cannot be read; return "" if it is none."""
    if not isinstance(value, str) or not _LIST.match(value):
        return ""
    return f"begins like a list, but is none in JSON's, Python's or NumPy's notation: {shown(value)}"


def is_blank(value: Any) -> bool:
    """Return whether a value is missing, or text without visible characters."""
    return value is None or (isinstance(value, str) and all(sign.isspace() or is_invisible(sign) for sign in value))


def shown_value(value: Any) -> str:
    """Describe a value in a message, by its type and beginning."""
    return f"{_KINDS.get(type(value).__name__, type(value).__name__)} ({str(value)[:40]})"


def row_error(row: Row, message: str) -> DataError:
    """Return the error of a row, with file and line."""
    return DataError(message, path=row.path, line=row.line)
