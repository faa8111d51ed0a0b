"""The configuration of a run: data, model and training."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, field_validator, model_validator

from mixling.answers.levels import MAX_SEPARATOR
from mixling.artifacts.files import RUN_FILE, folder_to_resume, read_run
from mixling.artifacts.kinds import TRAINING, kind_named, kind_of
from mixling.config import Config, parse
from mixling.data.config import DataConfig
from mixling.errors import ConfigError, TrainingError, command_line, shown
from mixling.networks.config import ModelConfig
from mixling.networks.presets import DEFAULT_PRESET, PRESETS
from mixling.runs.distillation.teacher import DistillConfig
from mixling.tasks import DEFAULT_TASK, task_type
from mixling.text.windows import ReadingConfig
from mixling.threads import num_threads
from mixling.training.config import Initialization, NgramConfig, TrainConfig
from mixling.version import __version__

_C = TypeVar("_C", bound=Config)


class InitConfig(Config):
    """Initial weights, where they are not random."""

    vectors: str | None = Field(default=None, description="folder of word vectors that `WordVectors.save` wrote")
    texts: tuple[str, ...] = Field(default=(), description="files of unlabeled text to count word vectors in")
    training_texts: bool = Field(default=False, description="also count word vectors in the training texts")
    pretrained: str | None = Field(
        default=None, description="run folder with the pretrained embedding layer and encoder"
    )
    replay: int | None = Field(
        default=None,
        ge=0,
        description="examples of each label of a trained model of the same task, to train on again, so that its labels "
        "stay; 0: they are forgotten; None: half as many as the new ones have on average, at least 50",
    )

    @property
    def kind(self) -> Initialization:
        """How the model is initialized: at random, from vectors of the training texts or more text, or from a model."""
        if self.pretrained is not None:
            return "model"
        if self.has_texts:
            return "text"
        return "rows" if self.training_texts else "random"

    @property
    def has_texts(self) -> bool:
        """Whether words have vectors of more text than the training rows'."""
        return self.vectors is not None or bool(self.texts)

    @model_validator(mode="after")
    def _one_source(self) -> InitConfig:
        if self.vectors is not None and (self.texts or self.training_texts):
            raise ValueError("vectors cannot be combined with texts to count vectors in: leave one out")
        if self.pretrained is not None and (self.vectors is not None or self.texts or self.training_texts):
            raise ValueError("a pretrained model has its own embeddings: leave out vectors, and texts to count them in")
        if self.replay is not None and self.pretrained is None:
            raise ValueError("replay requires a pretrained model; name one, or leave replay out")
        return self


def _known_task(name: str) -> str:
    try:
        return task_type(name).name
    except ConfigError as error:
        raise ValueError(error) from None


class DecisionsConfig(Config):
    """Decisions on validation data after the training, which model.onnx stores beside the network."""

    metric: str | None = Field(
        default=None,
        description="what the model is made for: it chooses the best evaluation and, of texts, the answers. One label: "
        "accuracy, macro-f1, balanced-accuracy, mcc, f1:LABEL; several: micro-f1, macro-f1, sample-f1, "
        "subset-accuracy; numbers: mse, rmse, mae, pearson, spearman; tagging: word-accuracy, span-f1; None: accuracy, "
        "micro-f1, mse, word-accuracy",
    )
    costs: str | None = Field(
        default=None,
        description="CSV file with the costs of errors: a row for each label, a column for each answer (one label a "
        "text); the answer is the label with the least expected cost",
    )
    label_levels: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_SEPARATOR,
        description="what separates the levels of labels such as 'card > lost' (one label a text): the most probable "
        "part of each level answers, from the top down, and an uncertain answer ends higher up",
    )
    refit: bool = Field(
        default=False, description="train anew on training and validation examples, for as many epochs as were best"
    )
    abstain_at: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="wanted accuracy of answers: less certain predictions abstain (one label a text)",
    )
    out_of_scope: tuple[str, ...] = Field(
        default=(),
        description="files of texts that no label fits, to choose the threshold of abstaining (one label a text)",
    )
    conformal: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="coverage of sets of labels, for which half of the validation examples are kept apart",
    )
    conformal_method: Literal["lac", "aps"] = Field(
        default="aps", description="lac: the smallest sets, may be empty; aps: always with the most probable label"
    )
    label_thresholds: Literal["f1"] | Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None,
        description='probability from which each label is predicted, chosen on validation: by "f1", or for a precision '
        "(several labels a text); None: 0.5",
    )
    precision: Literal["int8", "float32"] = Field(default="int8", description="precision of the weights in model.onnx")

    @property
    def aim(self) -> str | None:
        """The metric that the model is made for; the cost if there are costs."""
        return self.metric if self.costs is None else "cost"

    @field_validator("label_thresholds", mode="before")
    @classmethod
    def _thresholds_have_a_criterion(cls, value: object) -> object:
        if value in (None, "f1") or (isinstance(value, int | float) and 0 < value < 1):
            return value
        raise ValueError(f'got {shown(value)}; allowed: "f1", or a precision between 0 and 1')


