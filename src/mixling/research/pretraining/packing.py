"""Cutting prepared text into blocks of tokens: across documents, or several pieces of documents side by side."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mixling.research.pretraining.prepared import Tokens


class Packing:
    """Blocks of at most `length` tokens, padding included; each is one text, or several pieces that are padded alike.

    Pieces are texts of their own in a batch, which no mixer mixes with each other. Those of about equal length share a
    block, so that there is little padding.

    Args:
        tokens: the documents.
        length: tokens that a model reads.
        separator: the last token of each document; None: blocks cross documents and have no padding.

    Attributes:
        widths: (blocks,) tokens of the longest text of each block.
    """

    widths: npt.NDArray[np.int32]

    def __init__(self, tokens: Tokens, length: int, *, separator: int | None) -> None:
        if separator is None:
            number = tokens.blocks(length)
            self._first = np.arange(number) * length
            self._last = np.minimum(self._first + length, len(tokens.rows))
            self._groups = np.arange(number + 1)
        else:
            self._first, self._last = _pieces(tokens, length, separator)
            self._groups = _groups(self._last - self._first, length)
        self.widths = (self._last - self._first)[self._groups[:-1]].astype(np.int32)

    def __len__(self) -> int:
        return len(self.widths)

    def texts(self, block: int) -> list[slice]:
        """Return where the texts of a block are."""
        chosen = range(self._groups[block], self._groups[block + 1])
        return [slice(int(self._first[i]), int(self._last[i])) for i in chosen]


def _pieces(tokens: Tokens, length: int, separator: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where pieces of at most `length` tokens begin and end, the longest first; no separator is alone."""
    ends = np.flatnonzero(tokens.rows == separator)
    begins = np.append(0, ends[:-1] + 1)
    counts = -(-(ends - begins) // length)
    owner = np.repeat(np.arange(len(ends)), counts)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = begins[owner] + number * length
    last = np.minimum(first + length, ends[owner] + 1)
    order = np.argsort(first - last, kind="stable")
    return first[order], last[order]


def _groups(lengths: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.int64]:
    """Return where each block begins among pieces, the longest first, and the number of pieces."""
    begins = [0]
    while begins[-1] < len(lengths):
        begins.append(min(begins[-1] + length // int(lengths[begins[-1]]), len(lengths)))
    return np.array(begins)
