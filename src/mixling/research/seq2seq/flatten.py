"""Flattening rows that hold several examples, or nested ones: MultiRC, ReCoRD, WSC.

The first two have a passage with many questions in SuperGLUE's files (Wang et al. 2019), and flat rows on hubs. A
question is identified by file, line and number; in flat MultiRC rows, which hold one of several answers, by a hash of
paragraph and question.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mixling.data.readers.rows import SKIP, Row
from mixling.data.values import row_error
from mixling.errors import DataError

_MULTIRC = '{"passage": {"text": ..., "questions": [{"question": ..., "answers": [{"text": ..., "label": ...}]}]}}'
_RECORD = '{"passage": {"text": ..., "entities": [{"start", "end"}]}, "qas": [{"query", "answers": [{"text": ...}]}]}'
_WSC = '{"text": ..., "target": {"span1_text": ..., "span2_text": ..., "span2_index": ...}}'


@dataclass(frozen=True, slots=True)
class FlatPart:
    """A flat example; `where` is its location in the row, if that holds several, and `question` is as in `Pair`."""

    values: Mapping[str, Any]
    where: str = ""
    question: str | None = None


def problem(row: Row, message: str) -> DataError:
    """Return an error about a row."""
    return row_error(row, f"{message}; correct the row {SKIP}")


def identity(row: Row) -> Iterator[FlatPart]:
    """Yield the row unchanged."""
    yield FlatPart(row.values)


def multirc(row: Row) -> Iterator[FlatPart]:
    """Yield an example for each answer: question, answer, paragraph, label; without <b>, </b> and <br>, as in T5."""
    encoding = row.values.get("passage")
    if not isinstance(encoding, dict):  # flat
        values = {**row.values, "paragraph": _without_marks(row.values.get("paragraph", encoding))}
        name = f"{values['paragraph']}\0{values.get('question')}"
        yield FlatPart(values, question=hashlib.blake2b(name.encode(), digest_size=12).hexdigest())
        return
    paragraph = _without_marks(encoding.get("text"))
    for number, location, question in _items(row, encoding, "questions", "passage", _MULTIRC):
        for _, where, answer in _items(row, question, "answers", location, _MULTIRC):
            flat = {"paragraph": paragraph, "question": question.get("question")}
            flat |= {"answer": _object(row, answer, where, _MULTIRC).get("text"), "label": answer.get("label")}
            yield FlatPart(flat, f"{where}: ", f"{row.path}:{row.line}:{number}")


def record(row: Row) -> Iterator[FlatPart]:
    """Yield an example for each query: query, entities, passage, and as label the list of correct entities, if known.

    Entities and answers are listed once each, in the file's order. The summary's points, marked @highlight, become
    sentences, as in T5.
    """
    values = row.values
    encoding = values.get("passage")
    if not isinstance(encoding, dict):  # flat
        flat = {"query": values.get("query"), "passage": _sentences(encoding), "label": values.get("answers")}
        flat["entities"] = _joined(row, values.get("entities"))
        yield FlatPart(flat, question=f"{row.path}:{row.line}")
        return
    text = encoding.get("text")
    spans = _items(row, encoding, "entities", "passage", _RECORD)
    entities = _joined(row, [_span(row, text, *item[1:]) for item in spans])
    for number, location, query in _items(row, values, "qas", "", _RECORD):
        query = _object(row, query, location, _RECORD)
        label = None
        if query.get("answers") is not None:
            answers = _items(row, query, "answers", location, _RECORD)
            label = [_object(row, answer, where, _RECORD).get("text") for _, where, answer in answers]
        flat = {"query": query.get("query"), "entities": entities, "passage": _sentences(text), "label": label}
        yield FlatPart(flat, f"{location}: ", f"{row.path}:{row.line}:{number}")


def wsc(row: Row) -> Iterator[FlatPart]:
    """Yield noun, text with the pronoun between asterisks, and label.

    The pronoun is the word (separated by white space) with the number `span2_index`. If that is another word, the
    nearest occurrence of the pronoun is used: one row of SuperGLUE's validation set has a number that is off by one.
    """
    values = row.values
    spans = values.get("target", values.get("text_pair", values))
    if isinstance(spans, str):
        try:
            spans = json.loads(spans)
        except (ValueError, RecursionError):
            raise problem(row, f"the spans are {spans[:40]!r}, which is not JSON; the format is {_WSC}") from None
    spans = _object(row, spans, "the spans", _WSC)
    text = values.get("text")
    pronoun = spans.get("span2_text")
    index = spans.get("span2_index")
    if isinstance(index, str) and re.fullmatch(r"[0-9]{1,6}", index):  # from CSV
        index = int(index)
    if not isinstance(text, str) or not isinstance(pronoun, str) or not pronoun.strip():
        raise problem(row, f"the text or the pronoun ('span2_text') is missing or empty; the format is {_WSC}")
    if isinstance(index, bool) or not isinstance(index, int):
        raise problem(row, f"'span2_index' is {str(index)[:40]!r}; the number of a word is needed, from 0")
    pronoun = pronoun.strip()
    here = re.compile(rf"{re.escape(pronoun)}(?!\w)")
    words = enumerate(re.finditer(r"\S+", text))
    locations = [(abs(number - index), word.start()) for number, word in words if here.match(text, word.start())]
    if not locations:
        raise problem(row, f"the pronoun {pronoun!r} ('span2_text') is not a word of the text {text[:40]!r}")
    start = min(locations)[1]
    end = start + len(pronoun)
    marked = f"{text[:start]}*{text[start:end]}*{text[end:]}"
    yield FlatPart({"noun": spans.get("span1_text"), "text": marked, "label": values.get("label")})


def _items(row: Row, values: Any, key: str, location: str, template: str) -> Iterator[tuple[int, str, Any]]:
    """Yield the items of a list with their numbers, from 0, and locations."""
    items = _object(row, values, location or "the row", template).get(key)
    where = f"{location}.{key}" if location else key
    if not isinstance(items, list):
        raise problem(row, f"{where} is {'missing' if items is None else 'not a list'}; the format is {template}")
    for number, item in enumerate(items):
        yield number, f"{where}[{number}]", item


def _object(row: Row, value: Any, location: str, template: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise problem(row, f"{location}: got {str(value)[:40]!r}, not an object; the format is {template}")
    return value


def _span(row: Row, text: Any, location: str, span: Any) -> str:
    """Return the entity at a span, whose end is its last character."""
    span = _object(row, span, location, _RECORD)
    start = span.get("start")
    end = span.get("end")
    size = len(text) if isinstance(text, str) else 0
    ends = (start, end)
    if any(isinstance(n, bool) or not isinstance(n, int) for n in ends) or not 0 <= start <= end < size:
        got = f"{location}: start {str(start)[:20]!r} and end {str(end)[:20]!r}"
        raise problem(row, f"{got} are not the first and last character of a span in the passage, which has {size}")
    return str(text[start : end + 1])


def _joined(row: Row, entities: Any) -> str:
    if not isinstance(entities, list) or not all(isinstance(entity, str) for entity in entities):
        raise problem(row, f"the entities are {str(entities)[:40]!r}; a list of strings is allowed, or {_RECORD}")
    return ", ".join(dict.fromkeys(entities))


def _without_marks(paragraph: Any) -> Any:
    return re.sub(r"</?b>", "", paragraph.replace("<br>", " ")) if isinstance(paragraph, str) else paragraph


def _sentences(encoding: Any) -> Any:
    if not isinstance(encoding, str):
        return encoding
    return re.sub(r"(?<=[.?!\"'])\n@highlight\n", " ", encoding).replace("\n@highlight\n", ". ")
