"""Opening the teacher that a configuration names, after training it if requested."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from mixling.config import Config
from mixling.data.config import ColumnsConfig, DataConfig
from mixling.data.dataset import Dataset
from mixling.data.unlabeled import Split, TextChoice, read_unlabeled
from mixling.errors import ConfigError
from mixling.runs.distillation.ensemble import TrainMember, train_ensemble
from mixling.runtime.quick import ONNX_FILE
from mixling.storage import file_hashes
from mixling.tasks.base import Task
from mixling.teachers.base import EnsembleTeacher, FineTuneConfig, Teacher, is_transformer
from mixling.teachers.saved import FileTeacher, SavedTeacher
from mixling.training.backends.choose import need_torch
from mixling.training.callbacks import Log

SELF = "self"
ENCODER = "encoder:"


class DistillConfig(Config):
    """A teacher, the unlabeled text, and the weight of the teacher's probabilities."""

    teacher: str = Field(
        description="run folder, model.onnx, transformers folder, hf:NAME[@REVISION], file of texts and probabilities, "
        "encoder:DIR for a linear classifier on a sentence encoder, or self: an ensemble of models like the student, "
        "trained on the labeled examples"
    )
    members: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="number of models of a teacher that is trained or fine-tuned, each with its own seed, whose "
        "probabilities are averaged; None: 4 of 'self', or 1 that is fine-tuned",
    )
    seed: int | None = Field(
        default=None, ge=0, lt=2**32, description="seed of a teacher that is trained or fine-tuned; None: the run's"
    )
    fine_tune: bool = Field(default=False, description="fine-tune a transformers teacher on the labeled examples first")
    tuning: FineTuneConfig = FineTuneConfig()
    max_len: int = Field(default=256, ge=8, description="maximum number of subwords that a transformers teacher reads")
    unlabeled: tuple[str, ...] = Field(default=(), description="files of unlabeled text")
    test: tuple[str, ...] = Field(
        default=(), description="files whose texts are excluded from the unlabeled ones, as validation texts are"
    )
    split: Split = Field(
        default="auto", description="auto: sentences if unlabeled texts are more than twice as long as labeled ones"
    )
    limit: int | None = Field(
        default=None,
        ge=1,
        description="maximum number of unlabeled texts; None: 120,000, or fewer if the labeled texts have more than 20 "
        "words, but at least 40,000",
    )
    choice: TextChoice = Field(
        default="similar", description="of more texts, those most like the labeled ones, or random ones"
    )
    fragments: int = Field(
        default=4,
        ge=0,
        description="spans of words of each labeled text that the teacher labels too, for labels of one text",
    )
    temperature: float = Field(
        default=1.5, gt=0, le=20, description="the teacher's probabilities are raised to 1 / temperature"
    )
    copies: int = Field(default=2, ge=1, description="occurrences of each labeled example in an epoch")
    gold: float = Field(
        default=0.5, ge=0, le=1, description="weight of the true label in the targets of labeled examples"
    )

    @property
    def num_members(self) -> int:
        """The number of models of the teacher."""
        return self.members or (4 if self.teacher == SELF else 1)


