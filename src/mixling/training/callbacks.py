"""Callbacks, which are called during training; without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

Log = Callable[[str], None]
"""Takes a line for the user: what a training did, or what the user should know."""


class Detail(str):
    """A line of a log for whoever knows how models are trained; the command line shows it with `--verbose` only."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A completed optimizer step.

    Args:
        number: number of the step, from 1.
        loss: mean over the global batch.
        learning_rate: the rate given by the schedule.
        tokens: number of tokens without padding in the batch, over all processes.
    """

    number: int
    loss: float
    learning_rate: float
    tokens: int


class Callback:
    """The base class of callbacks; every method does nothing by default.

    In distributed training each process has its own callback; only the one with `DistributedContext.is_main` should
    write files. An exception raised by a method stops the training; the last checkpoint is kept.

    A callback that has state returns it from `state_dict`. The state is saved in each checkpoint and restored before
    `started` when the training is resumed.
    """

    def started(self, step: int, total_steps: int) -> None:
        """Handle the start or, after `step` steps, the resumption of the training.

        Steps after the last checkpoint that were reported before an interruption are reported again.
        """

    def stepped(self, step: Step) -> None:
        """Handle a completed step."""

    def evaluated(self, record: dict[str, Any]) -> None:
        """Handle an evaluation on the validation split; `record` is the new line of metrics.jsonl."""

    def finished(self) -> None:
        """Handle the end of the training, whether it succeeded or not."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state to save in a checkpoint, as JSON values; by default none.

        Called after `stepped` and `evaluated` of the step that the checkpoint follows. In distributed training the main
        process's state is saved.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state_dict`; not called if that was empty."""


class CallbackList(Callback):
    """Several callbacks, called in order.

    Checkpoints store their states by class, and by order within a class. A callback that is added before resuming
    starts without state.
    """

    def __init__(self, *callbacks: Callback) -> None:
        self.callbacks: tuple[Callback, ...] = ()
        for callback in callbacks:
            self.callbacks += callback.callbacks if isinstance(callback, CallbackList) else (callback,)

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
        with ExitStack() as stack:  # calls all of them, even if one fails
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
