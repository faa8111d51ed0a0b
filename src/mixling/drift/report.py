"""How new texts differ from the texts of a model's profile, and how far its confidence can be trusted with them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.answers.predictions import Prediction
from mixling.drift.profile import (
    CONFIDENCE_BINS,
    LENGTH_BINS,
    UNKNOWN_BINS,
    KnownWords,
    Profile,
    bins,
    profile_words,
    unknown_fraction,
)
from mixling.errors import DataError
from mixling.text.encoder import Text

# A statistic moved if a tenth of the texts are in other bins, and chance does that once in a thousand profiles.
MOVED = 0.1
CHANCE = 1e-3
# Misspelled words are unknown, and models read them nearly as well; of other languages more texts are in other bins.
FAR = 0.5
MOST_TEXTS = 20
_PRIOR = 4.0  # texts, with the bin's own confidence, beside those that were counted in it


@dataclass(frozen=True, kw_only=True)
class Movement:
    """One statistic of the held-out texts and of the new ones.

    Attributes:
        name: "length", "unknown words", "answers" or "confidence".
        before, after: the statistic in words.
        distance: the fraction of texts that are in other bins (total variation).
        chance: the probability of such a difference between texts of the same kind (chi-squared test).
        moved: whether both are beyond the limits of this file.
    """

    name: str
    before: str
    after: str
    distance: float
    chance: float
    moved: bool


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How new texts differ from those that a model was measured on.

    Attributes:
        texts: the number of new texts.
        movements: one for each statistic.
        accuracy: of the held-out texts; None: texts do not have one label each.
        estimate: the accuracy that the confidence promises for the new texts; None as before.
        margin: 95% of accuracies are within estimate +- margin if texts are of the same kind, by the numbers of texts.
        reliable: whether neither length nor answers moved, nor the unknown words far.
        examples: the texts that are the least like the held-out ones, by the statistics that moved.
    """

    texts: int
    movements: tuple[Movement, ...]
    accuracy: float | None
    estimate: float | None
    margin: float | None
    examples: tuple[str, ...]

    @property
    def moved(self) -> tuple[Movement, ...]:
        """The statistics that moved."""
        return tuple(one for one in self.movements if one.moved)

    @property
    def reliable(self) -> bool:
        least = {"length": 0.0, "answers": 0.0, "unknown words": FAR}
        return not any(one.distance >= least.get(one.name, math.inf) for one in self.moved)

    def to_dict(self) -> dict[str, Any]:
        """Return the values of a JSON file."""
        return {**asdict(self), "moved": [one.name for one in self.moved], "reliable": self.reliable}


@dataclass(frozen=True, slots=True)
class Observed:
    """A text and its prediction as they are compared: much less than both.

    Attributes:
        words: how many there are.
        unknown: the fraction of them that are unknown.
        labels: of the prediction, or the types of its spans.
        confidence: the top probability, 0 without probabilities.
    """

    words: int
    unknown: float
    labels: tuple[str, ...]
    confidence: float


def observe(text: Text, prediction: Prediction, known: KnownWords) -> Observed:
    """Return a text and its prediction as they are compared, given the words that the profile knows."""
    split = profile_words(text)
    confidence = max(prediction.probabilities.values()) if prediction.probabilities else 0.0
    return Observed(len(split), unknown_fraction(split, known), labels_of(prediction), confidence)


def find_drift(profile: Profile, texts: Sequence[Text], predictions: Iterable[Prediction]) -> Drift:
    """Compare new texts and their predictions with a profile.

    Raises:
        DataError: there is no text.
    """
    if not texts:
        raise DataError("has no texts to compare with those of the model")
    known = KnownWords(profile.known_words)
    return compare_observed(
        profile, [observe(*item, known) for item in zip(texts, predictions, strict=True)], texts=texts
    )


def compare_observed(profile: Profile, observed: Sequence[Observed], *, texts: Sequence[Text] = ()) -> Drift:
    """Compare what was observed of texts, at least one, with a profile.

    Args:
        texts: they, for the examples; none: there are no examples.
    """
    lengths = np.array([item.words for item in observed])
    fractions = np.array([item.unknown for item in observed])
    movements: list[Movement] = []
    surprise = np.zeros(len(observed))
    for name, reference, places, before, after in (
        ("length", profile.lengths, bins(lengths, LENGTH_BINS), profile.median_length, np.median(lengths)),
        ("unknown words", profile.unknown, bins(fractions, UNKNOWN_BINS), profile.mean_unknown, fractions.mean()),
    ):
        shown = "median {:g} words" if name == "length" else "{:.0%} of words"
        movements.append(_movement(name, reference, places, shown.format(before), shown.format(after)))
        surprise += movements[-1].moved * _surprise(reference, places)
    if profile.answers is not None:
        movement, rarity = _answers(profile, [item.labels for item in observed])
        movements.append(movement)
        surprise += movement.moved * rarity
    accuracy = None
    estimate = None
    margin = None
    if profile.confidence is not None and profile.right is not None:
        confidence = np.array([item.confidence for item in observed])
        places = bins(confidence, CONFIDENCE_BINS)
        means = [f"mean {mean:.2f}" for mean in (profile.mean_confidence or 0.0, confidence.mean())]
        movements.append(_movement("confidence", profile.confidence, places, *means))
        counted = profile.counted or profile.confidence
        accuracy = sum(profile.right) / max(1, sum(counted))
        estimate, margin = _estimate(counted, profile.right, confidence, places)
    order = np.argsort(-surprise, kind="stable")[: MOST_TEXTS if texts else 0]
    examples = [texts[index] for index in order if surprise[index] > 0]
    return Drift(
        texts=len(observed),
        movements=tuple(movements),
        accuracy=accuracy,
        estimate=estimate,
        margin=margin,
        examples=tuple(text if isinstance(text, str) else " | ".join(text) for text in examples),
    )


