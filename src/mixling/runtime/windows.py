"""Read texts that are longer than a model's maximum: in windows, up to the maximum, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mixling.errors import ConfigError, DataError, near_miss
from mixling.features.cells import cells_of, with_cells

if TYPE_CHECKING:
    from mixling.answers.predictions import Read
    from mixling.arrays import Float32
    from mixling.tasks.base import Task
    from mixling.text.encoder import Text, TextEncoder
    from mixling.text.long_texts import TextWindow, TextWindows

TOO_LONG = ("windows", "truncate", "error")
_TOGETHER = 256  # windows in memory at a time

_Run = Callable[[list["Text"]], tuple[Sequence[Any], Sequence["Float32"]]]
"""Returns what was read of texts, and their logits."""


class ReadInWindows(NamedTuple):
    """What decoding asks of a text that was read in windows; `offsets` as of `Encoded`."""

    truncated: bool
    is_empty: bool
    offsets: list[tuple[int, int]] | None


class TooLong(DataError):
    """A text that is longer than the model reads at a time, and is not read in windows.

    Attributes:
        number: its index among the texts.
    """

    def __init__(self, number: int, max_len: int) -> None:
        super().__init__(f"item {number} {too_long_for(max_len)}; with too_long='windows', it is read in parts")
        self.number = number
        self.max_len = max_len


def check_too_long(value: str) -> None:
    """Raise a ConfigError unless a value is one of `TOO_LONG`."""
    if value not in TOO_LONG:
        raise ConfigError(f"too_long: got {value!r}; {near_miss(value, TOO_LONG)}")


def refuse_long(read: Read, number: int, max_len: int) -> None:
    """Raise a TooLong if a text was not read completely; `number` is its index among the texts."""
    if read.truncated:
        raise TooLong(number, max_len)


def too_long_for(max_len: int) -> str:
    """Return the warning about a text that was not read completely."""
    return f"is longer than the model reads at a time, {max_len:,} words or subwords (or one of its words is too long)"


def read_in_windows(
    texts: Sequence[Text],
    read: Sequence[Read],
    logits: Sequence[Float32],
    *,
    encoder: TextEncoder,
    task: Task,
    run: _Run,
) -> tuple[list[Any], list[Float32]]:
    """Return what was read of texts, and their logits, with those that were truncated read to the end.

    Logits of windows are pooled by the task, or, for words, taken from the window in which a word has most context.

    Args:
        read, logits: of the texts up to the model's maximum.
        run: computes the same for windows, with offsets if answers are for words.
    """
    from mixling.text.long_texts import text_windows

    out_read = list(read)
    out_logits = list(logits)
    waiting: list[tuple[int, TextWindows]] = []

    def finish() -> None:
        found_read: list[Any] = []
        found_logits: list[Float32] = []
        parts_of = [with_cells(window.text, cells_of(texts[index])) for index, (part, _) in waiting for window in part]
        for first in range(0, len(parts_of), _TOGETHER):
            found = run(parts_of[first : first + _TOGETHER])
            found_read.extend(found[0])
            found_logits.extend(found[1])  # `+=` would add the numbers of an array
        end = 0
        for index, (windows, cut) in waiting:
            first = end
            end = end + len(windows)
            parts = found_read[first:end]
            values = found_logits[first:end]
            offsets = None
            if task.per_word:
                offsets, out_logits[index] = _stitched(windows, parts, values)
            else:
                out_logits[index] = task.pool_windows(np.stack(values)).astype(np.float32)
            truncated = cut or any(part.truncated for part in parts)
            out_read[index] = ReadInWindows(truncated=truncated, is_empty=False, offsets=offsets)
        waiting.clear()

    for index, item in enumerate(read):
        if item.truncated:
            made = text_windows(texts[index], encoder.config, encoder.vocabulary, per_word=task.per_word)
            if len(made.windows) > 1:  # otherwise a word is too long, not the text
                waiting.append((index, made))
            if sum(len(windows) for _, (windows, _) in waiting) >= _TOGETHER:
                finish()
    finish()
    return out_read, out_logits


def _stitched(
    windows: Sequence[TextWindow], parts: Sequence[Any], values: Sequence[Float32]
) -> tuple[list[tuple[int, int]], Float32]:
    """Return the offsets of all words, and the logits (W, C)."""
    offsets: list[tuple[int, int]] = []
    rows: list[npt.NDArray[np.float32]] = []
    for window, part, value in zip(windows, parts, values, strict=True):
        for (start, end), row in zip(part.offsets, value, strict=False):
            if window.first <= start + window.offset < window.end:
                offsets.append((start + window.offset, end + window.offset))
                rows.append(row)
    return offsets, np.stack(rows)
