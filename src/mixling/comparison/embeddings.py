"""The baseline of a sentence encoder: the task's linear model on its embeddings."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mixling.comparison.baselines import BaselineKind, LinearBaseline
from mixling.data.examples import Target
from mixling.tasks.base import Task
from mixling.text.encoder import Text

if TYPE_CHECKING:
    from mixling.teachers.encoder import SentenceEncoder


class _Remembered:
    """The embeddings of an encoder, each text's computed once: choices are made on the same texts again and again."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder = encoder
        self.parameters = encoder.parameters
        self._known: dict[Hashable, npt.NDArray[np.float32]] = {}

    def transform(self, texts: Sequence[Text]) -> npt.NDArray[np.float32]:
        """Return the embeddings (n, E) of n texts, or (n, 4 E) of n pairs."""
        keys = [tuple(text) if isinstance(text, list) else text for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        self._known |= zip(new, self._encoder.embed(list(new.values())), strict=True)
        return np.stack([self._known[key] for key in keys])

    def size(self) -> int:
        """Return the bytes of all weights in float32, without the tokenizer."""
        return 4 * self.parameters


def embeddings(path: str, encoder: SentenceEncoder) -> BaselineKind:
    """Return the baseline of an encoder, named by its path."""
    from mixling.teachers.encoder import STRENGTHS

    remembered = _Remembered(encoder)

    def fit(
        task: type[Task],
        texts: Sequence[Text],
        targets: Sequence[Target],
        *,
        seed: int,
        only: Sequence[Mapping[str, Any]] = (),
    ) -> Iterator[LinearBaseline]:
        begin = time.perf_counter()
        embedded = remembered.transform(texts)
        seconds = time.perf_counter() - begin
        for strength in [choice["C"] for choice in only] or STRENGTHS:
            baseline = LinearBaseline(task, remembered, embedded, targets, {"C": strength})
            baseline.seconds += seconds
            yield baseline

    return BaselineKind(
        title=lambda task: f"encoder + {task.linear[0]}",
        about=lambda task: f"{task.linear[1]} on the sentence embeddings of {path}, which is not trained",
        fit=fit,
    )
