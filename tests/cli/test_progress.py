"""What a training tells of each evaluation."""

from __future__ import annotations

from typing import Any

import pytest

from mixling.cli import progress
from mixling.cli.progress import TrainingProgress
from mixling.training.observers import Step


def told(monkeypatch: pytest.MonkeyPatch, metric: str, value: float, *, step: int, epoch: float) -> str:
    """The line of an evaluation after two of 1,000 steps, of 3,000 tokens in two seconds."""
    now = 5.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    lines: list[str] = []
    monkeypatch.setattr(TrainingProgress, "say", lambda self, line: lines.append(line))
    terminal = TrainingProgress()
    terminal.metric = metric
    terminal.started(0, 1000)
    for number in (1, 2):
        now += 1
        terminal.stepped(Step(number=number, loss=1.0, learning_rate=0.1, tokens=1500))
    now += 10  # the evaluation itself does not count
    record: dict[str, Any] = {"epoch": epoch, "step": step, "train_loss": 2, "dev_loss": 1.5, "best": True}
    terminal.evaluated({**record, f"dev_{metric}": value})
    terminal.finished()
    return lines[0]


def test_a_share_has_four_digits_and_what_may_be_large_three_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = "epoch 2      train loss 2.0000  dev loss 1.5000  dev accuracy 0.9000  1,500 tokens/s  (best so far)"
    assert told(monkeypatch, "accuracy", 0.9, step=200, epoch=2.0) == expected
    for value, shown in [(1.0, "1.0000"), (12.345, "12.3"), (4.5678, "4.57"), (987.6, "988"), (12345.6, "12,346")]:
        assert f"dev perplexity {shown}  " in told(monkeypatch, "perplexity", value, step=200, epoch=2.0)


def test_a_run_of_less_than_an_epoch_counts_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, "span_f1", 0.5, step=500, epoch=0.2).startswith("step 500      train loss")
    assert "dev span f1 0.5000" in told(monkeypatch, "span_f1", 0.5, step=500, epoch=0.2)
    assert told(monkeypatch, "span_f1", 0.5, step=500, epoch=0.6).startswith("epoch 0.6    train loss")