def _movement(name: str, reference: Sequence[int], places: npt.NDArray[np.intp], before: str, after: str) -> Movement:
    """Compare the counts of bins with the bins of new texts."""
    old = np.array(reference)
    new = np.bincount(places, minlength=len(old))
    distance = 0.5 * float(np.abs(old / max(1, old.sum()) - new / max(1, new.sum())).sum())
    chance = _chance(old.astype(np.float64), new.astype(np.float64))
    moved = distance >= MOVED and chance < CHANCE
    return Movement(name=name, before=before, after=after, distance=distance, chance=chance, moved=moved)


def _chance(before: npt.NDArray[np.float64], after: npt.NDArray[np.float64]) -> float:
    """Return the p-value of the chi-squared test that two samples are of one distribution.

    Bins of fewer than five texts in both are one bin; the tail is by Wilson and Hilferty's cube root (1931).
    """
    rare = before + after < 5
    table = np.array([[*row[~rare], row[rare].sum()] for row in (before, after)])
    table = table[:, table.sum(0) > 0]
    freedom = table.shape[1] - 1
    if freedom < 1 or not table.sum(1).all():
        return 1.0
    expected = table.sum(1, keepdims=True) * table.sum(0) / table.sum()
    squares = float(((table - expected) ** 2 / expected).sum())
    spread = 2 / (9 * freedom)
    z = ((squares / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return math.erfc(z / math.sqrt(2)) / 2


def _answers(profile: Profile, labels: Sequence[Sequence[str]]) -> tuple[Movement, npt.NDArray[np.float64]]:
    """Compare the rates of answers; also return how rare the answers of each text were."""
    assert profile.answers is not None
    names = [*profile.answers, ""]  # the last: all others
    place = {name: index for index, name in enumerate(profile.answers)}
    given = [[place.get(label, len(place)) for label in item] for item in labels]
    places = np.array([index for one in given for index in one], np.intp)
    after = np.bincount(places, minlength=len(names))
    total = max(profile.texts, sum(profile.answers.values()))
    before = np.array([*profile.answers.values(), total - sum(profile.answers.values())])
    rates = before / max(1, before.sum()), after / max(1, after.sum())
    most = int(np.abs(rates[0] - rates[1]).argmax())
    name = repr(names[most]) if names[most] else "other labels"
    shown = [f"{name} {rate[most]:.0%}" for rate in rates]
    movement = _movement("answers", before.tolist(), places, *shown)
    rarity = _surprise(before.tolist(), np.arange(len(names)))
    risen = rates[1] > rates[0]
    return movement, np.array([max((float(rarity[i]) * risen[i] for i in one), default=0.0) for one in given])


def labels_of(prediction: Prediction) -> tuple[str, ...]:
    """Return the labels of a prediction, the types of its spans, or nothing."""
    if (label := prediction.leaf) is not None:
        return (label,)
    if prediction.labels is not None:
        return prediction.labels
    return tuple(span.label for span in prediction.spans or ())


def _surprise(reference: Sequence[int], places: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """Return how rare the bin of each text was: -log of its smoothed frequency."""
    frequency = (np.array(reference) + 0.5) / (sum(reference) + 0.5 * len(reference))
    surprise: npt.NDArray[np.float64] = -np.log(frequency)[places]
    return surprise


def _estimate(
    counted: Sequence[int], right: Sequence[int], confidence: npt.NDArray[np.float64], places: npt.NDArray[np.intp]
) -> tuple[float, float]:
    """Return the mean over the texts of the accuracy that texts of their confidence had, and 1.96 standard errors."""
    new = np.bincount(places, minlength=len(counted))
    own = np.bincount(places, confidence, len(counted)) / np.maximum(1, new)
    known = np.array(counted) + _PRIOR
    accuracy = (np.array(right) + _PRIOR * own) / known
    share = new / new.sum()
    mean = float(share @ accuracy)
    variance = float(share**2 @ (accuracy * (1 - accuracy) / known)) + mean * (1 - mean) / len(places)
    return mean, 1.96 * math.sqrt(variance)
