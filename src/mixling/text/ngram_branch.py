"""A linear model of a text's n-grams, with 8-bit weights, whose logits are added to the network's.

    logits = bias + scale * sum / sqrt(q)

where `sum` (K,) adds the integer weights of the text's terms (`mixling.text.ngrams`), as often as they are there, and q
adds their squares: integers in proportion to a term's squared inverse document frequency, so that a text's features
have the length 1. A sum of integers has the same value in every order, so that every reader and every cache agrees; and
it is a sum over words, and pairs of words, so that a word met again costs one addition of its row.

Terms are identified by 32-bit hashes, stored in about 2 + log2(2^32 / T) bits each (P. Elias, "Efficient storage and
retrieval by content and address of static files", 1974): of the sorted hashes the low bits as they are, the high ones
in unary. Weights are stored as a full matrix, or each with the index of its output where that takes fewer bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mixling.arrays import Float32, Int8, Int32, UInt32
from mixling.config import Config
from mixling.errors import ModelFileError
from mixling.text.ngrams import Distinct, Words
from mixling.text.sparse_weights import SparseWeights

Arrays = dict[str, npt.NDArray[Any]]

MAX_SQUARE = 127
MAX_PER_TERM = 255  # weights of a term that are stored one by one
MAX_CELLS = 1 << 25  # of the full matrix, which a reader makes of however few bytes
_GATHERED = 1 << 22  # weights that are summed at a time


class NgramMetadata(Config):
    """The branch's entry in the metadata of a model file."""

    min_n: int = Field(ge=1, le=8, description="characters of the shortest n-gram")
    max_n: int = Field(ge=1, le=8, description="characters of the longest n-gram")
    network: float = Field(ge=0, le=1000, allow_inf_nan=False, description="factor of the network's logits in the sum")


