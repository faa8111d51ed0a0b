"""What the command line does with runs other than those on labeled texts, which the research side provides."""

from __future__ import annotations

import importlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mixling.artifacts.kinds import PRETRAINING, TRAINING, RunKind, kind_named
from mixling.errors import ConfigError, UserError

if TYPE_CHECKING:
    from mixling.cli.evaluate_options import EvaluateOptions, Report, ReportOptions
    from mixling.cli.output import Stopwatch
    from mixling.cli.predict_options import PredictOptions
    from mixling.cli.train_options import TrainOptions
    from mixling.data.readers.rows import OnBadRow

_COMMANDS: dict[str, KindCommands] = {}
_OF_TRAINING = ("train", "tune", "compare", "pretrain", "distill")  # commands that set keys of all sections
_OF_PAIRS = {"--source", "--target", "--group-by", "--template", "--prefix"}  # options of text to text


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


def key_of_option(option: str, command: str, arguments: Sequence[str]) -> str | None:
    """Return the key of the configuration that an option became; None: there is none in such a run.

    Args:
        option: as given, such as `--vocabulary`.
        command: the subcommand, which has `--set`.
        arguments: all that are given.
    """
    if command == "serve":
        from mixling.serving.settings import LIMITS

        name = option.removeprefix("--").replace("-", "_")
        return name if name in LIMITS else None
    kind = _kind_of_arguments(arguments) if command == "train" else None
    kind = kind or kind_named(PRETRAINING if command == "pretrain" else TRAINING)
    key = kind.option_keys.get(option.removeprefix("--"))
    if key is None or (key.startswith("distill.") and command != "distill"):
        return None
    return key if command in _OF_TRAINING or key.startswith("data.columns.") else None


def _kind_of_arguments(arguments: Sequence[str]) -> RunKind | None:
    """Return the kind of run that arguments of `mixling train` ask for, as far as they can be read."""
    from mixling.runs.resolve.kinds import infer_kind

    words = [word for argument in arguments for word in argument.split("=", 1 if argument.startswith("--") else 0)]
    values = dict(itertools.pairwise(words))
    try:
        return infer_kind(
            task=values.get("--task"),
            model=values.get("--model"),
            toml=values.get("--config"),
            pairs=not _OF_PAIRS.isdisjoint(words),
            pretrained=values.get("--from"),
            files=[word for word in words if Path(word).exists()],
        )
    except UserError:
        return None
