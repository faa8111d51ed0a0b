"""The labeled examples of a run as training data: held-out examples, a teacher's additions, encoding of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mixling.answers.decision import DecisionRule
from mixling.answers.labels import Targets
from mixling.artifacts.files import TEACHER_FOLDER
from mixling.artifacts.replacement import link_folder
from mixling.data.batches import TextSet
from mixling.data.dataset import Dataset
from mixling.data.splits import unseen
from mixling.features.columns import Columns, describe_columns, remarks
from mixling.features.kinds import parse_features
from mixling.metrics.base import Metrics
from mixling.ngrams.cross_fitting import choose_folds
from mixling.runs.data import check_abstention_data, check_levels, hold_out, log_truncated, read_costs
from mixling.runs.distillation.distill import DistillationData, Member, make_distillation_data
from mixling.runs.distillation.teacher import SELF, check_distill
from mixling.runs.initial_model import make_vectors
from mixling.runs.resolve.config import RunConfig
from mixling.runs.run import Run, RunFolder
from mixling.runs.shared import Shared
from mixling.runs.validation import LabeledValidation, QuestionValidation, Validation
from mixling.tasks import task_type
from mixling.tasks.base import Task
from mixling.teachers.base import Teacher
from mixling.text.config import default_names
from mixling.text.encoder import Text, TextEncoder
from mixling.text.vectors import WordVectors
from mixling.training.augmentation import WORD_SAMPLE_BYTES, Augmenter
from mixling.training.callbacks import Log
from mixling.training.config import TrainConfig
from mixling.training.dataset_adapter import LabeledData
from mixling.training.questions import QuestionData, question_data

FitFunction = Callable[..., Run[Metrics] | None]


@dataclass(frozen=True, kw_only=True)
class LabeledExamples:
    """The data of a run; `texts` and `targets` are the training data, in distillation with the unlabeled texts."""

    task: Task
    train: Dataset
    validation: Dataset
    texts: Dataset
    targets: Targets
    weights: npt.NDArray[np.float32] | None
    vectors: WordVectors | None
    held_out: Dataset | None
    folds: npt.NDArray[np.int64] | None
    distilled: bool
    columns: Columns | None

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """The number of training examples (C,) of each label, at least 1."""
        counts = self.train.label_counts() if self.task.has_labels else {}
        return np.array([max(counts.get(name, 0), 1) for name in self.task.labels.names])

    @property
    def pairs(self) -> bool:
        """Whether several texts belong together, two of a pair or more."""
        return self.train.schema.pairs

    def text_names(self, config: RunConfig) -> tuple[str, ...]:
        """Return the names of texts that belong together, as a model file has them; a pair may have none."""
        number = self.train.schema.texts
        named = config.data.columns.texts
        names = named if len(named) == number else default_names(number)
        return () if number == 1 or names == default_names(2) or self.task.windows else names

    def content(self) -> Iterator[bytes]:
        """Yield what identifies the data: a checkpoint belongs to a run with the same."""
        for part in (self.texts, self.validation):
            yield from part.content()
        if self.weights is not None:
            yield self.weights.tobytes()
        if self.distilled:
            yield from (target.tobytes() for target in self.targets)


def prepare_examples(
    config: RunConfig,
    train: Dataset,
    validation: Dataset,
    weights: npt.NDArray[np.float32] | None,
    teacher: Teacher | None,
    unlabeled: Iterable[Text],
    test_texts: Sequence[Text],
    vectors: WordVectors | None,
    shared: Shared,
    run: RunFolder,
    *,
    fit: FitFunction,
) -> LabeledExamples:
    """Return what a run is trained on; see `mixling.runs.training.fit` for the arguments.

    Args:
        fit: trains the models of the teacher "self".
    """
    validation, held_out = hold_out(config, validation)
    check_abstention_data(config, validation)
    counts = train.label_counts()
    labels = task_type(config.task).label_set(train)
    numbers = np.array([counts.get(name, 0) for name in labels.names])
    task = task_type(config.task)(labels, config.train.loss, numbers)
    task.aim_at(config.decisions.aim)
    if config.decisions.costs is not None:
        task.rule = DecisionRule(costs=read_costs(config.decisions.costs, labels.names))
    if config.decisions.label_levels is not None:
        check_levels(config.decisions.label_levels, train)
        task.rule = DecisionRule(levels=config.decisions.label_levels, names=labels.names)
    texts = train
    targets = task.targets(train.targets)
    if config.distill is not None:
        if teacher is None:
            check_distill(config.distill, task=type(task), data=config.data, world=run.distributed.world)
        if run.is_main and run.folder != run.home:
            link_folder(run.home / TEACHER_FOLDER, run.folder / TEACHER_FOLDER)
        run.begin()  # what follows may take long
    from_rows = config.initialization.kind in ("random", "rows", "text")
    usual = from_rows and weights is None and config.decisions.conformal is None
    folds = choose_folds(
        [train, validation] if config.fits_validation else [train],
        task=type(task), ngrams=config.ngrams, training=config.train, distilled=config.distill is not None,
        usual=usual,
        world=run.distributed.world,
    )  # fmt: skip
    self_distilled = config.distill is not None and config.distill.teacher == SELF
    if vectors is None and (not run.begun or config.decisions.refit or folds is not None or self_distilled):
        vectors = make_vectors(config, train, run.log, shared)
    if config.distill is not None:
        distillation = _distillation_data(
            config, train, validation, task, teacher, unlabeled, test_texts, vectors, fit, run
        )
        texts = distillation.texts
        targets = distillation.targets
        if weights is not None:
            weights = np.where(distillation.rows < 0, 1, weights[distillation.rows]).astype(np.float32)
    columns = _columns(config, train, run.log)
    return LabeledExamples(
        columns=columns,
        task=task,
        train=train,
        validation=validation,
        texts=texts,
        targets=targets,
        weights=weights,
        vectors=vectors,
        held_out=held_out,
        folds=folds,
        distilled=config.distill is not None,
    )


def _columns(config: RunConfig, train: Dataset, log: Log) -> Columns | None:
    """Return the columns beside the texts, described by the training rows; None: there are none.

    Raises:
        DataError: a value is not of its column's kind.
    """
    kinds = parse_features(config.data.columns.features)
    if not kinds or not len(train):
        return None
    rows = train.cells
    columns = describe_columns(kinds, rows, lambda row: "{}:{}".format(*train.where(row)))
    log(f"columns: {columns.summary()}")
    for line in remarks(columns, rows, list(train.targets)):
        log(line)
    return columns


def resolve_training(config: RunConfig, examples: LabeledExamples) -> TrainConfig:
    """Return the configuration of the training, with values that depend on the data resolved."""
    task = examples.task
    return config.train.resolved(
        len(examples.texts),
        rows_per_label=len(examples.train) / len(task.labels) if task.has_classes else None,
        init=config.initialization.kind,
        distilled=examples.distilled,
        augmented=not task.windows,
        single=not (task.per_word or examples.pairs),
        cross_fitted=examples.folds is not None,
    )


def training_data(
    config: RunConfig,
    examples: LabeledExamples,
    training: TrainConfig,
    encoder: TextEncoder,
    shared: Shared,
    log: Log,
) -> tuple[LabeledData | QuestionData, Validation]:
    """Return the encoded examples, and the evaluation of models on the validation examples.

    Args:
        training: as of `resolve_training`.
    """
    task = examples.task
    validation = examples.validation
    dropout = training.token_dropout or 0.0
    changes = training.augmentation
    if task.windows:
        assert examples.weights is None, "weights are not supported for questions"
        questions = question_data(
            task, examples.train, validation, encoder, config.reading, token_dropout=dropout, log=log
        )
        return questions, QuestionValidation(questions)
    augmenter = None
    if changes is not None and changes.rate:
        augmenter = Augmenter.of_texts(changes, encoder, examples.texts.sample_texts(WORD_SAMPLE_BYTES, training.seed))

    # Few steps read few of the texts; to encode these when they are read takes less time than to encode all.
    few = training.steps is not None and 2 * training.steps * training.batch_size < len(examples.texts)

    def encoded(texts: Dataset, *, keep: bool = True) -> TextSet:
        keep = keep and not texts.spooled
        return shared.get(lambda: TextSet(texts, encoder, keep=keep), "encoded", keep, of=(texts, encoder))

    validation_task = task.with_unknown(validation.targets)
    data = LabeledData(
        objective=task,
        train=encoded(examples.texts, keep=not few),
        train_targets=examples.targets,
        validation=encoded(validation),
        validation_task=validation_task,
        validation_targets=validation_task.targets(validation.targets),
        token_dropout=dropout,
        augmenter=augmenter,
        weights=examples.weights,
    )
    log_truncated(data.train, encoder.config.max_len, log)
    if data.num_evaluated < len(validation):
        log(f"evaluations during training are on {data.num_evaluated:,} of the {len(validation):,} validation examples")
    return data, LabeledValidation(data, validation)


def _distillation_data(
    config: RunConfig,
    train: Dataset,
    validation: Dataset,
    task: Task,
    teacher: Teacher | None,
    unlabeled: Iterable[Text],
    test_texts: Sequence[Text],
    vectors: WordVectors | None,
    fit: FitFunction,
    run: RunFolder,
) -> DistillationData:
    """Return the distillation data; the main process runs the teacher, the others read the stored probabilities."""
    distill = config.distill
    assert distill is not None
    return run.in_turn(
        lambda: make_distillation_data(
            distill,
            train,
            validation,
            task,
            data=config.data,
            smoothing=config.train.loss.label_smoothing,
            seed=config.train.seed,
            folder=run.folder / TEACHER_FOLDER,
            teacher=teacher,
            unlabeled=unlabeled,
            test_texts=test_texts,
            train_member=Member(config, train, validation, vectors, fit),
            log=run.log if run.is_main else lambda message: None,
        )
    )


def without_unseen(examples: Dataset, task: Task) -> Dataset:
    """Return the examples whose labels the task knows."""
    if not task.has_labels:
        return examples
    return examples.subset(np.setdiff1d(np.arange(len(examples)), unseen(examples, task.labels.names)))


def with_validation(data: LabeledData, validation: Dataset, task: Task) -> LabeledData:
    """Return the training data followed by the validation examples with known labels, each with weight 1."""
    validation = without_unseen(validation, task)
    train = data.train.dataset
    joined = Dataset.from_examples(
        (example for part in (train, validation) for example in part), texts=train.schema.texts
    )
    weights = data.weights
    return replace(
        data,
        train=TextSet(joined, data.train.encoder, keep=not train.spooled),
        train_targets=_joined(data.train_targets, task.targets(validation.targets)),
        weights=None if weights is None else np.concatenate([weights, np.ones(len(validation), np.float32)]),
    )


def _joined(first: Targets, second: Targets) -> Targets:
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return np.concatenate([first, second])
    return [*first, *second]
