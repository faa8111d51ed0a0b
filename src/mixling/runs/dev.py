"""What a model says of dev: the float one, the exported one, how they compare, and the measures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.data.dataset import Dataset
from mixling.metrics.base import Metrics
from mixling.metrics.gate import Gate
from mixling.models.model import Model
from mixling.runtime.predictor import Predictor
from mixling.tasks.base import Task
from mixling.text.windows import ReadingConfig
from mixling.training.dataset_adapter import LabelledData, predict_logits
from mixling.training.questions import QuestionData

_WINDOW = 1024  # examples that a saved model is asked about at a time

Said = Sequence[Any]


class Dev(ABC):
    """The dev examples, on which models are asked; what they say, one item an example, is the subclass's business.

    reading: how questions are answered, which `of_model` may settle. targets: what is right, as the task scores it.
    """

    reading: ReadingConfig | None = None

    def __init__(self, task: Task, targets: Any) -> None:
        self.task, self.targets = task, targets

    @abstractmethod
    def of_model(self, model: Model) -> Said:
        """What the float model says."""

    @abstractmethod
    def of_file(self, predictor: Predictor) -> Said:
        """What a saved model says."""

    def gate(self, before: Said, after: Said) -> Gate:
        """Return how a saved model compares with the float one."""
        return self.task.gate(before, after, self.targets)

    def metrics(self, said: Said) -> Metrics:
        """Return the measures."""
        return self.task.evaluate(said, self.targets)


class LabelledDev(Dev):
    """Texts with labels; models say logits."""

    def __init__(self, data: LabelledData, dev: Dataset) -> None:
        super().__init__(data.dev_task, data.dev_targets)
        self._data, self._dev = data, dev

    def of_model(self, model: Model) -> Said:
        return predict_logits(model, self._data.dev)

    def of_file(self, predictor: Predictor) -> Said:
        out: list[npt.NDArray[np.float32]] = []
        for first in range(0, len(self._dev), _WINDOW):
            out += predictor.logits(predictor.encoder.encode(self._dev.texts[first : first + _WINDOW]))
        return out


class QuestionDev(Dev):
    """Questions; models say answers as text, empty for none."""

    def __init__(self, data: QuestionData) -> None:
        self._data, self._questions = data, data.dev.questions
        super().__init__(data.objective, list(self._questions.answers))

    def of_model(self, model: Model) -> Said:
        """Settles the threshold, with which a saved model then answers."""
        found = self._data.dev.find(predict_logits(model, self._data.dev))
        self.reading = self._data.settled(found)
        return self._data.dev.told(found, self.reading.threshold)

    def of_file(self, predictor: Predictor) -> Said:
        return [item.answer.text for item in predictor.predict_stream(self._questions.texts) if item.answer is not None]
