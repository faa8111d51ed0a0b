"""Callbacks: what is told of a training while it runs, and to whom. Imports no torch."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step that was made.

    number: of the steps made so far, from 1. loss: mean over the global batch. learning_rate: the schedule's.
    tokens: real ones of the batch, over all processes.
    """

    number: int
    loss: float
    learning_rate: float
    tokens: int


class Observer:
    """Told what happens; this one does nothing.

    Of several processes each has its own observer; `Processes.is_main` says which should write. What a method raises
    ends the training as it is, with its own traceback; the last checkpoint still stands.
    """

    def started(self, step: int, total_steps: int) -> None:
        """Training begins, or goes on, after `step` steps; what was told of later ones before will be told again."""

    def stepped(self, step: Step) -> None:
        """A step was made."""

    def evaluated(self, record: dict[str, Any]) -> None:
        """The dev split was evaluated; the record is a line of metrics.jsonl, where it stands by now."""

    def finished(self) -> None:
        """Training ended, well or not."""


class Observers(Observer):
    """Several as one; each is told in their order."""

    def __init__(self, *observers: Observer) -> None:
        self.observers = observers

    def started(self, step: int, total_steps: int) -> None:
        for observer in self.observers:
            observer.started(step, total_steps)

    def stepped(self, step: Step) -> None:
        for observer in self.observers:
            observer.stepped(step)

    def evaluated(self, record: dict[str, Any]) -> None:
        for observer in self.observers:
            observer.evaluated(record)

    def finished(self) -> None:
        with ExitStack() as stack:  # all of them, also where one fails
            for observer in reversed(self.observers):
                stack.callback(observer.finished)
