"""What the command line writes: nothing steers a terminal, no cell is computed, long lines cost no more than short."""

from __future__ import annotations

import csv
import io
import os
import pty
import sys
import time
from pathlib import Path

import pytest

from mixling import ConfigError, Prediction
from mixling.answers import LabelSet
from mixling.cli.inputs import input_kind
from mixling.cli.output import wrapped
from mixling.cli.predictions import task_results, writer_for
from mixling.config import Config, parse
from mixling.data import stream_items
from mixling.data.csv_lines import csv_line
from mixling.errors import printable, shown
from mixling.tasks import Classification


def test_what_could_steer_a_terminal_is_replaced() -> None:
    assert printable("a\x1b]0;x\x07b\u202e\x9b\n") == "a�]0;x�b���"
    assert printable("a\x1b\n\t", keep="\n\t") == "a�\n\t"
    assert printable("Grüße, 世界 🎉") == "Grüße, 世界 🎉"


def test_a_terminal_gets_nothing_raw_and_a_file_all(monkeypatch: pytest.MonkeyPatch) -> None:
    from mixling.cli.output import put

    parent, child = pty.openpty()
    with os.fdopen(child, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        put("\x1b[2J\x9b\n")
        assert os.read(parent, 99).decode() == "�[2J�\r\n"
    os.close(parent)
    with io.TextIOWrapper(io.BytesIO(), encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdout", file)
        put("\x1b[2J\n")
        assert file.buffer.getvalue() == b"\x1b[2J\n"  # type: ignore[attr-defined]


def test_messages_quote_long_values_in_part() -> None:
    class Small(Config):
        size: int = 3

    for values in ({"size": "x" * 100_000}, {"size" * 50_000: 1}, {"size": 10**5000}, {"size": 10**30}):
        with pytest.raises(ConfigError) as error:
            parse(Small, values, where="a.toml")
        assert len(str(error.value)) < 400
    assert shown("abc") == "'abc'"
    assert shown(10**5000) == "an integer of thousands of digits"


def test_cells_that_a_spreadsheet_would_compute_get_an_apostrophe() -> None:
    cells = ["=1+1", "+x", "-x", "@a", "\tb", "\rc", "d=1", "-0.25", "-3", "--", ""]
    assert next(csv.reader(io.StringIO(csv_line(cells)))) == cells
    escaped = next(csv.reader(io.StringIO(csv_line(cells, escape=True))))
    assert escaped == ["'=1+1", "'+x", "'-x", "'@a", "'\tb", "'\rc", "d=1", "-0.25", "-3", "'--", ""]
    task = Classification(LabelSet(("=a", "b"), "single"))
    _, row = writer_for("csv", task_results(task), echo=True, skip=False, escape=True)
    answer = Prediction(label="=a", probabilities={"=a": 0.75, "b": 0.25}, truncated=False)
    assert row('=HYPERLINK("x")', answer, {}) == '"\'=HYPERLINK(""x"")",\'=a,0.750000\n'


@pytest.mark.parametrize("skip", [False, True])
def test_long_lines_cost_no_more_than_short_ones(skip: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Chunks(io.BytesIO):
        """A fast pipe."""

    def once(size: int) -> float:
        begun = time.process_time()
        (items,) = stream_items(Chunks(b"x" * size + b"\n"), "<stdin>", skip=skip)  # type: ignore[arg-type]
        assert len(items[0].text) == size
        return time.process_time() - begun

    def seconds(size: int) -> float:
        return min(once(size) for _ in range(5))  # the machine may be busy

    # Linear is 4 times; to copy what has come for each chunk took 16.
    assert seconds(12 << 20) < 10 * max(seconds(3 << 20), 5e-3)
    reads = [0]

    def read1(self: io.BytesIO, size: int = -1) -> bytes:
        reads[0] += 1
        return io.BytesIO.read1(self, min(size, 1 << 10))

    monkeypatch.setattr(Chunks, "read1", read1, raising=False)
    lines = b"\xef\xbb\xbf\xef\xbb\xbfab\r\n\n" + b"y" * 3000 + b"\nlast"
    assert [item.text for items in stream_items(Chunks(lines), "<stdin>", skip=skip) for item in items] == [
        "ab", "", "y" * 3000, "last",
    ]  # fmt: skip
    assert reads[0] > 3


def test_a_line_that_is_too_long_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import mixling.data.inputs as rows

    monkeypatch.setattr(rows, "MAX_LINE", 100_000)
    stream = b"a\n" + b"b" * 500_000 + b"\nc\n"
    found = [item for items in stream_items(io.BytesIO(stream), "<stdin>", skip=True) for item in items]  # type: ignore[arg-type]
    assert [(item.text, bool(item.error)) for item in found] == [("a", False), (None, True), ("c", False)]


def test_a_pipe_is_an_input(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert input_kind([str(tmp_path / "pipe")]) == "files"


def test_lines_for_a_terminal_break_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "30")
    text = "accuracy 0.8313, macro F1 0.8323, log-loss 0.5012\n  short\n" + "x" * 40
    assert wrapped(text, io.StringIO()) == text
    lines = wrapped(text, Terminal()).split("\n")
    assert lines == ["accuracy 0.8313, macro F1", "  0.8323, log-loss 0.5012", "  short", "x" * 40]
    assert wrapped("labels      a (3), b (4), c (5), d (6)", Terminal(), column=12).split("\n") == [
        "labels      a (3), b (4), c",
        "            (5), d (6)",
    ]
    colored = "    the \033[31mparcel\033[0m was left with a \033[34mneighbor\033[0m of mine"
    assert wrapped(colored, Terminal()).split("\n") == [
        "    the \033[31mparcel\033[0m was left with a",
        "    \033[34mneighbor\033[0m of mine",
    ]
    assert wrapped(colored[:30], Terminal()) == colored[:30]
