"""Shared parts of the readers: rows, blocks of them, and the handling of bad ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from mixling.data.readers.files import damage_or
from mixling.errors import ConfigError, DataError, near_miss, shown

SKIP = "or pass --on-bad-row skip"  # the end of messages about bad rows
MAX_CELL_VALUES = 2_000_000  # of the lists in a cell; Python takes up to 100 bytes for each
_SHOWN = 3  # messages of skipped rows that a command prints


class Row(NamedTuple):  # made in a third of the time of a frozen dataclass
    """One row of a file or hub data set.

    Attributes:
        values: column -> value; strings from CSV and TSV, other types from JSON, Arrow and the hub.
        path: the file or hub name as the user wrote it.
        line: 1-based line on which the row starts; for Parquet and the hub the 1-based number of the row.
        own_columns: other rows of the file may have other columns, as in JSONL.
        is_unlabeled: it was not annotated, or its annotation was rejected.
    """

    values: dict[str, Any]
    path: str
    line: int
    own_columns: bool = False
    is_unlabeled: bool = False


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Rows of consecutive lines; it saves an object for each of them.

    Attributes:
        line: the 1-based line of the first.
        own_columns: as of `Row`.
    """

    values: list[dict[str, Any]]
    path: str
    line: int
    own_columns: bool = True

    def __iter__(self) -> Iterator[Row]:
        for number, values in enumerate(self.values, self.line):
            yield Row(values, self.path, number, self.own_columns)


def flat(items: Iterable[Row | RowBlock]) -> Iterator[Row]:
    """Yield rows one by one."""
    for item in items:
        if isinstance(item, Row):
            yield item
        else:
            yield from item


@dataclass(slots=True)
class OnBadRow:
    """Handles bad rows: raises their errors, or counts them and keeps the first `keep` messages.

    Attributes:
        without_words: texts that are empty or blank, which are read as any other.
        notes: what readers decided by themselves, a sentence each; see `note`.
        counts: how many lines and rows each file has, a sentence each.
        lines_read: of the file that is being read.
        unlabeled: rows that are left out because nobody annotated them.
    """

    mode: Literal["error", "skip"] = "error"
    keep: int = 5
    skipped: int = 0
    messages: list[str] = field(default_factory=list)
    without_words: int = 0
    notes: list[str] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)
    lines_read: int = 0
    unlabeled: int = 0

    def __post_init__(self) -> None:
        if self.mode not in ("error", "skip"):
            raise ConfigError(f"on-bad-row: got {self.mode!r}; {near_miss(self.mode, ('error', 'skip'))}")

    def __call__(self, error: DataError) -> None:
        if self.mode == "error":
            raise damage_or(error) from None
        self.skipped += 1
        if len(self.messages) < self.keep:
            self.messages.append(str(error).removesuffix(SKIP).rstrip(" ,"))  # it is done

    def note(self, message: str) -> None:
        """Keep a line that the user should see once the rows are read, such as which of two columns was taken."""
        if message not in self.notes:
            self.notes.append(message)

    def count(self, path: str, lines: int | None, rows: int, skipped: int) -> None:
        """Keep how many lines a file has, if it has lines, and how many rows were read and skipped."""
        numbers = [(lines, "line"), (rows, "row")] if lines is not None else [(rows, "row")]
        found = ", ".join(f"{number:,} {name}{'' if number == 1 else 's'}" for number, name in numbers)
        if (message := f"{path}: {found}, {skipped:,} skipped") not in self.counts:
            self.counts.append(message)

    def lines(self, what: str = "bad rows") -> list[str]:
        """Return the lines for the user once the rows are read: the counts, the notes, and what was skipped."""
        rows = f"1 {what.removesuffix('s')} was" if self.skipped == 1 else f"{self.skipped} {what} were"
        skipped = f"{rows} skipped, among them: " + "; ".join(self.messages[:_SHOWN])
        number = self.without_words
        have = "1 text has no words; it is read" if number == 1 else f"{number:,} texts have no words; they are read"
        empty = [f"{have} like any other"] if number else []
        return [*self.counts, *self.notes, *empty, *([skipped] if self.skipped else [])]


def nul_error(path: str, line: int) -> DataError:
    """Return the error of a row with a NUL byte."""
    message = "contains a NUL byte; remove it: tr -d '\\000' (or convert UTF-16 text: iconv -f utf-16le -t utf-8)"
    return DataError(message, path=path, line=line)


def check_header(header: list[str], path: str, line: int | None) -> list[str]:
    """Return the header.

    Raises:
        DataError: no column has a name, or one has the same name as another.
    """
    seen: set[str] = set()
    if not any(header):
        raise DataError("no column of the header has a name; name the columns: text,label", path=path, line=line)
    for name in filter(None, header):
        if name in seen:
            raise DataError(f"column {shown(name)} occurs twice in the header; rename one", path=path, line=line)
        seen.add(name)
    return header
