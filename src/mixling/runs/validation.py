"""Evaluating the float and the exported model on the validation examples, and comparing them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from mixling.data.dataset import Dataset
from mixling.metrics.base import Metrics
from mixling.metrics.quantization import QuantizationCheck
from mixling.models.model import Model
from mixling.runtime.predictor import Predictor
from mixling.tasks.base import Task
from mixling.text.windows import ReadingConfig
from mixling.training.dataset_adapter import LabeledData, predict_logits
from mixling.training.questions import QuestionData

Outputs = Sequence[Any]


class Validation(ABC):
    """Validation examples; subclasses define the outputs of models, one item for each example.

    Attributes:
        reading: how questions are answered, as determined by `of_model`; None for other tasks.
        targets: the targets, as the task's metrics take them.
    """

    reading: ReadingConfig | None = None

    def __init__(self, task: Task, targets: Any) -> None:
        self.task, self.targets = task, targets

    @abstractmethod
    def of_model(self, model: Model) -> Outputs:
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
        self._data, self._validation = data, validation

    def of_model(self, model: Model) -> Outputs:
        return self._data.validation_logits(model)

    def of_file(self, predictor: Predictor) -> Outputs:
        return predictor.text_logits(self._validation.texts)


class QuestionValidation(Validation):
    """Questions; the outputs are answers as text, empty for no answer."""

    def __init__(self, data: QuestionData) -> None:
        self._data, self._questions = data, data.validation.questions
        super().__init__(data.objective, list(self._questions.answers))

    def of_model(self, model: Model) -> Outputs:
        """Return the answers of the float model, after choosing the threshold that saved models use."""
        found = self._data.validation.find(predict_logits(model, self._data.validation))
        self.reading = self._data.resolved(found)
        return self._data.validation.answers(found, self.reading.threshold)

    def of_file(self, predictor: Predictor) -> Outputs:
        return [item.answer.text for item in predictor.predict_stream(self._questions.texts) if item.answer is not None]
