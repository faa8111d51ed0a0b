"""Rows that hold more than one flat example, or hold it otherwise than in columns: MultiRC, ReCoRD, WSC.

The first two have a passage with many questions, as SuperGLUE's files write them (Wang et al. 2019), or are flat, as
hubs do. A question's name is the place of its row and its number there; of a flat MultiRC row, which holds one answer
of several, it is a hash of paragraph and question.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mixling.data.readers.rows import Row
from mixling.errors import DataError

_MULTIRC = '{"passage": {"text": ..., "questions": [{"question": ..., "answers": [{"text": ..., "label": ...}]}]}}'
_RECORD = '{"passage": {"text": ..., "entities": [{"start", "end"}]}, "qas": [{"query", "answers": [{"text": ...}]}]}'
_WSC = '{"text": ..., "target": {"span1_text": ..., "span2_text": ..., "span2_index": ...}}'


@dataclass(frozen=True, slots=True)
class Part:
    """A flat example of a row; `where` is its place in the row, if that holds several, and `question` as in `Pair`."""

    values: Mapping[str, Any]
    where: str = ""
    question: str | None = None


def problem(row: Row, message: str) -> DataError:
    """What is wrong with a row, and what can be done."""
    return DataError(f"{message}; correct the row or pass --on-bad-row skip", path=row.path, line=row.line)


def whole(row: Row) -> Iterator[Part]:
    """The row as it stands."""
    yield Part(row.values)


def multirc(row: Row) -> Iterator[Part]:
    """A part for each answer: question, answer, paragraph, label; without the marks <b>, </b> and <br>, as in T5."""
    encoding = row.values.get("passage")
    if not isinstance(encoding, dict):  # flat
        values = {**row.values, "paragraph": _without_marks(row.values.get("paragraph", encoding))}
        name = f"{values['paragraph']}\0{values.get('question')}"
        yield Part(values, question=hashlib.blake2b(name.encode(), digest_size=12).hexdigest())
        return
    paragraph = _without_marks(encoding.get("text"))
    for number, location, question in _items(row, encoding, "questions", "passage", _MULTIRC):
        for _, where, answer in _items(row, question, "answers", location, _MULTIRC):
            flat = {"paragraph": paragraph, "question": question.get("question")}
            flat |= {"answer": _object(row, answer, where, _MULTIRC).get("text"), "label": answer.get("label")}
            yield Part(flat, f"{where}: ", f"{row.path}:{row.line}:{number}")


def record(row: Row) -> Iterator[Part]:
    """A part for each query: query, entities, passage, and the list of its right entities as the label, if known.

    Entities and answers are told once each, in the file's order. The summary's points, marked @highlight,
    become sentences, as in T5.
    """
    values = row.values
    encoding = values.get("passage")
    if not isinstance(encoding, dict):  # flat
        flat = {"query": values.get("query"), "passage": _sentences(encoding), "label": values.get("answers")}
        flat["entities"] = _joined(row, values.get("entities"))
        yield Part(flat, question=f"{row.path}:{row.line}")
        return
    text = encoding.get("text")
    found = [_span(row, text, *item[1:]) for item in _items(row, encoding, "entities", "passage", _RECORD)]
    entities = _joined(row, found)
    for number, location, query in _items(row, values, "qas", "", _RECORD):
        query = _object(row, query, location, _RECORD)
        right = None
        if query.get("answers") is not None:
            answers = _items(row, query, "answers", location, _RECORD)
            right = [_object(row, answer, where, _RECORD).get("text") for _, where, answer in answers]
        flat = {"query": query.get("query"), "entities": entities, "passage": _sentences(text), "label": right}
        yield Part(flat, f"{location}: ", f"{row.path}:{row.line}:{number}")


def wsc(row: Row) -> Iterator[Part]:
    """Noun, text with the pronoun between asterisks, label.

    The pronoun stands at the word (what white space divides) with the number `span2_index`. Where another word stands
    there, the nearest that is the pronoun is taken: one row of SuperGLUE's validation set has a number that is off by
        one.
    """
    values = row.values
    spans = values.get("target", values.get("text_pair", values))
    if isinstance(spans, str):
        try:
            spans = json.loads(spans)
        except (ValueError, RecursionError):
            raise problem(row, f"the spans are {spans[:40]!r}, which is not JSON; the form is {_WSC}") from None
    spans = _object(row, spans, "the spans", _WSC)
    text, pronoun, index = values.get("text"), spans.get("span2_text"), spans.get("span2_index")
    if isinstance(index, str) and re.fullmatch(r"[0-9]{1,6}", index):  # of CSV
        index = int(index)
    if not isinstance(text, str) or not isinstance(pronoun, str) or not pronoun.strip():
        raise problem(row, f"the text or the pronoun ('span2_text') is missing or empty; the form is {_WSC}")
    if isinstance(index, bool) or not isinstance(index, int):
        raise problem(row, f"'span2_index' is {str(index)[:40]!r}; the number of a word is needed, from 0")
    pronoun = pronoun.strip()
    here = re.compile(rf"{re.escape(pronoun)}(?!\w)")
    words = enumerate(re.finditer(r"\S+", text))
    locations = [(abs(number - index), word.start()) for number, word in words if here.match(text, word.start())]
    if not locations:
        raise problem(row, f"the pronoun {pronoun!r} ('span2_text') is no word of the text {text[:40]!r}")
    start = min(locations)[1]
    end = start + len(pronoun)
    marked = f"{text[:start]}*{text[start:end]}*{text[end:]}"
    yield Part({"noun": spans.get("span1_text"), "text": marked, "label": values.get("label")})


def _items(row: Row, values: Any, key: str, location: str, template: str) -> Iterator[tuple[int, str, Any]]:
    """The items of a list with their numbers, from 0, and places."""
    items = _object(row, values, location or "the row", template).get(key)
    where = f"{location}.{key}" if location else key
    if not isinstance(items, list):
        raise problem(row, f"{where} is {'missing' if items is None else 'not a list'}; the form is {template}")
    for number, item in enumerate(items):
        yield number, f"{where}[{number}]", item


def _object(row: Row, value: Any, location: str, template: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise problem(row, f"{location}: got {str(value)[:40]!r}, no object; the form is {template}")
    return value


def _span(row: Row, text: Any, location: str, span: Any) -> str:
    """The entity at a span, whose end is its last character."""
    span = _object(row, span, location, _RECORD)
    start, end = span.get("start"), span.get("end")
    size = len(text) if isinstance(text, str) else 0
    ends = (start, end)
    if any(isinstance(n, bool) or not isinstance(n, int) for n in ends) or not 0 <= start <= end < size:
        got = f"{location}: start {str(start)[:20]!r} and end {str(end)[:20]!r}"
        raise problem(row, f"{got} are no first and last character of the passage, which has {size}")
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
