"""The loss of questions against loops over windows and tokens, in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from mixling import ConfigError
from mixling.tasks import ANSWER_ENDS, LossConfig, QuestionAnswering


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weights", [None, [1.0, 0.0, 2.5]], ids=["plain", "weighted"])
def test_loss(smoothing: float, weights: list[float] | None) -> None:
    task = QuestionAnswering(ANSWER_ENDS, LossConfig(label_smoothing=smoothing))
    logits = torch.randn(3, 7, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3
    rows = [(2, 7, 4, 6), (0, 3, 0, 0), (1, 5, 2, 2)]  # separator, length, start, end
    logits[1, 3:], logits[0, :2] = 1e4, 1e4  # padding, and a question, which no answer is in
    targets = torch.from_numpy(task.stack([np.array(row) for row in rows], 7))
    loss, weight = task.loss(logits, targets, None if weights is None else torch.tensor(weights).double())
    expected = 0.0
    for fraction, row, (separator, length, *ends) in zip(weights or [1.0] * 3, logits.tolist(), rows, strict=True):
        for side, end in enumerate(ends):
            values = [row[location][side] for location in range(separator, length)]
            total = math.log(sum(math.exp(value) for value in values))
            true = total - row[end][side]
            other = sum(total - value for value in values) / len(values)
            expected += fraction * 0.5 * ((1 - smoothing) * true + smoothing * other)
    assert float(weight) == pytest.approx(sum(weights or [1.0] * 3))
    assert float(loss) == pytest.approx(expected)


def test_tokens_outside_context_and_separator_get_no_gradient() -> None:
    task = QuestionAnswering(ANSWER_ENDS, LossConfig())
    logits = torch.randn(1, 6, 2, generator=torch.Generator().manual_seed(1)).requires_grad_()
    loss, _ = task.loss(logits, torch.tensor([[2, 5, 3, 4]]), None)
    loss.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert logits.grad.abs().sum(-1)[0].gt(0).tolist() == [False, False, True, True, True, False]


def test_classes_that_do_not_exist_are_not_weighted() -> None:
    with pytest.raises(ConfigError, match="class_weights: got 'balanced'"):
        QuestionAnswering(ANSWER_ENDS, LossConfig(class_weights="balanced"))
