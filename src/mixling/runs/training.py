"""Training on labeled examples."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from mixling.data.batches import TextSet
from mixling.data.dataset import Dataset
from mixling.data.splits import unseen
from mixling.errors import ConfigError
from mixling.export.card import model_card
from mixling.export.onnx import export_onnx
from mixling.export.plots import confusion_matrix
from mixling.export.quantize import quantization_problem
from mixling.metrics.base import ClassificationMetrics, Metrics
from mixling.models.model import Model, ModelConfig, build_model, count_parameters
from mixling.runs.adjustments import Adjustments
from mixling.runs.artifact import TRAINING
from mixling.runs.config import RunConfig
from mixling.runs.cross_fitting import OutOfFold, Predict, choose_folds, predict_out_of_fold
from mixling.runs.data import hold_out, log_truncated
from mixling.runs.distill import DistillationData, Member, make_distillation_data
from mixling.runs.files import CONFUSION_FILE, DESCRIPTIONS, TEACHER_FOLDER
from mixling.runs.initialization import make_vectors
from mixling.runs.ngrams import LinearData
from mixling.runs.pretrained import load_pretrained
from mixling.runs.refit import with_validation
from mixling.runs.replacement import link_folder
from mixling.runs.replay import load_head, replayed_run
from mixling.runs.run import Parts, Run, Stage, execute
from mixling.runs.shared import Shared
from mixling.runs.teacher import SELF, check_distill
from mixling.runs.unfinished import write_setup
from mixling.runs.validation import LabeledValidation, Outputs, QuestionValidation, Validation
from mixling.runtime.onnx_file import ONNX_FILE
from mixling.runtime.predictor import Predictor
from mixling.storage import write_atomic
from mixling.tasks import task_type
from mixling.tasks.base import Task
from mixling.teachers.base import Teacher
from mixling.text.encoder import Text, TextEncoder, train_vocabulary
from mixling.text.labels import Targets
from mixling.text.vectors import WordVectors
from mixling.text.vocabulary import Vocabulary
from mixling.training.augmentation import NO_AUGMENTATION, WORD_SAMPLE_BYTES, Augmenter
from mixling.training.callbacks import Callback, Log
from mixling.training.config import TrainConfig
from mixling.training.dataset_adapter import MAX_EVALUATED, LabeledData
from mixling.training.distributed import DistributedContext
from mixling.training.initialization import init_bottleneck
from mixling.training.memory import release
from mixling.training.questions import QuestionData, question_data

_VOCABULARY_BYTES = 8 << 20  # size of the text sample that a vocabulary is trained on


def fit(
    config: RunConfig,
    train: Dataset,
    validation: Dataset,
    *,
    folder: Path,
    weights: npt.NDArray[np.float32] | None = None,
    teacher: Teacher | None = None,
    unlabeled: Iterable[Text] = (),
    vectors: WordVectors | None = None,
    resume: bool = False,
    distributed: DistributedContext | None = None,
    callback: Callback | None = None,
    shared: Shared | None = None,
    log: Log = lambda message: None,
) -> Run[Metrics] | None:
    """Train, choose the best epoch on validation data, export, evaluate the exported model, and write the run folder.

    A model in the folder is kept until the new one is finished.

    Args:
        config: resolved (`mixling.runs.spec`); to resume a run, the configuration of its record.
        folder: the run folder.
        weights: one for each training example.
        teacher, unlabeled: for distillation, see `make_distillation_data`; by default those that the configuration
            names.
        vectors: initial word vectors, instead of those that `config.init` names.
        resume: continue from the folder's checkpoint.
        distributed: this process among all; by default the only one.
        callback: called during training.
        shared: for several trainings on the same examples in one process.
        log: receives messages.

    Returns:
        The run; None in processes other than the main one.

    Raises:
        ConfigError: no threshold has the accuracy `config.abstain_at`. The model is saved, and does not abstain.
        UserError: see `open_run` and `Trainer.fit`.
    """

    known = shared or Shared()

    def prepare(stage: Stage) -> _Labeled:
        examples = _examples(config, train, validation, weights, teacher, unlabeled, vectors, known, stage)
        return _Labeled(examples, known, stage)

    run = execute(
        TRAINING, config, prepare,
        elsewhere=frozenset({"data"}), folder=folder, resume=resume,
        distributed=distributed, callback=callback, log=log,
    )  # fmt: skip
    if run is not None and (found := run.report["abstention"]) is not None and found["threshold"] is None:
        raise ConfigError(
            f"abstain_at: no threshold gives an accuracy of {found['wanted']:g} on the validation examples; the most "
            f"that can be had is {found['accuracy']:.4f}, answering {found['coverage']:.1%} of them. The model in "
            f"{folder} is complete but never abstains; pass a lower value, or a threshold to `mixling predict`"
        )
    return run


@dataclass(frozen=True, kw_only=True)
class _Examples:
    """The data of a run; `texts` and `targets` are what is trained on, in distillation with the unlabeled texts."""

    config: RunConfig
    task: Task
    train: Dataset
    validation: Dataset
    texts: Dataset
    targets: Targets
    weights: npt.NDArray[np.float32] | None
    vectors: WordVectors | None
    held_out: Dataset | None
    folds: npt.NDArray[np.int64] | None


def _examples(
    config: RunConfig,
    train: Dataset,
    validation: Dataset,
    weights: npt.NDArray[np.float32] | None,
    teacher: Teacher | None,
    unlabeled: Iterable[Text],
    vectors: WordVectors | None,
    shared: Shared,
    stage: Stage,
) -> _Examples:
    validation, held_out = hold_out(config, validation)
    counts, labels = train.label_counts(), task_type(config.task).label_set(train)
    numbers = np.array([counts.get(name, 0) for name in labels.names])
    task = task_type(config.task)(labels, config.train.loss, numbers)
    texts, targets = train, task.targets(train.targets)
    if config.distill is not None:
        if teacher is None:
            check_distill(config.distill, task=type(task), data=config.data, world=stage.distributed.world)
        if stage.distributed.is_main and stage.folder != stage.home:
            link_folder(stage.home / TEACHER_FOLDER, stage.folder / TEACHER_FOLDER)
        stage.begin()  # what follows may take long
    folds = choose_folds(config, train, validation, weighted=weights is not None, world=stage.distributed.world)
    self_distilled = config.distill is not None and config.distill.teacher == SELF
    if vectors is None and (not stage.begun or config.refit or folds is not None or self_distilled):
        vectors = make_vectors(config, train, stage.log, shared)
    if config.distill is not None:
        distillation = _distillation_data(config, train, validation, task, teacher, unlabeled, vectors, stage)
        texts, targets = distillation.texts, distillation.targets
        if weights is not None:
            weights = np.where(distillation.rows < 0, 1, weights[distillation.rows]).astype(np.float32)
    return _Examples(
        config=config,
        task=task,
        train=train,
        validation=validation,
        texts=texts,
        targets=targets,
        weights=weights,
        vectors=vectors,
        held_out=held_out,
        folds=folds,
    )


class _Labeled(Parts[Metrics]):
    """A model and the labeled examples or questions that it is trained on."""

    model: Model

    def __init__(self, examples: _Examples, shared: Shared, stage: Stage) -> None:
        config, task, texts = examples.config, examples.task, examples.texts
        self.examples, self.config, self.labels = examples, config, task.labels
        text = config.model.text
        self.vocabulary = (
            Vocabulary.load(text.vocabulary)
            if text.vocabulary is not None
            else shared.get(
                lambda: train_vocabulary(texts.sample_texts(_VOCABULARY_BYTES, config.train.seed), text),
                *("vocabulary", text.model_dump_json()),
                # A sample of all texts is the same with every seed.
                *((config.train.seed,) if texts.text_bytes().sum() > _VOCABULARY_BYTES else ()),
                of=(texts,),
            )
        )
        text = text.for_vocabulary(self.vocabulary)
        self.model_config: ModelConfig = config.model.model_copy(update={"text": text})
        self.training: TrainConfig = config.train.resolved(
            len(texts),
            rows_per_label=len(examples.train) / len(self.labels) if task.has_classes else None,
            init=config.initialization.kind,
            distilled=config.distill is not None,
            augmented=not task.windows,
            single=not (task.per_word or self.pairs),
            cross_fitted=examples.folds is not None,
        )
        encoder = shared.get(lambda: TextEncoder(text, self.vocabulary), text.model_dump_json(), of=(self.vocabulary,))
        self.data, self.validation = _training_data(examples, self.training, encoder, shared, stage.log)
        self.adjustments = Adjustments(task, self.validation, stage.log)
        self._build = partial(_build, config, self.model_config, task, encoder, examples.vectors)
        self.model = self._build(stage.log)
        smoothing = config.train.loss.label_smoothing if task.smooths else 0
        if smoothing and config.distill is None:
            stage.log(f"losses during training include label smoothing of {smoothing:g}; the final log-loss does not")

    def all_examples(self) -> LabeledData | None:
        if not self.config.refit and self.examples.folds is None:
            return None
        assert isinstance(self.data, LabeledData), "a configuration with refit has another task"
        return with_validation(self.data, self.examples.validation, self.examples.task)

    @property
    def pairs(self) -> bool:
        """Whether the training texts are pairs."""
        return self.examples.train.schema.pairs

    def content(self) -> Iterator[bytes]:
        yield json.dumps(self.vocabulary.serialize()).encode()
        for part in (self.examples.texts, self.examples.validation):
            yield from part.content()
        if self.examples.weights is not None:
            yield self.examples.weights.tobytes()
        if self.config.distill is not None:
            yield from (target.tobytes() for target in self.examples.targets)

    def begin(self, folder: Path) -> None:
        write_setup(folder, self.config, self.model_config, self.labels, self.vocabulary, pairs=self.pairs)

    def save(self, folder: Path) -> dict[str, Any]:
        name, content = self.vocabulary.serialize()
        write_atomic(folder / name, content)
        saved = {"task": self.config.task, "model": self.model_config.to_dict(), "labels": self.labels.to_dict()}
        return {**saved, "vocabulary": name}

    def calibrate(self) -> None:
        self.adjustments.calibrate(self.model)

    def evaluate(
        self, folder: Path, best: dict[str, Any], log: Callable[[str], None]
    ) -> tuple[Metrics, dict[str, Any]]:
        float_outputs = self.validation.of_model(self.model)
        quantization, precision, outputs = None, self.config.precision, self._export(folder, self.config.precision)
        if precision == "int8":
            quantization = self.validation.compare_quantized(float_outputs, outputs)
            if (problem := quantization_problem(quantization)) is not None:
                log(f"{problem}; model.onnx holds float32 weights")
                precision, outputs = "float32", self._export(folder, "float32")
        outputs = self.adjustments.add_branch(folder / ONNX_FILE, outputs, self.config.ngrams, self._linear_data)
        self.adjustments.choose_threshold(folder / ONNX_FILE, outputs, self.config)
        self.adjustments.choose_label_thresholds(folder / ONNX_FILE, outputs, self.config.label_thresholds)
        if self.examples.held_out is not None:
            self.adjustments.fit_sets(folder / ONNX_FILE, self.examples.held_out, self.config)
        metrics = self.validation.metrics(outputs)
        return metrics, {
            "validation": metrics.to_dict(),
            "data": self._data_report(),
            "epochs": self.training.epochs,
            "precision": precision,
            "quantization": None if quantization is None else asdict(quantization),
            **self.adjustments.to_dict(),
            "reading": None if self.validation.reading is None else self.validation.reading.to_dict(),
            "file_bytes": (folder / ONNX_FILE).stat().st_size,
        }

    def _data_report(self) -> dict[str, Any]:
        """Return the numbers of examples, and of training examples by label where each has one or several."""
        train, task = self.examples.train, self.examples.task
        counts = train.label_counts() if task.has_labels else {}
        labels = {name: counts[name] for name in self.labels.names if name in counts}
        return {"training": len(train), "validation": len(self.examples.validation), "labels": labels}

    def _export(self, folder: Path, precision: Literal["int8", "float32"]) -> Outputs:
        """Write model.onnx and return its outputs for the validation data."""
        write_atomic(folder / ONNX_FILE, self._exported(self.model, precision))
        outputs = self.validation.of_file(Predictor(folder / ONNX_FILE, num_threads=torch.get_num_threads()))
        release()  # what the predictor had
        return outputs

    def _exported(self, model: Model, precision: Literal["int8", "float32"]) -> bytes:
        return export_onnx(
            model,
            text=self.model_config.text,
            task=self.config.task,
            labels=self.labels,
            vocabulary=self.vocabulary,
            precision=precision,
            pairs=self.pairs,
            reading=self.validation.reading,
        )

    def _linear_data(self, path: Path, outputs: Outputs) -> LinearData:
        examples = self.examples
        return LinearData(
            task=examples.task,
            train=examples.train,
            validation=examples.validation,
            network=np.stack(outputs),
            predict=Predictor(path, num_threads=torch.get_num_threads()).text_logits,
            weights=examples.weights if self.config.distill is None else None,
            text=self.model_config.text,
            vocabulary=self.vocabulary,
            augmentation=self.training.augmentation or NO_AUGMENTATION,
            out_of_fold=None if examples.folds is None else self._out_of_fold(examples.folds),
        )

    def _out_of_fold(self, folds: npt.NDArray[np.int64]) -> OutOfFold:
        examples, joined = self.examples, self.all_examples()
        assert joined is not None
        known = np.arange(len(folds))
        if examples.task.has_labels:
            new = unseen(examples.validation, examples.task.labels.names)
            known = np.setdiff1d(known, new + len(examples.train))

        def finish(model: Model) -> Predict:
            self.adjustments.calibrate(model)
            return Predictor(self._exported(model, self.config.precision)).text_logits

        return predict_out_of_fold(
            folds, joined, known, [*examples.train.texts, *examples.validation.texts], self.training,
            build=lambda: self._build(lambda message: None),
            finish=finish,
        )  # fmt: skip

    def draw(self, folder: Path, metrics: Metrics) -> None:
        if isinstance(metrics, ClassificationMetrics):
            names = [row.label for row in metrics.per_class]
            confusion_matrix(np.array(metrics.confusion), names, folder / CONFUSION_FILE)

    def card(self, report: dict[str, Any]) -> str:
        used = {"model": self.model_config.to_dict(), "train": self.training.to_dict()}
        used |= {"init": self.config.initialization.to_dict(), "reading": report["reading"]}
        values = {**self.config.to_dict(), **used}
        return model_card(values, report, self.examples.task, folder_files=DESCRIPTIONS, pairs=self.pairs)


def _training_data(
    examples: _Examples, training: TrainConfig, encoder: TextEncoder, shared: Shared, log: Log
) -> tuple[LabeledData | QuestionData, Validation]:
    """Return the encoded examples, and the evaluation of models on the validation examples."""
    config, task, validation = examples.config, examples.task, examples.validation
    dropout, changes = training.token_dropout or 0.0, training.augmentation
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
    if len(validation) > MAX_EVALUATED:
        log(f"evaluations during training are on {MAX_EVALUATED:,} of the {len(validation):,} validation examples")
    return data, LabeledValidation(data, validation)


def _build(
    config: RunConfig,
    model_config: ModelConfig,
    task: Task,
    encoder: TextEncoder,
    vectors: WordVectors | None,
    log: Log,
) -> Model:
    """Return the model with its initial weights."""
    model = build_model(model_config, num_outputs=len(task.labels), output=task.output, seed=config.train.seed)
    if model.embedding.embeddings is not None:
        model.embedding.load_embeddings(config.model.embedding.embeddings)
    if config.init.pretrained is not None:
        load_pretrained(model, model_config, config.init.pretrained, resize=config.init.resize)
        if replayed_run(config) is not None:
            load_head(model, task.labels, config.init.pretrained)
    counted = f"{len(task.labels)} labels, " if task.has_labels else ""
    log(f"{counted}{len(encoder.vocabulary):,} subwords, {count_parameters(model):,} parameters")
    if vectors is not None:
        fitted = init_bottleneck(model.embedding, encoder, vectors)
        log(
            f"initialization: the embeddings of {fitted.words:,} words reproduce {fitted.explained:.0%} of the "
            "variance of their vectors"
        )
    return model


def _distillation_data(
    config: RunConfig,
    train: Dataset,
    validation: Dataset,
    task: Task,
    teacher: Teacher | None,
    unlabeled: Iterable[Text],
    vectors: WordVectors | None,
    stage: Stage,
) -> DistillationData:
    """Return the distillation data; the main process runs the teacher, the others read the stored probabilities."""
    distill = config.distill
    assert distill is not None
    return stage.in_turn(
        lambda: make_distillation_data(
            distill,
            train,
            validation,
            task,
            data=config.data,
            smoothing=config.train.loss.label_smoothing,
            seed=config.train.seed,
            folder=stage.folder / TEACHER_FOLDER,
            teacher=teacher,
            unlabeled=unlabeled,
            train_member=Member(config, train, validation, vectors, fit, stage.log),
            log=stage.log if stage.distributed.is_main else lambda message: None,
        )
    )
