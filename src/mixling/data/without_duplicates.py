"""Copy the rows of files without those whose texts repeat earlier ones, while they are read."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mixling.data.corpora import is_plain
from mixling.data.csv_lines import cell_of, csv_line, json_of
from mixling.data.duplicates import DuplicateFinder
from mixling.data.inputs import text_lines
from mixling.data.readers import read_rows
from mixling.data.readers.rows import OnBadRow
from mixling.data.values import string_of
from mixling.errors import ConfigError, DataError
from mixling.storage import atomic_file

WRITTEN_SUFFIXES = (".csv", ".jsonl", ".txt")  # of files that are written
_TOGETHER = 4096  # rows that are compared at a time
_EXAMPLES = 3
_REPORT = ("file", "line", "repeats_file", "repeats_line", "similarity", "text")
_Row = tuple[str, str, int, dict[str, Any]]  # text, file, line, values
_Write = Callable[[str], None]


@dataclass
class Deduplicated:
    """What was found.

    Attributes:
        rows: how many were read.
        equal: rows whose text equals an earlier one, but for case and blanks.
        near: rows with nearly the same words as an earlier one.
        examples: the first of these, as (text, its place, place of the row that it repeats, similarity).
    """

    rows: int = 0
    equal: int = 0
    near: int = 0
    examples: list[tuple[str, str, str, float]] = field(default_factory=list)

    @property
    def kept(self) -> int:
        """How many rows repeat nothing."""
        return self.rows - self.equal - self.near


def remove_duplicates(
    sources: Sequence[str],
    *,
    columns: Sequence[str],
    threshold: float,
    on_bad_row: OnBadRow,
    out: Path | None = None,
    report: Path | None = None,
) -> Deduplicated:
    """Find the rows whose texts repeat earlier ones; see `DuplicateFinder`.

    Args:
        columns: of the text, or of both texts of pairs, which are compared together.
        threshold: the least Jaccard index of near-duplicates.
        out: where the other rows are written, with all their columns: .csv, .jsonl, or .txt for lines of text.
        report: where a row is written for each duplicate, as CSV.

    Raises:
        ConfigError: `out` has another suffix, or the threshold is out of range.
        DataError: a file cannot be read, a row is bad, or it has a column that the CSV lacks.
    """
    finder = DuplicateFinder(threshold)
    found = Deduplicated()
    lines = array("q")
    files = array("i")
    with ExitStack() as stack:
        keep = _writer(out, stack)
        note = _opened(report, stack)
        if note is not None:
            note(csv_line(_REPORT))
        rows = _rows(sources, columns, on_bad_row)
        for part in iter(lambda: list(itertools.islice(rows, _TOGETHER)), []):
            numbers, similarities = finder.add([text for text, *_ in part])
            for row, number, similarity in zip(part, numbers.tolist(), similarities.tolist(), strict=True):
                text, file, line, _ = row
                lines.append(line)
                files.append(sources.index(file) if len(sources) > 1 else 0)
                found.rows += 1
                if number < 0:
                    if keep is not None:
                        keep(row)
                    continue
                place = (sources[files[number]], lines[number])
                found.near += similarity < 1
                found.equal += similarity >= 1
                if similarity < 1 and len(found.examples) < _EXAMPLES:
                    found.examples.append((text, f"{file}:{line}", f"{place[0]}:{place[1]}", similarity))
                if note is not None:
                    note(csv_line([file, line, *place, f"{similarity:.4f}", text]))
    return found


def _rows(sources: Sequence[str], columns: Sequence[str], on_bad_row: OnBadRow) -> Iterator[_Row]:
    for source in sources:
        if is_plain(source):
            for number, item in enumerate(text_lines(source, False), 1):
                text = item.text if isinstance(item.text, str) else ""
                yield text, source, number, {"text": text}
            continue
        for row in read_rows(source, on_bad_row=on_bad_row):
            try:
                texts = [string_of(row, column) for column in columns]
            except DataError as error:
                on_bad_row(error)
                continue
            yield "\n".join(texts), source, row.line, row.values


def _writer(out: Path | None, stack: ExitStack) -> Callable[[_Row], None] | None:
    """Return a function that writes a row."""
    if out is None:
        return None
    if (suffix := out.suffix.lower()) not in WRITTEN_SUFFIXES:
        raise ConfigError(f"{out}: ends in none of {', '.join(WRITTEN_SUFFIXES)}")
    write = _opened(out, stack)
    assert write is not None
    header: list[str] = []

    def as_csv(row: _Row) -> None:
        values = row[3]
        if not header:
            header.extend(values)
            write(csv_line(header))
        if more := values.keys() - set(header):
            got = f"has the column {min(more)!r}, which the first row lacks"
            raise DataError(f"{got}: write all rows with -o FILE.jsonl", path=row[1], line=row[2])
        write(csv_line([cell_of(values.get(name)) for name in header]))

    def as_json(row: _Row) -> None:
        write(json_of(row[3]) + "\n")

    def as_text(row: _Row) -> None:
        if "\n" in row[0] or len(row[3]) > 1:
            raise DataError("has more than a line of text: write rows with -o FILE.csv", path=row[1], line=row[2])
        write(row[0] + "\n")

    return {".csv": as_csv, ".jsonl": as_json, ".txt": as_text}[suffix]


def _opened(path: Path | None, stack: ExitStack) -> _Write | None:
    if path is None:
        return None
    file = stack.enter_context(atomic_file(path))
    return lambda text: (file.write(text.encode("utf-8", "replace")), None)[1]
