"""Guess which columns of a table are the text and the label, from their names and from the first rows."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mixling.data.number_codes import plain_number
from mixling.data.readers import OnBadRow, read_rows
from mixling.data.readers.annotations import plain_rows
from mixling.data.readers.first_line import DATE
from mixling.data.readers.rows import Row, flat
from mixling.data.values import is_blank, mark_of
from mixling.errors import DataError

ROWS = 1000  # that are looked at
MOST_LABELS = 200  # different values that are taken for labels without asking
# Columns that other tasks read; a table that has them is not guessed at.
_OF_TASKS = (
    {"tokens"}, {"slots"}, {"spans"}, {"entities"}, {"question", "context"}, {"source", "target"},
)  # fmt: skip
_TEXT_NAMES = (
    "text", "message", "content", "body", "review", "comment", "sentence", "utterance", "query", "document",
    "description", "abstract", "tweet", "post", "email", "mail", "feedback", "complaint", "summary", "headline",
    "title", "subject", "news", "article", "question",
)  # fmt: skip
_LABEL_NAMES = (
    "label", "labels", "class", "target", "category", "topic", "intent", "sentiment", "y", "tag", "tags", "genre",
    "polarity", "stars", "rating", "score", "emotion", "spam", "toxic", "department", "priority",
)  # fmt: skip
_EXPLICIT = ("label", "labels", "class", "target")  # names that leave no doubt
_PAIR_ENDS = (("1", "2"), ("a", "b"), ("premise", "hypothesis"))
_EXAMPLES = 3
_REPEATED = 3  # times that each label occurs on average, at least
_LIKE = 0.5  # a column of texts this long beside the longest may be meant, too
_DATE_OR_LINK = re.compile(rf"{DATE.pattern}|\s*\S+://.*", re.DOTALL)
_NO_WORDS = re.compile(r"\s*(\S+://\S+|\S+@\S+\.\S+|[\d\W_]*|[0-9a-f]{8,}(-[0-9a-f]{4,})*)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class TableColumn:
    """What the first rows have in a column.

    Attributes:
        values: how many different values it has.
        examples: the most frequent values.
        filled: how many rows have a value.
        length: the mean number of characters of its values.
        words: the share of values that are words: not numbers, dates, links or codes alone.
        marks: whether its values are 0 and 1, as of a column for each label.
    """

    name: str
    values: int
    filled: int
    length: float
    words: float
    examples: tuple[str, ...] = ()
    marks: bool = False

    @property
    def is_text(self) -> bool:
        """Whether its values may be the texts: words, most of them different."""
        return self.words > 0.5 and self.values > max(2, 0.3 * self.filled)

    @property
    def is_label(self) -> bool:
        """Whether its values may be labels: at least two, which repeat; or numbers, if its name says so."""
        repeats = self.values >= 2 and self.filled >= _REPEATED * self.values
        return repeats or (self.words < 0.1 and self.values >= 2 and _rank(self.name, _LABEL_NAMES) is not None)


@dataclass(frozen=True)
class Guess:
    """The columns that may be the text, a second text and the label.

    Attributes:
        rows: how many rows were looked at, up to `ROWS`.
        text, label: the columns; several: the rows do not say which. Empty: none may be.
        text_pair: the column of the second text of a pair.
        why_text, why_label: why it is this column.
        others: further columns that may be the label.
        columns: the names of all columns.
        has_header: whether the first line has names; False: it looks like a row.
    """

    rows: int
    text: tuple[TableColumn, ...]
    text_pair: TableColumn | None
    label: tuple[TableColumn, ...]
    why_text: str
    why_label: str
    others: tuple[str, ...]
    columns: tuple[str, ...]
    has_header: bool


def guess_columns(
    source: str,
    *,
    text: str | None = None,
    text_pair: Sequence[str] = (),
    label: str | None = None,
    beside: Sequence[str] = (),
) -> Guess | None:
    """Guess the columns of a file; None: they have the default names, belong to another task, or there is no row.

    Args:
        text, text_pair, label: the columns that are known; of further texts that belong to it, all.
        beside: columns that are neither, as they are beside the text.

    Raises:
        DataError: the file cannot be read.
    """
    rows = first_rows(source)
    guess = _guess(rows, text, text_pair, label, beside)
    if guess is None or guess.label or not guess.text or len(rows) < ROWS:
        return guess
    # Rows may be sorted by their labels.
    return _guess(first_rows(source, everywhere=True), text, text_pair, label, beside)


def _guess(
    rows: Sequence[Row], text: str | None, further: Sequence[str], label: str | None, beside: Sequence[str]
) -> Guess | None:
    names = {name for row in rows for name in row.values}
    unknown = {text, *further, label} - {None} - names  # reported when the file is read
    is_pair = not text and not further and {"text", "text_pair"} <= names  # as the columns are called by default
    usual = (text, "" if is_pair else "text"), (label, "label")
    text, label = (known or (name if name in names else None) for known, name in usual)
    if not names or (text and label) or unknown or any(wanted <= names for wanted in _OF_TASKS):
        return None
    if any(_has_structure(value) for row in rows for value in row.values.values()):  # as annotation tools write
        return None
    found = (_column(name, rows) for name in rows[0].values if name not in beside)
    columns = [column for column in found if column is not None]
    candidates = [one for one in columns if one.is_text and one.name not in (*further, label)]
    texts = _named(columns, text) or _texts(candidates)
    pair = [] if text or further else _pair(candidates)
    if is_pair:
        pair = [*_named(columns, "text"), *_named(columns, "text_pair")]
    texts, why_text = (pair[:1], "a pair by their names") if pair else _choose(texts, _TEXT_NAMES)
    taken = {*further, *(column.name for column in (*texts, *pair))}
    free = [one for one in columns if one.is_label and one.name not in taken]
    free = [one for one in free if one.values <= MOST_LABELS] or free
    labels = _named(columns, label) or sorted(free, key=lambda one: one.values)
    labels, why_label = _choose(labels, _LABEL_NAMES)
    rest = [one for one in columns if one.name not in taken]
    if not labels and len(rest) == 1 and _is_measured(rest[0]):
        labels = rest
        why_label = "the only other column"
    return Guess(
        rows=len(rows),
        text=tuple(texts),
        text_pair=pair[1] if len(pair) > 1 else None,
        label=tuple(labels),
        why_text=why_text or "the longest texts",
        why_label=why_label or "its values repeat",
        others=tuple(column.name for column in free if column not in labels),
        columns=tuple(rows[0].values),
        has_header=_is_numbered(rows) or not any(_is_value(one.name, rows) for one in (*texts[:1], *labels[:1])),
    )


def _is_measured(column: TableColumn) -> bool:
    """Whether the values are amounts, or numbers with fractions, rather than the numbers of rows."""
    return all(plain_number(value) not in (None, value) or "." in value for value in column.examples)


def _has_structure(value: object) -> bool:
    """Whether a value is an object, or a list of objects or lists."""
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict | list) for one in value))


def _is_numbered(rows: Sequence[Row]) -> bool:
    """Whether numbers name the columns, from 0 as pandas writes, or from 1 where a file has no header."""
    names = [*rows[0].values]
    return any(names == [str(start + place) for place in range(len(names))] for start in (0, 1))


def _is_value(name: str, rows: Sequence[Row]) -> bool:
    """Whether the name of a column is one of its values, such as a label."""
    return any(row.values.get(name) == name for row in rows)


def is_label_name(name: str) -> bool:
    """Return whether a column is called what columns of labels are called."""
    return _rank(name, _LABEL_NAMES) is not None


def first_rows(source: str, *, everywhere: bool = False) -> list[Row]:
    """Return the first rows of a file, up to `ROWS`, without bad ones.

    Args:
        everywhere: rows of the whole file, at equal distances, instead of the first.

    Raises:
        DataError: there are none.
    """
    rows: list[Row] = []
    try:
        found = flat(plain_rows(read_rows(source, on_bad_row=OnBadRow("skip"))))
        if not everywhere:
            rows += itertools.islice(found, ROWS)
            return rows
        step = 1
        for number, row in enumerate(found):
            if number % step == 0:
                rows.append(row)
            if len(rows) > 2 * ROWS:
                rows = rows[::2]
                step = 2 * step
        del rows[:: max(len(rows) // max(len(rows) - ROWS, 1), 2)], rows[ROWS:]
    except DataError:
        if not rows:  # otherwise it is reported, with its line, when the file is read
            raise
    return rows


def _named(columns: Sequence[TableColumn], name: str | None) -> list[TableColumn]:
    return [column for column in columns if column.name == name]


def _column(name: str, rows: Sequence[Row]) -> TableColumn | None:
    """Describe a column; None: it has no name or values, or objects, or dates or links; of lists, their items count."""
    values = [value for row in rows if not is_blank(value := row.values.get(name))]
    lists = [value for value in values if isinstance(value, list)]
    if not name or not values or any(isinstance(value, dict | bytes) for value in values):
        return None
    if lists:
        items = {str(item) for value in lists for item in value}
        return TableColumn(name, values=len(items), filled=len(values), length=0, words=0)
    written = list(map(str, values))
    if all(map(_DATE_OR_LINK.fullmatch, written)):
        return None
    return TableColumn(
        name=name,
        values=len(set(written)),
        filled=len(written),
        length=sum(map(len, written)) / len(written),
        words=sum(_NO_WORDS.fullmatch(value) is None for value in written) / len(written),
        examples=tuple(value for value, _ in Counter(written).most_common(_EXAMPLES)),
        marks=all(mark_of(value) is not None for value in values),
    )


def _texts(columns: Sequence[TableColumn]) -> list[TableColumn]:
    """Return the columns that may be the texts: the longest, and others nearly as long."""
    found = sorted(columns, key=lambda column: -column.length)
    return [column for column in found if column.length >= _LIKE * found[0].length]


def _pair(texts: Sequence[TableColumn]) -> list[TableColumn]:
    """Return two columns whose names say that they are a pair, such as sentence1 and sentence2; else none."""
    for first in texts:
        for second in texts:
            for ends in _PAIR_ENDS:
                stems = [one.name.lower().removesuffix(end) for one, end in zip((first, second), ends, strict=True)]
                if first is not second and stems[0] == stems[1] and first.name.lower() != stems[0]:
                    return [first, second]
    return []


def _choose(columns: list[TableColumn], names: Sequence[str]) -> tuple[list[TableColumn], str]:
    """Return the one column whose name says it, with the reason; else all of them and ""."""
    named = [(rank, column) for column in columns if (rank := _rank(column.name, names)) is not None]
    explicit = [(rank, column) for rank, column in named if names[rank] in _EXPLICIT]
    for found in (named, explicit):
        if len(columns) > 1 and len(found) == 1:
            return [found[0][1]], "by its name"
    return columns, ""


def _rank(name: str, names: Sequence[str]) -> int | None:
    """Return the place of a column's name, or of a word of it, among known names; None: it is not there."""
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
    return min((names.index(word) for word in words if word in names), default=None)
