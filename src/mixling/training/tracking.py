"""Curves of a training in programs that show them while it runs: TensorBoard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mixling.errors import MissingPackage, StorageError
from mixling.storage import remove
from mixling.training.callbacks import Callback, Step


def remove_curves(folder: Path) -> None:
    """Remove what another run wrote there.

    Raises:
        StorageError: a file could not be removed.
    """
    for path in folder.glob("events.out.tfevents.*"):
        remove(path)


class TensorBoard(Callback):
    """Writes train loss and learning rate of every few steps, and all measures of each evaluation.

    A resumed run goes on with the same axis of steps: what an interrupted one wrote after its last checkpoint is
    hidden by what is written again. A run that begins removes the curves of another before it.

    Args:
        folder: of the event files; `tensorboard --logdir` shows it.
        every: steps between two points.

    Raises:
        MissingPackage: tensorboard is not installed.
    """

    def __init__(self, folder: Path, *, every: int = 10) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingPackage('tracking needs tensorboard; install it by pip install "mixling[track]"') from None
        self._make, self._folder, self._every = SummaryWriter, folder, every
        self._writer: Any = None

    def started(self, step: int, total_steps: int) -> None:
        if step == 0:
            remove_curves(self._folder)
        try:
            # Seconds until points are on the disk: as often as checkpoints are, for a kill loses what is not.
            self._writer = self._make(str(self._folder), purge_step=step + 1 if step else None, flush_secs=10)
        except OSError as error:
            raise StorageError(f"{self._folder}: could not be written: {error.strerror or error}") from error

    def stepped(self, step: Step) -> None:
        if step.number % self._every == 0:
            self._write({"train/loss": step.loss, "train/learning_rate": step.learning_rate}, step.number)

    def evaluated(self, record: dict[str, Any]) -> None:
        values = {f"dev/{key.removeprefix('val_')}": value for key, value in record.items() if key.startswith("val_")}
        self._write({**values, "train/mean_loss": record["train_loss"]}, record["step"])
        self._writer.flush()

    def finished(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _write(self, values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
