"""Callbacks: what they are called with while a training runs. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A completed optimiser step.

    Args:
        number: of the steps so far, from 1.
        loss: mean over the global batch.
        learning_rate: of the schedule.
        tokens: real tokens of the batch, over all processes.
    """

    number: int
    loss: float
    learning_rate: float
    tokens: int


class Callback:
    """The base class of callbacks; every method does nothing by default.

    With several processes each has its own callback; `DistributedContext.is_main` is the one that should write files.
    An exception raised by a method stops the training with its own traceback; the last checkpoint is kept.

    A callback that keeps something between steps returns it from `state_dict`. It is saved in each checkpoint, and a
    resumed training gives it back before `started`, so that the callback continues as if it had not been interrupted.
    """

    def started(self, step: int, total_steps: int) -> None:
        """Begin, or resume after `step` steps; later steps that were reported before are reported again."""

    def stepped(self, step: Step) -> None:
        """Take note of a completed step."""

    def evaluated(self, record: dict[str, Any]) -> None:
        """Take note of an evaluation on the validation split; the record is the newest line of metrics.jsonl."""

    def finished(self) -> None:
        """End, whether the training succeeded or not."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint must keep, as JSON values; by default nothing.

        It is called after `stepped` and `evaluated` of the step that the checkpoint follows. With several processes
        that of the main process is saved.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` returned; it is not called where that was empty."""


class CallbackList(Callback):
    """Several callbacks as one, called in their order.

    A checkpoint keeps their states by class, and by order within a class. One that is added between an interruption and
    the resuming begins anew.
    """

    def __init__(self, *callbacks: Callback) -> None:
        nested: list[tuple[Callback, ...]] = [
            one.callbacks if isinstance(one, CallbackList) else (one,) for one in callbacks
        ]
        self.callbacks: tuple[Callback, ...] = tuple(one for several in nested for one in several)

    def started(self, step: int, total_steps: int) -> None:
        for callback in self.callbacks:
            callback.started(step, total_steps)

    def stepped(self, step: Step) -> None:
        for callback in self.callbacks:
            callback.stepped(step)

    def evaluated(self, record: dict[str, Any]) -> None:
        for callback in self.callbacks:
            callback.evaluated(record)

    def finished(self) -> None:
        with ExitStack() as stack:  # all of them, even if one fails
            for callback in reversed(self.callbacks):
                stack.callback(callback.finished)

    def state_dict(self) -> dict[str, Any]:
        return {name: state for name, callback in self._named().items() if (state := callback.state_dict())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, callback in self._named().items():
            if name in state:
                callback.load_state_dict(state[name])

    def _named(self) -> dict[str, Callback]:
        kinds = [f"{type(callback).__module__}.{type(callback).__qualname__}" for callback in self.callbacks]
        return {f"{kind}.{kinds[:i].count(kind)}": self.callbacks[i] for i, kind in enumerate(kinds)}
