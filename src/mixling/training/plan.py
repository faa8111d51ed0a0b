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
_LONGER = 1.5  # time of the next one, relative to the longest before
_SETTLED = 0.2  # part of the time after which the speed of the steps is known
_SLOWER = 0.95  # part of the planned steps: with fewer left, the plan changes


class Deadline:
    """The end of a time budget.

    Args:
        seconds: None: there is no end.
        started: when they began, as `time.monotonic` has it; None: now.
    """

    def __init__(self, seconds: float | None, started: float | None = None) -> None:
        self._end = None if seconds is None else (time.monotonic() if started is None else started) + seconds

    @property
    def left(self) -> float | None:
        """Seconds until then, more than 0; None: there is no end."""
        return None if self._end is None else max(self._end - time.monotonic(), 1e-3)

    def keep(self, seconds: float) -> None:
        """Keep time for what comes last: the end is earlier for all else."""
        if self._end is not None:
            self._end -= seconds

    def repeats(self) -> Callable[[], bool]:
        """Return whether there is time, each time it is asked, for as much as from now on, or between two questions."""
        before = time.monotonic()
        longest = 0.0

        def more() -> bool:
            nonlocal before, longest
            now = time.monotonic()
            longest = max(longest, now - before)
            before = now
            return self._end is None or now + _LONGER * longest <= self._end

        return more


class Pace:
    """The number of steps that a time budget has room for, at the speed of the steps so far.

    Args:
        seconds: of the training, from now on.
        step: the number of steps before.
    """

    def __init__(self, seconds: float, step: int) -> None:
        self._begin = time.monotonic()
        self._seconds = seconds
        self._first = step

    def total(self, step: int, planned: int) -> int:
        """Return the number of steps that the training has in all: as planned, or fewer where they have become slower.

        Fewer than planned by a few are no reason to change the learning rates of those to come.
        """
        spent = time.monotonic() - self._begin
        if spent < _SETTLED * self._seconds:
            return planned
        more = int((self._seconds - spent) * (step - self._first) / max(spent, 1e-9))
        return planned if step + more >= _SLOWER * planned else step + max(more, 0)


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
    later: float = 0.0,
) -> tuple[int, int]:
    """Return the number of steps and the minimum of evaluations that fit into the time.

    Decided before the first step, so that a resumed run has the same plan. Measuring takes a part of the time; it ends
    early where steps are slow.

    Args:
        step: computes the gradients of the step with this number.
        evaluations: the most that a training has if it has less than as many epochs.
        later: the number of evaluations that take as long as what follows the training.
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
    seconds = max(seconds - later * evaluation - (time.monotonic() - begin), 0.0)
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
