"""What decides a run: the data, the model, the training."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import torch
from pydantic import AfterValidator, Field, model_validator

from mixling.config import Config, parse
from mixling.data.examples import DataConfig
from mixling.errors import ConfigError, TrainingError, command_line
from mixling.models.model import ModelConfig
from mixling.models.presets import DEFAULT_PRESET, PRESETS
from mixling.runs.artifact import KINDS, RUN_FILE, TRAINING, folder_to_resume, kind_of, read_run
from mixling.runs.teacher import DistillConfig
from mixling.tasks import DEFAULT_TASK, task_type
from mixling.text.windows import ReadingConfig
from mixling.training.config import NgramConfig, Start, TrainConfig
from mixling.version import __version__

C = TypeVar("C", bound=Config)


class InitConfig(Config):
    """What the bottleneck of a projection begins with, instead of random numbers (`mixling.training.start`)."""

    vectors: str | None = Field(None, description="folder of word vectors, as `mixling vectors` writes it")
    texts: tuple[str, ...] = Field((), description="files of unlabeled text, from which vectors are made first")
    training_texts: bool = Field(False, description="vectors are made from the training texts, too")
    pretrained: str | None = Field(
        None, description="folder of a run, whose embedding layer and body the model begins with"
    )
    resize: bool = Field(False, description="allow longer texts than those that the pretrained model read")

    @property
    def kind(self) -> Start:
        """Random numbers, vectors of the training rows' text, or of more, or a whole model."""
        if self.pretrained is not None:
            return "model"
        if self.vectors is not None or self.texts:
            return "text"
        return "rows" if self.training_texts else "random"

    @model_validator(mode="after")
    def _one_source(self) -> InitConfig:
        if self.vectors is not None and (self.texts or self.training_texts):
            raise ValueError("vectors that were made before exclude texts to make them from: leave one out")
        if self.pretrained is not None and (self.vectors is not None or self.texts or self.training_texts):
            raise ValueError("a pretrained model has its vectors: leave out those, and the texts to make them from")
        if self.resize and self.pretrained is None:
            raise ValueError("resize is of a pretrained model; name one, or leave it out")
        return self


def _known_task(name: str) -> str:
    try:
        return task_type(name).name
    except ConfigError as error:
        raise ValueError(error) from None


class RunConfig(Config):
    """All that decides what a run gives; it stands in the run folder as run.json."""

    task: Annotated[str, AfterValidator(_known_task)] = DEFAULT_TASK
    data: DataConfig = DataConfig()
    model: ModelConfig = PRESETS[DEFAULT_PRESET].config
    start: InitConfig = InitConfig()
    reading: ReadingConfig = Field(ReadingConfig(), description="of question answering")
    train: TrainConfig = TrainConfig()
    ngrams: NgramConfig = Field(NgramConfig(), description="a linear model beside the network")
    distill: DistillConfig | None = Field(None, description="learn from a teacher (`mixling distill`)")
    precision: Literal["int8", "float32"] = Field("int8", description="of the weights in model.onnx")

    @property
    def initialisation(self) -> InitConfig:
        """What the model begins with: as given, or the text that a teacher labels where no other text is named."""
        given = self.start
        if self.distill is None or not self.distill.unlabeled or given.kind in ("text", "model"):
            return given
        return InitConfig(texts=self.distill.unlabeled) if self.model.text.projection.hashed else given

    @model_validator(mode="after")
    def _teacher_has_a_task(self) -> RunConfig:
        if self.distill is not None and not task_type(self.task).has_labels:
            raise ValueError(f"{self.task} cannot be learnt from a teacher; use `mixling train`, or another task")
        return self


def provenance() -> dict[str, Any]:
    """What run.json says of the software."""
    return {
        "mixling": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
    }


def resumed_config(folder: Path) -> tuple[RunConfig, bool]:
    """As `read_record`, of a run of `mixling train`."""
    return read_record(folder, RunConfig, kind=TRAINING)


def read_record(folder: Path, schema: type[C], *, kind: str) -> tuple[C, bool]:
    """The configuration of the run that --resume of a folder is about, and whether the run is finished.

    Args:
        kind: one of `mixling.runs.artifact`.

    Raises:
        TrainingError: there is no run in the folder, or one of another kind.
        ModelFileError: its record is damaged.
    """
    path = folder_to_resume(folder) / RUN_FILE
    try:
        saved = read_run(path.parent)
    except FileNotFoundError:
        start = command_line("mixling", KINDS[kind].command, "FILE", "-o", folder)
        raise TrainingError(f"{path}: there is no run to resume; start one with: {start}") from None
    found = kind_of(saved, where=path)
    if found != KINDS[kind]:
        raise TrainingError(
            f"{folder}: holds a run of {saved['kind']}, not of {kind}; give another folder, or use "
            f"mixling {found.command}"
        )
    return parse(schema, saved["config"], where=str(path)), saved["finished"]