@dataclass(frozen=True, slots=True, eq=False)
class NgramBranch:
    """The linear model.

    Attributes:
        terms: (T,) hashes, ascending.
        squares: (T,) from 1 to 127.
        weights: (T, K); of very many scores those that are not 0.
        scale, bias: (K,).
        columns: (W, K), the weights of the columns beside the texts; None: there are none.
    """

    terms: UInt32
    squares: npt.NDArray[np.uint8]
    weights: Int8 | SparseWeights
    scale: Float32
    bias: Float32
    columns: Float32 | None = None

    @property
    def outputs(self) -> int:
        """K, the number of scores."""
        return int(self.weights.shape[1])

    def row_sums(self, words: Words) -> Int32:
        """Return the summed weights (R, K + 1) of each word and its n-grams, the squares' sum last."""
        out = np.zeros((len(words.hashes), self.outputs + 1), np.int32)
        self._add(out, np.arange(len(words.hashes)), words.hashes)
        self._add(out, np.repeat(np.arange(len(words.hashes)), np.diff(words.starts)), words.grams)
        return out

    def logits(self, texts: Distinct, row_sums: Int32) -> Float32:
        """Return the logits (B, K) of texts; `row_sums` (R, K + 1) belong to the table's words."""
        sums = np.zeros((len(texts.sizes), self.outputs + 1), np.int32)
        _add(sums, texts.word_texts, row_sums, texts.rows)
        return self._scores(texts, sums)

    def logits_of_words(self, texts: Distinct, words: Words) -> Float32:
        """Return the logits (B, K) of texts with the table's words: without their sums, which take much room if there
        are many scores."""
        sums = np.zeros((len(texts.sizes), self.outputs + 1), np.int32)
        mine = words.of_rows(texts.rows)
        self._add(sums, texts.word_texts, mine.hashes)
        self._add(sums, np.repeat(texts.word_texts, np.diff(mine.starts)), mine.grams)
        return self._scores(texts, sums)

    def _scores(self, texts: Distinct, sums: Int32) -> Float32:
        """Return the logits, given the sums of the texts' words, and add the pairs' to these in place."""
        self._add(sums, texts.pair_texts, texts.pairs)
        # In float64 and rounded once: the result is the same however many texts there are.
        means = sums[:, :-1] / np.sqrt(np.maximum(sums[:, -1:], 1))
        return self.bias + self.scale * means.astype(np.float32)

    def _add(self, sums: Int32, owners: npt.NDArray[np.integer], hashes: UInt32) -> None:
        """Add the weights of terms (P,), where they are known, to the rows `owners` (P,), ascending, of sums."""
        locations = self._locations(hashes)
        known = locations < len(self.terms)
        owners, locations = owners[known], locations[known]
        squares = np.bincount(owners, weights=self.squares[locations], minlength=len(sums))
        sums[:, -1] += squares.astype(np.int32)
        if isinstance(self.weights, SparseWeights):
            self.weights.add(sums, owners, locations)
        else:
            _add(sums[:, :-1], owners, self.weights, locations)

    def _locations(self, hashes: UInt32) -> npt.NDArray[np.intp]:
        """Return the indices of terms; T for unknown ones."""
        if not len(self.terms):
            return np.zeros(len(hashes), np.intp)
        locations = self.terms.searchsorted(hashes)
        found = self.terms.take(locations, mode="clip") == hashes
        locations[~found] = len(self.terms)
        return locations

    def scaled(self, factor: float, bias: Float32, columns: float = 0.0) -> NgramBranch:
        """Return the branch whose scores are `factor` times these, of columns `columns` times, plus `bias` (K,)."""
        beside = None if self.columns is None else (self.columns * columns).astype(np.float32)
        scale = self.scale * factor
        shifted = self.bias * factor + bias
        return replace(self, scale=scale.astype(np.float32), bias=shifted.astype(np.float32), columns=beside)

    def to_arrays(self) -> Arrays:
        """Return the arrays of a model file, which `from_arrays` reads."""
        high, low = pack_sorted(self.terms)
        out: Arrays = {"high": high, "low": low, "squares": self.squares, "scale": self.scale, "bias": self.bias}
        columns: npt.NDArray[Any]
        if isinstance(self.weights, SparseWeights):
            counts = np.diff(self.weights.starts)
            columns = self.weights.columns
            values = self.weights.values
        else:
            is_kept = self.weights != 0
            counts = is_kept.sum(1)
            columns = np.nonzero(is_kept)[1]
            values = self.weights[is_kept]
            if stored_bytes(len(self.terms), len(values), self.outputs) >= self.weights.size or (
                counts.max(initial=0) > MAX_PER_TERM
            ):
                return out | {"weights": self.weights}
        width = output_bytes(self.outputs)
        numbers = np.ascontiguousarray(columns.astype("<u4")).view(np.uint8).reshape(-1, 4)[:, :width]
        return out | {
            "weights": values,
            "counts": counts.astype(np.uint8),
            "outputs": np.ascontiguousarray(numbers[:, 0] if width == 1 else numbers),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], outputs: int) -> NgramBranch:
        """Return the branch with the arrays of `to_arrays`.

        Args:
            outputs: K, the outputs that the model needs.

        Raises:
            ModelFileError: the arrays do not fit a branch with this number of outputs.
        """
        sparse = "counts" in arrays
        types = {"high": "u1", "low": "u1", "squares": "u1", "scale": "<f4", "bias": "<f4", "weights": "i1"}
        types |= {"counts": "u1", "outputs": "u1"} if sparse else {}
        found = {name: array.dtype.newbyteorder("<").str.lstrip("|") for name, array in arrays.items()}
        if found != types:
            raise _damaged(f"it has {str(found)[:200]}; expected {types}")
        scale = arrays["scale"]
        bias = arrays["bias"]
        weights = arrays["weights"]
        for name in ("scale", "bias"):
            if arrays[name].shape != (outputs,) or not np.isfinite(arrays[name]).all():
                raise _damaged(f"its {name} is not one finite number for each of {outputs} outputs")
        number = (
            len(arrays["counts"]) if sparse and arrays["counts"].ndim == 1 else len(weights) if weights.ndim else -1
        )
        if number < 0 or (not sparse and number * outputs > MAX_CELLS) or max(number, weights.size) > MAX_CELLS:
            raise _damaged(f"{number:,} terms with {outputs:,} outputs are more than {MAX_CELLS:,} weights")
        terms, squares = unpack_sorted(arrays["high"], arrays["low"], number), arrays["squares"]
        if squares.shape != (number,) or not ((squares >= 1) & (squares <= MAX_SQUARE)).all():
            raise _damaged(f"its squares are not one number from 1 to {MAX_SQUARE} for each of {number:,} terms")
        if not sparse:
            if weights.shape != (number, outputs):
                raise _damaged(f"its weights are of shape {weights.shape}; expected {(number, outputs)}")
            return cls(terms, squares, weights, scale, bias)
        starts = np.append(0, np.cumsum(arrays["counts"], dtype=np.int64))
        columns: Any = arrays["outputs"]
        width = output_bytes(outputs)
        if width > 1 and columns.ndim == 2 and columns.shape[1] == width:
            columns = np.asarray(columns @ (1 << 8 * np.arange(width)))
        if not columns.shape == weights.shape == (starts[-1],):
            got = f"{weights.shape} weights for the outputs {columns.shape}"
            raise _damaged(f"it has {got}; its terms have {starts[-1]:,}")
        if columns.max(initial=0) >= outputs:
            raise _damaged(f"a weight is of output {columns.max()}; there are {outputs}")
        if number * outputs > MAX_CELLS:
            sparse_weights = SparseWeights(starts, columns.astype(np.int32), weights, outputs)
            return cls(terms, squares, sparse_weights, scale, bias)
        full = np.zeros((number, outputs), np.int8)
        full[np.repeat(np.arange(number), np.diff(starts)), columns] = weights
        return cls(terms, squares, full, scale, bias)


