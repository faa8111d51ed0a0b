"""The worst mistakes of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from mixling import ConfigError, Dataset, Example, Prediction, Predictor
from mixling.answers import LabelSet
from mixling.audit.mistakes import find_mistakes
from mixling.tasks import Classification, MultiLabel, Regression, Tagging, Task


@dataclass
class Stub:
    """A predictor that only explains, by naming what it was asked for."""

    task: Task

    def explain(self, text: Any, target: str | None, method: str) -> tuple[Any, str | None, str]:
        return text, target, method


def predictor(task: Task) -> Predictor:
    return Stub(task)  # type: ignore[return-value]


def example(text: str, target: Any) -> Example:
    return Example(text, target, "t.csv", 2)


def of_class(label: str, probability: float) -> Prediction:
    other = "b" if label == "a" else "a"
    return Prediction(label=label, probabilities={label: probability, other: 1 - probability}, truncated=False)


CLASSES = Classification(LabelSet(("a", "b"), "single"))


def test_the_most_confident_wrong_answers_come_first() -> None:
    examples = [example("one", "a"), example("two", "a"), example("three", "b"), example("four", "c")]
    predictions = [of_class("b", 0.6), of_class("a", 0.99), of_class("a", 0.9), of_class("b", 0.7)]
    found = find_mistakes(predictor(CLASSES), examples, predictions)
    assert [(item.example.text, item.answer, item.severity) for item in found] == [
        ("three", "a", 0.9), ("four", "b", 0.7), ("one", "b", 0.6),
    ]  # fmt: skip
    assert found[0].explanation == ("three", "a", "leave_one_out")


def test_of_several_labels_the_most_certain_wrong_one_is_explained() -> None:
    task = MultiLabel(LabelSet(("x", "y", "z"), "multi"))
    prediction = Prediction(labels=("x", "z"), probabilities={"x": 0.7, "y": 0.1, "z": 0.8}, truncated=False)
    (extra,) = find_mistakes(predictor(task), [example("t", ("x",))], [prediction])
    assert (extra.severity, extra.explanation) == (0.8, ("t", "z", "leave_one_out"))  # type: ignore[comparison-overlap]
    (missing,) = find_mistakes(predictor(task), [example("t", ("x", "y", "z"))], [prediction])
    assert (missing.severity, missing.explanation) == (0.9, ("t", "y", "leave_one_out"))  # type: ignore[comparison-overlap]
    assert find_mistakes(predictor(task), [example("t", ("z", "x"))], [prediction]) == []


def test_numbers_are_sorted_by_their_errors() -> None:
    task = Regression(LabelSet(("value",), "number", {"mean": 0.0, "deviation": 1.0}))
    predictions = [Prediction(value=value, truncated=False) for value in (1.0, 5.0, 2.0)]
    found = find_mistakes(
        predictor(task), [example("p", 1.5), example("q", 2.0), example("r", 2.0)], predictions
    )  # fmt: skip
    assert [(item.example.text, item.severity) for item in found] == [("q", 3.0), ("p", 0.5)]


def test_the_nearest_training_examples_are_named() -> None:
    vectors = {
        "one": [3.0, 0.0],
        "near one": [2.0, 0.5],
        "other": [-1.0, 2.0],
        "last": [-4.0, -2.5],
        "asked": [9.0, 1.0],
    }

    class Vectors(Stub):
        def encode(self, texts: Any) -> np.ndarray:
            return np.array([vectors[text] for text in texts], np.float32)

    train = Dataset.from_examples(example(text, "a") for text in vectors if text != "asked")
    (found,) = find_mistakes(
        Vectors(CLASSES), [example("asked", "a")], [of_class("b", 0.6)], train=train  # type: ignore[arg-type]
    )  # fmt: skip
    center = np.mean([vectors[item.text] for item in train], axis=0)  # type: ignore[index]

    def cosine(text: str) -> float:
        first, second = np.array(vectors[text]) - center, np.array(vectors["asked"]) - center
        return float(first @ second / np.sqrt((first @ first) * (second @ second)))

    expected = sorted((str(item.text) for item in train), key=lambda text: -cosine(text))[:3]
    assert [item.example.text for item in found.neighbors] == expected
    assert [item.similarity for item in found.neighbors] == pytest.approx([cosine(text) for text in expected], abs=1e-6)


def test_taggers_are_refused() -> None:
    with pytest.raises(ConfigError, match="--errors: the model gives a tag a word"):
        find_mistakes(predictor(Tagging(LabelSet(("O", "B-x"), "iob"))), [], [])
