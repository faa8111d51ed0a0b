"""Read files in the format of SQuAD 1.1 and 2.0 (also XQuAD, MLQA, ...), one JSON object with a row per question.

Also parse the answers to a question in the formats that rows of any file may have.
"""

from __future__ import annotations

import io
import json
import re
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from mixling.data.readers.files import describe_error
from mixling.data.readers.jsonl import refuse_constant
from mixling.data.readers.lines import CONVERT
from mixling.data.readers.rows import OnBadRow, Row
from mixling.errors import DataError
from mixling.text.answers import Answers

MAX_SQUAD_BYTES = 1 << 29  # decompressed; Python objects take several times as much
_HEAD = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*(?:"version"\s*:\s*"[^"]*"\s*,\s*)?"data"\s*:\s*\[')
_ANSWERS = (
    'allowed: {"text": [...], "start": [...]}, or SQuAD\'s [{"text": ..., "answer_start": ...}, ...]; [] for none'
)
_STARTS = ("start", "answer_start")
_TEMPLATE = '{"data": [{"paragraphs": [{"context": ..., "qas": [{"id", "question", "answers"}]}]}]}'


def is_squad(data: BinaryIO) -> bool:
    """Whether a file begins like SQuAD's; the position in the file does not change."""
    try:
        return bool(_HEAD.match(cast(io.BufferedReader, data).peek(512)[:512]))
    except (EOFError, OSError, zlib.error):  # a damaged gzip file, which the reader reports
        return False


def read_squad(data: BinaryIO, path: str, on_bad_row: OnBadRow) -> Iterator[Row]:
    """Stream rows with the columns id, question, context and, if known, answers; `line` is the number of the question.

    A question with `is_impossible` has no answers; plausible answers are ignored.

    Raises:
        DataError: the file is not JSON in this format; or a paragraph or question is incomplete, or an id occurs twice,
            unless `on_bad_row` skips it.
    """
    seen: set[str] = set()
    number = 0
    for location, article in _items(_parsed(data, path), "data", "", path):
        for inner, paragraph in _items(article, "paragraphs", location, path):
            try:
                context = _text(paragraph, "context", inner, path)
            except DataError as error:
                on_bad_row(error)
                continue
            for where, question in _items(paragraph, "qas", inner, path):
                number += 1
                try:
                    row = _row(question, context, where, path)
                    if row["id"] in seen:
                        raise _problem(f"{where}: the id {row['id']!r} occurs twice; give each question its own", path)
                except DataError as error:
                    on_bad_row(error)
                    continue
                seen.add(row["id"])
                yield Row(row, path, number, own_columns=True)
    if not number:
        raise DataError(f"has no questions; the format is {_TEMPLATE}", path=path)


def _parsed(data: BinaryIO, path: str) -> Any:
    try:
        content = data.read(MAX_SQUAD_BYTES + 1)
        if len(content) > MAX_SQUAD_BYTES:
            raise DataError(
                f"is larger than {MAX_SQUAD_BYTES >> 20} MiB; split it, or write one question per line", path=path
            )
        return json.loads(content, parse_constant=refuse_constant)
    except (EOFError, OSError, zlib.error) as error:
        message = describe_error(error)
    except UnicodeDecodeError as error:
        message = f"byte {error.start + 1} is not UTF-8; {CONVERT}"
    except json.JSONDecodeError as error:
        message = f"line {error.lineno}, column {error.colno}: bad JSON: {error.msg}; the format is {_TEMPLATE}"
    except ValueError as error:  # NaN, or an integer with thousands of digits
        message = f"bad JSON: {error}; the format is {_TEMPLATE}"
    except RecursionError:
        message = f"is nested too deeply; the format is {_TEMPLATE}"
    raise DataError(message, path=path)


def _items(values: Any, key: str, location: str, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the items of a list with their locations; raise a DataError if it is not a list."""
    where = f"{location}.{key}" if location else key
    if not isinstance(values, dict) or key not in values:
        got = "is not an object" if not isinstance(values, dict) else f"has no key {key!r}"
        raise DataError(f"{location or 'the file'} {got}; the format is {_TEMPLATE}", path=path)
    if not isinstance(values[key], list):
        raise DataError(f"{where} is not a list; the format is {_TEMPLATE}", path=path)
    for number, item in enumerate(values[key]):
        yield f"{where}[{number}]", item


def _text(values: Any, key: str, location: str, path: str) -> str:
    if not isinstance(values, dict):
        raise _problem(f"{location} is not an object", path)
    value = values.get(key)
    if not isinstance(value, str) or not value.strip():
        got = "is empty" if value is None or isinstance(value, str) else f"is {str(value)[:40]}"
        raise _problem(f"{location}: {key!r} {got if key in values else 'is missing'}; a text is required", path)
    return value


def _row(values: Any, context: str, location: str, path: str) -> dict[str, Any]:
    name = _text(values, "id", location, path)
    try:
        row: dict[str, Any] = {"id": name, "question": _text(values, "question", location, path), "context": context}
    except DataError:
        raise _problem(f"{location} (id {name!r}): 'question' is missing or empty; a text is required", path) from None
    impossible = values.get("is_impossible")
    if impossible and values.get("answers"):
        raise _problem(f"{location} (id {name!r}): is_impossible is true, but there are answers", path)
    if impossible or "answers" in values:
        row["answers"] = [] if impossible else values["answers"]
    return row


def _problem(message: str, path: str) -> DataError:
    return DataError(f"{message}; correct it or pass --on-bad-row skip", path=path)


def read_answers(value: Any, context: str) -> Answers | str:
    """Return the answers in a column, or a message if they are invalid.

    Each must occur in the context, character for character, at its start (counted in characters from 0).
    """
    pairs = _answer_pairs(value)
    if isinstance(pairs, str):
        return pairs
    for number, (text, start) in enumerate(pairs, 1):
        if not isinstance(text, str) or not text.strip():
            return f"answer {number} is empty or not a text ({str(text)[:40]!r}); allowed: a span of the context"
        if isinstance(start, bool) or not isinstance(start, int):
            return f"answer {number} ({text[:40]!r}) starts at {str(start)[:40]!r}; allowed: the index of a character"
        actual = context[start : start + len(text)] if start >= 0 else ""
        if actual != text:
            index = context.find(text)
            hint = f"it occurs at {index}" if index >= 0 else "it does not occur in the context"
            got = f"answer {number}, {text[:40]!r}, is not at character {start} of the context"
            return f"{got}, where {actual[:40]!r} is; {hint}"
    return Answers(tuple(text for text, _ in pairs), tuple(start for _, start in pairs))


def _answer_pairs(value: Any) -> list[tuple[Any, Any]] | str:
    if isinstance(value, dict):
        name = next((name for name in _STARTS if name in value), None)
        texts, starts = value.get("text"), value.get(name) if name else None
        if not isinstance(texts, list) or not isinstance(starts, list):
            return f"the answers are {str(value)[:60]}; {_ANSWERS}"
        if len(texts) != len(starts):
            return f"the answers have {len(texts)} texts but {len(starts)} starts; give each text one"
        return list(zip(texts, starts, strict=True))
    if isinstance(value, list):
        if all(isinstance(item, dict) and {"text", "answer_start"} <= item.keys() for item in value):
            return [(item["text"], item["answer_start"]) for item in value]
        return f"the answers are {str(value)[:60]}; {_ANSWERS}"
    return f"the answers are {'missing' if value is None else repr(value)[:60]}; {_ANSWERS}"