def stored_bytes(terms: int, weights: int, outputs: int) -> int:
    """Return the bytes of weights that are stored with their outputs; the terms themselves are not counted."""
    return terms + weights * (1 + output_bytes(outputs))


def output_bytes(outputs: int) -> int:
    """Return how many bytes the number of a score has."""
    return 1 if outputs <= 1 << 8 else 2 if outputs <= 1 << 16 else 3


def term_bytes(number: int) -> int:
    """Return the size in bytes of terms: packed hashes, and squares."""
    low = _low_bits(number)
    return number + -(-number * low // 8) + -(-((1 << (32 - low)) + number) // 8)


def pack_sorted(values: UInt32) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Pack ascending distinct numbers (T,) into fewer bits; return their high and their low parts, as bytes."""
    number = len(values)
    low = _low_bits(number)
    bits = (values[:, None] >> np.arange(low, dtype=np.uint32)) & np.uint32(1)
    marks = np.zeros((1 << (32 - low)) + number, np.uint8)
    marks[(values.astype(np.uint64) >> np.uint64(low)).astype(np.int64) + np.arange(number)] = 1
    return np.packbits(marks, bitorder="little"), np.packbits(bits.astype(np.uint8), bitorder="little")


def unpack_sorted(high: npt.NDArray[np.uint8], low: npt.NDArray[np.uint8], number: int) -> UInt32:
    """Return the numbers that `pack_sorted` packed.

    Raises:
        ModelFileError: the bytes do not hold this many numbers.
    """
    bits = _low_bits(number)
    buckets = 1 << (32 - bits)
    sizes = -(-(buckets + number) // 8), -(-number * bits // 8)
    if (high.shape, low.shape) != ((sizes[0],), (sizes[1],)):
        raise _damaged(f"its {number:,} terms have {high.shape} and {low.shape} bytes; expected {sizes}")
    locations = np.flatnonzero(np.unpackbits(high, bitorder="little"))
    if len(locations) != number:
        raise _damaged(f"its terms are {len(locations):,}; expected {number:,}")
    upper = locations - np.arange(number)
    if number and upper[-1] >= buckets:
        raise _damaged("a term is beyond 32 bits")
    lower = np.unpackbits(low, count=number * bits, bitorder="little").reshape(number, bits)
    values = (upper << bits) + lower @ (np.int64(1) << np.arange(bits))
    if (np.diff(values) <= 0).any():
        raise _damaged("its terms are not in ascending order")
    return values.astype(np.uint32)


def _low_bits(number: int) -> int:
    """Return the number of low bits of each hash that are stored as they are."""
    return 32 - max(number, 1).bit_length() + 1 if number > 1 else 31


def _add(
    out: Int32, owners: npt.NDArray[np.integer], values: npt.NDArray[Any], locations: npt.NDArray[np.integer]
) -> None:
    """Add `values[locations]` (P, K) to the rows `owners` (P,) of `out`; owners are in ascending order."""
    if not len(owners):
        return
    if len(out) == 1 and len(owners) <= _GATHERED:
        out[0] += values[locations].sum(0, dtype=np.int32)
        return
    is_first = np.ones(len(owners), bool)
    np.not_equal(owners[1:], owners[:-1], out=is_first[1:])
    starts = np.flatnonzero(is_first)
    together = max(_GATHERED // max(values.shape[1], 1), 1)
    if len(owners) <= together:
        out[owners[starts]] += np.add.reduceat(values[locations], starts, axis=0, dtype=np.int32)
        return
    for first in range(0, len(owners), together):
        part = slice(first, first + together)
        _add(out, owners[part], values, locations[part])


def _damaged(reason: str) -> ModelFileError:
    return ModelFileError(f"its n-gram branch cannot be read: {reason}")
