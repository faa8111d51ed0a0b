"""When an 8-bit model is refused: more answers lost than chance explains, whatever the size of the validation set."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from scipy.stats import binomtest

from mixling.answers import LabelSet
from mixling.export.quantize import _tail_probability, quantization_problem
from mixling.metrics.quantization import QuantizationCheck
from mixling.tasks import Classification, MultiLabel, Tagging

NAMES = ("a", "b", "c", "d")
CHOICES = np.eye(4, dtype=np.float32)


def evaluated(before: np.ndarray, after: np.ndarray, targets: np.ndarray) -> QuantizationCheck:
    """The gate of answers, each one of four classes."""
    return Classification(LabelSet(NAMES, "single")).compare_quantized(CHOICES[before], CHOICES[after], targets)


def test_gate_counts_decisions() -> None:
    targets = np.arange(1000) % 4
    moved = targets.copy()
    moved[:8] = (targets[:8] + 1) % 4
    quantization = evaluated(targets, moved, targets)
    assert (quantization.agreement, quantization.accuracy_drop) == pytest.approx((0.992, 0.8))
    assert (quantization.decisions, quantization.changed, quantization.worse, quantization.better) == (1000, 8, 8, 0)
    assert "0.80 points lower (8 texts worse, 0 better)" in (quantization_problem(quantization) or "")
    # The same changes where the float model was wrong already cost no accuracy.
    wrong = np.where(np.arange(1000) < 8, (targets + 2) % 4, targets)
    assert quantization_problem(evaluated(targets, moved, wrong)) is None


def test_decisions_of_one_text_count_as_one_text() -> None:
    exact, moved = CHOICES[[0, 1, 2, 3]], CHOICES[[0, 2, 3, 3]]
    several = MultiLabel(LabelSet(NAMES, "multi"))
    quantization = several.compare_quantized(
        exact - 0.5, moved - 0.5, exact.astype(np.int64)
    )  # 2 of 16 decisions a text
    assert (quantization.decisions, quantization.changed, quantization.worse, quantization.better) == (16, 4, 2, 0)
    assert (quantization.agreement, quantization.accuracy_drop) == pytest.approx((0.75, 25))
    tagger = Tagging(LabelSet(("O", "B-x", "B-y", "B-z"), "iob"))
    targets = np.array([0, 1, 2, 3, 0])  # the last word is beyond the model's length
    quantization = tagger.compare_quantized(np.split(exact, [1]), np.split(moved, [1]), np.split(targets, [1]))
    assert (quantization.decisions, quantization.changed, quantization.worse, quantization.better) == (4, 2, 1, 0)
    quantization = tagger.compare_quantized(np.split(moved, [2]), np.split(exact, [2]), np.split(targets, [2]))
    assert (quantization.worse, quantization.better, quantization.accuracy_drop) == (0, 2, -50)


def noisy(rng: np.random.Generator, n: int, changed: float) -> QuantizationCheck:
    """A classifier that is right on 83%, and a copy of it that answers a part of the texts otherwise, by chance."""
    targets = rng.integers(0, 2, n)
    before = np.where(rng.random(n) < 0.83, targets, 1 - targets)
    after = np.where(rng.random(n) < changed, 1 - before, before)
    # Answers that flip are those that the model is least sure of: as often right as wrong.
    targets = np.where(before != after, rng.integers(0, 2, n), targets)
    return evaluated(before, after, targets)


def test_an_8_bit_model_within_noise_is_not_refused() -> None:
    """150 validation texts, as 1,500 rows leave them: in 1,000 trainings none, where one answer is 0.67 points."""
    rng = np.random.default_rng(0)
    gates = [noisy(rng, 150, changed=0.005) for _ in range(1000)]
    assert sum(quantization.accuracy_drop > 0.5 for quantization in gates) > 50, "the limit alone would refuse many"
    assert sum(quantization.agreement < 0.99 for quantization in gates) > 100
    assert [quantization for quantization in gates if quantization_problem(quantization)] == []


@pytest.mark.parametrize("n", [150, 1000, 20_000])
def test_a_damaged_8_bit_model_is_refused(n: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(50 if n < 20_000 else 10):
        targets = rng.integers(0, 2, n)
        before = np.where(rng.random(n) < 0.83, targets, 1 - targets)
        after = np.where(rng.random(n) < 0.4, 0, before)
        assert quantization_problem(evaluated(before, after, targets)) is not None
        assert quantization_problem(noisy(rng, n, changed=0.15)) is not None


def test_many_answers_show_a_small_loss() -> None:
    targets = np.zeros(20_000, np.int64)
    before = np.zeros_like(targets)
    after = np.where(np.arange(20_000) < 110, 1, 0)
    quantization = evaluated(before, after, targets)
    assert quantization.accuracy_drop == pytest.approx(0.55)
    assert "0.55 points" in (quantization_problem(quantization) or "")
    assert (
        quantization_problem(evaluated(before, np.where(np.arange(20_000) < 90, 1, 0), targets)) is None
    )  # within the limit
    assert quantization_problem(evaluated(after, before, targets)) is None  # 8 bits did better


@pytest.mark.parametrize(
    ("successes", "trials", "probability"), [(0, 9, 0.5), (3, 9, 0.5), (9, 9, 0.5), (6, 150, 0.01)]
)
def test_the_tests_are_exact(successes: int, trials: int, probability: float) -> None:
    got = _tail_probability(successes, trials, probability)
    tail = sum(
        comb(trials, k) * probability**k * (1 - probability) ** (trials - k) for k in range(successes, trials + 1)
    )
    assert got == pytest.approx(tail)
    assert got == pytest.approx(binomtest(successes, trials, probability, alternative="greater").pvalue)
