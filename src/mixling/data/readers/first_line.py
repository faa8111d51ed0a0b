"""Tell whether the first line of a table has the names of its columns, or is a row."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"\s*[-+]?\d[\d.,]*([eE][-+]?\d+)?\s*")
_CODE = re.compile(r"\s*(__label__\S+|[0-9a-fA-F]{8,}(-[0-9a-fA-F]{4,})*|\S*\d{4,}\S*|\S+://\S+|\S+@\S+\.\w+)\s*")
DATE = re.compile(r"\s*(\d{4}-\d\d?-\d\d?|\d\d?[./]\d\d?[./]\d{2,4}|(Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b.* \d).*", re.DOTALL)
_KINDS = (_NUMBER, DATE, _CODE)
_NAMES = {
    "text", "message", "content", "body", "review", "comment", "sentence", "tweet", "title", "description", "query",
    "label", "labels", "class", "target", "category", "topic", "intent", "sentiment", "id", "index", "source",
    "question", "answer", "context", "premise", "hypothesis", "tokens", "slots", "tags", "words", "tag", "word",
}  # fmt: skip
_FEWEST = 3  # rows that show what a column has
_OFTEN = 10  # times that the values of a column occur on average, so that a row has one of them
_REPEATED = 3  # times that a label occurs on average, at least
_WORDS = 3  # that a text has, and the name of a column of texts seldom


def first_line_is_row(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first line is a row like the others; where it may be a header, it is one.

    It is no row if one of its fields is a usual name of a column, or has words where the others have numbers, dates or
    codes, or one of a few values. It is a row if one of its fields is a number, date or code like all others of its
    column, or a label that other rows have and beside it a text.

    Args:
        first: the fields of the first line.
        rows: the fields of later ones.
    """
    width = len(first)
    rows = [row for row in rows if len(row) == width]
    if width < 2 or len(rows) < _FEWEST or any(field.strip().lower() in _NAMES for field in first):
        return False
    named = [field.strip() for field in first if field.strip()]
    if any(named == list(map(str, range(start, start + len(named)))) for start in (0, 1)):
        return False  # as pandas names columns without names
    is_row = False
    is_label = False
    longest = (0.0, "")
    for field, values in zip(first, map(list, zip(*rows, strict=True)), strict=True):
        filled = [value for value in values if value.strip()]
        if not filled:
            continue
        longest = max(longest, (sum(map(len, filled)) / len(filled), field))
        kind = next((kind for kind in _KINDS if all(map(kind.fullmatch, filled))), None)
        if kind is not None and field.strip():
            if not kind.fullmatch(field):
                return False
            is_row = True
        elif field.strip() and field not in filled and len(filled) >= _OFTEN * len(set(filled)):
            return False
        elif filled.count(field) > 1 and len(filled) >= _REPEATED * len(set(filled)):
            is_label = True
    text = longest[1]
    is_text = len(text.split()) >= _WORDS or (len(text.split()) > 1 and not text.replace(" ", "").isalnum())
    return is_row or (is_label and is_text)
