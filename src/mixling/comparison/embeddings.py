"""The baseline of a sentence encoder: the task's linear model on its embeddings."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.comparison.baselines import Baseline, BaselineKind, Linear
from mixling.data.examples import Target
from mixling.tasks.base import Task
from mixling.teachers.encoder import STRENGTHS, SentenceEncoder
from mixling.text.encoder import Text


class _Remembered:
    """The embeddings of an encoder, each text's computed once: choices are made on the same texts again and again."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder, self.parameters = encoder, encoder.parameters
        self._known: dict[Hashable, npt.NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[Text]) -> npt.NDArray[np.float32]:
        """Return the embeddings (n, E) of n texts, or (n, 4 E) of n pairs."""
        keys = [tuple(text) if isinstance(text, list) else text for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        self._known |= zip(new, self._encoder.embed(list(new.values())), strict=True)
        return np.stack([self._known[key] for key in keys])


class EmbeddingRegression(Baseline):
    """The task's linear model on sentence embeddings (R, E)."""

    def __init__(
        self,
        task: type[Task],
        encoder: _Remembered,
        embeddings: Any,
        targets: Sequence[Target],
        strength: float,
        seed: int,
    ) -> None:
        begin = time.perf_counter()
        self.options = {"C": strength}
        self._encoder = encoder
        model = task.fit_linear(embeddings, targets, strength=strength, seed=seed)
        self._answers = model.answers
        self._linear = Linear(model.models, embeddings.shape[1])
        self.parameters = encoder.parameters + self._linear.parameters
        self.seconds = time.perf_counter() - begin

    def predict(self, texts: Sequence[Text]) -> list[Target]:
        return self._answers(self._linear.scores(self._encoder.embed(texts)))

    def size(self) -> int:
        """Return the bytes of all weights in float32, without the tokenizer."""
        return 4 * self._encoder.parameters + self._linear.bytes


def embeddings(path: str, encoder: SentenceEncoder) -> BaselineKind:
    """Return the baseline of an encoder, named by its path."""

    remembered = _Remembered(encoder)

    def fit(
        task: type[Task],
        texts: Sequence[Text],
        targets: Sequence[Target],
        *,
        seed: int,
        only: Mapping[str, Any] | None = None,
    ) -> Iterator[EmbeddingRegression]:
        begin = time.perf_counter()
        embedded = remembered.embed(texts)
        seconds = time.perf_counter() - begin
        for strength in STRENGTHS if only is None else (only["C"],):
            baseline = EmbeddingRegression(task, remembered, embedded, targets, strength, seed)
            baseline.seconds += seconds
            yield baseline

    return BaselineKind(
        title=lambda task: f"encoder + {task.linear[0]}",
        about=lambda task: f"{task.linear[1]} on the sentence embeddings of {path}, which is not trained",
        fit=fit,
    )