def check_distill(config: DistillConfig, *, task: type[Task], data: DataConfig, world: int) -> None:
    """Check the teacher and the first row of each file before the training starts.

    Args:
        world: number of processes that train together.

    Raises:
        ConfigError: the teacher does not exist or cannot be fine-tuned here.
        DataError: a file cannot be used.
    """
    if config.teacher.startswith(ENCODER):
        encoder = config.teacher.removeprefix(ENCODER)
        if not is_transformer(encoder):
            raise ConfigError(
                f"--teacher: {encoder} is not a sentence encoder; allowed: {ENCODER}DIR or {ENCODER}hf:NAME"
            )
        if task.per_word or not task.has_labels:
            raise ConfigError(f"--teacher: {config.teacher} cannot teach {task.name}; it gives one prediction per text")
    elif config.teacher != SELF and not is_transformer(config.teacher) and _kind(Path(config.teacher)) == "none":
        raise ConfigError(
            f"--teacher: {config.teacher} is not a model; allowed: a run folder or its model.onnx, a folder of the "
            f"transformers library or hf:NAME, {ENCODER}DIR, a file of texts and probabilities (.jsonl, .parquet), "
            "or self"
        )
    if config.fine_tune and not is_transformer(config.teacher):
        raise ConfigError(f"--fine-tune: {config.teacher} is not a model of the transformers library")
    if config.num_members > 1 and not (config.fine_tune or config.teacher == SELF):
        raise ConfigError(
            f"distill.members: {config.members}; {config.teacher} is one model; "
            "allowed: 1, or more with --fine-tune or --teacher self"
        )
    if config.fine_tune and world > 1:
        raise ConfigError(
            "--fine-tune: a teacher is fine-tuned by a single process; run the command without torchrun, or name a "
            "teacher that was fine-tuned before (a run stores it in DIR/teacher/model)"
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
    """Return the teacher that the configuration names, after fine-tuning if requested.

    Args:
        seed: of a teacher that is trained, unless the configuration has one.
        folder: where a trained teacher is stored and looked up.
        train_member: trains the models of the teacher "self".

    Raises:
        ConfigError: fine-tuning is requested without a folder.
        DataError, ModelFileError: the teacher is damaged.
    """
    name = config.teacher
    path = Path(config.teacher)
    seed = seed if config.seed is None else config.seed

    def ensemble(names: Mapping[str, int], member: TrainMember, opened: Callable[[Path], Teacher]) -> Teacher:
        assert folder is not None, "a teacher that is trained needs a folder"
        seeds = {folder / name: (seed + 1_000 * number) % 2**32 for name, number in names.items()}
        train_ensemble(member, seeds, train, validation, name="teacher", log=log)
        members = [opened(location) for location in seeds]
        return members[0] if len(members) == 1 else EnsembleTeacher(members)

    if name == SELF:
        assert train_member is not None, "the teacher 'self' needs train_member"
        return ensemble({f"self-{i}": i for i in range(1, config.num_members + 1)}, train_member, SavedTeacher)
    if name.startswith(ENCODER):
        need_torch(name)
        from mixling.teachers.encoder import EncoderTeacher

        log("teacher: fitting a linear classifier on the embeddings of a sentence encoder")
        encoder = name.removeprefix(ENCODER).removeprefix("hf:")
        return EncoderTeacher.fit(encoder, train, validation, task, max_len=config.max_len)
    if is_transformer(name):
        need_torch(name)
        from mixling.teachers.transformer import TransformerTeacher

        name = name.removeprefix("hf:")
        opened = functools.partial(TransformerTeacher, task=type(task), max_len=config.max_len)
        if not config.fine_tune:
            return opened(name)
        if folder is None:
            raise ConfigError("fine-tuning a teacher needs a folder: use `mixling distill`")
        names = {f"model-{i + 1}" if i else "model": i for i in range(config.num_members)}
        member = _FineTuned(name, config.tuning, train, validation, task)
        return ensemble(names, member, lambda model: opened(str(model)))
    if _kind(path) == "saved":
        return SavedTeacher(path)
    return FileTeacher(name, text=columns.text, text_pair=columns.text_pair, tokens=columns.tokens)


class _FineTuned:
    """A `TrainMember` that fine-tunes a model of the `transformers` library."""

    def __init__(self, base: str, config: FineTuneConfig, train: Dataset, validation: Dataset, task: Task) -> None:
        self._base = base
        self._config = config
        self._train = train
        self._validation = validation
        self._task = task
        content = file_hashes(base) if Path(base).is_dir() else [base]
        self.record = [content, config.to_dict(), task.labels.to_dict()]

    def __call__(self, seed: int, folder: Path, log: Log) -> None:
        from mixling.teachers.fine_tuning import fine_tune

        log(f"fine-tuning {self._base} on {len(self._train):,} examples")
        fine_tune(
            self._base, self._train, self._validation, self._task,
            folder=folder, config=self._config, seed=seed, log=log,
        )  # fmt: skip
