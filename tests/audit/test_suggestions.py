"""Which texts are suggested for labeling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from mixling import ConfigError, Predictor
from mixling.answers import LabelSet
from mixling.audit import suggest
from mixling.audit.suggestions import margins
from mixling.tasks import Classification, MultiLabel, Regression, Task

CLASSES = Classification(LabelSet(("a", "b", "c"), "single"))


@dataclass
class Stub:
    """A predictor with these probabilities, by text."""

    task: Task
    known: dict[str, tuple[float, ...]]

    def predict_proba(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([self.known[text] for text in texts])


def chosen(known: dict[str, tuple[float, ...]], count: int, task: Task = CLASSES) -> list[tuple[str, str, float]]:
    found = suggest(Stub(task, known), list(known), count)  # type: ignore[arg-type]
    return [(list(known)[item.index], item.label, round(item.margin, 3)) for item in found]


def test_the_most_uncertain_text_is_first() -> None:
    known = {"rain": (0.9, 0.1, 0.0), "snow": (0.1, 0.5, 0.4), "wind": (0.3, 0.0, 0.7)}
    assert chosen(known, 1) == [("snow", "b", 0.1)]


def test_the_next_are_uncertain_about_other_labels() -> None:
    known = {
        "rain": (0.5, 0.5, 0.0),
        "snow": (0.51, 0.49, 0.0),  # nearly as uncertain, but of the same labels
        "wind": (0.0, 0.45, 0.55),
        "hail": (0.0, 0.0, 1.0),  # far away, but certain
    }
    assert [text for text, _, _ in chosen(known, 2)] == ["rain", "wind"]
    assert [text for text, _, _ in chosen(known, 4)] == ["rain", "wind", "snow", "hail"]


def test_nearly_equal_texts_and_texts_without_words_are_left_out() -> None:
    same = (0.5, 0.5, 0.0)
    known = {
        "play the newest song of mine": same,
        "please play the newest song of mine": same,
        "Play the newest song of mine!": same,
        "off": (0.5, 0.4, 0.1),
        "OFF": (0.0, 0.5, 0.5),
        "?!": same,
        "": same,
    }
    assert {text for text, _, _ in chosen(known, 7)} == {"play the newest song of mine", "OFF"}


def test_more_candidates_are_looked_at_where_the_first_are_equal() -> None:
    known = {f"play the newest song of mine {'now ' * i}": (0.5, 0.5, 0.0) for i in range(30)}
    known |= {"rain": (0.9, 0.1, 0.0), "snow": (0.0, 0.2, 0.8)}
    assert {text for text, _, _ in chosen(known, 2)} == {next(iter(known)), "snow"}


def test_of_several_labels_the_most_uncertain_counts() -> None:
    task = MultiLabel(LabelSet(("a", "b", "c"), "multi"))
    known = {"rain": (0.9, 0.1, 0.0), "snow": (0.99, 0.55, 0.0)}
    assert chosen(known, 2, task) == [("snow", "a|b", 0.1), ("rain", "a", 0.8)]
    task.label_thresholds = {"a": 0.95, "c": 0.0}
    assert chosen(known, 2, task) == [("snow", "a|b|c", 0.1), ("rain", "c", 0.8)]


def test_margins_of_two_labels() -> None:
    assert margins(CLASSES, np.array([[0.7, 0.3], [0.5, 0.5]])).tolist() == pytest.approx([0.4, 0.0])


def test_mistakes() -> None:
    with pytest.raises(ConfigError, match="got 0 texts to choose"):
        chosen({"rain": (0.9, 0.1, 0.0)}, 0)
    task = Regression(LabelSet(("value",), "number", {"mean": 0.0, "deviation": 1.0}))
    predictor: Predictor = Stub(task, {})  # type: ignore[assignment]
    with pytest.raises(ConfigError, match="a number a text, without probabilities for texts; it cannot suggest any"):
        suggest(predictor, [], 1)
