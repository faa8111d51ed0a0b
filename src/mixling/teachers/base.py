"""The interface of teachers, and teachers made of functions and of other teachers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mixling.answers.labels import LabelSet
from mixling.config import Config
from mixling.errors import DataError
from mixling.tasks.base import Task
from mixling.text.encoder import Text

Probabilities = npt.NDArray[np.floating] | None
"""Probabilities of a text, (C,), or of its words, (words, C); None without a prediction.

For token labels there may be fewer rows than words, and rows may be zero: these words have no prediction.
"""


class Teacher(ABC):
    """A model of probabilities over the labels of a task.

    Attributes:
        key: identifies everything that predictions depend on, so that they can be stored; None: they are not stored.
    """

    key: str | None = None

    @abstractmethod
    def predict(self, texts: Sequence[Text], task: Task) -> list[Probabilities]:
        """Return the probabilities of each text, in the order of `task.labels`.

        Raises:
            DataError: a prediction is not valid, or the teacher does not know a label.
        """


class FunctionTeacher(Teacher):
    """A function from texts to predictions.

    A prediction is an array of probabilities in the order of `names`, or a mapping from labels to probabilities, where
    missing labels have 0. For token labels it is one row, or one mapping, per word.

    Args:
        function: takes a list of texts, and returns a list of predictions.
        names: the labels in the order of the arrays; by default the order of the task's `LabelSet`.
        key: see `Teacher`.
    """

    def __init__(
        self,
        function: Callable[[Sequence[Text]], Any],
        *,
        names: Sequence[str] | None = None,
        key: str | None = None,
    ) -> None:
        self.function = function
        self.names = names
        self.key = key

    def predict(self, texts: Sequence[Text], task: Task) -> list[Probabilities]:
        names = tuple(self.names) if self.names is not None else task.labels.names
        columns = label_columns(names, task.labels, "the teacher")
        predictions = self.function(texts)
        if predictions is None or not hasattr(predictions, "__len__"):
            raise DataError(f"the teacher returned {predictions!r}; a list with a prediction for each text is needed")
        if len(predictions) != len(texts):
            raise DataError(f"the teacher returned {len(predictions)} predictions for {len(texts)} texts")
        return [
            parse_prediction(item, task, columns, f"the teacher's prediction for text {i}")
            for i, item in enumerate(predictions)
        ]


class EnsembleTeacher(Teacher):
    """The mean of several teachers' probabilities; no prediction of a text or word if one of them has none."""

    def __init__(self, members: Sequence[Teacher]) -> None:
        self.members = members
        keys = [member.key for member in members]
        self.key = None if None in keys else " ".join(map(str, keys))

    def predict(self, texts: Sequence[Text], task: Task) -> list[Probabilities]:
        predictions = zip(*(member.predict(texts, task) for member in self.members), strict=True)
        return [_mean([item for item in found if item is not None], len(self.members)) for found in predictions]


def _mean(predictions: Sequence[npt.NDArray[np.floating]], members: int) -> Probabilities:
    """Return the mean of all members' predictions; zero for words without a prediction of each of them."""
    if len(predictions) < members:
        return None
    if predictions[0].ndim == 1:
        mean: Probabilities = np.mean(np.stack(predictions), axis=0, dtype=np.float32)
        return mean
    read = min(map(len, predictions))
    stacked = np.stack([item[:read] for item in predictions])
    predicted = (stacked > 0).any(-1, keepdims=True).all(0)
    return np.where(predicted, stacked.mean(0, dtype=np.float32), np.float32(0))


def label_columns(names: Sequence[str], labels: LabelSet, who: str) -> npt.NDArray[np.int64]:
    """Return the index among a teacher's names of each label of the task.

    Args:
        who: the teacher, for error messages.

    Raises:
        DataError: the names are not the task's.
    """
    if set(names) != set(labels.names):
        missing, extra = (sorted(set(a) - set(b)) for a, b in ((labels.names, names), (names, labels.names)))
        problems = [f"it does not have {_some(missing)}"] if missing else []
        problems += [f"it has {_some(extra)}, which no training row has"] if extra else []
        raise DataError(f"{who} has other labels than the training rows: {', and '.join(problems)}")
    indices = {name: index for index, name in enumerate(names)}
    return np.array([indices[name] for name in labels.names])


def parse_prediction(item: Any, task: Task, columns: npt.NDArray[np.int64] | None, where: str) -> Probabilities:
    """Convert and check a prediction.

    Args:
        item: an array or mapping, see `FunctionTeacher`.
        columns: the index of each label of the task in an array; None: the order is the task's.
        where: what the prediction is for, for error messages.

    Raises:
        DataError: it does not consist of probabilities.
    """
    if item is None:
        return None
    labels = task.labels
    words = task.per_word
    allowed = "allowed: probabilities from 0 to 1, with sum 1 if a text has one label"
    try:
        if isinstance(item, Mapping):
            values = _from_mapping(item, labels, where)
        elif words and len(item) and isinstance(item[0], Mapping):
            values = np.stack([_from_mapping(word, labels, where) for word in item])
        else:
            values = np.asarray(item, np.float32)
            if values.ndim and values.shape[-1] == len(labels) and columns is not None:
                values = values[..., columns]
    except (TypeError, ValueError):  # not numbers, or rows of different lengths
        raise DataError(f"{where} is {str(item)[:80]!r}; {allowed}") from None
    if values.ndim != 1 + words or values.shape[-1] != len(labels):
        wanted = f"({'words, ' if words else ''}{len(labels)})"
        raise DataError(f"{where} has the shape {values.shape}; {wanted} is needed")
    sums = values.sum(-1) if task.exclusive else np.ones(1)
    sums = np.where(sums == 0, 1, sums) if words else sums  # words without a prediction
    in_range = np.isfinite(values).all() and values.min(initial=0) >= 0 and values.max(initial=0) <= 1.01
    if not in_range or np.abs(sums - 1).max(initial=0) > 0.01:
        raise DataError(f"{where} is {str(item)[:80]!r}; {allowed}")
    return np.ascontiguousarray(values, np.float32)


def _from_mapping(item: Mapping[str, Any], labels: LabelSet, where: str) -> npt.NDArray[np.float32]:
    if extra := sorted(set(map(str, item)) - set(labels.names)):
        raise DataError(f"{where} has the label {_some(extra)}, which no training row has")
    values = {str(name): value for name, value in item.items()}
    return np.array([values.get(name, 0.0) or 0.0 for name in labels.names], np.float32)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:3]))
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


class FineTuneConfig(Config):
    """AdamW with warm-up and linear decay: BERT's defaults (Devlin et al. 2019, appendix A.3)."""

    epochs: int = Field(default=3, ge=1, description="passes over the labeled examples")
    lr: float = Field(default=5e-5, gt=0, description="peak learning rate")
    batch_size: int = Field(default=32, ge=1, description="examples per step")
    max_len: int = Field(default=128, ge=8, description="maximum number of subwords of a text")


def is_transformer(path: str) -> bool:
    """Return whether a path is a folder of the transformers library, or may be a name on the hub."""
    folder = Path(path)
    if folder.is_dir():
        return (folder / "tokenizer_config.json").exists() or (folder / "tokenizer.json").exists()
    return path.startswith("hf:")
