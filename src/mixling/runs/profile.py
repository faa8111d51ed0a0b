"""The profile of a run's data, which the model file keeps for `mixling drift`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixling.answers.decision import answers_of
from mixling.data.dataset import Dataset
from mixling.drift.profile import Profile, profile_of
from mixling.tasks.base import Task


def data_profile(
    task: Task, train: Dataset, validation: Dataset, outputs: Sequence[Any], more: Sequence[Any], targets: Any
) -> Profile:
    """Return the profile of validation texts, and of answers to examples by models that were not fitted on them.

    Args:
        task: with the model's decisions.
        outputs: logits of the validation examples; of tasks without labels of texts they are not read.
        more: the same, or logits of all examples by cross-fitting, whose models are less sure than the one of the file.
        targets: of the examples of `more`, as numbers.
    """
    if not (task.has_classes or task.has_label_thresholds):
        return profile_of(train.texts, validation.texts)
    probabilities = task.probabilities(np.stack(more))
    names = task.labels.names
    if task.has_classes:
        answers = answers_of(probabilities, task.rule)
        return profile_of(
            train.texts,
            validation.texts,
            answers=[(names[index],) for index in answers],
            confidence=task.probabilities(np.stack(outputs)).max(1),
            counted=None if more is outputs else probabilities.max(1),
            right=answers == np.asarray(targets),
        )
    least = 0.5 if task.threshold is None else task.threshold
    thresholds = np.array([task.label_thresholds.get(name, least) for name in names])
    given = [tuple(names[index] for index in np.flatnonzero(row >= thresholds)) for row in probabilities]
    return profile_of(train.texts, validation.texts, answers=given)
