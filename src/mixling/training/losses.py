"""The losses of labels in NumPy, for evaluations and as the reference of native steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float32, Float64
from mixling.tasks.objective import NO_TARGET, LossTerms


def loss_sums(
    terms: LossTerms,
    logits: Float32,
    targets: npt.NDArray[Any],
    weights: Float32 | None,
    transitions: Float32 | None = None,
) -> tuple[float, float]:
    """Return the sum of weighted losses and the sum of weights, as `Objective.loss`.

    Args:
        logits: (B, C), or (B, N, C) of words.
        targets: as the task stacks them.
        weights: (B,) of the examples; None: all are 1.
        transitions: (C, C) of tags, for the loss of sequences.
    """
    values = logits.astype(np.float64)
    scale = np.ones(len(values)) if weights is None else weights.astype(np.float64)
    match terms.kind:
        case "squares":
            losses = np.square(values - targets)[:, 0]
        case "sigmoid":
            wanted = targets if targets.dtype.kind == "f" else targets * (1 - terms.smoothing) + terms.smoothing / 2
            positive = 1.0 if terms.class_weights is None else terms.class_weights
            terms_of_labels = positive * wanted * np.logaddexp(0, -values) + (1 - wanted) * np.logaddexp(0, values)
            losses = terms_of_labels.mean(-1)
        case "softmax":
            losses, scale = _cross_entropies(terms, values, targets, scale)
        case "spans":
            losses = _spans(terms, values, targets)
        case "sequences":
            assert transitions is not None, "the loss of sequences has transitions"
            losses, scale = _sequences(terms, values, targets, scale, transitions.astype(np.float64))
    return float((losses * scale).sum()), float(scale.sum())


def _cross_entropies(
    terms: LossTerms, logits: Float64, targets: npt.NDArray[Any], scale: Float64
) -> tuple[Float64, Float64]:
    logs = logits - _log_sum(logits)[..., None]
    if targets.dtype.kind == "f":
        losses = -(targets * logs).sum(-1)
        of_targets = targets.sum(-1) if terms.class_weights is None else targets @ terms.class_weights
    else:
        known = targets != NO_TARGET
        ids = np.where(known, targets, 0)
        right = np.take_along_axis(logs, ids[..., None], -1)[..., 0]
        losses = -((1 - terms.smoothing) * right + terms.smoothing * logs.mean(-1))
        of_targets = known * (1.0 if terms.class_weights is None else terms.class_weights[ids])
    return losses, of_targets * (scale if losses.ndim == 1 else scale[:, None])


def _spans(terms: LossTerms, logits: Float64, targets: npt.NDArray[Any]) -> Float64:
    """Return the mean losses of first and last token, among those from the separator on."""
    tokens = np.arange(logits.shape[1])
    allowed = ((tokens >= targets[:, :1]) & (tokens < targets[:, 1:2]))[..., None]
    masked = np.where(allowed, logits, -np.inf)
    logs = masked - _log_sum(np.moveaxis(masked, 1, -1))[:, None]
    losses = -np.take_along_axis(logs, targets[:, None, 2:], 1)[:, 0]
    if terms.smoothing:
        others = -np.where(allowed, logs, 0).sum(1) / allowed.sum(1)
        losses = (1 - terms.smoothing) * losses + terms.smoothing * others
    mean: Float64 = losses.mean(1)
    return mean


def _sequences(
    terms: LossTerms, logits: Float64, targets: npt.NDArray[Any], scale: Float64, transitions: Float64
) -> tuple[Float64, Float64]:
    """Return the losses of sentences for each word, and the words of each times its weight."""
    soft = targets.dtype.kind == "f"
    known = targets != NO_TARGET
    marks = targets if soft else np.eye(logits.shape[-1])[np.where(known, targets, 0)] * known[..., None]
    words = marks.sum(-1) > 0
    totals = np.zeros(len(logits))
    counts = words.sum(1)
    for number, (row, mark, real) in enumerate(zip(logits, marks, words, strict=True)):
        if not real.any():
            continue
        row, mark = row[real], mark[real]
        score = (row * mark).sum() + ((mark[:-1] @ transitions) * mark[1:]).sum()
        sums = row[0]
        for word in row[1:]:
            sums = _log_sum((sums[:, None] + transitions).T) + word
        totals[number] = float(_log_sum(sums)) - score
    if terms.class_weights is not None:
        scale = scale * (marks @ terms.class_weights).sum(1) / np.maximum(counts, 1)
    return totals / np.maximum(counts, 1), counts * scale


def _log_sum(values: Float64) -> Float64:
    highest = values.max(-1)
    total: Float64 = np.log(np.exp(values - highest[..., None]).sum(-1)) + highest
    return total
