"""The baseline that does not read the texts: it always gives the most frequent answer, or the median of numbers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mixling.comparison.baselines import Baseline, BaselineKind
from mixling.data.examples import Target
from mixling.tasks.base import Task
from mixling.text.encoder import Text


class Majority(Baseline):
    """Gives every text the task's `constant`."""

    def __init__(self, task: type[Task], targets: Sequence[Target]) -> None:
        begin = time.perf_counter()
        self.options: dict[str, Any] = {}
        self._answer = task.constant(targets)
        self.parameters = 1
        self.seconds = time.perf_counter() - begin

    def predict(self, texts: Sequence[Text]) -> list[Target]:
        return [self._answer(text) for text in texts]

    def size(self) -> int:
        return 0


def fit_majority(
    task: type[Task],
    texts: Sequence[Text],
    targets: Sequence[Target],
    *,
    seed: int,
    only: Sequence[Mapping[str, Any]] = (),
) -> Iterator[Majority]:
    """Yield the one fit."""
    yield Majority(task, targets)


majority = BaselineKind(
    title=lambda task: "majority" if task.has_labels else "median",
    about=lambda task: f"always {'the most frequent answer' if task.has_labels else 'the median'} of the training rows",
    fit=fit_majority,
)
