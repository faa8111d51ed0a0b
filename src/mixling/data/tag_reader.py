"""Read words and their tags: rows of words, a word in each row, and texts with spans of characters."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from mixling.data.character_spans import SPAN_COLUMNS, SpanError, list_in, span_column, tagged_words
from mixling.data.config import ColumnsConfig, column_option
from mixling.data.examples import Example, RowReader
from mixling.data.readers.rows import SKIP, OnBadRow, Row
from mixling.data.tag_schemes import HALF, ImpossibleTagError, TagScheme, recognize, scheme_named, types_of
from mixling.data.values import is_blank, row_error, shown_value, slots_problem, split, string_of, words_of
from mixling.errors import DataError

_SEEN = 500  # sentences with spans from which the scheme of a file is recognized
_LOOKED_AT = 10_000  # sentences that are read for that, if most have no span
_SINGLE = 5  # sentences of one word in a row that are no accident
_OTHERS = {"tokens": ("words",), "slots": ("ner_tags", "ner", "tags", "labels")}  # of the defaults in `ColumnsConfig`


class TagReader(RowReader):
    """Reads tokens and slots, two lists of equal length or two strings split at spaces, as IOB2.

    Tags in other schemes (`data/tag_schemes.py`) are converted. A row may have a text and spans of characters instead,
    and rows for prediction a text alone. With `columns.sentence`, each row has a word, and the words of a
    sentence are joined.
    """

    wanted = ("tokens", "slots")
    of_words = True
    further: ClassVar[tuple[str, ...]] = (*SPAN_COLUMNS, *itertools.chain.from_iterable(_OTHERS.values()))

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._scheme = TagScheme()
        self._hint = ""
        self._spans_name: str | None = None  # the column in which other rows of the file have spans
        given = self.columns.tags
        self._tag_names = [name.strip() for name in given.split(",")] if given and "," in given else None
        self._asked = scheme_named(given) if given and self._tag_names is None else None

    def column(self, key: str, row: Row) -> str | None:
        name = super().column(key, row)
        if name in row.values or name != ColumnsConfig.model_fields[key].default:
            return name
        return next((other for other in _OTHERS.get(key, ()) if split(row.values.get(other)).__class__ is list), name)

    def check_columns(self, row: Row) -> None:
        if (self.labeled or self.columns.text not in row.values) and self._spans_column(row) is None:
            super().check_columns(row)

    def rows(self, rows: Iterator[Row], on_bad_row: OnBadRow) -> Iterator[Row]:
        """Join the words of sentences, and look ahead to recognize the scheme of the tags."""
        rows = super().rows(rows, on_bad_row)
        if self.columns.sentence is not None:
            rows = self._joined(rows, self.columns.sentence, on_bad_row)
        if not self.labeled:
            return rows
        first: list[Row] = []
        try:
            spans = 0
            for row in itertools.islice(rows, _LOOKED_AT):
                first.append(row)
                spans += any(tag != "O" for tag in self._tags(row) or ())
                if spans == _SEEN:
                    break
        except DataError as error:  # the rows before it come first
            rows = _raising(error)
        self._spans_name = span_column((row.values for row in first), self.columns.text)
        tags = [found for row in first if (found := self._tags(row))]
        self._scheme = recognize(tags, self._asked)
        if self._scheme.remark and self._scheme.failures <= HALF:
            on_bad_row.note(f"{first[0].path}: {self._scheme.remark}")
        self._look_at_single_words(first, on_bad_row)
        return itertools.chain(first, rows)

    def example(self, row: Row) -> Example:
        columns = self.columns
        spans = self._spans_column(row)
        tokens_name, slots_name = (self.column(key, row) or "" for key in self.wanted)
        if not self.labeled and (spans is not None or tokens_name not in row.values):
            return Example(string_of(row, columns.text), None, row.path, row.line)
        if spans is not None:
            return self._from_spans(row, spans)
        tokens = words_of(row, tokens_name)
        if not self.labeled:
            return Example(tokens, None, row.path, row.line)
        slots = self._named(row, slots_name, split(row.values.get(slots_name)))
        where = f"column {slots_name!r}"
        if problem := slots_problem(tokens, slots, where):
            raise row_error(row, f"{problem}, {SKIP}")
        try:
            return Example(tokens, tuple(self._scheme.convert(slots)), row.path, row.line)
        except ImpossibleTagError as error:
            error_at = error.index
            problem = f"{where}: bad tag at token {error_at + 1} ({tokens[error_at][:40]!r}): {error}"
        if self._hint:
            raise row_error(row, f"{problem}; {self._hint}")
        if self._scheme.failures > HALF:  # to skip these rows would leave those without spans
            words = "tags of single words, such as parts of speech, are written as spans: B-NOUN"
            scheme = "name the scheme, such as --set data.columns.tags=bioes"
            if not re.search(r"^\w[-_/:.|]|[-_/:.|]\w$", slots[error_at]):  # which is impossible in all schemes
                scheme = "words outside of spans have O"
            raise row_error(row, f"{problem}; {scheme}; {words}")
        raise row_error(row, f"{problem}, {SKIP}")

    def _from_spans(self, row: Row, column: str) -> Example:
        text = string_of(row, self.columns.text)
        value = row.values.get(column)
        spans = [] if is_blank(value) else list_in(value)
        if spans is None:
            raise row_error(row, f"column {column!r} is {shown_value(value)}; allowed: a list of spans, {SKIP}")
        try:
            tokens, slots = tagged_words(text, spans)
        except SpanError as error:
            raise row_error(row, f"column {column!r}: {error}, {SKIP}") from None
        if not tokens:
            raise row_error(row, f"column {self.columns.text!r} has no words to tag; leave the row out, {SKIP}")
        return Example(tokens, tuple(slots), row.path, row.line)

    def _spans_column(self, row: Row) -> str | None:
        """Return the column of spans, which may be empty; None if the row has words instead."""
        values = row.values
        columns = self.columns
        has_tags = self.column("slots", row) in values or not self.labeled
        has_words = isinstance(split(values.get(self.column("tokens", row) or "")), list)
        if columns.text not in values or (has_words and has_tags):
            return None
        if columns.slots in values:
            return columns.slots
        if found := span_column([values], columns.text):
            return found
        names = (name for name in SPAN_COLUMNS if list_in(values.get(name)) is not None)
        return next(names, self._spans_name if self._spans_name in values else None)

    def _tags(self, row: Row) -> Sequence[str] | None:
        """Return the tags of a row, if it has any that can be read."""
        if self._spans_column(row) is not None:
            return None
        name = self.column("slots", row) or ""
        try:
            slots = self._named(row, name, split(row.values.get(name)))
        except DataError:
            return None
        return slots if isinstance(slots, list) and all(isinstance(tag, str) for tag in slots) else None

    def _named(self, row: Row, column: str, slots: Any) -> Any:
        """Return the tags of numbers, where their names are given."""
        if not isinstance(slots, list) or not slots or not all(map(_is_number, slots)):
            return slots
        if self._tag_names is None:
            got = f"column {column!r} has numbers ({', '.join(map(str, slots[:5]))})"
            raise row_error(row, f"{got}; give the names of the tags in their order: --set data.columns.tags=O,B-x,I-x")
        if wrong := [number for number in slots if not 0 <= int(number) < len(self._tag_names)]:
            got = f"column {column!r} has the number {wrong[0]}"
            raise row_error(row, f"{got}, but data.columns.tags names {len(self._tag_names)} tags, from 0 on")
        return [self._tag_names[int(number)] for number in slots]

    def _joined(self, rows: Iterator[Row], column: str, on_bad_row: OnBadRow) -> Iterator[Row]:
        """Yield a row for each sentence: consecutive rows with the same value in a column, or none after the first."""
        current = None
        parts = list[Row]()
        seen: set[Any] | None = set()
        for row in rows:
            value = row.values.get(column)
            if column not in row.values:
                if isinstance(row.values.get(self.column("tokens", row) or ""), str):
                    on_bad_row(self.missing("sentence", column, row))
                else:  # the words of a whole sentence, or a text
                    yield row
                continue
            if not is_blank(value) and value != current and parts:
                yield from self._sentence(parts, on_bad_row)
                parts = []
                if seen is not None and value in seen:
                    again = f"{row.path}: the value {value!r} of {column} comes back on line {row.line}"
                    on_bad_row.note(
                        f"{again}, where a new sentence begins; the rows of a sentence must follow each other"
                    )
                    seen = None  # one line for a file
                if seen is not None:
                    seen.add(current)
            current = current if is_blank(value) else value
            parts.append(row)
        if parts:
            yield from self._sentence(parts, on_bad_row)

    def _sentence(self, rows: list[Row], on_bad_row: OnBadRow) -> Iterator[Row]:
        first = rows[0]
        values = dict(first.values)
        for key in self.wanted:
            name = self.column(key, first) or ""
            if name in values:
                values[name] = [row.values.get(name) for row in rows]
                wrong = next((row for row in rows if is_blank(row.values.get(name))), None)
                if wrong is not None and (key == "tokens" or self.labeled):
                    on_bad_row(row_error(wrong, f"column {name!r} is empty; enter a word with its tag {SKIP}"))
                    return
        yield Row(values, first.path, first.line, first.own_columns)

    def _look_at_single_words(self, rows: list[Row], on_bad_row: OnBadRow) -> None:
        """Say that each row is a sentence if all of them have one word."""
        self._hint = ""
        names = [self.column("tokens", row) or "" for row in rows]
        words = [split(row.values.get(name)) for row, name in zip(rows, names, strict=True)]
        if len(rows) < _SINGLE or not all(isinstance(item, list) and len(item) == 1 for item in words):
            return
        path = rows[0].path
        asked = self.columns.sentence
        if asked is not None:
            got = f"{path}: each sentence has one word; the rows of a sentence must follow each other"
            on_bad_row.note(f"{got}, with the same value in the column {asked}, or none after the first")
            return
        likely = next((name for name in rows[0].values if "sent" in name.lower()), "COLUMN")
        likely = repr(likely) if " " in likely or "#" in likely else likely
        join = f"join the rows of a sentence: {column_option('sentence', likely)}"
        self._hint = f"each row is a sentence; if it is a word, {join}"
        on_bad_row.note(f"{path}: {self._hint}")


def tagged_columns(rows: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """Return the columns of words and tags under the names that other libraries use; None if there are none.

    In most rows both have one length, and the tags are tags, or numbers in lists.
    """
    for words, tags in itertools.product(("tokens", "words"), _OTHERS["slots"]):
        both = [(split(row.get(words)), split(row.get(tags))) for row in rows]
        found = [b for a, b in both if isinstance(a, list) and isinstance(b, list) and len(a) == len(b)]
        if 2 * len(found) <= len(both):
            continue
        numbers = all(isinstance(tag, int) for slots in found for tag in slots)
        if numbers or (all(isinstance(tag, str) for slots in found for tag in slots) and types_of(found) is not None):
            return words, tags
    return None


def _is_number(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, str) and value.isdecimal())


def _raising(error: DataError) -> Iterator[Row]:
    raise error
    yield  # a generator raises when its first item is asked for
