"""The table of the evaluations of a training."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

from mixling.training import Step, progress
from mixling.training.callbacks import Detail
from mixling.training.progress import TrainingProgress


def lines_of(
    monkeypatch: pytest.MonkeyPatch,
    *evaluations: tuple[int, float],
    total: int = 1000,
    begin: int = 0,
    metric: str = "accuracy",
    value: float = 0.9,
    best: tuple[bool, ...] = (True,),
    width: int = 80,
    on_terminal: bool = False,
) -> list[str]:
    """The lines of a training of 1,500 tokens/s that is evaluated at each (step, epoch)."""
    now = 5.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    terminal = TrainingProgress()
    terminal.console = Console(file=io.StringIO(), width=width, force_terminal=on_terminal, highlight=False)
    terminal.metric = metric
    terminal.started(begin, total)
    for index, (step, epoch) in enumerate(evaluations):
        for number in (step - 1, step):
            now += 1
            terminal.stepped(Step(number=number, loss=1.0, learning_rate=0.1, tokens=1500))
        now += 10  # the evaluation itself does not count
        record: dict[str, Any] = {"epoch": epoch, "step": step, "train_loss": 2, "val_loss": 1.5}
        terminal.evaluated({**record, "best": best[index % len(best)], f"val_{metric}": value})
    terminal.finished()
    return terminal.console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


def positions(lines: list[str]) -> list[str]:
    """The unit of the table and the number of each row, such as epoch 2/9."""
    header, *rows = lines
    return [f"{header.split()[0]} {row.split()[0]}" for row in rows]


def test_a_fraction_has_four_digits_and_what_may_be_large_three_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines_of(monkeypatch, (200, 2.0)) == [
        "    epoch  train loss  validation loss   accuracy   tokens/s  best",
        "     2/10      2.0000           1.5000     0.9000      1,500  *",
    ]
    for value, shown in [(1.0, "1.0000"), (12.345, "12.3"), (4.5678, "4.57"), (987.6, "988"), (12345.6, "12,346")]:
        header, row = lines_of(monkeypatch, (200, 2.0), metric="perplexity", value=value)
        assert dict(zip(header.split("  ")[-3:], row.split()[-3:], strict=True))["perplexity"] == shown


def test_one_header_stands_over_all_rows_of_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_of(monkeypatch, (100, 1.0), (200, 2.0), (1000, 10.0), best=(True, False, True))
    assert [line.endswith("*") for line in lines] == [False, True, False, True]
    assert len([line for line in lines if "validation loss" in line]) == 1


def test_whole_epochs_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_of(monkeypatch, (113, 1.0), (226, 2.0), (1017, 9.0), total=1017)
    assert positions(lines) == ["epoch 1/9", "epoch 2/9", "epoch 9/9"]


def test_the_lines_of_one_run_have_one_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of less than an epoch, of evaluations within epochs, and of a budget that ends within one.
    lines = lines_of(monkeypatch, (5, 0.041), (50, 0.498), (122, 1.0), total=122)
    assert positions(lines) == ["step 5/122", "step 50/122", "step 122/122"]
    lines = lines_of(monkeypatch, (102, 0.903), (306, 2.708), (1017, 9.0), total=1017)
    assert positions(lines) == ["step 102/1017", "step 306/1017", "step 1017/1017"]
    lines = lines_of(monkeypatch, (100, 1.0), (200, 2.0), (250, 2.5), total=250)
    assert positions(lines) == ["step 100/250", "step 200/250", "step 250/250"]


def test_a_resumed_run_counts_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_of(monkeypatch, (100, 1.0), (150, 1.5), total=200, begin=70)
    assert lines[0] == "resuming at step 70 of 200"
    assert positions(lines[1:]) == ["step 100/200", "step 150/200"]


def test_columns_are_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    header, *rows = lines_of(monkeypatch, (100, 1.0), (1000, 10.0), total=1000)
    end = header.index("validation loss") + len("validation loss")
    assert all(row[end - 6 : end] == "1.5000" and row[end] == " " for row in rows)


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (80, ["epoch", "train loss", "validation loss", "accuracy", "tokens/s", "best"]),
        (64, ["epoch", "train loss", "validation loss", "accuracy", "best"]),
        (50, ["epoch", "train loss", "accuracy", "best"]),
        (30, ["epoch", "accuracy", "best"]),
    ],
)
def test_a_narrow_terminal_lacks_the_columns_that_matter_least(
    monkeypatch: pytest.MonkeyPatch, width: int, columns: list[str]
) -> None:
    header, row = lines_of(monkeypatch, (200, 2.0), width=width, on_terminal=True)
    assert re.split(r"  +", header.strip()) == columns
    assert len(header) <= width
    assert "\x1b[1m0.9000\x1b[0m" in row  # the best value so far is bold


@pytest.mark.parametrize("width", [110, 80, 60, 40])
def test_the_line_of_progress_is_never_cut(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = TrainingProgress()
    terminal.console = Console(file=io.StringIO(), width=width, force_terminal=True, highlight=False)
    terminal._bar = Progress(console=terminal.console, auto_refresh=False)
    terminal.started(0, 1200)
    terminal.evaluated({"epoch": 1.0, "step": 120, "train_loss": 2, "val_loss": 1.5, "best": True, "val_accuracy": 0.7})
    terminal.stepped(Step(number=700, loss=0.5579, learning_rate=0.1, tokens=1500))
    terminal.console.file = io.StringIO()
    terminal._bar.refresh()
    terminal._bar.stop()
    first = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.console.file.getvalue()).split("\n")[0]  # type: ignore[attr-defined]
    line = first.split("\r")[-1]
    assert "700/1200" in line
    assert "\N{HORIZONTAL ELLIPSIS}" not in line
    assert len(line.rstrip()) <= width
    assert [text in line for text in ("accuracy 0.7000", "loss 0.5579")] == [width > 40, True]


def test_details_are_shown_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    for verbose in (False, True):
        terminal = TrainingProgress(verbose=verbose)
        terminal.log("what matters")
        terminal.log(Detail("how it is done"))
        assert capsys.readouterr().err.splitlines() == ["what matters", "how it is done"][: 1 + verbose]


def test_lines_are_wrapped_between_words_and_commands_are_not() -> None:
    terminal = TrainingProgress()
    for message, lines in (("word " * 20, 2), ("next: mixling train --resume -o " + "d" * 90, 1)):
        terminal.console = Console(file=io.StringIO(), width=80, force_terminal=True, highlight=False)
        terminal.log(message)
        written = terminal.console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        assert len(written) == lines
        assert {word for line in written for word in line.split()} == set(message.split())
