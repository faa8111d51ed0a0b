"""Rows to pairs of a source and a target, the texts that a model reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mixling.config import Config
from mixling.data.tables import OnBadRow, Row, read_rows
from mixling.errors import ConfigError, DataError, near_miss

_SKIP = "or pass --on-bad-row skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A source and what a model is to write for it, and where it stands: file and 1-based line (or row).

    Attributes:
        target: None where it is not known.
        kind: a group that measures are told of, too; None: of no group.
        question: what several pairs belong to where a measure is of them together (MultiRC, ReCoRD).
        references: all right answers where more than the target are right; empty: the target alone.
    """

    source: str
    target: str | None
    path: str
    line: int
    kind: str | None = None
    question: str | None = None
    references: tuple[str, ...] = ()

    @property
    def right(self) -> tuple[str, ...]:
        """All right answers."""
        return self.references or (() if self.target is None else (self.target,))


class PairColumns(Config):
    """The names of the columns; None means that there is no such column."""

    source: str = "source"
    target: str = "target"
    kind: str | None = None


def read_pairs(
    sources: Sequence[str | Path],
    *,
    columns: PairColumns,
    on_bad_row: OnBadRow,
    labelled: bool = True,
    file_format: str | None = None,
) -> Iterator[Pair]:
    """Stream the pairs of files and hub data sets, in their order; texts are kept as they stand.

    Args:
        labelled: False reads rows to answer: a target is read where its column stands, and may be empty.

    Raises:
        DataError: a column that the file lacks, always; a bad row, unless `on_bad_row` skips it (in JSONL, where each
            row has columns of its own, that is also one that lacks a column); no row left that can be used.
    """
    if not sources:
        raise ConfigError("no input; name at least one file")
    empty = True
    for source in sources:
        checked = False
        for row in read_rows(source, on_bad_row=on_bad_row, file_format=file_format):
            if not (row.own_columns or checked):
                _check_columns(row, columns, labelled)
                checked = True
            try:
                if row.own_columns:
                    _check_columns(row, columns, labelled)
                pair = _pair(row, columns, labelled)
            except DataError as error:
                on_bad_row(error)
                continue
            empty = False
            yield pair
    if empty:
        first = f"; the first: {on_bad_row.messages[0]}" if on_bad_row.messages else ""
        raise DataError(f"no row is left, {on_bad_row.skipped} were skipped{first}", path=sources[0])


def _check_columns(row: Row, columns: PairColumns, labelled: bool) -> None:
    for option in ("source", "target", "kind") if labelled else ("source",):
        name = getattr(columns, option)
        if name is not None and name not in row.values:
            known = near_miss(name, row.values) if row.values else "there are none"
            message = f"no column {name!r}; {known}; choose a column with --{option}"
            if row.own_columns:
                raise DataError(f"{message}, give the row one, {_SKIP}", path=row.path, line=row.line)
            raise DataError(message, path=row.path)


def _pair(row: Row, columns: PairColumns, labelled: bool) -> Pair:
    source = _text(row, columns.source)
    target = None
    if labelled or row.values.get(columns.target) is not None:
        target = _text(row, columns.target)
    kind = None if columns.kind is None else row.values.get(columns.kind)
    assert source is not None
    return Pair(source=source, target=target, path=row.path, line=row.line, kind=None if kind is None else str(kind))


def _text(row: Row, column: str) -> str:
    value = row.values.get(column)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise DataError(f"column {column!r} is empty; give a text {_SKIP}", path=row.path, line=row.line)
    if not isinstance(value, str):
        got = f"{type(value).__name__} ({str(value)[:40]})"
        message = f"column {column!r} is not text but {got}; write it as a string {_SKIP}"
        raise DataError(message, path=row.path, line=row.line)
    return value
