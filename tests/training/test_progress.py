"""What a training tells of each evaluation."""

from __future__ import annotations

from typing import Any

import pytest

from mixling.training import progress
from mixling.training.callbacks import Step
from mixling.training.progress import TrainingProgress


def lines_of(
    monkeypatch: pytest.MonkeyPatch,
    *evaluations: tuple[int, float],
    total: int = 1000,
    begin: int = 0,
    metric: str = "accuracy",
    value: float = 0.9,
) -> list[str]:
    """The lines of a training of 1,500 tokens/s that is evaluated at each (step, epoch)."""
    now = 5.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    lines: list[str] = []
    monkeypatch.setattr(TrainingProgress, "log", lambda self, line: lines.append(line))
    terminal = TrainingProgress()
    terminal.metric = metric
    terminal.started(begin, total)
    for step, epoch in evaluations:
        for number in (step - 1, step):
            now += 1
            terminal.stepped(Step(number=number, loss=1.0, learning_rate=0.1, tokens=1500))
        now += 10  # the evaluation itself does not count
        record: dict[str, Any] = {"epoch": epoch, "step": step, "train_loss": 2, "val_loss": 1.5, "best": True}
        terminal.evaluated({**record, f"dev_{metric}": value})
    terminal.finished()
    return lines


def positions(lines: list[str]) -> list[str]:
    return [line.partition("  train loss")[0] for line in lines]


def test_a_fraction_has_four_digits_and_what_may_be_large_three_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = "epoch  2/10  train loss 2.0000  validation loss 1.5000  validation accuracy 0.9000    1,500 tokens/s  (best so far)"
    assert lines_of(monkeypatch, (200, 2.0)) == [expected]
    for value, shown in [(1.0, "1.0000"), (12.345, "12.3"), (4.5678, "4.57"), (987.6, "988"), (12345.6, "12,346")]:
        (line,) = lines_of(monkeypatch, (200, 2.0), metric="perplexity", value=value)
        assert f"validation perplexity {shown}  " in line


def test_whole_epochs_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_of(monkeypatch, (113, 1.0), (226, 2.0), (1017, 9.0), total=1017)
    assert positions(lines) == ["epoch 1/9", "epoch 2/9", "epoch 9/9"]


def test_the_lines_of_one_run_have_one_subword(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of less than an epoch, of evaluations within epochs, and of a budget that ends within one.
    lines = lines_of(monkeypatch, (5, 0.041), (50, 0.498), (122, 1.0), total=122)
    assert positions(lines) == ["step   5/122", "step  50/122", "step 122/122"]
    lines = lines_of(monkeypatch, (102, 0.903), (306, 2.708), (1017, 9.0), total=1017)
    assert positions(lines) == ["step  102/1017", "step  306/1017", "step 1017/1017"]
    lines = lines_of(monkeypatch, (100, 1.0), (200, 2.0), (250, 2.5), total=250)
    assert positions(lines) == ["step 100/250", "step 200/250", "step 250/250"]


def test_a_resumed_run_counts_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_of(monkeypatch, (100, 1.0), (150, 1.5), total=200, begin=70)
    assert lines[0] == "resuming at step 70 of 200"
    assert positions(lines[1:]) == ["step 100/200", "step 150/200"]


def test_columns_are_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_of(monkeypatch, (100, 1.0), (1000, 10.0))
    assert len({line.index("train loss") for line in lines}) == len({len(line) for line in lines}) == 1