class RunConfig(Config):
    """The complete configuration of a run, recorded in its run.json."""

    task: Annotated[str, AfterValidator(_known_task)] = Field(
        default=DEFAULT_TASK, description="the task; a name of `mixling.tasks`"
    )
    data: DataConfig = DataConfig()
    model: ModelConfig = PRESETS[DEFAULT_PRESET].config
    init: InitConfig = InitConfig()
    reading: ReadingConfig = Field(default=ReadingConfig(), description="windows and answers of question answering")
    train: TrainConfig = TrainConfig()
    ngrams: NgramConfig = Field(default=NgramConfig(), description="a linear model beside the network")
    distill: DistillConfig | None = Field(default=None, description="learn from a teacher (`mixling distill`)")
    decisions: DecisionsConfig = Field(
        default=DecisionsConfig(), description="decisions made on validation data after the training"
    )

    @property
    def fits_validation(self) -> bool:
        """Whether the exported model is fitted on the validation examples, too, after they chose everything.

        By default it is if they were split off the training files. Those that the user names, or gives to `fit`, stay
        unseen.
        """
        if self.decisions.refit or self.data.validation:
            return self.decisions.refit
        return bool(self.data.train) if self.ngrams.refit is None else self.ngrams.refit

    @property
    def metric_key(self) -> str:
        """The key of `Metrics.numbers` that chooses the best evaluation."""
        return task_type(self.task).metric_key(self.decisions.aim)

    @property
    def initialization(self) -> InitConfig:
        """`init`, or the text that the teacher labels if no other text is named."""
        given = self.init
        if self.distill is None or not self.distill.unlabeled or given.has_texts or given.pretrained is not None:
            return given
        return InitConfig(texts=self.distill.unlabeled) if self.model.text.projection.hashed else given

    @model_validator(mode="after")
    def _augmentation_has_a_task(self) -> RunConfig:
        if self.train.augmentation is not None and self.train.augmentation.rate and task_type(self.task).windows:
            raise ValueError(
                f"train.augmentation: the words of {self.task} are the answers' words and stay as they are; leave it "
                "out"
            )
        return self

    @model_validator(mode="after")
    def _abstention_has_one_label(self) -> RunConfig:
        for name in ("abstain_at", "out_of_scope", "conformal", "label_levels"):
            if getattr(self.decisions, name) and not task_type(self.task).abstains:
                raise ValueError(
                    f"decisions.{name}: {self.task} has no single answer for a text to abstain from; leave it out"
                )
        return self

    @model_validator(mode="after")
    def _metric_is_of_the_task(self) -> RunConfig:
        given = self.decisions
        if given.costs is not None and given.metric is not None:
            raise ValueError("decisions.costs are the metric; leave decisions.metric out")
        if given.costs is not None and given.label_levels is not None:
            raise ValueError("decisions.costs and decisions.label_levels both choose the answer; leave one out")
        if given.metric == "cost":
            raise ValueError("decisions.metric: cost needs the costs of errors: decisions.costs, the name of a file")
        if given.metric is not None and given.label_thresholds is not None:
            raise ValueError("decisions.label_thresholds and decisions.metric both choose thresholds; leave one out")
        try:
            task_type(self.task).metric_key(given.aim)
        except ConfigError as error:
            raise ValueError(error) from None
        return self

    @model_validator(mode="after")
    def _thresholds_have_labels(self) -> RunConfig:
        if self.decisions.label_thresholds is not None and not task_type(self.task).has_label_thresholds:
            raise ValueError(
                f"decisions.label_thresholds: {self.task} does not predict several labels a text; leave it out"
            )
        return self

    @model_validator(mode="after")
    def _ratios_have_labels(self) -> RunConfig:
        if self.ngrams.ratio_power and not task_type(self.task).has_labels:
            raise ValueError(f"ngrams.ratio_power: {self.task} has no labels to distinguish; leave it out")
        return self

    @model_validator(mode="after")
    def _refit_has_labels(self) -> RunConfig:
        if self.decisions.refit and (self.distill is not None or task_type(self.task).windows):
            other = self.task if self.distill is None else "a run with a teacher"
            raise ValueError(f"decisions.refit: {other} cannot be trained on its validation examples too; leave it out")
        return self

    @model_validator(mode="after")
    def _refit_is_of_both(self) -> RunConfig:
        if self.decisions.refit and self.ngrams.refit is False:
            raise ValueError(
                "decisions.refit = true trains on the validation examples, ngrams.refit = false does not; leave one out"
            )
        return self

    @model_validator(mode="after")
    def _teacher_has_a_task(self) -> RunConfig:
        if self.distill is not None and not task_type(self.task).has_labels:
            raise ValueError(f"{self.task} cannot be learned from a teacher; use `mixling train`, or another task")
        return self


def run_provenance() -> dict[str, Any]:
    """Return the software versions and thread count to record in run.json; without PyTorch where it is not in use."""
    torch = sys.modules.get("torch")
    versions = {"mixling": __version__, "torch": None if torch is None else torch.__version__}
    return {**versions, "python": platform.python_version(), "threads": num_threads()}


def resumed_config(folder: Path) -> tuple[RunConfig, bool]:
    """Return the configuration of a `mixling train` run to resume; see `read_record`."""
    return read_record(folder, RunConfig, kind=TRAINING)


def read_record(folder: Path, schema: type[_C], *, kind: str) -> tuple[_C, bool]:
    """Return the configuration of the run that --resume continues, and whether that run is finished.

    Args:
        kind: the name of a `mixling.artifacts.kinds.RunKind`.

    Raises:
        TrainingError: the folder holds no run, or one of another kind.
        ModelFileError: the record is damaged.
    """
    path = folder_to_resume(folder) / RUN_FILE
    try:
        saved = read_run(path.parent)
    except FileNotFoundError:
        start = command_line("mixling", kind_named(kind).command, "FILE", "-o", folder)
        raise TrainingError(f"{path}: there is no run to resume; start one with: {start}") from None
    found = kind_of(saved, where=path)
    if found is not kind_named(kind):
        raise TrainingError(
            f"{folder}: holds a {saved['kind']} run, not a {kind} run; give another folder, or use "
            f"mixling {found.command}"
        )
    return parse(schema, saved["config"], where=str(path)), saved["finished"]
