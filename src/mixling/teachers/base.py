"""A teacher: whatever gives texts probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.errors import DataError
from mixling.tasks.base import Task
from mixling.text.encoder import Text
from mixling.text.labels import LabelSet

Answer = npt.NDArray[np.floating] | None
"""Probabilities of a text, (C,), or of its words, (W, C); None where the teacher has none.

Of a tagger W may be less than the text's words, and a row may be zeros: of these words the teacher says nothing.
"""


class Teacher(ABC):
    """Gives texts probabilities over the labels of a task.

    Attributes:
        key: names all that the answers depend on, so that they can be kept; None: they are asked for each time.
    """

    key: str | None = None

    @abstractmethod
    def answers(self, texts: Sequence[Text], task: Task) -> list[Answer]:
        """Return the probabilities of each text, in the order of `task.labels`.

        Raises:
            DataError: an answer that is none, or a label that the teacher does not know.
        """


class FunctionTeacher(Teacher):
    """A function from texts to their answers.

    An answer is an array of probabilities in the order of `names`, or a mapping of labels to probabilities, in which a
    label that is lacking has 0; of a tagger one row, or one mapping, a word.

    Args:
        names: the labels in the order of the arrays; by default that of the task's `LabelSet`.
    """

    def __init__(
        self,
        function: Callable[[Sequence[Text]], Any],
        *,
        names: Sequence[str] | None = None,
        key: str | None = None,
    ) -> None:
        self.function, self.names, self.key = function, names, key

    def answers(self, texts: Sequence[Text], task: Task) -> list[Answer]:
        names = tuple(self.names) if self.names is not None else task.labels.names
        columns = columns_of(names, task.labels, "the teacher")
        given = self.function(texts)
        if given is None or not hasattr(given, "__len__"):
            raise DataError(f"the teacher gave {given!r}; a list of answers, one for each text, is needed")
        found = list(given)
        if len(found) != len(texts):
            raise DataError(f"the teacher gave {len(found)} answers to {len(texts)} texts")
        return [read_answer(item, task, columns, f"the teacher's answer to text {i}") for i, item in enumerate(found)]


class EnsembleTeacher(Teacher):
    """The mean of several teachers' probabilities; none where one of them has none."""

    def __init__(self, members: Sequence[Teacher]) -> None:
        self.members = members
        keys = [member.key for member in members]
        self.key = None if None in keys else " ".join(map(str, keys))

    def answers(self, texts: Sequence[Text], task: Task) -> list[Answer]:
        found = [member.answers(texts, task) for member in self.members]
        return [
            _mean([item for item in each if item is not None], len(self.members)) for each in zip(*found, strict=True)
        ]


def _mean(answers: Sequence[npt.NDArray[np.floating]], wanted: int) -> Answer:
    return None if len(answers) < wanted else np.mean(answers, axis=0, dtype=np.float32)


def columns_of(names: Sequence[str], labels: LabelSet, who: str) -> npt.NDArray[np.int64]:
    """Of each label of the task the place among a teacher's names.

    Raises:
        DataError: the names are not those of the task.
    """
    if set(names) != set(labels.names):
        lacking, extra = (sorted(set(a) - set(b)) for a, b in ((labels.names, names), (names, labels.names)))
        reported = [f"it lacks {_some(lacking)}"] if lacking else []
        reported += [f"it has {_some(extra)}, which no training row has"] if extra else []
        raise DataError(f"{who} has other labels than the training rows: {', and '.join(reported)}")
    locations = {name: location for location, name in enumerate(names)}
    return np.array([locations[name] for name in labels.names])


def read_answer(item: Any, task: Task, columns: npt.NDArray[np.int64] | None, where: str) -> Answer:
    """One answer, checked.

    Args:
        columns: of each label of the task the place in an array; None: that of the task.

    Raises:
        DataError: it is no set of probabilities.
    """
    if item is None:
        return None
    labels, words = task.labels, task.per_word
    allowed = "probabilities from 0 to 1 are allowed, of sum 1 for one label"
    try:
        if isinstance(item, Mapping):
            values = _from_mapping(item, labels, where)
        elif words and len(item) and isinstance(item[0], Mapping):
            values = np.stack([_from_mapping(word, labels, where) for word in item])
        else:
            values = np.asarray(item, np.float32)
            if values.ndim and values.shape[-1] == len(labels) and columns is not None:
                values = values[..., columns]
    except (TypeError, ValueError):  # no numbers, or rows of several lengths
        raise DataError(f"{where} is {str(item)[:80]!r}; {allowed}") from None
    if values.ndim != 1 + words or values.shape[-1] != len(labels):
        wanted = f"({'words, ' if words else ''}{len(labels)})"
        raise DataError(f"{where} has the shape {values.shape}; {wanted} is needed")
    sums = values.sum(-1) if task.exclusive else np.ones(1)
    sums = np.where(sums == 0, 1, sums) if words else sums  # nothing is said of the word
    in_range = np.isfinite(values).all() and values.min(initial=0) >= 0 and values.max(initial=0) <= 1.01
    if not in_range or np.abs(sums - 1).max(initial=0) > 0.01:
        raise DataError(f"{where} is {str(item)[:80]!r}; {allowed}")
    return np.ascontiguousarray(values, np.float32)


def _from_mapping(item: Mapping[str, Any], labels: LabelSet, where: str) -> npt.NDArray[np.float32]:
    if extra := sorted(set(map(str, item)) - set(labels.names)):
        raise DataError(f"{where} speaks of {_some(extra)}, which no training row has")
    given = {str(name): value for name, value in item.items()}
    return np.array([given.get(name, 0.0) or 0.0 for name in labels.names], np.float32)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:3]))
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
