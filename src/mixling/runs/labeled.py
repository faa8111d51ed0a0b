"""What a run on labeled examples trains, saves and evaluates."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from mixling.artifacts.files import CONFUSION_FILE, DESCRIPTIONS
from mixling.artifacts.seen_rows import count_seen, read_seen, write_seen
from mixling.artifacts.unfinished import write_setup
from mixling.data.batches import TextSet
from mixling.data.splits import unseen
from mixling.export.card import model_card
from mixling.export.onnx import export_onnx
from mixling.export.plots import plot_confusion
from mixling.export.quantize import quantization_problem
from mixling.metrics.base import ClassificationMetrics, Metrics
from mixling.models.model import Model, ModelConfig, build_model, count_parameters
from mixling.ngrams.cross_fitting import OutOfFold, Predict, predict_out_of_fold
from mixling.ngrams.data import LinearData, TeacherLabels
from mixling.runs.adjustments import Adjustments
from mixling.runs.data import read_out_of_scope
from mixling.runs.labeled_data import LabeledExamples, training_data
from mixling.runs.parts import Parts, Stage
from mixling.runs.pretrained import load_pretrained
from mixling.runs.refit import with_validation, without_unseen
from mixling.runs.replay import load_head, replayed_run
from mixling.runs.resolve.config import RunConfig
from mixling.runs.shared import Shared
from mixling.runs.validation import Outputs
from mixling.runtime.predictor import Predictor
from mixling.runtime.quick import ONNX_FILE
from mixling.storage import write_atomic
from mixling.tasks.base import Task
from mixling.text.encoder import TextEncoder, train_vocabulary
from mixling.text.vectors import WordVectors
from mixling.text.vocabulary import Vocabulary
from mixling.training.augmentation import NO_AUGMENTATION
from mixling.training.callbacks import Detail, Log
from mixling.training.config import TrainConfig
from mixling.training.dataset_adapter import LabeledData
from mixling.training.initialization import init_bottleneck
from mixling.training.memory import release
from mixling.training.state import restore_weights, weights_of

_VOCABULARY_BYTES = 8 << 20  # size of the text sample that a vocabulary is trained on
LEAST_WEIGHT = 0.1  # of a network's logits, for which a second training after cross-fitting is worth its time


class LabeledParts(Parts[Metrics]):
    """A model and the labeled examples or questions that it is trained on."""

    model: Model

    def __init__(self, examples: LabeledExamples, shared: Shared, stage: Stage) -> None:
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
        self.data, self.validation = training_data(examples, self.training, encoder, shared, stage.log)
        self.adjustments = Adjustments(task, self.validation, stage.log)
        self._outputs: Outputs | None = None  # of the calibrated model
        self._begun_with = None if config.init.pretrained is None else read_seen(config.init.pretrained)
        self._refitted = False  # whether the network is trained on the validation examples in the end
        self._log = stage.log
        self.model = _build(config, self.model_config, task, encoder, examples.vectors, stage.log)
        self._initial = {} if examples.folds is None else weights_of(self.model)
        learned = task.per_word and self.model_config.head.transitions
        smoothing = config.train.loss.label_smoothing if task.smooths and not learned else 0
        if smoothing and config.distill is None:
            line = f"losses during training include label smoothing of {smoothing:g}; the final log-loss does not"
            stage.log(Detail(line))

    def all_examples(self) -> LabeledData | None:
        if not self.config.refit and (self.examples.folds is None or not self.config.fits_validation):
            return None
        assert isinstance(self.data, LabeledData), "a configuration with refit has another task"
        return with_validation(self.data, self.examples.validation, self.examples.task)

    def refit_matters(self) -> bool:
        matters = self.config.refit or self.adjustments.network_weight > LEAST_WEIGHT
        if not matters:
            self._log(
                f"no refit: beside the n-gram branch, which is fitted on all examples, the network has a weight of "
                f"{self.adjustments.network_weight:.2g} (--refit trains it again in any case)"
            )
        self._refitted = matters
        return matters

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
        write_setup(
            folder, self.model_config, self.labels, self.vocabulary,
            task=self.config.task, precision=self.config.precision, pairs=self.pairs, reading=self.config.reading,
        )  # fmt: skip

    def save(self, folder: Path) -> dict[str, Any]:
        name, content = self.vocabulary.serialize()
        write_atomic(folder / name, content)
        saved = {"task": self.config.task, "model": self.model_config.to_dict(), "labels": self.labels.to_dict()}
        return {**saved, "vocabulary": name}

    def calibrate(self) -> None:
        self._outputs = self.adjustments.calibrate(self.model)

    def evaluate(
        self, folder: Path, best: dict[str, Any], log: Callable[[str], None]
    ) -> tuple[Metrics, dict[str, Any]]:
        float_outputs = self.validation.of_model(self.model) if self._outputs is None else self._outputs
        quantization, precision, outputs = None, self.config.precision, self._export(folder, self.config.precision)
        if precision == "int8":
            quantization = self.validation.compare_quantized(float_outputs, outputs)
            if (problem := quantization_problem(quantization)) is not None:
                log(f"{problem}; model.onnx holds float32 weights")
                precision, outputs = "float32", self._export(folder, "float32")
        outputs = self.adjustments.add_branch(folder / ONNX_FILE, outputs, self.config.ngrams, self._linear_data)
        self.adjustments.choose_threshold(
            folder / ONNX_FILE, outputs, wanted=self.config.abstain_at, outside=read_out_of_scope(self.config)
        )
        self.adjustments.choose_label_thresholds(folder / ONNX_FILE, outputs, self.config.label_thresholds)
        if self.examples.held_out is not None:
            assert self.config.conformal is not None
            self.adjustments.fit_sets(
                folder / ONNX_FILE, self.examples.held_out,
                coverage=self.config.conformal, method=self.config.conformal_method,
            )  # fmt: skip
        metrics = self.validation.metrics(outputs)
        self._write_seen(folder)
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
        out = {"training": len(train), "validation": len(self.examples.validation), "labels": labels}
        before = None if self._begun_with is None else count_seen(self._begun_with, self.examples.validation)
        return out | {"fitted_on_validation": self._fits_validation, "validation_seen_before": before}

    @property
    def _fits_validation(self) -> bool:
        """Whether the exported model is fitted on the validation examples, too."""
        return self._refitted or (self.adjustments.has_branch and self.config.fits_validation)

    def _write_seen(self, folder: Path) -> None:
        """Write the hashes of the rows that the model was fitted on, and of those of the model it began with."""
        parts = [self.examples.texts.text_hashes()]
        if self._fits_validation:
            parts.append(without_unseen(self.examples.validation, self.examples.task).text_hashes())
        write_seen(folder, parts if self._begun_with is None else [*parts, self._begun_with])

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
            teacher_labels=self._teacher_labels(),
            encoded=self._encoded_training_texts(),
            out_of_fold=None if examples.folds is None else self._out_of_fold(examples.folds),
            refit=self.config.fits_validation,
            time_budget=self.training.time_budget,
        )

    def _encoded_training_texts(self) -> TextSet | None:
        """Return the training texts as the network reads them, unless it reads others, too."""
        if isinstance(self.data, LabeledData) and self.data.train.dataset is self.examples.train:
            return self.data.train
        return None

    def _teacher_labels(self) -> TeacherLabels | None:
        """Return the unlabeled texts with the labels of the teacher, where each text has one label."""
        examples, distill = self.examples, self.config.distill
        if distill is None or not examples.task.has_classes:
            return None
        first = distill.copies * len(examples.train)
        texts = examples.texts.subset(np.arange(first, len(examples.texts))).texts
        return TeacherLabels.of_answers(texts, list(examples.targets[first:])) if len(texts) else None

    def _out_of_fold(self, folds: npt.NDArray[np.int64]) -> OutOfFold:
        examples, data = self.examples, self.all_examples() or self.data
        assert isinstance(data, LabeledData), "other tasks have no scores"
        known, texts = np.arange(len(folds)), list(examples.train.texts)
        if self.config.fits_validation:
            texts += examples.validation.texts
        if self.config.fits_validation and examples.task.has_labels:
            new = unseen(examples.validation, examples.task.labels.names)
            known = np.setdiff1d(known, new + len(examples.train))

        self._log(
            f"few examples: a network trained on each half of the {len(folds):,} answers for the other, to choose how "
            "much network and n-grams count; this takes as long as the training (--set ngrams.cross_fit=false omits it)"
        )

        def build() -> Model:
            model = copy.deepcopy(self.model)
            restore_weights(model, self._initial)
            return model

        def finish(model: Model) -> Predict:
            self.adjustments.calibrate(model)
            return Predictor(self._exported(model, self.config.precision)).text_logits

        return predict_out_of_fold(
            folds, data, known, texts, self.training,
            build=build,
            finish=finish,
        )  # fmt: skip

    def draw(self, folder: Path, metrics: Metrics) -> None:
        if isinstance(metrics, ClassificationMetrics):
            plot_confusion(metrics, folder / CONFUSION_FILE)

    def card(self, report: dict[str, Any]) -> str:
        used = {"model": self.model_config.to_dict(), "train": self.training.to_dict()}
        used |= {"init": self.config.initialization.to_dict(), "reading": report["reading"]}
        values = {**self.config.to_dict(), **used}
        return model_card(values, report, self.examples.task, folder_files=DESCRIPTIONS, pairs=self.pairs)


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
        if replayed_run(config.init, config.task) is not None:
            load_head(model, task.labels, config.init.pretrained)
    counted = f"{len(task.labels)} labels, " if task.has_labels else ""
    log(Detail(f"{counted}{len(encoder.vocabulary):,} subwords, {count_parameters(model):,} parameters"))
    if vectors is not None:
        fitted = init_bottleneck(model.embedding, encoder, vectors)
        known = f"the embeddings of {fitted.words:,} words reproduce {fitted.explained:.0%} of the variance"
        log(Detail(f"initialization: {known} of their vectors"))
    return model
