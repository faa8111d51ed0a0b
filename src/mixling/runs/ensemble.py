"""Training the models of an ensemble, side by side in several processes or one after another."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

import torch

from mixling.data.dataset import Dataset
from mixling.errors import Interrupted, ModelFileError, TrainingError, UserError
from mixling.storage import file_hashes, read_json, write_sealed
from mixling.training.callbacks import Log
from mixling.training.threads import limited_threads
from mixling.workers import SPAWN, end_with_parent, num_workers


class TrainMember(Protocol):
    """A function that trains a model with a seed into a folder. It can be pickled.

    `record` holds everything else that the result depends on, as JSON values.
    """

    record: list[Any]

    def __call__(self, seed: int, folder: Path, log: Log) -> None: ...


@dataclass(frozen=True)
class _Member:
    """A model to train: its name in messages, its seed and folder, and a hash of what it depends on."""

    name: str
    seed: int
    folder: Path
    depends_on: str

    @property
    def record_file(self) -> Path:
        return self.folder.with_name(self.folder.name + ".json")

    def is_trained(self) -> bool:
        """Whether the model was trained before, of the same content, and its files are unchanged."""
        try:
            record, files = read_json(self.record_file), file_hashes(self.folder)
        except (FileNotFoundError, ModelFileError):
            return False
        return record.get("of") == self.depends_on and record.get("files") == files

    def prepare(self) -> None:
        self.record_file.unlink(missing_ok=True)
        self.folder.parent.mkdir(parents=True, exist_ok=True)

    def write_record(self) -> None:
        write_sealed(self.record_file, {"of": self.depends_on, "files": file_hashes(self.folder)})

    def logger(self, log: Log) -> Log:
        return lambda line: log(f"{self.name}: {line}")


def train_ensemble(
    train_member: TrainMember, seeds: Mapping[Path, int], train: Dataset, validation: Dataset, *, name: str, log: Log
) -> None:
    """Train the models that do not exist yet, each with its part of the threads of this process.

    `mixling.workers.use_workers` says how many are trained at the same time; the result does not depend on it.

    Args:
        seeds: the seed of each model, by its folder. A record beside the folder says what it was trained on.
        train, validation: the examples.
        name: of the ensemble, in messages.

    Raises:
        TrainingError: a process ended without a result.
        UserError: see `train_member`.
    """
    members = []
    for number, (folder, seed) in enumerate(seeds.items(), 1):
        content = [json.dumps([*train_member.record, seed], sort_keys=True).encode()]
        depends_on = hashlib.sha256(b"".join([*content, *train.content(), *validation.content()])).hexdigest()
        own_name = f"{name}, model {number} of {len(seeds)}" if len(seeds) > 1 else name
        member = _Member(own_name, seed, folder, depends_on)
        if member.is_trained():
            member.logger(log)(f"reusing {folder}, trained before")
        else:
            members.append(member)
    threads = max(1, torch.get_num_threads() // len(seeds))
    # A graphics processor trains one model at a time; texts in a temporary file cannot be sent to another process.
    alone = torch.cuda.is_available() or train.spooled or validation.spooled
    workers = 1 if alone else min(num_workers(), len(members))
    run = partial(_in_turn, threads) if workers < 2 else partial(_side_by_side, threads, workers)
    with contextlib.closing(run(train_member, members, log)) as trained:
        for member in trained:
            member.write_record()


def _in_turn(threads: int, train_member: TrainMember, members: Sequence[_Member], log: Log) -> Generator[_Member]:
    with limited_threads(threads):
        for member in members:
            member.prepare()
            train_member(member.seed, member.folder, member.logger(log))
            yield member


def _side_by_side(
    threads: int, workers: int, train_member: TrainMember, members: Sequence[_Member], log: Log
) -> Generator[_Member]:
    """Train members in so many processes, which end with the iterator."""
    started: list[_Worker] = []
    try:
        for number in range(workers):
            started.append(_Worker.start(list(members[number::workers]), threads))
        for worker in started:
            worker.send(train_member)
        running = {worker.connection: worker for worker in started}
        while running:
            for connection in wait(list(running)):
                worker = running[connection]  # type: ignore[index]
                match worker.receive():
                    case str(line):
                        worker.members[0].logger(log)(line)
                    case UserError() as error:
                        raise error
                    case None:
                        yield worker.members.pop(0)
                if not worker.members:
                    del running[worker.connection]
    finally:
        for worker in started:
            worker.process.terminate()
        for worker in started:
            worker.process.join()


@dataclass
class _Worker:
    """A process that trains members, one after another; the first of `members` is the one that it is training."""

    process: BaseProcess
    connection: Connection
    members: list[_Member]

    @classmethod
    def start(cls, members: list[_Member], threads: int) -> _Worker:
        ours, its = SPAWN.Pipe()
        process = SPAWN.Process(target=_work, args=(its, threads), daemon=True)
        process.start()
        its.close()  # so that the end of the process closes the connection
        return cls(process, ours, members)

    def send(self, train_member: TrainMember) -> None:
        """Send the work; as an argument of the process, it would never be written if that ended before reading it."""
        with contextlib.suppress(OSError):  # that the process has ended is noticed when its messages are read
            self.connection.send((train_member, self.members))

    def receive(self) -> str | UserError | None:
        """Return a line of the log, an error, or None for a trained member.

        Raises:
            TrainingError: the process has ended.
        """
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            raise TrainingError(f"{self.members[0].name}: {_reason(self.process.exitcode or 0)}") from None


def _reason(code: int) -> str:
    if code < 0:
        return f"its process was killed by signal {-code}; if memory is short, train one at a time, with --workers 1"
    if code > 0:
        return (
            f"its process ended with exit code {code}; its error is printed above (a script must begin the training "
            "under `if __name__ == '__main__':`)"
        )
    return "its process was interrupted"


def _work(connection: Connection, threads: int) -> None:
    """Train the members that the parent sends; send each line of their logs, an error, or None for a trained member."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes, and the parent ends the others
    end_with_parent()
    # The parent may be gone, and a training that is interrupted ends early; neither needs words here.
    with limited_threads(threads), contextlib.suppress(EOFError, OSError, Interrupted):
        train_member, members = connection.recv()
        for member in members:
            try:
                member.prepare()
                train_member(member.seed, member.folder, connection.send)
            except UserError as error:
                connection.send(error)
                return
            connection.send(None)
