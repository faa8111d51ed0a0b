"""Spans of characters, as annotation tools write them, as words and IOB2 tags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mixling.answers.spans import Span
from mixling.data.cells import read_cell
from mixling.text.words import word_spans

SPAN_COLUMNS = ("spans", "entities", "ents", "annotations", "annotation", "label", "labels")
"""The columns that may hold spans; the first one that does is read."""

_STARTS = ("start", "start_offset", "begin", "offset")
_ENDS = ("end", "end_offset", "stop")
_LABELS = ("label", "labels", "tag", "type", "entity", "entity_type", "entity_group", "name", "category")
ALLOWED = '[start, end, "name"], or an object with start, end and label'


class SpanError(ValueError):
    """A span cannot be read, or not be written as tags of words."""


def span_column(rows: Iterable[Mapping[str, Any]], text: str) -> str | None:
    """Return the column in which rows with a text have spans of characters; None if there is none."""
    for row in rows:
        for name in SPAN_COLUMNS if isinstance(row.get(text), str) else ():
            if is_spans(row.get(name)):
                return name
    return None


def is_spans(value: Any) -> bool:
    """Return whether a value is a list of spans, at least of one."""
    items = list_in(value)
    return bool(items) and all(map(_is_span, items or ()))


def list_in(value: Any) -> list[Any] | None:
    """Return a list, also if it is written as text in a cell; None for anything else."""
    found = read_cell(value)
    return found if isinstance(found, list) else None


def _is_span(item: Any) -> bool:
    if isinstance(item, dict):
        return any(name in item for name in _STARTS) and any(name in item for name in (*_ENDS, "length"))
    return isinstance(item, list | tuple) and len(item) == 3 and None not in map(_index, _in_order(item)[:2])


def _in_order(item: Sequence[Any]) -> Sequence[Any]:
    """Return start, end and label; Argilla 1 has the label first."""
    return item if _index(item[0]) is not None else (item[1], item[2], item[0])


def _index(value: Any) -> int | None:
    """Return the number of a character, also if it is written as text; None for anything else."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def tagged_words(text: str, spans: list[Any]) -> tuple[list[str], list[str]]:
    """Return the words of a text, as the library splits it, and their IOB2 tags.

    White space at the ends of a span does not matter.

    Args:
        spans: each is `[start, end, label]` or an object with these, under one of the names that tools use; characters
            are counted from 0, and the end is exclusive.

    Raises:
        SpanError: a span is not within the text, cuts a word or overlaps with another.
    """
    words = word_spans(text, len(text))
    tags = ["O"] * len(words)
    owner: dict[int, Span] = {}
    for span in sorted({_span(item, text) for item in spans}, key=lambda span: (span.start, span.end)):
        cut = next(((a, b) for a, b in words if a < span.start < b or a < span.end < b), None)
        if cut is not None:
            word = f"the word {text[slice(*cut)]!r} (characters {cut[0]} to {cut[1]})"
            raise SpanError(f"{_described(span, text)} cuts {word}; give it whole words")
        inside = [index for index, (a, b) in enumerate(words) if span.start <= a and b <= span.end]
        if not inside:
            raise SpanError(f"{_described(span, text)} has no word; leave it out")
        if taken := [owner[index] for index in inside if index in owner]:
            both = f"{_described(taken[0], text)} and {_described(span, text)}"
            raise SpanError(f"{both} overlap; a word has one tag, so keep one of the two")
        for index in inside:
            owner[index] = span
            tags[index] = f"{'B' if index == inside[0] else 'I'}-{span.label}"
    return [text[a:b] for a, b in words], tags


def _described(span: Span, text: str) -> str:
    """Describe a span in a message."""
    return f"the span {text[span.start : span.end][:40]!r} ({span.label}, characters {span.start} to {span.end})"


def _span(item: Any, text: str) -> Span:
    said = None
    if isinstance(item, dict):
        start, end, label = (
            next((item[name] for name in names if item.get(name) is not None), None)
            for names in (_STARTS, _ENDS, _LABELS)
        )
        said = item.get("text")
        begin = _index(start)
        length = _index(item.get("length"))
        if end is None and begin is not None and length is not None:
            end = begin + length
    else:
        start, end, label = _in_order(item) if isinstance(item, list | tuple) and len(item) == 3 else (None, None, None)
    got = f"got the span {str(item)[:80]}"
    if isinstance(label, list):
        if len(label) > 1:
            raise SpanError(f"{got}, which has {len(label)} labels; a word has one tag, so give each span one")
        label = label[0] if label else None
    start = _index(start)
    end = _index(end)
    if start is None or end is None or isinstance(label, bool) or not isinstance(label, str | int):
        raise SpanError(f"{got}; allowed: {ALLOWED}")
    if not str(label).strip():
        raise SpanError(f"{got}, whose label is empty; allowed: {ALLOWED}")
    if not 0 <= start < end <= len(text):
        raise SpanError(f"{got}, but the text has {len(text)} characters; allowed: 0 <= start < end <= {len(text)}")
    if isinstance(said, str) and said.strip() and said.strip() != text[start:end].strip():
        counted = "characters are counted from 0, as Unicode's code points, and the end is exclusive"
        raise SpanError(f"{got}, but characters {start} to {end} of the text are {text[start:end][:40]!r}; {counted}")
    return Span(str(label).strip(), start, end, 1.0)
