"""Tables leave out columns, the least important first, where lines are narrow."""

from __future__ import annotations

import pytest

from mixling.tables import fit_columns

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
