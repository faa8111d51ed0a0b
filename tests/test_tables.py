"""Tables leave out columns, the least important first, where lines are narrow."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mixling.answers import LabelSet
from mixling.metrics import format_table
from mixling.tables import fit_columns, in_blocks
from mixling.tasks import Classification

COLUMNS = {"model": ["a", "longer"], "size": ["1", "23"], "speed": ["4.5", "6"], "use": ["texts", "x"]}


@pytest.mark.parametrize(
    ("width", "headers"),
    [
        (None, ["model", "size", "speed", "use"]),
        (26, ["model", "size", "speed", "use"]),
        (25, ["model", "speed", "use"]),
        (15, ["model", "use"]),
        (1, ["model", "use"]),
    ],
)
def test_columns_go_in_their_order(width: int | None, headers: list[str]) -> None:
    text = fit_columns(COLUMNS, width, drop=("size", "speed"), left=("use",))
    lines = text.splitlines()
    assert lines[0].split() == headers
    assert width is None or width == 1 or max(map(len, lines)) <= width
    assert lines[1].split()[-1] == "texts"
    start = lines[0].index("use")
    assert [line[start:] for line in lines] == ["use", "texts", "x"]


@pytest.mark.parametrize("width", [48, 60, 80, None])
def test_names_of_classes_are_cut_to_the_line(width: int | None) -> None:
    names = (*(f"{'a long name of an intent, number ' * 2}{number}" for number in range(120)), "short")
    task = Classification(LabelSet(names, "single"))
    ids = np.arange(121)
    found = task.evaluate(list(np.eye(121)), ids)
    _, _, header, *lines, remark = format_table(found, width).splitlines()
    assert header.split() == ["class", "precision", "recall", "F1", "support"]
    assert max(map(len, lines)) <= (width or 78)
    assert len(lines) == 40
    assert remark == "(40 of 121 classes, by lowest F1; 81 are left out)"


@pytest.mark.parametrize("width", [10, 24, 40, 200])
def test_blocks_have_all_cells_and_fit(width: int) -> None:
    rows = [["noise", "words", "first", "second-system", "third"], ["none", "-", "0.1", "0.2", "0.3 (+1.0)"]]
    blocks = in_blocks(rows, width, keys=2).split("\n\n")
    shown = [[re.split(r" {2,}", line.strip()) for line in block.splitlines()] for block in blocks]
    assert all(lines[0][:2] == ["noise", "words"] and lines[1][:2] == ["none", "-"] for lines in shown)
    joined = [sum((lines[number][2:] for lines in shown), rows[number][:2]) for number in range(2)]
    assert joined == rows
    assert max(map(len, "\n".join(blocks).splitlines())) <= max(width, len("noise  words  second-system"))
