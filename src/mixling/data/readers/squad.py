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

from mixling.answers.questions import Answers
from mixling.data.readers.encodings import conversion
from mixling.data.readers.files import describe_error
from mixling.data.readers.jsonl import refuse_constant
from mixling.data.readers.rows import OnBadRow, Row
from mixling.errors import DataError

MAX_SQUAD_BYTES = 1 << 29  # decompressed; Python objects take several times as much
_HEAD = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*(?:"version"\s*:\s*"[^"]*"\s*,\s*)?"data"\s*:\s*\[(?!\s*(?:\[|\{\s*"(?!paragraphs|title)))'
)
_STARTED = '{"text": [...], "start": [...]}, or a column answer_start beside the text'
_ANSWERS = (
    'allowed: a text that occurs once in the context, or a list of such; {"text": [...], "start": [...]}; SQuAD\'s '
    '[{"text": ..., "answer_start": ...}, ...]; [] for none'
)
_STARTS = ("start", "answer_start")
_PLACES = 10  # of an answer that a message names
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
    yield from rows_of_squad(_parsed(data, path), path, on_bad_row)


def rows_of_squad(values: Any, path: str, on_bad_row: OnBadRow) -> Iterator[Row]:
    """Stream the rows of a parsed file, as `read_squad` does."""
    seen: set[str] = set()
    number = 0
    for location, article in _items(values, "data", "", path):
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
        message = f"byte {error.start + 1} is not UTF-8; {conversion(content, path, error.start)}"
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
    if isinstance(values, dict) and type(values.get("id")) is int:
        values = {**values, "id": str(values["id"])}
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

    Each must occur in the context, character for character, at its start (counted in characters from 0). One without a
    start must occur once.
    """
    pairs = _answer_pairs(value)
    if isinstance(pairs, str):
        return pairs
    starts: list[int] = []
    for number, (text, start) in enumerate(pairs, 1):
        if not isinstance(text, str) or not text.strip():
            return f"answer {number} is empty or not a text ({str(text)[:40]!r}); allowed: a span of the context"
        place = _found(text, context) if start is None else _checked(text, start, context)
        if isinstance(place, str):
            return f"answer {number}, {text[:40]!r}, {place}"
        starts.append(place)
    return Answers(tuple(text for text, _ in pairs), tuple(starts))


def _checked(text: str, start: Any, context: str) -> int | str:
    """Return the start of an answer, or a message if it is not there."""
    if isinstance(start, bool) or not isinstance(start, int):
        return f"starts at {str(start)[:40]!r}; allowed: the index of a character"
    actual = context[start : start + len(text)] if start >= 0 else ""
    if actual == text:
        return start
    index = context.find(text)
    hint = f"it occurs at {index}" if index >= 0 else "it does not occur in the context"
    return f"is not at character {start} of the context, where {actual[:40]!r} is; {hint}"


def _found(text: str, context: str) -> int | str:
    """Return where an answer without a start occurs in the context, or a message if that is not one place."""
    places = [match.start() for match in re.finditer(f"(?={re.escape(text)})", context)]
    if len(places) == 1:
        return places[0]
    if places:
        some = ", ".join(map(str, places[:_PLACES])) + (", ..." if len(places) > _PLACES else "")
        return f"occurs {len(places)} times in the context, at {some}; give its start: {_STARTED}"
    loose = r"\s+".join(map(re.escape, text.split()))
    near = re.search(loose, context, re.IGNORECASE)
    hint = f"; at {near.start()} it is written {near[0][:80]!r}" if near else ""
    return f"does not occur in the context{hint}; an answer is a span of the context, character for character"


def _answer_pairs(value: Any) -> list[tuple[Any, Any]] | str:
    """Return the texts of answers with their starts; None: there is none."""
    wrong = f"the answers are {'missing' if value is None else str(value)[:60]}; {_ANSWERS}"
    if isinstance(value, str) and value.strip():
        return [(value, None)]
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [(text, None) for text in value]
    if isinstance(value, list) and all(isinstance(item, dict) and "text" in item for item in value):
        return [(item["text"], next((item[name] for name in _STARTS if name in item), None)) for item in value]
    if not isinstance(value, dict) or "text" not in value:
        return wrong
    texts = value["text"]
    starts = next((value[name] for name in _STARTS if name in value), None)
    if isinstance(texts, str) and not isinstance(starts, list):
        return [(texts, starts)]
    if not isinstance(texts, list) or not isinstance(starts, list | None):
        return wrong
    if starts is not None and len(texts) != len(starts):
        return f"the answers have {len(texts)} texts but {len(starts)} starts; give each text one"
    return list(zip(texts, [None] * len(texts) if starts is None else starts, strict=True))
