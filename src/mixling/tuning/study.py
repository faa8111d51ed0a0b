"""The trials of a search, as Optuna stores them: in a journal on disk that only one process writes.

Each value of a trial is drawn from a generator seeded by the search's seed, the model, the trial's number and the key.
Hence random trials are the same in whatever order they are trained, and after a kill between any two writes.
"""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

from mixling.errors import ModelFileError
from mixling.folders import open_no_link
from mixling.opening import read_regular
from mixling.storage import MAX_JSON, parse_json
from mixling.tuning.space import Dimension, Space, Value

TrialStatus = Literal["complete", "failed", "running"]

_STATES: dict[TrialState, TrialStatus] = {
    TrialState.COMPLETE: "complete",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "running",
}


@dataclass(frozen=True, kw_only=True)
class Result:
    """A trial of a model.

    Attributes:
        number: from 0; None is the default configuration, which is no draw from the space.
        value: its validation metric; None unless it is complete.
        loss: on validation, to choose between trials with the same metric.
        seconds: of training; after an interruption, of the last part.
        error: why it failed.
    """

    model: str
    number: int | None
    params: dict[str, Value]
    state: TrialStatus
    value: float | None = None
    loss: float | None = None
    seconds: float | None = None
    error: str | None = None


class _NoLock:
    """The journal's own lock, not needed: the folder is locked, and a killed process would leave it behind."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        """Do nothing."""


class _Sampler(BaseSampler):
    """Draws each value independently, by a generator of its own."""

    def __init__(self, seed: str) -> None:
        self._seed = seed

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, BaseDistribution]:
        return {}

    def sample_relative(self, study: Any, trial: Any, search_space: Any) -> dict[str, Any]:
        return {}

    def sample_independent(
        self, study: Any, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        seed = zlib.crc32(f"{self._seed} {trial.number} {param_name}".encode())
        return RandomSampler(seed=seed).sample_independent(study, trial, param_name, param_distribution)


class Studies:
    """The trials of each model, in a journal.

    Args:
        path: the journal; created if it is missing. A last line that was written only in part is removed.
        spaces: the space of each model.

    Raises:
        ModelFileError: the journal is damaged.
        StorageError: the journal is a symbolic link, or cannot be written.
    """

    def __init__(
        self,
        path: Path,
        spaces: dict[str, Space],
        *,
        less_is_better: bool,
        seed: int,
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.spaces = spaces
        try:
            _complete_lines(path)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                storage = JournalStorage(JournalFileBackend(str(path), lock_obj=_NoLock()))  # type: ignore[arg-type]
                self._studies = {
                    model: optuna.create_study(
                        storage=storage,
                        study_name=model,
                        direction="minimize" if less_is_better else "maximize",
                        sampler=_Sampler(f"{seed} {model}"),
                        pruner=optuna.pruners.NopPruner(),
                        load_if_exists=True,
                    )
                    for model in spaces
                }
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ModelFileError(f"{path}: is damaged: {reason}; restore it, or start over in another folder") from None

    def ask(self, model: str) -> Result:
        """Return a new trial."""
        return self._draw(model, self._studies[model].ask())

    def unfinished(self, model: str) -> list[Result]:
        """Return the trials that a killed search left, with the values that it would have drawn."""
        study = self._studies[model]
        running = [trial for trial in study.get_trials(deepcopy=False) if _STATES[trial.state] == "running"]
        return [self._draw(model, Trial(study, trial._trial_id)) for trial in running]

    def _draw(self, model: str, trial: Trial) -> Result:
        params = {name: _suggest(trial, name, item) for name, item in self.spaces[model].items()}
        return Result(model=model, number=trial.number, params=params, state="running")

    def complete(self, result: Result, *, value: float, loss: float, seconds: float) -> None:
        """Store the result of a trial, or of the default configuration."""
        study = self._studies[result.model]
        if result.number is None:
            study.set_user_attr("default", {"value": value, "loss": loss, "seconds": seconds})
            return
        trial = self._trial(result)
        trial.set_user_attr("loss", loss)
        trial.set_user_attr("seconds", seconds)
        study.tell(result.number, value)

    def fail(self, result: Result, message: str) -> None:
        """Store that a trial failed, and why."""
        study = self._studies[result.model]
        if result.number is None:
            study.set_user_attr("default", {"error": message})
            return
        self._trial(result).set_user_attr("error", message)
        study.tell(result.number, state=TrialState.FAIL)

    def count(self, model: str) -> int:
        """Return the number of trials of a model, in whatever state."""
        return len(self._studies[model].get_trials(deepcopy=False))

    def default(self, model: str) -> Result | None:
        """Return the result of the default configuration of a model; None if it has none yet."""
        found = self._studies[model].user_attrs.get("default")
        if found is None:
            return None
        state: TrialStatus = "failed" if "error" in found else "complete"
        return Result(model=model, number=None, params={}, state=state, **found)

    def results(self, model: str) -> list[Result]:
        """Return all trials of a model, without the default configuration."""
        return [
            Result(
                model=model,
                number=trial.number,
                params=dict(trial.params),
                state=_STATES[trial.state],
                value=trial.value if trial.state == TrialState.COMPLETE else None,
                loss=trial.user_attrs.get("loss"),
                seconds=trial.user_attrs.get("seconds"),
                error=trial.user_attrs.get("error"),
            )
            for trial in self._studies[model].get_trials(deepcopy=False)
        ]

    @property
    def spent(self) -> float:
        """The seconds that the search has taken, over all its processes."""
        return float(next(iter(self._studies.values())).user_attrs.get("spent", 0.0))

    @spent.setter
    def spent(self, seconds: float) -> None:
        next(iter(self._studies.values())).set_user_attr("spent", seconds)

    def _trial(self, result: Result) -> Trial:
        return Trial(self._studies[result.model], self._frozen(result)._trial_id)

    def _frozen(self, result: Result) -> FrozenTrial:
        assert result.number is not None
        return self._studies[result.model].get_trials(deepcopy=False)[result.number]


def _suggest(trial: Trial, name: str, item: Dimension) -> Value:
    """Return the trial's value of a key: the one that is stored, else a new one."""
    if item.choices is not None:
        return cast(Value, trial.suggest_categorical(name, item.choices))
    assert item.low is not None
    assert item.high is not None
    if item.whole:
        return int(trial.suggest_int(name, int(item.low), int(item.high), log=item.log))
    return float(trial.suggest_float(name, float(item.low), float(item.high), log=item.log))


def _complete_lines(path: Path) -> None:
    """Remove a last line of a journal that a killed process wrote only in part.

    Raises:
        StorageError: the file is a symbolic link.
        OSError: it is too large, or no regular file.
        ValueError: a line is no JSON that may come from anyone.
    """
    try:
        file = open(path, "rb+", buffering=0, opener=open_no_link)  # noqa: SIM115 (closed below)
    except FileNotFoundError:
        return
    with file:
        content = read_regular(path, MAX_JSON)
        whole = content.rfind(b"\n") + 1
        for line in content[:whole].splitlines():
            parse_json(line)
        if whole < len(content):
            file.truncate(whole)
            os.fsync(file.fileno())


def best(results: Iterable[Result], *, less_is_better: bool) -> Result | None:
    """Return the result with the best metric, of equal ones that with the lowest loss; None if none is complete."""
    sign = 1 if less_is_better else -1
    complete = [result for result in results if result.value is not None]
    return min(complete, key=lambda item: (sign * (item.value or 0.0), item.loss or 0.0), default=None)
