"""Reading rows as pairs of source and target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import Field

from mixling.config import Config
from mixling.data.readers import OnBadRow, Row, read_rows
from mixling.data.readers.rows import SKIP
from mixling.data.values import is_blank, row_error, string_of
from mixling.errors import ConfigError, DataError, near_miss
from mixling.research.seq2seq.pair import Pair
from mixling.research.seq2seq.templates import Template, find_template

__all__ = ["Pair", "PairColumns", "read_pairs"]


class PairColumns(Config):
    """The names of the columns; None: there is no such column."""

    source: str = Field(default="source", description="the input text")
    target: str = Field(default="target", description="the output text")
    group: str | None = Field(default=None, description="metrics are also reported per value of it")


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
    """Stream the pairs of files and hub data sets, in order; texts are not changed.

    Args:
        sources: paths, or names on the hub.
        columns: the columns of source, target and group, if there is no template.
        on_bad_row: what to do with bad rows.
        labeled: whether a target is required; False: it is read if present, and may be empty.
        file_format: the format of the files; by default from their names.
        template: the name of a task (`mixling.research.seq2seq.templates`), whose columns are read instead of
            `columns`.
        training: with a template, whether a row with several correct targets is a pair for each of them, or one pair
            with all as references.
        prefix: prepended to each source without a template.

    Raises:
        ConfigError: the template does not exist, or there is a prefix as well.
        DataError: a file has no such column; a row is bad (in JSONL also by a missing column), unless `on_bad_row`
            skips it; no row is left.
    """
    if not sources:
        raise ConfigError("no input; name at least one file")
    reader: _Plain | Template = _Plain(columns, prefix) if template is None else find_template(template)
    if template is not None and prefix:
        raise ConfigError(
            f"got the prefix {prefix!r} and the template {template!r}, which has its own; leave out one of them"
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
        for option in ("source", "target", "group") if labeled else ("source",):
            name = getattr(self.columns, option)
            if name is not None and name not in row.values:
                known = near_miss(name, row.values) if row.values else "there are none"
                message = f"no column {name!r}; {known}; choose a column with --{option}"
                if row.own_columns:
                    raise row_error(row, f"{message}, give the row one, {SKIP}")
                raise DataError(message, path=row.path)

    def pairs(self, row: Row, *, labeled: bool, training: bool) -> list[Pair]:
        source = self.prefix + string_of(row, self.columns.source, needs_words=True)
        target = row.values.get(self.columns.target)
        if labeled:
            target = string_of(row, self.columns.target, needs_words=True)
        elif not isinstance(target, str) or is_blank(target):
            target = None
        group = None if self.columns.group is None else row.values.get(self.columns.group)
        group = None if group is None else str(group)
        return [Pair(source=source, target=target, path=row.path, line=row.line, group=group)]


def split_pairs(pairs: Sequence[Pair], *, fraction: float, seed: int) -> tuple[list[Pair], list[Pair]]:
    """Split about `fraction` of the pairs off, and return (train, validation), both in order.

    Pairs with equal sources, or of the same question, stay on one side.

    Raises:
        DataError: there are too few different sources.
    """
    groups = list(dict.fromkeys(pair.question or pair.source for pair in pairs))
    if len(groups) < 2:
        remedy = "give more rows, or a file of your own with --validation"
        raise DataError(f"{len(groups)} different sources are too few to split; {remedy}", path=pairs[0].path)
    count = min(max(round(fraction * len(groups)), 1), len(groups) - 1)
    chosen = {groups[i] for i in np.random.default_rng(seed).permutation(len(groups))[:count]}
    sides: tuple[list[Pair], list[Pair]] = [], []
    for pair in pairs:
        sides[(pair.question or pair.source) in chosen].append(pair)
    return sides
