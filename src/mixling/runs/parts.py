"""What every run takes, and what differs between kinds of runs: the interface between `run` and the kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Required, TypedDict, TypeVar

from torch import nn

from mixling.models.model import count_parameters
from mixling.training.callbacks import Callback, Log
from mixling.training.config import TrainConfig
from mixling.training.dataset_adapter import TrainingData
from mixling.training.distributed import DistributedContext

_M = TypeVar("_M")
_T = TypeVar("_T")


class RunArguments(TypedDict, total=False):
    """The keyword arguments of every run, besides its configuration and data.

    folder: the run folder; a model in it is kept until the new one is finished. resume: continue from the folder's
    checkpoint. distributed: this process among all; by default the only one. callback: called during training. log:
    receives messages.
    """

    folder: Required[Path]
    resume: bool
    distributed: DistributedContext | None
    callback: Callback | None
    log: Log


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The environment in which the parts of a run are made.

    Attributes:
        home: the run folder as the user named it.
        folder: where files go: `home`, or a folder in it while that holds a model to replace.
        first: where files go before it is known that the run can begin; `folder` if it is resumed.
        resume: whether the run is resumed.
        begun: whether there is a checkpoint to resume from.
        distributed: this process among all.
        begin: records the run early, before slow preparations, so that it can be resumed if they are interrupted.
        log: receives messages.
    """

    home: Path
    folder: Path
    first: Path
    resume: bool
    begun: bool
    distributed: DistributedContext
    begin: Callable[[], None]
    log: Log

    def in_turn(self, make: Callable[[], _T]) -> _T:
        """Call `make` in the main process first, then in the others, which find its files; return the result."""
        if not self.distributed.is_main:
            self.distributed.barrier()
        made = make()
        if self.distributed.is_main:
            self.distributed.barrier()
        return made


class Parts(ABC, Generic[_M]):
    """What differs between kinds of runs: the model, its data, and how it is saved and evaluated.

    Attributes:
        model: the model with its initial weights.
        data: the training and validation data.
        training: the configuration of the training, with values that depend on the data resolved.
    """

    model: nn.Module
    data: TrainingData
    training: TrainConfig

    def all_examples(self) -> TrainingData | None:
        """Return the data of a second training, including the validation examples; None: there is none."""
        return None

    def refit_matters(self) -> bool:
        """Whether the second training can change what is predicted; asked after the first model was evaluated."""
        return True

    @property
    def parameters(self) -> int:
        """The number of parameters, without those that only training needs."""
        return count_parameters(self.model)

    @abstractmethod
    def content(self) -> Iterable[bytes]:
        """Yield the content of the data, as part of the fingerprint that ties a checkpoint to its run."""

    def begin(self, folder: Path) -> None:  # optional
        """Write what is needed to use the checkpoint of an unfinished run."""

    @abstractmethod
    def save(self, folder: Path) -> dict[str, Any]:
        """Write the files besides the weights, and return the content of config.json."""

    def calibrate(self) -> None:  # optional
        """Change the trained weights so that the model's probabilities are calibrated.

        Called once for each trained model, before it is saved and evaluated. After a refit, the validation examples are
        no longer new to the model, so that what was fitted for the first model is used.
        """

    @abstractmethod
    def evaluate(self, folder: Path, best: dict[str, Any], log: Log) -> tuple[_M, dict[str, Any]]:
        """Return the metrics of the saved model, and the part of metrics.json that is specific to this kind of run.

        Args:
            best: the record of the best evaluation.
        """

    @abstractmethod
    def card(self, report: dict[str, Any]) -> str:
        """Return the model card, given the content of metrics.json."""

    def draw(self, folder: Path, metrics: _M) -> None:  # optional
        """Draw plots besides the training curves."""
