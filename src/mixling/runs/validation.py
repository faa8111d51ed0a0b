"""Exporting a trained model, and comparing it with the float model on the validation examples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixling.data.dataset import Dataset
from mixling.export.quantize import quantization_problem
from mixling.metrics.base import Metrics
from mixling.metrics.quantization import QuantizationCheck
from mixling.networks.network import TextNetwork
from mixling.runtime.onnx.session import Precision
from mixling.runtime.predictor import Predictor
from mixling.tasks.base import Task
from mixling.text.windows import ReadingConfig
from mixling.threads import num_threads
from mixling.training.callbacks import Log
from mixling.training.dataset_adapter import LabeledData, predict_logits
from mixling.training.memory import release
from mixling.training.questions import QuestionData

Outputs = Sequence[Any]
Export = Callable[..., bytes]  # takes a model, `precision` and `reading`, as `mixling.export.onnx.export_onnx`


class Validation(ABC):
    """Validation examples; subclasses define the outputs of models, one item for each example.

    Attributes:
        reading: how questions are answered, as determined by `of_model`; None for other tasks.
        targets: the targets, as the task's metrics take them.
        what: the examples, for messages.
        networks: those that have outputs beside, or instead of, the exported model.
    """

    what = "validation"
    reading: ReadingConfig | None = None
    networks: Sequence[TextNetwork] = ()

    def __init__(self, task: Task, targets: Any) -> None:
        self.task = task
        self.targets = targets

    @abstractmethod
    def of_model(self, model: TextNetwork) -> Outputs:
        """Return the outputs of the float model."""

    @abstractmethod
    def of_file(self, predictor: Predictor) -> Outputs:
        """Return the outputs of a saved model."""

    def compare_quantized(self, before: Outputs, after: Outputs) -> QuantizationCheck:
        """Compare a saved model's outputs with the float model's."""
        return self.task.compare_quantized(before, after, self.targets)

    def metrics(self, outputs: Outputs) -> Metrics:
        """Return the metrics of a model's outputs."""
        return self.task.evaluate(outputs, self.targets)


class LabeledValidation(Validation):
    """Labeled texts; the outputs are logits."""

    def __init__(self, data: LabeledData, validation: Dataset) -> None:
        super().__init__(data.validation_task, data.validation_targets)
        self._data = data
        self._validation = validation

    def of_model(self, model: TextNetwork) -> Outputs:
        return self._data.validation_logits(model)

    def of_file(self, predictor: Predictor) -> Outputs:
        return predictor.text_logits(self._validation.texts)


class QuestionValidation(Validation):
    """Questions; the outputs are answers as text, empty for no answer."""

    def __init__(self, data: QuestionData) -> None:
        self._data = data
        self._questions = data.validation.questions
        super().__init__(data.objective, list(self._questions.answers))

    def of_model(self, model: TextNetwork) -> Outputs:
        """Return the answers of the float model, after choosing the threshold that saved models use."""
        found = self._data.validation.find(predict_logits(model, self._data.validation))
        self.reading = self._data.resolved(found)
        return self._data.validation.answers(found, self.reading.threshold)

    def of_file(self, predictor: Predictor) -> Outputs:
        return [item.answer.text for item in predictor.predict_stream(self._questions.texts) if item.answer is not None]


@dataclass(frozen=True, kw_only=True)
class ExportedNetwork:
    """A calibrated network as the content of an ONNX file.

    Attributes:
        outputs: of the file, for the validation examples.
        quantization: what 8-bit weights cost; None: the weights were wanted in float32.
    """

    content: bytes
    outputs: Outputs
    precision: Precision
    quantization: QuantizationCheck | None

    @classmethod
    def unread(cls, content: bytes, validation: Validation, precision: Precision) -> ExportedNetwork:
        """Return a network that was not trained, beside which the n-gram branch is alone: its logits are 0."""
        outputs = np.zeros((len(validation.targets), len(validation.task.labels) - validation.task.unseen), np.float32)
        return cls(content=content, outputs=list(outputs), precision=precision, quantization=None)


def export_network(
    model: TextNetwork,
    validation: Validation,
    export: Export,
    precision: Precision,
    log: Log,
    *,
    float_outputs: Outputs | None = None,
) -> ExportedNetwork:
    """Export a calibrated model, in float32 if 8-bit weights cost too much.

    Args:
        float_outputs: the model's outputs for the validation examples; None: they are computed.
    """
    before = validation.of_model(model) if float_outputs is None else float_outputs

    def exported(precision: Precision) -> tuple[bytes, Outputs]:
        content = export(model, precision=precision, reading=validation.reading)
        outputs = validation.of_file(Predictor(content, num_threads=num_threads()))
        release()  # what the predictor had
        return content, outputs

    content, outputs = exported(precision)
    quantization = None
    if precision == "int8":
        quantization = validation.compare_quantized(before, outputs)
        if (problem := quantization_problem(quantization)) is not None:
            log(f"{problem}; model.onnx holds float32 weights")
            precision = "float32"
            content, outputs = exported(precision)
    return ExportedNetwork(content=content, outputs=outputs, precision=precision, quantization=quantization)
