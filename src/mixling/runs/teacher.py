"""The teacher that a configuration names: opened, and trained first where it should be."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import Field

from mixling.config import Config
from mixling.data.dataset import Dataset
from mixling.data.examples import ColumnsConfig, DataConfig
from mixling.data.unlabeled import SubwordIds, read_unlabeled
from mixling.errors import ConfigError, ModelFileError
from mixling.runtime.onnx_file import ONNX_FILE
from mixling.storage import read_json, sha256_of, write_sealed
from mixling.tasks.base import Task
from mixling.teachers.base import EnsembleTeacher, Teacher
from mixling.teachers.fine_tuning import FineTuneConfig, fine_tune
from mixling.teachers.saved import FileTeacher, SavedTeacher
from mixling.teachers.transformer import TransformerTeacher, is_transformer

Log = Callable[[str], None]

SELF = "self"


class TrainMember(Protocol):
    """Trains a model with a seed, into a folder; `record` tells all else that it depends on, as JSON values."""

    record: Any

    def __call__(self, seed: int, folder: Path) -> None: ...


class DistillConfig(Config):
    """A teacher, the text that it labels, and how much of it is believed."""

    teacher: str = Field(
        description="run folder, model.onnx, transformers folder, hf:NAME[@REVISION], file of answers, or self: the "
        "mean of models like the student, trained on the labeled rows"
    )
    members: int = Field(4, ge=1, le=100, description="of teacher 'self': models, with seeds of their own")
    fine_tune: bool = Field(False, description="train the teacher, a transformers model, on the labeled rows first")
    tuning: FineTuneConfig = FineTuneConfig()
    max_len: int = Field(256, ge=8, description="subwords of a text that a transformers teacher reads")
    unlabeled: tuple[str, ...] = ()
    test: tuple[str, ...] = Field(
        (), description="rows whose texts are left out of the unlabeled ones, as validation's are"
    )
    subwords: SubwordIds = Field(
        "auto", description="auto: sentences, where unlabeled texts are more than twice as long as labeled ones"
    )
    limit: int = Field(40_000, ge=1, description="unlabeled texts, drawn at random")
    temperature: float = Field(1.5, gt=0, le=20, description="the teacher's probabilities to the power of 1 / this")
    copies: int = Field(2, ge=1, description="how often an epoch has each labeled row")
    gold: float = Field(0.5, ge=0, le=1, description="share of the true label in the targets of labeled rows")


def check_distill(config: DistillConfig, *, task: type[Task], data: DataConfig, world: int) -> None:
    """Look at what is named before hours are spent: the teacher, and the first row of each file.

    Args:
        world: processes that train together.

    Raises:
        ConfigError: no teacher is of that name, or it cannot be fine-tuned here.
        DataError: a file that cannot be used.
    """
    if config.teacher != SELF and not is_transformer(config.teacher) and _kind(Path(config.teacher)) == "none":
        raise ConfigError(
            f"--teacher: {config.teacher} is no model; allowed: a run folder or its model.onnx, a folder of the "
            "transformers library or hf:NAME, a file of texts and probabilities (.jsonl, .parquet), or self"
        )
    if config.fine_tune and not is_transformer(config.teacher):
        raise ConfigError(f"--fine-tune: {config.teacher} is no model of the transformers library")
    if config.fine_tune and world > 1:
        raise ConfigError(
            "--fine-tune: the teacher is trained by one process; give the command without torchrun, or name a teacher "
            "that was fine-tuned before, which a run leaves in DIR/teacher/model"
        )
    for source in (*config.unlabeled, *config.test):
        next(read_unlabeled([source], reader=task.reader, columns=data.columns, on_bad_row=data.on_bad_row), None)


def _kind(path: Path) -> Literal["saved", "file", "none"]:
    if (path / ONNX_FILE).is_file() or (path.suffix == ".onnx" and path.is_file()):
        return "saved"
    return "file" if path.is_file() else "none"


def open_teacher(
    config: DistillConfig,
    train: Dataset,
    validation: Dataset,
    task: Task,
    *,
    columns: ColumnsConfig,
    seed: int,
    folder: Path | None,
    train_member: TrainMember | None,
    log: Log,
) -> Teacher:
    """The teacher that the configuration names, fine-tuned if it should be.

    Raises:
        ConfigError: it is to be fine-tuned without a folder.
        DataError, ModelFileError: it is damaged.
    """
    name, path = config.teacher, Path(config.teacher)
    if name == SELF:
        assert train_member is not None, "the caller trains members"
        assert folder is not None, "members need a folder"
        return _ensemble(config, train, validation, seed=seed, folder=folder, train_member=train_member, log=log)
    if is_transformer(name):
        name = name.removeprefix("hf:")
        if config.fine_tune:
            if folder is None:
                raise ConfigError("a teacher that is fine-tuned needs a folder: use `mixling distill`")
            name = _tuned(name, config, train, validation, task, seed=seed, folder=folder, log=log)
        return TransformerTeacher(name, task=type(task), max_len=config.max_len)
    if _kind(path) == "saved":
        return SavedTeacher(path)
    return FileTeacher(name, text=columns.text, text_pair=columns.text_pair, tokens=columns.tokens)


def _tuned(
    base: str,
    config: DistillConfig,
    train: Dataset,
    validation: Dataset,
    task: Task,
    *,
    seed: int,
    folder: Path,
    log: Log,
) -> str:
    """The folder of the fine-tuned teacher, which is made if it is not there yet."""
    model = folder / "model"
    content = [_content(base), config.tuning.to_dict(), task.labels.to_dict(), seed]
    with _once(folder / "fine-tuned.json", content, train, validation, result=model) as made:
        if made:
            log(f"teacher: {model} was fine-tuned before")
        else:
            log(f"teacher: {base} is fine-tuned on {len(train):,} rows")
            fine_tune(base, train, validation, task, folder=model, config=config.tuning, seed=seed, log=log)
    return str(model)


def _ensemble(
    config: DistillConfig,
    train: Dataset,
    validation: Dataset,
    *,
    seed: int,
    folder: Path,
    train_member: TrainMember,
    log: Log,
) -> Teacher:
    """Models like the student; those that are not there yet are trained."""
    members = []
    for number in range(1, config.members + 1):
        location = folder / f"self-{number}"
        own_seed = (seed + 1_000 * number) % 2**32
        with _once(
            folder / f"self-{number}.json", [train_member.record, own_seed], train, validation, result=location
        ) as made:
            if not made:
                log(f"teacher: model {number} of {config.members} is trained")
                train_member(own_seed, location)
        members.append(SavedTeacher(location))
    return EnsembleTeacher(members)


def _content(base: str) -> list[str]:
    """The name of a model on the hub, or what is in its folder."""
    if not Path(base).is_dir():
        return [base]
    files = sorted(path for path in Path(base).iterdir() if path.is_file())
    return [f"{path.name} {sha256_of(path)}" for path in files]


@contextmanager
def _once(path: Path, content: Any, train: Dataset, validation: Dataset, *, result: Path) -> Iterator[bool]:
    """A block whose work is done if its record, of this content and these rows, is there; afterwards it is.

    Args:
        result: the folder that the work fills; a file of it that has changed since undoes the work.
    """
    found = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for store in (train, validation):
        found.update(store.text_hashes().tobytes())
        found.update(json.dumps(list(store.targets)).encode())
    try:
        record = read_json(path)
    except (FileNotFoundError, ModelFileError):
        record = {}
    done = record.get("of") == found.hexdigest() and record.get("files") == _content(str(result))
    path.parent.mkdir(parents=True, exist_ok=True)
    if done:
        yield True
    else:
        path.unlink(missing_ok=True)
        yield False
        write_sealed(path, {"of": found.hexdigest(), "files": _content(str(result))})
