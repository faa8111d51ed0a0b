"""The models of an ensemble, which are trained once and found again."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from mixling.data.dataset import Dataset
from mixling.errors import ModelFileError
from mixling.storage import file_hashes, read_json, write_sealed
from mixling.training.callbacks import Log
from mixling.training.jobs import train_jobs


class TrainMember(Protocol):
    """A function that trains a model with a seed into a folder. It can be pickled.

    `record` holds everything else that the result depends on, as JSON values.
    """

    record: list[Any]

    def __call__(self, seed: int, folder: Path, log: Log) -> None: ...


def train_ensemble(
    train_member: TrainMember, seeds: Mapping[Path, int], train: Dataset, validation: Dataset, *, name: str, log: Log
) -> None:
    """Train the models that do not exist yet, in the processes that `mixling.workers.use_workers` allows.

    Args:
        seeds: the seed of each model, by its folder. A record beside the folder says what it was trained on.
        train, validation: the examples.
        name: of the ensemble, in messages.

    Raises:
        TrainingError, UserError: as `train_jobs`.
    """
    members = {}
    for number, (folder, seed) in enumerate(seeds.items(), 1):
        content = [json.dumps([*train_member.record, seed], sort_keys=True).encode()]
        depends_on = hashlib.sha256(b"".join([*content, *train.content(), *validation.content()])).hexdigest()
        own_name = f"{name}, model {number} of {len(seeds)}" if len(seeds) > 1 else name
        member = _Member(seed, folder, depends_on)
        if member.is_trained():
            log(f"{own_name}: reusing {folder}, trained before")
        else:
            members[own_name] = member
    # Texts in a temporary file cannot be sent to another process.
    alone = train.spooled or validation.spooled
    done = train_jobs(partial(_train, train_member), members, most=len(seeds), alone=alone, log=log)
    with contextlib.closing(done):
        for member, _ in done:
            member.write_record()


@dataclass(frozen=True)
class _Member:
    """A model to train: its seed and folder, and a hash of what it depends on."""

    seed: int
    folder: Path
    depends_on: str

    @property
    def record_file(self) -> Path:
        return self.folder.with_name(self.folder.name + ".json")

    def is_trained(self) -> bool:
        """Whether the model was trained before, of the same content, and its files are unchanged."""
        try:
            record = read_json(self.record_file)
            files = file_hashes(self.folder)
        except (FileNotFoundError, ModelFileError):
            return False
        return record.get("of") == self.depends_on and record.get("files") == files

    def prepare(self) -> None:
        self.record_file.unlink(missing_ok=True)
        self.folder.parent.mkdir(parents=True, exist_ok=True)

    def write_record(self) -> None:
        write_sealed(self.record_file, {"of": self.depends_on, "files": file_hashes(self.folder)})


def _train(train_member: TrainMember, member: _Member, log: Log) -> None:
    member.prepare()
    train_member(member.seed, member.folder, log)
