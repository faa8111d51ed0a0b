"""What a model says of validation: the float one, the exported one, how they compare, and the measures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.data.dataset import Dataset
from mixling.metrics.base import Metrics
from mixling.metrics.quantization import QuantizationCheck
from mixling.models.model import Model
from mixling.runtime.predictor import Predictor
from mixling.tasks.base import Task
from mixling.text.windows import ReadingConfig
from mixling.training.dataset_adapter import LabeledData, predict_logits
from mixling.training.questions import QuestionData

_WINDOW = 1024  # examples that a saved model is asked about at a time

Outputs = Sequence[Any]


class Validation(ABC):
    """The validation examples, on which models are asked; what they say, one item an example, is the subclass's
    business.

    reading: how questions are answered, which `of_model` may determine. targets: what is right, as the task scores it.
    """

    reading: ReadingConfig | None = None

    def __init__(self, task: Task, targets: Any) -> None:
        self.task, self.targets = task, targets

    @abstractmethod
    def of_model(self, model: Model) -> Outputs:
        """What the float model says."""

    @abstractmethod
    def of_file(self, predictor: Predictor) -> Outputs:
        """What a saved model says."""

    def quantization(self, before: Outputs, after: Outputs) -> QuantizationCheck:
        """Return how a saved model compares with the float one."""
        return self.task.quantization(before, after, self.targets)

    def metrics(self, outputs: Outputs) -> Metrics:
        """Return the measures."""
        return self.task.evaluate(outputs, self.targets)


class LabeledValidation(Validation):
    """Texts with labels; models say logits."""

    def __init__(self, data: LabeledData, validation: Dataset) -> None:
        super().__init__(data.objective, data.validation_targets)
        self._data, self._validation = data, validation

    def of_model(self, model: Model) -> Outputs:
        return predict_logits(model, self._data.validation)

    def of_file(self, predictor: Predictor) -> Outputs:
        out: list[npt.NDArray[np.float32]] = []
        for first in range(0, len(self._validation), _WINDOW):
            out += predictor.logits(predictor.encoder.encode(self._validation.texts[first : first + _WINDOW]))
        return out


class QuestionValidation(Validation):
    """Questions; models say answers as text, empty for none."""

    def __init__(self, data: QuestionData) -> None:
        self._data, self._questions = data, data.validation.questions
        super().__init__(data.objective, list(self._questions.answers))

    def of_model(self, model: Model) -> Outputs:
        """Settles the threshold, with which a saved model then answers."""
        found = self._data.validation.find(predict_logits(model, self._data.validation))
        self.reading = self._data.resolved(found)
        return self._data.validation.reported(found, self.reading.threshold)

    def of_file(self, predictor: Predictor) -> Outputs:
        return [item.answer.text for item in predictor.predict_stream(self._questions.texts) if item.answer is not None]
