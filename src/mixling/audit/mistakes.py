"""Where a saved model is wrong: its worst mistakes with the words that explain them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mixling.answers.predictions import Prediction
from mixling.audit.neighbors import Neighbor, nearest
from mixling.data.dataset import Dataset
from mixling.data.examples import Example, Target
from mixling.errors import ConfigError
from mixling.explain.explanation import Explanation
from mixling.runtime.predictor import Predictor

MAX_MISTAKES = 1000  # that are explained


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A wrong answer.

    Attributes:
        answer: what the model predicts, in the form of a target.
        severity: the probability of the wrong answer (1 - it, of a label that is missing), or the absolute error.
        explanation: of the wrong answer; of several labels, of the most certain wrong one.
        neighbors: the nearest training examples; empty if they are not known.
    """

    example: Example
    answer: Target
    severity: float
    explanation: Explanation
    neighbors: Sequence[Neighbor] = ()


def find_mistakes(
    predictor: Predictor,
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    *,
    train: Dataset | None = None,
    most: int = MAX_MISTAKES,
) -> list[Mistake]:
    """Return the worst mistakes, the worst first: up to `most`, explained by leaving words out.

    Args:
        train: the training examples; the nearest ones are named. None: none are.

    Raises:
        ConfigError: answers are not for whole texts.
    """
    task = predictor.task
    if task.per_word or task.windows:
        raise ConfigError(f"--errors: the model gives {task.gives}; mistakes are listed of models that answer per text")
    found = []
    for example, prediction in zip(examples, predictions, strict=True):
        if (wrong := _wrong(prediction, example.target)) is not None:
            found.append((*wrong, example, task.answer(prediction, example.text)))
    found.sort(key=lambda item: -item[0])
    found = found[:most]
    near: Sequence[Sequence[Neighbor]] = [()] * len(found)
    if train is not None and found:
        near = nearest(predictor, train, [example.text for _, _, example, _ in found])
    return [
        Mistake(
            example=example,
            answer=answer,
            severity=severity,
            explanation=predictor.explain(example.text, label, "leave_one_out"),
            neighbors=neighbors,
        )
        for (severity, label, example, answer), neighbors in zip(found, near, strict=True)
    ]


def _wrong(prediction: Prediction, target: Target) -> tuple[float, str | None] | None:
    """Return how severe a mistake is and which label is to be explained; None where the answer is right."""
    probabilities = prediction.probabilities or {}
    if (label := prediction.leaf) is not None:
        return None if label == target else (probabilities[label], label)
    if prediction.labels is not None:
        assert isinstance(target, tuple)
        predicted = set(prediction.labels)
        wrong = {name: p if name in predicted else 1 - p for name, p in probabilities.items()
                 if (name in predicted) != (name in target)}  # fmt: skip
        return max(((p, name) for name, p in wrong.items()), default=None)
    assert prediction.value is not None
    assert isinstance(target, float)
    return (error, None) if (error := abs(prediction.value - target)) else None
