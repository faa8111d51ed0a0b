"""Prediction speed: the same texts for all systems, in turn, in one process, with one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from threadpoolctl import threadpool_limits

from mixling.data.examples import Target
from mixling.text.encoder import Text

BATCH_TEXTS = 1000
SINGLE_TEXTS = 200
ROUNDS = 5


class Answerer(Protocol):
    """A system that answers for texts."""

    def predict(self, texts: Sequence[Text]) -> list[Target]:
        """Return the answers in the order of the texts."""

    def predict_one(self, text: Text) -> Target:
        """Return the answer for one text."""

    def fresh(self) -> Answerer:
        """Return the system as just loaded, without caches of earlier calls."""


@dataclass(frozen=True)
class Speed:
    """Medians of ROUNDS rounds.

    Attributes:
        texts_per_second: for up to BATCH_TEXTS texts in one call, all of them seen before.
        cold_texts_per_second: in the first call after loading.
        p50: median seconds for one text, from string to label, over SINGLE_TEXTS texts.
    """

    texts_per_second: float
    cold_texts_per_second: float
    p50: float


def time_predictions(
    systems: Mapping[str, Answerer], texts: Sequence[Text], *, rounds: int = ROUNDS
) -> dict[str, Speed]:
    """Return the speed of each system on one thread."""
    batch = _spread(texts, BATCH_TEXTS)
    single = _spread(texts, SINGLE_TEXTS)
    warm: dict[str, list[float]] = {name: [] for name in systems}
    cold: dict[str, list[float]] = {name: [] for name in systems}
    ones: dict[str, list[float]] = {name: [] for name in systems}
    with threadpool_limits(1):
        for system in systems.values():  # not timed: the first call loads libraries
            system.predict(batch)
        for _ in range(rounds):
            for name, system in systems.items():
                cold[name].append(_seconds(system.fresh().predict, batch))
                warm[name].append(_seconds(system.predict, batch))
            for text in single:
                for name, system in systems.items():
                    ones[name].append(_seconds(system.predict_one, text))
    count = len(batch)
    return {name: Speed(count / median(warm[name]), count / median(cold[name]), median(ones[name])) for name in systems}


def _spread(texts: Sequence[Text], number: int) -> list[Text]:
    """Return up to a number of items, evenly spaced from the first to the last."""
    if len(texts) <= number:
        return list(texts)
    return [texts[i * len(texts) // number] for i in range(number)]


def _seconds(call: Callable[[Any], Any], argument: Any) -> float:
    begin = time.perf_counter()
    call(argument)
    return time.perf_counter() - begin
