"""Calibration: the numbers against SciPy's optimizers, and folding them into a model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax

from mixling import PRESETS, build_model
from mixling.answers import LabelSet
from mixling.models import TorchNetwork
from mixling.tasks import Classification, LossConfig, MultiLabel, Tagging
from mixling.training.calibration import Calibration, fit_calibration, report_calibration

ABC = LabelSet(("a", "b", "c"), "single")


def drawn(logits: npt.NDArray, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """A class for each row, with the probabilities that the logits have."""
    gumbel = -np.log(-np.log(rng.random(logits.shape)))
    return (logits + gumbel).argmax(1)


@pytest.mark.parametrize("scale", [0.2, 1.0, 4.0])
def test_the_temperature_minimizes_the_loss(scale: float) -> None:
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(500, 3))
    gold = drawn(scale * logits, rng)

    def loss(slope: float) -> float:
        return -log_softmax(slope * logits, 1)[np.arange(500), gold].sum() + (slope - 1) ** 2

    fitted = fit_calibration(Classification(ABC), list(logits), gold)
    assert fitted is not None
    expected = minimize_scalar(loss, bounds=(0.01, 100), method="bounded", options={"xatol": 1e-9}).x
    np.testing.assert_allclose(fitted.slope, expected, rtol=1e-4)
    assert (fitted.offset == 0).all()
    assert abs(fitted.slope[0] - scale) < 0.25 * scale
    report = report_calibration(Classification(ABC), fitted, list(logits), gold)
    assert report.error < 0.08
    assert (report.slope, report.offset) == (fitted.slope[0], None)
    if scale != 1:
        assert report.error < report.error_before / 2


def test_each_of_several_labels_has_a_slope_and_an_offset() -> None:
    rng = np.random.default_rng(1)
    logits = 2 * rng.normal(size=(400, 2))
    gold = (rng.random((400, 2)) < 1 / (1 + np.exp(-([3.0, 0.5] * logits + [-2.0, 1.0])))).astype(np.int64)
    fitted = fit_calibration(MultiLabel(LabelSet(("x", "y"), "multi")), list(logits), gold)
    assert fitted is not None
    for label in range(2):

        def loss(at: npt.NDArray, label: int = label) -> float:
            values = at[0] * logits[:, label] + at[1]
            return (np.logaddexp(0, values) - gold[:, label] * values).sum() + (at[0] - 1) ** 2 + at[1] ** 2

        expected = minimize(loss, [1, 0]).x
        np.testing.assert_allclose([fitted.slope[label], fitted.offset[label]], expected, rtol=1e-3)
    report = report_calibration(MultiLabel(LabelSet(("x", "y"), "multi")), fitted, list(logits), gold)
    assert report.error < report.error_before / 2
    assert isinstance(report.slope, tuple)
    assert np.shape(report.slope) == np.shape(report.offset) == (2,)


def test_few_examples_change_little_and_hopeless_logits_are_flattened_but_keep_their_order() -> None:
    few = fit_calibration(Classification(ABC), [np.array([4.0, 0, 0])] * 3, np.zeros(3, int))
    assert few is not None
    assert 1 <= few.slope[0] < 1.2
    wrong = fit_calibration(Classification(ABC), [np.array([4.0, 0, 0])] * 300, np.ones(300, int))
    assert wrong is not None
    assert wrong.slope[0] == pytest.approx(0.01)
    signs = np.where(np.arange(300) % 2, 3.0, -3.0)
    inverse = fit_calibration(MultiLabel(LabelSet(("x",), "multi")), list(signs[:, None]), (signs < 0)[:, None])
    assert inverse is not None
    assert inverse.slope[0] == 0.01


def test_class_weights_are_part_of_the_loss() -> None:
    """With the weights, a constant prediction of .5 is right for one label in ten with weight nine."""
    gold = (np.arange(1000) % 10 == 0).astype(np.int64)[:, None]
    counts = np.array([100])
    task = MultiLabel(LabelSet(("x",), "multi"), LossConfig(class_weights="balanced"), counts)
    assert task.class_weights is not None
    weight = 900 / 100
    task.class_weights = np.array([weight], np.float32)
    fitted = fit_calibration(task, [np.zeros(1)] * 1000, gold)
    assert fitted is not None
    assert abs(fitted.offset[0]) < 1e-6
    plain = fit_calibration(MultiLabel(LabelSet(("x",), "multi")), [np.zeros(1)] * 1000, gold)
    assert plain is not None
    assert plain.offset[0] == pytest.approx(np.log(0.1 / 0.9), abs=0.05)
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(300, 3))
    classes = np.where(rng.random(300) < 0.9, 0, logits.argmax(1))
    weights = np.array([0.1, 2.0, 2.0], np.float32)
    single = Classification(ABC)
    single.class_weights = weights

    def loss(slope: float) -> float:
        losses = -log_softmax(slope * logits, 1)[np.arange(300), classes]
        return (weights[classes] * losses).sum() + (slope - 1) ** 2

    expected = minimize_scalar(loss, bounds=(0.01, 100), method="bounded", options={"xatol": 1e-9}).x
    found = fit_calibration(single, list(logits), classes)
    assert found is not None
    assert found.slope[0] == pytest.approx(expected, rel=1e-4)


def test_unknown_labels_and_unread_words_are_left_out() -> None:
    rng = np.random.default_rng(2)
    task = Classification(ABC)
    logits = list(rng.normal(size=(50, 3)))
    gold = rng.integers(0, 3, 50)
    first = fit_calibration(task, logits, gold)
    more = fit_calibration(task.with_unknown(["new"]), [*logits, np.array([9.0, 0, 0])], np.append(gold, 3))
    assert first is not None
    assert more is not None
    assert first.slope[0] == pytest.approx(more.slope[0])
    assert fit_calibration(task.with_unknown(["new"]), logits[:1], np.array([3])) is None
    tags = Tagging(LabelSet(("O", "B-x", "I-x"), "iob"))
    full = tags.with_unknown([("B-y",)])
    sentences = [rng.normal(size=(4, 3)), rng.normal(size=(2, 3))]
    found = full.decisions(sentences, [np.array([0, 1, 3, 2]), np.array([1, 2, 0, 0, 0])])
    np.testing.assert_array_equal(found[0], np.concatenate([sentences[0][[0, 1, 3]], sentences[1]]))
    np.testing.assert_array_equal(found[1], [0, 1, 2, 1, 2])


@pytest.mark.parametrize("output", ["text", "tokens"])
def test_a_folded_calibration_calibrates_the_logits(output: str) -> None:
    model = build_model(PRESETS["mixling-tiny"].config, num_outputs=3, output=output, seed=0).eval()  # type: ignore[arg-type]
    tokens, mask = torch.randn(2, 5, model.embedding.dim), torch.ones(2, 5)
    calibration = Calibration(np.array([0.5, 2.0, 3.0]), np.array([1.0, 0.0, -1.0]))
    with torch.no_grad():
        before = model.head(tokens, mask)
        calibration.fold(TorchNetwork(model))
        after = model.head(tokens, mask)
    np.testing.assert_allclose(after.numpy(), calibration.apply(before.numpy()), rtol=1e-5, atol=1e-6)
