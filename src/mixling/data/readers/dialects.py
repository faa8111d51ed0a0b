"""Find out how a table is written, from its first lines: what separates its fields, and what its quotes mean."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from mixling.errors import DataError

DELIMITERS = {"csv": ",;\t|^~\x01", "tsv": "\t,;|^~\x01"}  # where the first rows fit several, the first one is taken
_SEP = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
_NUMBER = re.compile(r"\s*[-+.\d][\d.,eE+-]*\s*|")
_BLANK_DELIMITER = re.compile(r'"[^"]+"( "[^"]+")+\s*')  # a header as R writes it
_BACKSLASH = re.compile(r"""\\([\\"']?)""")


@dataclass(frozen=True, slots=True)
class Dialect:
    r"""How rows are written.

    Attributes:
        quote: encloses fields, and is doubled in them; "": quotes are characters like others.
        backslash: in fields, `\"` is a quote and `\\` a backslash, as `pandas` (`escapechar`), Spark and MySQL write.
        spaced: a blank may stand between a delimiter and a quote.
        unnamed: the column that all rows have and the header does not: the "first", with the row names that R writes;
            or the "last", an empty one, after a delimiter at the end of each row.
        numbered: there is no header, so that the columns are named 1, 2, ...
    """

    delimiter: str
    quote: str = '"'
    backslash: bool = False
    spaced: bool = False
    unnamed: Literal["", "first", "last"] = ""
    numbered: bool = False

    def reader(self, lines: Iterable[str], *, strict: bool = True) -> Iterator[list[str]]:
        """Return Python's reader of lines."""
        options: dict[str, Any] = {"delimiter": self.delimiter, "strict": strict, "skipinitialspace": self.spaced}
        if not self.quote:
            return csv.reader(lines, quoting=csv.QUOTE_NONE, **options)
        if self.backslash:
            options["escapechar"] = "\\"
            lines = map(self.prepared, lines)
        return csv.reader(lines, quotechar=self.quote, **options)

    def prepared(self, line: str) -> str:
        """Double the backslashes that are none of `\\` and of escaped quotes; Python's reader would drop them."""
        return _BACKSLASH.sub(lambda found: found[0] if found[1] else "\\\\", line)

    def fields(self, line: str) -> list[str] | None:
        """Return the fields of a line; None if it is no complete row."""
        try:
            return next(self.reader([line]), None)
        except csv.Error:
            return None


def named_delimiter(line: str) -> str | None:
    """Return the delimiter that a line such as Excel's `sep=;` names; None if it is no such line."""
    found = _SEP.fullmatch(line)
    return found[1] if found else None


def is_remark(head: Sequence[str], kind: str) -> bool:
    """Return whether the first line is a remark, such as PowerShell's `#TYPE`, above the header."""
    rest = [line for line in head if not line.lstrip("\ufeff").startswith("#")]
    if not rest or rest[0] is head[0]:
        return False
    dialect = dialect_of(rest, kind)
    width = len(dialect.fields(rest[0]) or ())
    return width > 1 and len(dialect.fields(head[0]) or ()) != width


def unnamed_column(width: int, head: Sequence[str], dialect: Dialect) -> Literal["", "first", "last"]:
    """Return `Dialect.unnamed` of a table whose header has `width` names."""
    rows = whole_rows(head[1:], dialect)
    if not rows or set(map(len, rows)) != {width + 1}:
        return ""
    if not any(row[-1] for row in rows):
        return "last"
    counted = list(map(str, range(1, len(rows) + 1)))
    return "first" if [row[0] for row in rows] == counted else ""


def whole_rows(head: Sequence[str], dialect: Dialect) -> list[list[str]]:
    """Return the fields of the first rows, without the last one, which may be cut; none if they cannot be read."""
    try:
        return [row for row in dialect.reader(head[:-1] or head, strict=False) if row]
    except csv.Error:
        return []


def dialect_of(head: Sequence[str], kind: str, delimiter: str | None = None) -> Dialect:
    """Return how a table is written: the delimiter that gives the first rows the header's width, whatever it holds.

    Args:
        head: its first lines, beginning with the header.
        kind: csv or tsv.
        delimiter: if it is known.
    """
    signs = delimiter or "".join(sign for sign in DELIMITERS[kind] if sign in head[0])
    if not signs:
        return Dialect(" " if _BLANK_DELIMITER.fullmatch(head[0]) else DELIMITERS[kind][0])
    text = "".join(head)

    def best(quote: str) -> Dialect:
        ways = (False, True) if f"\\{quote}" in text else (False,)
        return max((Dialect(sign, quote, way) for sign in signs for way in ways), key=lambda item: _fit(head, item))

    found = best('"')
    single = best("'")
    if "'" in text and (_fit(head, single) > _fit(head, found) or _all_quoted(head, single)):
        found = single
    found = replace(found, spaced=_is_spaced(head, found))
    escaped = replace(found, backslash=True)
    return escaped if _votes(head, escaped) > 0 and _fit(head, escaped) >= _fit(head, found) else found


def _is_spaced(head: Sequence[str], dialect: Dialect) -> bool:
    """Return whether blanks stand before quoted fields in nearly all lines, as in `"a", "b"`."""
    quoted = re.compile(rf" +{dialect.quote}.*{dialect.quote} *", re.DOTALL)
    sign = dialect.delimiter + " "
    lines = [line for line in head[1:] if line.strip()] if sign in "".join(head) else []
    spaced = sum(any(map(quoted.fullmatch, (line.rstrip().split(dialect.delimiter))[1:])) for line in lines)
    return spaced > 0 and spaced >= 0.8 * len(lines)


def _fit(head: Sequence[str], dialect: Dialect) -> float:
    """Return the fraction of the first rows that are as wide as the header; -1 if it has one column."""
    try:
        widths = [len(row) for row in dialect.reader(head, strict=dialect.backslash) if row]
    except csv.Error:
        if dialect.backslash:  # which other rows contradict
            return -1.0
        widths = [line.count(dialect.delimiter) + 1 for line in head if line.strip()]
    first, *rest = widths
    rest = rest[:-1] if len(rest) > 2 else rest  # the last one may be cut
    return sum(width == first for width in rest) / max(len(rest), 1) if first > 1 else -1.0


def _all_quoted(head: Sequence[str], dialect: Dialect) -> bool:
    """Return whether the header, or two or more rows, have all fields but numbers in the dialect's quotes."""
    quoted = [
        all((len(field) > 1 and field[0] == field[-1] == dialect.quote) or _NUMBER.fullmatch(field) for field in fields)
        for line in head
        if dialect.quote in line and (fields := line.strip().split(dialect.delimiter))
    ]
    return (bool(quoted) and dialect.quote in head[0] and quoted[0]) or (len(quoted) > 1 and all(quoted))


def _votes(head: Sequence[str], escaped: Dialect) -> int:
    """Return for how many lines the backslash escapes quotes, minus those for which it does not."""
    plain = replace(escaped, backslash=False)
    votes = 0
    sign = "\\" + escaped.quote
    width = len(plain.fields(head[0]) or ())
    for line in head[1:]:
        if sign in line:
            with_it, without = (
                fields if (fields := item.fields(line)) and len(fields) == width else None for item in (escaped, plain)
            )
            if with_it and (not without or any(sign in field for field in without)):
                votes += 1
            elif without:
                votes -= 1
    return votes


def quotes_are_text(texts: Iterable[tuple[int, str]], header: str, delimiter: str) -> bool:
    """Return whether quotes of a table are characters like others.

    So it is where a line is no row if its quotes enclose fields, and every line has the header's width if they do not.

    Args:
        texts: of all its lines.
        header: the line of the header.
    """
    width = header.count(delimiter)
    quoted = Dialect(delimiter)
    found = False
    if not width or '"' in header:
        return False
    try:
        for _, text in texts:
            for line in text.split("\n"):
                if line.count(delimiter) != width and line.strip() and not named_delimiter(line):
                    return False
                found = found or ('"' in line and quoted.fields(line) is None)
    except DataError:  # which the reader reports where it is
        return False
    return found


class RowPattern:
    """What rows of a table look like, to find quotes that are no quotes.

    Args:
        head: the first lines of the table, beginning with the header.
    """

    def __init__(self, head: Sequence[str], dialect: Dialect) -> None:
        self._sign = dialect.delimiter
        self._width = len(dialect.fields(head[0]) or ())
        # In prose, a blank or line end follows a comma, unless rows are written so.
        prose = re.compile(re.escape(self._sign) + r"(\s|$)")
        in_rows = any(prose.search(line.rstrip("\r\n")) for line in [head[0], *_single_lines(head[1:], dialect)])
        self._prose = None if self._sign == "\t" or in_rows else prose

    def _is_row(self, line: str) -> bool:
        if line.count(self._sign) != self._width - 1:
            return False
        return self._prose is None or not self._prose.search(line.rstrip("\r\n"))

    def fits(self, lines: Sequence[str]) -> bool:
        """Return whether the lines of a quoted field would be rows of their own."""
        lines = [line for line in lines if line.strip()]
        if self._width < 2 or len(lines) < 2:
            return False
        rows = sum(map(self._is_row, lines))
        return rows == len(lines) or (len(lines) > 4 and rows >= 0.8 * len(lines))


def _single_lines(head: Sequence[str], dialect: Dialect) -> Iterator[str]:
    """Yield the rows of one line each, and without quotes."""
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for line in head:
            taken.append(line)
            yield line

    try:
        for _ in dialect.reader(lines(), strict=False):
            if len(taken) == 1 and not (dialect.quote and dialect.quote in taken[0]):
                yield taken[0]
            taken.clear()
    except csv.Error:
        return
