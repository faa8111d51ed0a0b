"""What the command line does with runs other than those on labeled texts, which the research side provides."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mixling.artifacts.kinds import RunKind
from mixling.errors import ConfigError

if TYPE_CHECKING:
    from mixling.cli.evaluate_options import EvaluateOptions, Report, ReportOptions
    from mixling.cli.output import Stopwatch
    from mixling.cli.predict_options import PredictOptions
    from mixling.cli.train_options import TrainOptions
    from mixling.data.readers.rows import OnBadRow

_COMMANDS: dict[str, KindCommands] = {}


class KindCommands(ABC):
    """The commands of a kind of run; each raises a UserError for options that do not apply."""

    def __init_subclass__(cls) -> None:
        _COMMANDS[cls.__module__] = cls()

    @abstractmethod
    def train(self, options: TrainOptions, started: Stopwatch) -> None:
        """Start or resume a run of `mixling train`."""

    @abstractmethod
    def evaluate(self, model: str, options: EvaluateOptions, report: ReportOptions, *, bad: OnBadRow) -> Report:
        """Return the metrics of a saved model."""

    @abstractmethod
    def predict(self, model: str, options: PredictOptions) -> None:
        """Predict with a saved model, or say which command its models are for."""


def commands_of(kind: RunKind) -> KindCommands | None:
    """Return the commands of a kind of run; None: the commands of labeled texts."""
    if not kind.commands:
        return None
    importlib.import_module(kind.commands)
    return _COMMANDS[kind.commands]


def refuse_options(given: Iterable[str], *, models: str, allowed: Iterable[str]) -> None:
    """Refuse options that have no effect on the evaluation of a kind of model.

    Args:
        given: the options, as `given_options` returns them.
        models: such models, for the message: "models of images".
        allowed: what has an effect, besides FILES and --out.

    Raises:
        ConfigError: one is given.
    """
    if others := [name for name in given if name not in {*allowed, "FILES", "--out"}]:
        raise ConfigError(f"{others[0]}: does not apply to {models}; leave it out")
