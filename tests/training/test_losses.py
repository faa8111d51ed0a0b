"""The losses in NumPy beside those of the tasks, which PyTorch computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mixling.answers import LabelSet
from mixling.layers import TagScores
from mixling.tasks import (
    ANSWER_ENDS,
    Classification,
    LossConfig,
    MultiLabel,
    QuestionAnswering,
    Regression,
    Tagging,
    Task,
)
from mixling.training.losses import loss_sums

NAMES = ("a", "b", "c")
TAGS = ("O", "B-x", "I-x")
COUNTS = np.array([9, 3, 1])
SHAPE = (5, 6)  # texts, words


def made(name: str, loss: LossConfig) -> tuple[Task, np.ndarray]:
    """A task with targets, some of which are missing where that is allowed."""
    rng = np.random.default_rng(4)
    ids = rng.integers(0, 3, SHAPE)
    match name:
        case "classes":
            return Classification(LabelSet(NAMES, "single"), loss, COUNTS), ids[:, 0]
        case "teacher":
            soft = rng.dirichlet(np.ones(3), SHAPE[0]).astype(np.float32)
            return Classification(LabelSet(NAMES, "single"), loss, COUNTS), soft
        case "labels":
            return MultiLabel(LabelSet(NAMES, "multi"), loss, COUNTS), rng.integers(0, 2, (SHAPE[0], 3))
        case "numbers":
            task = Regression(LabelSet(("value",), Regression.kind, {"mean": 1.0, "deviation": 2.0}))
            return task, task.stack(rng.normal(size=SHAPE[0]), 1)
        case "answers":
            first = rng.integers(0, 3, SHAPE[0])
            ends = [rng.integers(first, SHAPE[1]) for _ in range(2)]
            return QuestionAnswering(ANSWER_ENDS, LossConfig(label_smoothing=loss.label_smoothing)), np.stack(
                [first, np.full(SHAPE[0], SHAPE[1]), *ends], 1
            )
    ids[1, 3:] = ids[2] = -100  # a shorter text, and one without a tag
    return Tagging(LabelSet(TAGS, "iob"), loss, COUNTS), ids


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("name", ["classes", "teacher", "labels", "numbers", "answers", "tags", "sequences"])
def test_it_is_the_loss_of_the_task(name: str, smoothing: float, balanced: bool, weighted: bool) -> None:
    loss = LossConfig(label_smoothing=smoothing, class_weights="balanced" if balanced else "none")
    task, targets = made(name, loss)
    rng = np.random.default_rng(0)
    outputs = {"numbers": 1, "answers": 2}.get(name, 3)
    words = name in ("answers", "tags", "sequences")
    logits = 3 * rng.standard_normal((*SHAPE, outputs) if words else (SHAPE[0], outputs)).astype(np.float32)
    weights = rng.random(SHAPE[0]).astype(np.float32) if weighted else None
    transitions = rng.standard_normal((3, 3)).astype(np.float32) if name == "sequences" else None
    terms = task.loss_terms(transitions=transitions is not None)
    assert terms is not None
    given: Any = torch.from_numpy(logits)
    if transitions is not None:
        given = TagScores(given, torch.from_numpy(transitions))
    wanted = torch.from_numpy(targets.astype(np.int64) if targets.dtype.kind == "i" else targets)
    expected = task.loss(given, wanted, None if weights is None else torch.from_numpy(weights))
    found = loss_sums(terms, logits, targets, weights, transitions)
    np.testing.assert_allclose(found, [float(part) for part in expected], rtol=2e-5)
