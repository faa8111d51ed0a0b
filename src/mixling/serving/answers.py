"""Predictions as the JSON of answers."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest
from operator import itemgetter
from typing import Any

from mixling.serving.schemas import Options
from mixling.text.predictions import Prediction

_PROBABILITY = itemgetter(1)


def answer(prediction: Prediction, options: Options) -> dict[str, Any]:
    """Return the JSON values of a prediction; see `mixling.serving.schemas` for the options."""
    out = prediction.to_dict()
    if (threshold := options.threshold) is not None:
        _leave_out(out, prediction, threshold)
    if options.top_k is not None and prediction.probabilities is not None:
        out["probabilities"] = dict(nlargest(options.top_k, prediction.probabilities.items(), key=_PROBABILITY))
    return out


def _leave_out(out: dict[str, Any], prediction: Prediction, threshold: float | Mapping[str, float]) -> None:
    """Leave out what is less probable than the threshold; a single label is marked as abstained."""
    if isinstance(threshold, Mapping):
        assert prediction.probabilities is not None
        out["labels"] = [label for label, value in prediction.probabilities.items() if value >= threshold[label]]
        return
    if (probabilities := prediction.probabilities) is not None:
        if prediction.labels is not None:
            out["labels"] = [label for label, value in probabilities.items() if value >= threshold]
        elif prediction.label is not None:
            out["abstained"] = probabilities[prediction.label] < threshold
    if prediction.spans is not None:
        out["spans"] = [span for span in out["spans"] if span["score"] >= threshold]
    if prediction.answer is not None and not prediction.answer.is_none and prediction.answer.score < threshold:
        out |= {"answer": "", "start": None, "end": None, "no_answer": True}
