"""The summed rows of words, which are the input of a network, cached for all words of an encoder's table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mixling.arrays import Float32
    from mixling.runtime.onnx.session import OpenModel
    from mixling.text.encoder import TextEncoder

ROW_CACHE_BYTES = 64 << 20
_GATHERED = 1 << 22  # values of the rows that are summed at a time


class WordRows:
    """Sums the rows of each word's bag once.

    The caller holds the lock that the encoder is under.

    Args:
        model: sums rows.
        encoder: whose table of words the rows are for.
    """

    def __init__(self, model: OpenModel, encoder: TextEncoder) -> None:
        self._model = model
        self._encoder = encoder
        self._generation = encoder.generation
        self._rows: Float32 = np.zeros((0, model.row_dim), np.float32)
        self._known = 0

    def known(self) -> Float32:
        """Return the summed rows (words, R) of the encoder's table; the caller may keep them."""
        if self._generation != self._encoder.generation:
            # never overwritten: another thread may read it
            self._rows = self._rows[:0].copy()
            self._known = 0
            self._generation = self._encoder.generation
        if self._known < len(self._encoder):
            self._add_words()
        return self._rows

    def _add_words(self) -> None:
        size = len(self._encoder)
        if size > len(self._rows):
            rows = np.empty((max(size, len(self._rows) * 3 // 2, 1024), self._rows.shape[1]), np.float32)
            rows[: self._known] = self._rows[: self._known]
            self._rows = rows
        together = min(max(_GATHERED // max(self._encoder.bag_size * self._rows.shape[1], 1), 1), 1024)
        for first in range(self._known, size, together):
            part = slice(first, min(first + together, size))
            bags = self._encoder.bags(np.arange(part.start, part.stop))
            self._rows[part] = self._model.rows(bags.features, bags.weights)
        self._known = size


def max_cached_words(width: int) -> int:
    """Return how many words are cached, each with this many 4-byte values."""
    return max(ROW_CACHE_BYTES // (4 * width), 1024)
