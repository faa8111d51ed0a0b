"""Rows to pairs of a source and a target, the texts that a model reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mixling.config import Config
from mixling.data.readers import OnBadRow, Row, read_rows
from mixling.errors import ConfigError, DataError, near_miss
from mixling.seq2seq.pair import Pair
from mixling.seq2seq.templates import Template, find_template

__all__ = ["Pair", "PairColumns", "read_pairs"]

_SKIP = "or pass --on-bad-row skip"


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
    labeled: bool = True,
    file_format: str | None = None,
    template: str | None = None,
    training: bool = True,
    prefix: str = "",
) -> Iterator[Pair]:
    """Stream the pairs of files and hub data sets, in their order; texts are kept as they stand.

    Args:
        labeled: False reads rows to answer: a target is read where its column stands, and may be empty.
        template: the task whose rows these are (`mixling.seq2seq.templates`); `columns` is not read then.
        training: of a form: whether a row with several right answers is a pair for each, or one to measure with all.
        prefix: laid before each source, as it stands; a form has its own.

    Raises:
        ConfigError: a form that does not exist, or one with a prefix.
        DataError: a column that the file lacks, always; a bad row, unless `on_bad_row` skips it (in JSONL, where each
            row has columns of its own, that is also one that lacks a column); no row left that can be used.
    """
    if not sources:
        raise ConfigError("no input; name at least one file")
    reader: _Plain | Template = _Plain(columns, prefix) if template is None else find_template(template)
    if template is not None and prefix:
        raise ConfigError(
            f"got the prefix {prefix!r} and the form {template!r}, which has its own; leave out one of them"
        )
    empty = True
    for source in sources:
        checked = False
        for row in read_rows(source, on_bad_row=on_bad_row, file_format=file_format):
            if not (row.own_columns or checked):
                reader.check_columns(row, labeled=labeled)
                checked = True
            try:
                if row.own_columns:
                    reader.check_columns(row, labeled=labeled)
                pairs = reader.pairs(row, labeled=labeled, training=training)
            except DataError as error:
                on_bad_row(error)
                continue
            empty = False
            yield from pairs
    if empty:
        first = f"; the first: {on_bad_row.messages[0]}" if on_bad_row.messages else ""
        raise DataError(f"no row is left, {on_bad_row.skipped} were skipped{first}", path=sources[0])


@dataclass(frozen=True, slots=True)
class _Plain:
    """Rows with a column of sources and one of targets."""

    columns: PairColumns
    prefix: str

    def check_columns(self, row: Row, *, labeled: bool) -> None:
        for option in ("source", "target", "kind") if labeled else ("source",):
            name = getattr(self.columns, option)
            if name is not None and name not in row.values:
                known = near_miss(name, row.values) if row.values else "there are none"
                message = f"no column {name!r}; {known}; choose a column with --{option}"
                if row.own_columns:
                    raise DataError(f"{message}, give the row one, {_SKIP}", path=row.path, line=row.line)
                raise DataError(message, path=row.path)

    def pairs(self, row: Row, *, labeled: bool, training: bool) -> list[Pair]:
        source = self.prefix + _text(row, self.columns.source)
        target = row.values.get(self.columns.target)
        if labeled:
            target = _text(row, self.columns.target)
        elif not isinstance(target, str) or not target.strip():
            target = None
        kind = None if self.columns.kind is None else row.values.get(self.columns.kind)
        kind = None if kind is None else str(kind)
        return [Pair(source=source, target=target, path=row.path, line=row.line, kind=kind)]


def _text(row: Row, column: str) -> str:
    value = row.values.get(column)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise DataError(f"column {column!r} is empty; give a text {_SKIP}", path=row.path, line=row.line)
    if not isinstance(value, str):
        got = f"{type(value).__name__} ({str(value)[:40]})"
        message = f"column {column!r} is not text but {got}; write it as a string {_SKIP}"
        raise DataError(message, path=row.path, line=row.line)
    return value


def split_pairs(pairs: Sequence[Pair], *, fraction: float, seed: int) -> tuple[list[Pair], list[Pair]]:
    """Set about `fraction` of the pairs aside: (train, validation), both in their order.

    Equal sources, and pairs of one question, stay on one side.

    Raises:
        DataError: there are too few different sources to set one aside.
    """
    groups = list(dict.fromkeys(pair.question or pair.source for pair in pairs))
    if len(groups) < 2:
        remedy = "give more rows, or a file of your own with --validation"
        raise DataError(f"{len(groups)} different sources are too few to set some aside; {remedy}", path=pairs[0].path)
    count = min(max(round(fraction * len(groups)), 1), len(groups) - 1)
    chosen = {groups[i] for i in np.random.default_rng(seed).permutation(len(groups))[:count]}
    sides: tuple[list[Pair], list[Pair]] = [], []
    for pair in pairs:
        sides[(pair.question or pair.source) in chosen].append(pair)
    return sides
