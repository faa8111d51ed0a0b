"""Rows of CSV in blocks: lines that a broken row consumed are read again, wherever the texts of a file end."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from mixling.data import OnBadRow
from mixling.data.readers import flat
from mixling.data.readers.delimited import read_delimited
from mixling.data.readers.lines import RowLines


@pytest.mark.parametrize("seed", range(30))
def test_lines_that_are_given_back_are_read_again(seed: int) -> None:
    chance = random.Random(seed)
    lines = [f"{number}{chance.choice(['', 'a', chr(0)])}\n" for number in range(40)]
    lines[-1] = lines[-1].removesuffix("\n")
    cuts = sorted(chance.sample(range(1, 40), chance.randrange(8)))
    texts = ["".join(lines[a:b]) for a, b in zip([0, *cuts], [*cuts, 40], strict=True)]
    source = RowLines(enumerate(texts))
    read: list[str] = []
    while len(read) < len(lines):
        source.row.clear()
        for _, _line in zip(range(chance.randint(1, 12)), source, strict=False):
            pass
        kept = chance.randint(1, len(source.row))
        read += source.row[:kept]
        source.give_back(kept)
        assert read == lines[: len(read)]
        assert source.number == len(read)
    assert list(source) == []
    assert source.nul == any("\0" in line for line in lines)


def test_rows_before_a_bad_one_come_first_and_blank_lines_hold_none_up() -> None:
    def texts() -> Iterator[tuple[int, str]]:
        yield 1, "text,label\na,1\n\nb,2\nbad\nc,3\n\n\n"
        waited.append(len(rows))
        yield 9, 'd,"4\n5"\ne,6\n'
        waited.append(len(rows))

    rows: list[tuple[int, str | None]] = []
    waited: list[int] = []
    bad = OnBadRow("skip")
    for row in flat(read_delimited(texts(), "f", bad, "csv")):
        rows.append((row.line, row.values["label"]))
        assert bad.skipped == (row.line > 5)
        assert not row.own_columns
    assert rows == [(2, "1"), (4, "2"), (6, "3"), (9, "4\n5"), (11, "6")]
    assert waited == [3, 5]
