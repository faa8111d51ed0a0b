"""Agreement, against scikit-learn and the example of Krippendorff's paper."""

from __future__ import annotations

import random

import pytest

from mixling.labeling import agreement_of, cohen, krippendorff


def test_kappa_is_scikit_learns() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    draw = random.Random(0)
    for _ in range(20):
        pairs = [(draw.choice("abc"), draw.choice("abcd")) for _ in range(30)]
        assert cohen(pairs) == pytest.approx(metrics.cohen_kappa_score(*zip(*pairs, strict=True)))
    assert cohen([("a", "a")] * 3) is None


def test_alpha_is_that_of_the_paper() -> None:
    """Krippendorff (2011), section C: four observers, twelve units, alpha = .743."""
    rows = ["1 2 3 3 2 1 4 1 2 . . .", "1 2 3 3 2 2 4 1 2 5 . 3", ". 3 3 3 2 3 4 2 2 5 1 .", "1 2 3 3 2 4 4 1 2 5 1 ."]
    units = [[value for value in unit if value != "."] for unit in zip(*map(str.split, rows), strict=True)]
    assert krippendorff([unit for unit in units if len(unit) > 1]) == pytest.approx(0.743, abs=5e-4)
    assert krippendorff([["a", "a"], ["a", "a"]]) is None


def test_answers_of_sets_agree_in_any_order() -> None:
    found = agreement_of([{"ann": ["a", "b"], "bob": ["b", "a"]}, {"ann": ["a"], "bob": []}, {"ann": ["c"]}])
    assert found.texts == 2
    assert found.kappas[("ann", "bob")] == pytest.approx(1 / 3)
