"""How many steps fit into a time budget."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

# evaluations
_DEFAULT = 10
_FEWEST = 3
_FEW_EXAMPLES = 3_000  # evaluated in all evaluations together
_MEASURED = 24  # steps
_OPTIMIZER = 1.1  # time of a step with the optimizer's, relative to the gradients' time
_MEASURING = 0.15  # part of the time that measuring steps and evaluations may take
_RESERVED = 0.1  # part of the time for noise
_EVALUATIONS = 0.2  # part of the time that the evaluations within an epoch may take


class Deadline:
    """The end of a time budget.

    Args:
        seconds: None: there is no end.
        started: when they began, as `time.monotonic` has it; None: now.
    """

    def __init__(self, seconds: float | None, started: float | None = None) -> None:
        self._end = None if seconds is None else (time.monotonic() if started is None else started) + seconds
        self._longest = 0.0
        self._before = time.monotonic()

    @property
    def left(self) -> float | None:
        """Seconds until then, more than 0; None: there is no end."""
        return None if self._end is None else max(self._end - time.monotonic(), 1e-3)

    def again(self, reserved: float = 2.0) -> bool:
        """Whether as much can be done again as between two of the calls before, and `reserved` times this after it."""
        now = time.monotonic()
        self._longest = max(self._longest, now - self._before)
        self._before = now
        return self._end is None or now + (1 + reserved) * self._longest <= self._end


def default_evaluations(trained: int, evaluated: int) -> int:
    """Return the minimum number of evaluations of a training for which none is given.

    Ten, or fewer where those would take more than a tenth of the time; of few examples ten all the same.

    Args:
        trained: examples that are trained on, counted in each epoch; each takes as long as three that are evaluated.
        evaluated: validation examples of an evaluation; 0 if the number is not known.
    """
    most = max(int(0.1 * 3 * trained), _FEW_EXAMPLES) // max(evaluated, 1)
    return min(_DEFAULT, max(_FEWEST, most)) if evaluated else _DEFAULT


def affordable(
    seconds: float,
    step: Callable[[int], None],
    evaluate: Callable[[], None],
    *,
    steps_per_epoch: int,
    evaluations: int,
) -> tuple[int, int]:
    """Return the number of steps and the minimum of evaluations that fit into the time.

    Decided before the first step, so that a resumed run has the same plan. Measuring takes a part of the time; it ends
    early where steps are slow.

    Args:
        step: computes the gradients of the step with this number.
        evaluations: the most that a training has if it has less than as many epochs.
    """
    begin = time.monotonic()
    evaluation = _seconds(evaluate)
    if evaluation < 0.1 * seconds:  # the first one also loads libraries; repeat it unless it is expensive
        evaluation = _seconds(evaluate)
    numbers = np.linspace(0, steps_per_epoch - 1, min(steps_per_epoch, _MEASURED)).astype(int)
    spent: list[float] = []
    for number in numbers.tolist():
        spent.append(_seconds(lambda number=number: step(number)))  # type: ignore[misc]
        if time.monotonic() - begin > _MEASURING * seconds:
            break
    seconds = max(seconds - (time.monotonic() - begin), 0.0)
    per_step = float(np.mean(spent[len(spent) // 4 :])) * _OPTIMIZER  # the first steps warm caches
    seconds *= 1 - _RESERVED
    # There is one evaluation per epoch, but at least `fewest`.
    fewest = min(evaluations, max(1, int(_EVALUATIONS * seconds / max(evaluation, 1e-9))))
    by_epochs = (seconds - evaluation) / (per_step + evaluation / steps_per_epoch)
    return max(1, int(min(by_epochs, (seconds - fewest * evaluation) / per_step))), fewest


def _seconds(run: Callable[[], None]) -> float:
    begin = time.monotonic()
    run()
    return time.monotonic() - begin
