"""Validation texts above a model's maximum, read to the end in windows, as predictors read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float32
from mixling.data.batches import Indices, TextSet
from mixling.data.dataset import Dataset
from mixling.data.examples import Example
from mixling.tasks.base import Task
from mixling.text.long_texts import TextWindow, text_windows

_TOGETHER = 4096  # texts that are encoded at a time


@dataclass(frozen=True, slots=True)
class LongTexts:
    """The windows of the texts that are longer than a model's maximum.

    Attributes:
        owners: (L,) the indices of these texts, ascending.
        ends: (L,) the first window that is not of each text.
        windows: all windows, text after text.
        kept: where words have answers, the words (first, end) of each window whose answers are used.
    """

    owners: Indices
    ends: Indices
    windows: TextSet | None
    kept: list[slice]

    def complete(
        self,
        logits: list[Float32],
        chosen: Indices | None,
        task: Task,
        run: Callable[[TextSet, Indices], list[Float32]],
    ) -> list[Float32]:
        """Return the logits of texts, with long texts' logits computed from their windows.

        Args:
            logits: of the texts with the indices `chosen`, up to the maximum; None: of all.
            run: computes the logits of windows.
        """
        if self.windows is None:
            return logits
        at = range(len(logits)) if chosen is None else chosen.tolist()
        index_of = {index: number for number, index in enumerate(at)}
        wanted = [number for number, owner in enumerate(self.owners.tolist()) if owner in index_of]
        begins = np.concatenate([[0], self.ends[:-1]])
        ranges = [np.arange(begins[number], self.ends[number]) for number in wanted]
        if not ranges:
            return logits
        found = iter(run(self.windows, np.concatenate(ranges)))
        out = list(logits)
        for number, windows in zip(wanted, ranges, strict=True):
            values = [next(found) for _ in windows]
            if task.per_word:
                parts = [value[self.kept[window]] for window, value in zip(windows.tolist(), values, strict=True)]
                pooled: npt.NDArray[Any] = np.concatenate(parts)
            else:
                pooled = task.pool_windows(np.stack(values))
            out[index_of[int(self.owners[number])]] = pooled.astype(np.float32)
        return out


def find_long_texts(texts: TextSet, task: Task) -> LongTexts:
    """Return the windows of the texts that are longer than their encoder reads at a time."""
    encoder = texts.encoder
    dataset = texts.dataset
    owners: list[int] = []
    ends: list[int] = []
    found: list[TextWindow] = []
    for first in range(0, len(texts), _TOGETHER):
        numbers = range(first, min(first + _TOGETHER, len(texts)))
        for number, item in zip(numbers, texts.encode(numbers), strict=True):
            if not item.truncated:
                continue
            windows = text_windows(dataset.texts[number], encoder.config, encoder.vocabulary, per_word=task.per_word)[0]
            if len(windows) > 1:  # otherwise a word is too long, not the text
                found += windows
                owners.append(number)
                ends.append(len(found))
    if not found:
        return LongTexts(np.zeros(0, np.int64), np.zeros(0, np.int64), None, [])
    examples = (Example(window.text, None, "windows", number) for number, window in enumerate(found, 1))
    windows_set = TextSet(
        Dataset.from_examples(examples, texts=dataset.schema.texts), encoder, keep=not dataset.spooled
    )
    kept = _kept_words(windows_set, found) if task.per_word else []
    return LongTexts(np.array(owners), np.array(ends), windows_set, kept)


def _kept_words(texts: TextSet, windows: Sequence[TextWindow]) -> list[slice]:
    out = []
    for item, window in zip(texts.encode(range(len(texts)), offsets=True), windows, strict=True):
        assert item.offsets is not None
        begins = [start + window.offset for start, _ in item.offsets]
        inside = [index for index, begin in enumerate(begins) if window.first <= begin < window.end]
        out.append(slice(inside[0], inside[-1] + 1) if inside else slice(0))
    return out
