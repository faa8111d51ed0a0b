"""How fast the contestants answer: the same texts, in turn, in one process, with one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from threadpoolctl import threadpool_limits

from mixling.data.examples import Target
from mixling.text.encoder import Text

BATCH_TEXTS, SINGLE_TEXTS, ROUNDS = 1000, 200, 5


class Answerer(Protocol):
    """What answers for texts."""

    def predict(self, texts: Sequence[Text]) -> list[Target]:
        """The answers in the order of the texts."""

    def predict_one(self, text: Text) -> Target:
        """The answer for one text."""

    def fresh(self) -> Answerer:
        """The same as it is when it was just loaded: without anything kept from earlier calls."""


@dataclass(frozen=True)
class Speed:
    """Medians of ROUNDS rounds.

    Attributes:
        texts_per_second: of up to BATCH_TEXTS texts in one call; all of them were met before.
        cold_texts_per_second: in the first call after loading.
        p50: seconds of one text, from string to label, over SINGLE_TEXTS texts.
    """

    texts_per_second: float
    cold_texts_per_second: float
    p50: float


def time_predictions(
    systems: Mapping[str, Answerer], texts: Sequence[Text], *, rounds: int = ROUNDS
) -> dict[str, Speed]:
    """The speed of each system, one core's worth of threads."""
    batch, single = _spread(texts, BATCH_TEXTS), _spread(texts, SINGLE_TEXTS)
    warm: dict[str, list[float]] = {name: [] for name in systems}
    cold: dict[str, list[float]] = {name: [] for name in systems}
    ones: dict[str, list[float]] = {name: [] for name in systems}
    with threadpool_limits(1):
        for system in systems.values():  # not counted: the first call loads libraries
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
    """At most so many of them, from the first to the last."""
    if len(texts) <= number:
        return list(texts)
    return [texts[i * len(texts) // number] for i in range(number)]


def _seconds(call: Callable[[Any], Any], argument: Any) -> float:
    begin = time.perf_counter()
    call(argument)
    return time.perf_counter() - begin
