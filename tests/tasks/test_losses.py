"""Losses against loops over examples, words and labels, in float64."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from mixling.answers import LabelSet
from mixling.tasks import Classification, LossConfig, MultiLabel, Tagging, Task

SINGLE, TAGS = ("a", "b", "c"), ("O", "B-x", "I-x", "B-y", "I-y")
COUNTS = {"single": np.array([6, 3, 0]), "multi": np.array([6, 3, 0]), "iob": np.array([90, 6, 0, 4, 1])}
KINDS: dict[str, tuple[type[Task], tuple[str, ...]]] = {
    "single": (Classification, SINGLE),
    "multi": (MultiLabel, SINGLE),
    "iob": (Tagging, TAGS),
}
Balance = Literal["none", "balanced"]
SMOOTHING = pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
BALANCE = pytest.mark.parametrize("balance", ["none", "balanced"])
WEIGHTED = pytest.mark.parametrize("weights", [None, [1.0, 0.0, 2.5, 0.25]], ids=["plain", "weighted"])


def task(kind: str, *, smoothing: float = 0.0, balance: Balance = "none") -> Task:
    made, names = KINDS[kind]
    return made(LabelSet(names, kind), LossConfig(label_smoothing=smoothing, class_weights=balance), COUNTS[kind])


def balanced(counts: np.ndarray) -> list[float]:
    """As if all labels that occur were as frequent: their mean count over their own."""
    present = [count for count in counts if count]
    return [sum(present) / len(present) / count if count else 1.0 for count in counts]


def cross_entropy(row: list[float], gold: int, smoothing: float) -> float:
    """- sum over classes of q_c log p_c, with q = (1 - s) [c = gold] + s / C."""
    total = math.log(sum(math.exp(value) for value in row))
    fractions = [(1 - smoothing) * (c == gold) + smoothing / len(row) for c in range(len(row))]
    return -sum(fraction * (value - total) for fraction, value in zip(fractions, row, strict=True))


def random_logits(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 3


@SMOOTHING
@BALANCE
@WEIGHTED
def test_classification(smoothing: float, balance: Balance, weights: list[float] | None) -> None:
    made = task("single", smoothing=smoothing, balance=balance)
    logits, gold = random_logits(4, 3), [0, 1, 1, 2]
    stacked = torch.from_numpy(made.stack([np.int64(g) for g in gold], 7))
    loss, weight = made.loss(logits, stacked, None if weights is None else torch.tensor(weights, dtype=torch.float64))
    classes = balanced(COUNTS["single"]) if balance == "balanced" else [1.0] * 3
    fractions = [w * classes[g] for w, g in zip(weights or [1.0] * 4, gold, strict=True)]
    losses = [cross_entropy(row, g, smoothing) for row, g in zip(logits.tolist(), gold, strict=True)]
    assert float(weight) == pytest.approx(sum(fractions))
    assert float(loss) == pytest.approx(sum(s * value for s, value in zip(fractions, losses, strict=True)))


@SMOOTHING
@BALANCE
@WEIGHTED
def test_multi_label(smoothing: float, balance: Balance, weights: list[float] | None) -> None:
    made = task("multi", smoothing=smoothing, balance=balance)
    logits, gold = random_logits(4, 3), [[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]]
    stacked = torch.from_numpy(made.stack([np.array(row) for row in gold], 7))
    loss, weight = made.loss(logits, stacked, None if weights is None else torch.tensor(weights, dtype=torch.float64))
    positive = balanced(COUNTS["multi"]) if balance == "balanced" else [1.0] * 3
    expected = 0.0
    for w, row, marks in zip(weights or [1.0] * 4, logits.tolist(), gold, strict=True):
        for c in range(3):
            probability = 1 / (1 + math.exp(-row[c]))
            target = marks[c] * (1 - smoothing) + 0.5 * smoothing
            error = positive[c] * target * math.log(probability) + (1 - target) * math.log(1 - probability)
            expected -= w * error / 3
    assert float(weight) == pytest.approx(sum(weights or [1.0] * 4))
    assert float(loss) == pytest.approx(expected)


@SMOOTHING
@BALANCE
@WEIGHTED
def test_token_labeling(smoothing: float, balance: Balance, weights: list[float] | None) -> None:
    """Words beyond the width that the model reads have no part in the loss; padding has none either."""
    made = task("iob", smoothing=smoothing, balance=balance)
    logits, gold = random_logits(4, 5, 5), [[0, 1, 2], [0], [3, 4, 0, 0, 1, 2, 2], [0, 3]]
    logits[:2, 3:] = 1e4  # in the padding
    stacked = torch.from_numpy(made.stack([np.array(tags) for tags in gold], 5))
    assert stacked.shape == (4, 5)
    loss, weight = made.loss(logits, stacked, None if weights is None else torch.tensor(weights, dtype=torch.float64))
    ratios = balanced(COUNTS["iob"]) if balance == "balanced" else [1.0] * 5
    expected = total = 0.0
    for w, rows, tags in zip(weights or [1.0] * 4, logits.tolist(), gold, strict=True):
        for row, tag in zip(rows, tags[:5], strict=False):
            fraction = w * math.sqrt(ratios[tag])  # the root: what taggers can bear
            total += fraction
            expected += fraction * cross_entropy(row, tag, smoothing)
    assert float(weight) == pytest.approx(total)
    assert float(loss) == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["single", "multi", "iob"])
@BALANCE
def test_a_weight_is_a_number_of_rows(kind: str, balance: Balance) -> None:
    made = task(kind, smoothing=0.1, balance=balance)
    logits = random_logits(3, 4, 5) if kind == "iob" else random_logits(3, 3)
    gold = {"single": [0, 2, 1], "multi": [[0, 1, 1], [1, 0, 0], [0, 0, 0]], "iob": [[0, 1], [2, 0, 3, 4], [0]]}[kind]
    times = torch.tensor([2, 0, 3])
    targets = torch.from_numpy(made.stack([np.array(g) for g in gold], 4))
    weighted = made.loss(logits, targets, times.double())
    repeated = made.loss(logits.repeat_interleave(times, 0), targets.repeat_interleave(times, 0), None)
    torch.testing.assert_close(torch.stack(weighted), torch.stack(repeated))


@pytest.mark.parametrize("kind", ["single", "multi", "iob"])
def test_parts_of_a_batch_add_up(kind: str) -> None:
    """That is what makes several processes agree with one."""
    made = task(kind, smoothing=0.1, balance="balanced")
    logits = random_logits(3, 4, 5) if kind == "iob" else random_logits(3, 3)
    gold = {"single": [0, 2, 1], "multi": [[0, 1, 1], [1, 0, 0], [0, 0, 0]], "iob": [[0, 1], [2, 0, 3, 4], [0]]}[kind]
    targets, weights = (
        torch.from_numpy(made.stack([np.array(g) for g in gold], 4)),
        torch.tensor([1.0, 0.5, 3.0], dtype=torch.float64),
    )
    whole = torch.stack(made.loss(logits, targets, weights))
    parts = [made.loss(logits[i : i + 1], targets[i : i + 1], weights[i : i + 1]) for i in range(3)]
    torch.testing.assert_close(whole, torch.stack([torch.stack(part) for part in parts]).sum(0))


def test_balanced_weights_make_every_label_weigh_the_same() -> None:
    made = task("single", balance="balanced")
    gold = torch.tensor([0] * 6 + [1] * 3)
    weights = [float(made.loss(torch.zeros(int((gold == c).sum()), 3), gold[gold == c], None)[1]) for c in (0, 1)]
    assert weights == pytest.approx([4.5, 4.5])


@pytest.mark.parametrize("kind", KINDS)
@BALANCE
@WEIGHTED
def test_probabilities_as_targets(kind: str, balance: Balance, weights: list[float] | None) -> None:
    """Loops; and what is smoothed by hand has the loss of ids that the task smooths."""
    hard, soft = task(kind, smoothing=0.2, balance=balance), task(kind, smoothing=0.2, balance=balance)
    given = None if weights is None else torch.tensor(weights, dtype=torch.float64)
    names = KINDS[kind][1]
    rng = np.random.default_rng(0)
    if kind == "single":
        gold = [np.int64(g) for g in (0, 1, 1, 0)]
        smoothed = [np.eye(3)[g] * 0.8 + 0.2 / 3 for g in gold]
        drawn = [rng.dirichlet(np.ones(3)) for _ in gold]
        logits = random_logits(4, 3)
    elif kind == "multi":
        gold = [np.array(row) for row in ([1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0])]
        smoothed = [row * 0.8 + 0.1 for row in gold]
        drawn = [rng.random(3) for _ in gold]
        logits = random_logits(4, 3)
    else:
        gold = [np.array(row) for row in ([0, 1, 2], [3], [0, 0], [1, 4, 0])]
        smoothed = [np.eye(5)[row] * 0.8 + 0.2 / 5 for row in gold]
        drawn = [rng.dirichlet(np.ones(5), size=len(row)) for row in gold]
        logits = random_logits(4, 3, 5)
    if balance == "none":  # else the smoothed part of a target has the weight of another class
        ids = hard.loss(logits, torch.from_numpy(hard.stack(gold, 3)), given)
        again = soft.loss(logits, torch.from_numpy(soft.stack([row.astype(np.float32) for row in smoothed], 3)), given)
        assert [float(x) for x in again] == pytest.approx([float(x) for x in ids], rel=1e-6)
    loss, weight = soft.loss(logits, torch.from_numpy(soft.stack([row.astype(np.float32) for row in drawn], 3)), given)
    of_class = {"none": [1.0] * len(names), "balanced": balanced(COUNTS[kind])}[balance]
    total = fractions = 0.0
    for w, rows, targets in zip(weights or [1.0] * 4, logits.tolist(), drawn, strict=True):
        for row, target in zip(
            rows if kind == "iob" else [rows], targets if kind == "iob" else [targets], strict=False
        ):
            if kind == "multi":
                yes = [1 / (1 + math.exp(-value)) for value in row]
                parts = zip(of_class, target, yes, strict=True)
                total += w * -sum(c * t * math.log(p) + (1 - t) * math.log(1 - p) for c, t, p in parts) / 3
                fractions += w
            else:
                scale = [math.sqrt(c) for c in of_class] if kind == "iob" else of_class
                fraction = w * sum(c * t for c, t in zip(scale, target, strict=True))
                log_sum = math.log(sum(map(math.exp, row)))
                total += fraction * -sum(t * (value - log_sum) for t, value in zip(target, row, strict=True))
                fractions += fraction
    assert float(weight) == pytest.approx(fractions, rel=1e-6)
    assert float(loss) == pytest.approx(total, rel=1e-6)
