"""What a model says of dev: the float one, the exported one, how they compare, and the measures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.data.dataset import Dataset
from mixling.export.quantize import Gate, gate_of, measure_gate
from mixling.models.model import Model
from mixling.runtime.predictor import Predictor
from mixling.tasks.evaluation import evaluate
from mixling.tasks.metrics import Metrics
from mixling.tasks.squad import answer_report, score_answer
from mixling.text.labels import LabelSet
from mixling.text.windows import ReadingConfig
from mixling.training.dataset_adapter import LabelledData, predict_logits
from mixling.training.questions import QuestionData

_WINDOW = 1024  # examples that a saved model is asked about at a time

Said = Sequence[Any]


class Dev(ABC):
    """The dev examples, on which models are asked; what they say, one item an example, is the subclass's business.

    reading: how questions are answered, which `of_model` may settle.
    """

    reading: ReadingConfig | None = None

    @abstractmethod
    def of_model(self, model: Model) -> Said:
        """What the float model says."""

    @abstractmethod
    def of_file(self, predictor: Predictor) -> Said:
        """What a saved model says."""

    @abstractmethod
    def gate(self, before: Said, after: Said) -> Gate:
        """How a saved model compares with the float one."""

    @abstractmethod
    def metrics(self, said: Said) -> Metrics:
        """The measures."""


class LabelledDev(Dev):
    """Texts with labels; models say logits."""

    def __init__(self, data: LabelledData, dev: Dataset) -> None:
        self._data, self._dev = data, dev

    @property
    def _labels(self) -> LabelSet:
        return self._data.objective.labels

    def of_model(self, model: Model) -> Said:
        return predict_logits(model, self._data.dev)

    def of_file(self, predictor: Predictor) -> Said:
        out: list[npt.NDArray[np.float32]] = []
        for first in range(0, len(self._dev), _WINDOW):
            out += predictor.logits(predictor.encoder.encode(self._dev.texts[first : first + _WINDOW]))
        return out

    def gate(self, before: Said, after: Said) -> Gate:
        """Of a tagger over all words that have logits."""
        targets, kind = self._data.dev_targets, self._labels.kind
        if kind == "iob":
            gold = np.concatenate([np.asarray(tags)[: len(row)] for tags, row in zip(targets, before, strict=True)])
            lengths = [len(row) for row in before]
            return measure_gate(np.concatenate(before), np.concatenate(after), gold, kind=kind, lengths=lengths)
        return measure_gate(np.stack(before), np.stack(after), np.asarray(targets), kind=kind)

    def metrics(self, said: Said) -> Metrics:
        return evaluate(self._labels, said, self._data.dev_targets)


class QuestionDev(Dev):
    """Questions; models say answers as text, empty for none."""

    def __init__(self, data: QuestionData) -> None:
        self._data, self._questions = data, data.dev.questions

    def of_model(self, model: Model) -> Said:
        """Settles the threshold, with which a saved model then answers."""
        found = self._data.dev.find(predict_logits(model, self._data.dev))
        self.reading = self._data.settled(found)
        return self._data.dev.told(found, self.reading.threshold)

    def of_file(self, predictor: Predictor) -> Said:
        return [item.answer.text for item in predictor.predict_stream(self._questions.texts) if item.answer is not None]

    def gate(self, before: Said, after: Said) -> Gate:
        """Agreement is of whole answers, accuracy is exact match."""
        changed = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        lost = np.array([self._exact(i, before[i]) - self._exact(i, after[i]) for i in changed], np.int64)
        return gate_of(lost, changed=len(changed), decisions=len(before))

    def metrics(self, said: Said) -> Metrics:
        return answer_report(said, list(self._questions.answers))

    def _exact(self, index: int, text: str) -> int:
        return int(score_answer(text, self._questions.answers[index])[0])
