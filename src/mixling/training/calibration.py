"""Calibrating the probabilities of a trained model on validation examples.

For labels that exclude each other all logits are multiplied by one number, the inverse of a temperature (Guo et al.,
"On Calibration of Modern Neural Networks", ICML 2017, section 4.2), which leaves every ranking as it is. Otherwise
each label has a slope and an offset of its own (Platt, "Probabilistic Outputs for Support Vector Machines", 1999).
Both are folded into the last linear layer, so that no engine and no file format knows of them.

The numbers minimize the loss on the validation examples plus (slope - 1)^2 and offset^2. These terms are worth a
fraction of one example's loss: they decide only where there are almost no examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float64
from mixling.networks.network import TRANSITION_SCORES, TextNetwork
from mixling.tasks.base import Task

MIN_SLOPE = 0.01
MAX_SLOPE = 100.0
_ITERATIONS = 60


@dataclass(frozen=True, eq=False)
class Calibration:
    """Logits are multiplied by `slope` (C,), then `offset` (C,) is added."""

    slope: Float64
    offset: Float64

    def apply(self, logits: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return calibrated logits (..., C)."""
        return (logits * self.slope + self.offset).astype(np.float32)

    def fold(self, network: TextNetwork) -> None:
        """Multiply and add in the last layer of a network, whose logits are then calibrated."""
        weights = network.weights()
        slope = self.slope.astype(np.float32)
        weights["head.output.weight"] *= slope[:, None]
        weights["head.output.bias"] = weights["head.output.bias"] * slope + self.offset.astype(np.float32)
        if TRANSITION_SCORES in weights:
            weights[TRANSITION_SCORES] *= slope
        network.restore(weights)


@dataclass(frozen=True)
class CalibrationReport:
    """A calibration as metrics.json has it, with the calibration errors on the examples that it was fitted on.

    Attributes:
        slope, offset: one for each label; of labels that exclude each other one slope and no offset.
    """

    slope: float | tuple[float, ...]
    offset: tuple[float, ...] | None
    error_before: float
    error: float


def report_calibration(task: Task, calibration: Calibration, outputs: Sequence[Any], targets: Any) -> CalibrationReport:
    """Return the calibration and its effect on the outputs that it was fitted on.

    The task then has the transitions, if there are any, of the calibrated model.
    """

    def error(part: Sequence[Any]) -> float:
        return task.evaluate(part, targets, tables=False).numbers()["calibration_error"]

    errors = [error(outputs)]
    if task.transitions is not None:  # the slopes of labels that exclude each other are equal
        task.transitions = task.transitions * np.float32(calibration.slope[0])
    errors.append(error([calibration.apply(item) for item in outputs]))
    slope = calibration.slope.tolist()
    offset = calibration.offset.tolist()
    if task.exclusive:
        return CalibrationReport(slope[0], None, *errors)
    return CalibrationReport(tuple(slope), tuple(offset), *errors)


def fit_calibration(task: Task, outputs: Sequence[Any], targets: Any) -> Calibration | None:
    """Return the calibration of a model; None if no example has a known label.

    With class weights, probabilities are calibrated for classes in the proportions that the weights make of the
    data, since those are what the user asked for.

    Args:
        outputs, targets: of the validation examples, as `Task.evaluate` takes them.
    """
    logits, gold = task.decisions(outputs, targets)
    if not len(gold):
        return None
    logits = np.asarray(logits, np.float64)
    if task.exclusive:
        weights = np.ones(len(gold)) if task.class_weights is None else task.class_weights[gold]
        slope = _temperature(logits, gold, weights)
        return Calibration(np.full(logits.shape[1], slope), np.zeros(logits.shape[1]))
    weights = np.ones(gold.shape) if task.class_weights is None else np.where(gold, task.class_weights, 1.0)
    slopes, offsets = zip(*(_platt(*column) for column in zip(logits.T, gold.T, weights.T, strict=True)), strict=True)
    return Calibration(np.array(slopes), np.array(offsets))


def _temperature(logits: Float64, gold: npt.NDArray[np.integer], weights: Float64) -> float:
    """Return the factor of logits (D, C) that minimizes the cross-entropy of classes (D,): its derivative increases."""
    logits = logits - logits.max(1, keepdims=True)
    right = (logits[np.arange(len(gold)), gold] * weights).sum()
    low = MIN_SLOPE
    high = MAX_SLOPE
    slope = 1.0
    for _ in range(_ITERATIONS):
        exponentials = np.exp(slope * logits)
        probabilities = exponentials / exponentials.sum(1, keepdims=True)
        mean = (probabilities * logits).sum(1)
        gradient = weights @ mean - right + 2 * (slope - 1)
        curvature = weights @ ((probabilities * logits**2).sum(1) - mean**2) + 2
        low, high = (slope, high) if gradient < 0 else (low, slope)
        # Newton's step, or the middle where it leaves the interval in which the root is known to be.
        step = slope - gradient / curvature
        previous = slope
        slope = step if low < step < high else (low + high) / 2
        if abs(slope - previous) < 1e-10:
            break
    return slope


def _platt(logits: Float64, gold: npt.NDArray[np.integer], weights: Float64) -> tuple[float, float]:
    """Return slope and offset that minimize the binary cross-entropy of decisions (D,), by damped Newton steps."""
    features = np.stack([logits, np.ones_like(logits)], axis=1)

    def loss(at: Float64) -> float:
        values = features @ at
        return float(weights @ (np.logaddexp(0, values) - gold * values) + (at[0] - 1) ** 2 + at[1] ** 2)

    at = np.array([1.0, 0.0])
    best = loss(at)
    for _ in range(_ITERATIONS):
        probabilities = 0.5 * (1 + np.tanh(0.5 * (features @ at)))
        gradient = features.T @ (weights * (probabilities - gold)) + 2 * (at - [1, 0])
        curvature = (features.T * (weights * probabilities * (1 - probabilities))) @ features + 2 * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        size = 1.0
        while size > 1e-6 and (value := loss(at - size * step)) > best:
            size /= 2
        if size <= 1e-6 or best - value < 1e-12:
            break
        at = at - size * step
        best = value
    return float(np.clip(at[0], MIN_SLOPE, MAX_SLOPE)), float(at[1])
