"""What decides a run: the data, the model, the training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from mixling.config import Config, parse
from mixling.data.examples import DataConfig
from mixling.errors import ModelFileError, TrainingError
from mixling.models.model import ModelConfig
from mixling.models.presets import DEFAULT_PRESET, PRESETS
from mixling.runs.teacher import DistillConfig
from mixling.tasks.base import Task, TaskName
from mixling.tasks.classification import Classification, MultiLabel
from mixling.tasks.question_answering import QuestionAnswering
from mixling.tasks.token_labelling import TokenLabelling
from mixling.text.labels import LabelKind
from mixling.text.windows import ReadingConfig
from mixling.training.recipe import Start, TrainConfig

FORMAT_VERSION = 1
TEACHER_FOLDER = "teacher"  # of a distilled run: the fine-tuned teacher, and the answers
RUN_FILE, CONFIG_FILE, WEIGHTS_FILE, ONNX_FILE = "run.json", "config.json", "model.safetensors", "model.onnx"

TASKS: dict[TaskName, tuple[type[Task], LabelKind]] = {
    "classification": (Classification, "single"),
    "multi_label": (MultiLabel, "multi"),
    "tagging": (TokenLabelling, "iob"),
    "question_answering": (QuestionAnswering, "span"),
}


class StartConfig(Config):
    """What the bottleneck of a projection begins with, instead of random numbers (`mixling.training.start`)."""

    vectors: str | None = Field(None, description="folder of word vectors, as `mixling vectors` writes it")
    texts: tuple[str, ...] = Field((), description="files of unlabelled text, from which vectors are made first")
    training_texts: bool = Field(False, description="vectors are made from the training texts, too")

    @property
    def kind(self) -> Start:
        """Random numbers, vectors of the training rows' text, or of more."""
        if self.vectors is not None or self.texts:
            return "text"
        return "rows" if self.training_texts else "random"

    @model_validator(mode="after")
    def _one_source(self) -> StartConfig:
        if self.vectors is not None and (self.texts or self.training_texts):
            raise ValueError("vectors that were made before exclude texts to make them from: leave one out")
        return self


class RunConfig(Config):
    """All that decides what a run gives; it stands in the run folder as run.json."""

    task: TaskName = "classification"
    data: DataConfig = DataConfig()
    model: ModelConfig = PRESETS[DEFAULT_PRESET].config
    start: StartConfig = StartConfig()
    reading: ReadingConfig = Field(ReadingConfig(), description="of question answering")
    train: TrainConfig = TrainConfig()
    distill: DistillConfig | None = Field(None, description="learn from a teacher (`mixling distill`)")
    precision: Literal["int8", "float32"] = Field("int8", description="of the weights in model.onnx")

    @model_validator(mode="after")
    def _no_teacher_of_answers(self) -> RunConfig:
        if self.task == "question_answering" and self.distill is not None:
            raise ValueError("a teacher has no answers to questions; use `mixling train`, or another task")
        return self


def resumed_config(folder: Path) -> tuple[RunConfig, bool]:
    """The configuration of the run in a folder, and whether the run is finished.

    Raises:
        TrainingError: there is no run in the folder.
        ModelFileError: its record is damaged.
    """
    path = folder / RUN_FILE
    try:
        saved = json.loads(path.read_text("utf-8"))
        return parse(RunConfig, saved["config"], where=str(path)), bool(saved["finished"])
    except FileNotFoundError:
        raise TrainingError(
            f"{path}: there is no run to resume; start one with: mixling train FILE -o {folder}"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{path}: is damaged: {error}") from None
