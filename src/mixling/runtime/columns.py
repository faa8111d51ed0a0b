"""Predictions as columns of a table in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mixling.answers.predictions import Prediction
    from mixling.tasks.base import Task


def prediction_columns(task: Task, predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Return predictions as columns by name, a value for each prediction.

    With one label for each text: `label`, as it was given in training, None where the model abstains; `confidence`, its
    probability; `abstained` and `label_set` of models that have them; then the probability of each label, in a column
    of its name. With several: `labels`, and these. Of other tasks the columns of a CSV: `value`; `tokens`,
    `tags` and `spans`; `answer`, `start`, `end`, `score` and `no_answer`.

    A label with the name of another column has the column "class NAME".
    """
    if not task.has_probabilities:
        rows = [item.to_dict() for item in predictions]
        return {name: [row.get(name) for row in rows] for name in task.csv_columns}
    names = task.labels.names
    values = {name: task.labels.value(name) for name in names}
    probabilities = np.array([list((item.probabilities or {}).values()) for item in predictions], np.float64)
    probabilities = probabilities.reshape(len(predictions), len(names))
    out: dict[str, Any] = {}
    if task.exclusive:
        answers = [None if item.abstained else item.label for item in predictions]
        out["label"] = [None if name is None else values.get(name, name) for name in answers]
        out["confidence"] = np.array([item.probability for item in predictions], np.float64)
        if task.threshold is not None:
            out["abstained"] = [bool(item.abstained) for item in predictions]
        if task.conformal is not None:
            out["label_set"] = [[values[name] for name in item.label_set or ()] for item in predictions]
    else:
        out["labels"] = [[values[name] for name in item.labels or ()] for item in predictions]
    for place, name in enumerate(names):
        while name in out:
            name = f"class {name}"
        out[name] = probabilities[:, place]
    return out
