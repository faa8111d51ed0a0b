"""Collate examples into batches of arrays: bucketed by length, padded to the longest, each distinct word once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mixling.data.dataset import Dataset
from mixling.text.encoder import Encoded, TextEncoder

Indices = npt.NDArray[np.int64]


class Inputs(Protocol):
    """The inputs of a model for a batch."""

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of the model's `forward`: arrays, or tensors of PyTorch on the CPU, or None."""

    @property
    def num_tokens(self) -> int:
        """The number of tokens without padding."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The bags of the batch's U distinct words, and the word at each index of each text."""

    features: npt.NDArray[np.int32]  # (U, P) feature indices
    weights: npt.NDArray[np.float32] | None  # (U, P)
    index: npt.NDArray[np.int64]  # (B, N) 1 + number of the word; 0 for padding and for dropped words
    mask: npt.NDArray[np.bool_]  # (B, N) True at tokens
    # (B, W) the first token of each word, if words of several tokens have outputs
    starts: npt.NDArray[np.int64] | None = None

    @property
    def num_answers(self) -> int:
        """The number of outputs of the longest text: one per word with `starts`, otherwise one per token."""
        answers: int = (self.mask if self.starts is None else self.starts).shape[1]
        return answers

    @property
    def arguments(self) -> tuple[npt.NDArray[Any] | None, ...]:
        """The arguments of `Model.forward`."""
        return self.features, self.weights, self.index, self.mask, self.starts

    @property
    def num_tokens(self) -> int:
        """The number of tokens without padding."""
        return int(self.mask.sum())


def collate(
    texts: Sequence[npt.NDArray[np.int32]],
    encoder: TextEncoder,
    starts: Sequence[npt.NDArray[np.int32]] | None = None,
) -> Batch:
    """Return a batch of texts.

    Args:
        texts: rows (N,) of the encoder's word table, for each text.
        starts: the first token of each word (W,), for each text, if outputs are for words.
    """
    mask = real_tokens(texts)
    flat = np.concatenate(texts)
    kept = np.flatnonzero(flat)  # row 0 of the word table is padding, which replaces dropped tokens
    read = flat[kept]
    order = np.arange(len(kept))
    # The words are in the order of the text, not of the table: gradients are summed in this order, and their rounding
    # must not depend on what was encoded before.
    first = np.empty(len(encoder), np.int64)
    first[read[::-1]] = order[::-1]  # of equal words the last one that is assigned remains
    is_first = first[read] == order
    flat_index = np.zeros(len(flat), np.int64)
    flat_index[kept] = np.cumsum(is_first)[first[read]]
    index = np.zeros(mask.shape, np.int64)
    index[mask] = flat_index
    bags = encoder.bags(read[is_first])
    return Batch(
        bags.features,
        bags.weights,
        index,
        mask,
        None if starts is None else pad_targets(starts, max(map(len, starts)), 0),
    )


class TextSet:
    """The encoded texts of a data set, by index; encoded once if memory allows, otherwise on each access.

    Args:
        dataset: the examples whose texts are encoded.
        keep: whether all encoded texts may be kept in memory (4 bytes per word).
    """

    def __init__(self, dataset: Dataset, encoder: TextEncoder, *, keep: bool = True) -> None:
        self.dataset = dataset
        self.encoder = encoder
        self._kept: list[npt.NDArray[np.int32]] | None = None
        self._kept_starts: list[npt.NDArray[np.int32]] | None = None
        self._generation = encoder.generation
        if keep:
            texts = ([dataset.texts[i] for i in chunk] for chunk in _chunks(len(dataset), 4096))
            encoded = [item for chunk in encoder.encode_stream(texts) for item in chunk]
            self._kept = [item.words for item in encoded]
            self._kept_starts = [item.starts for item in encoded if item.starts is not None]
        self._forget_stale()
        # Approximate lengths are enough for buckets; only the lengths of kept texts are known at no cost.
        self.lengths = (
            np.array(list(map(len, self._kept)), np.int32)
            if self._kept is not None
            else np.full(len(dataset), encoder.config.max_len, np.int32)
        )

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def is_kept(self) -> bool:
        """Whether the encoded texts are in memory."""
        self._forget_stale()
        return self._kept is not None

    def words(self, indices: Indices) -> list[npt.NDArray[np.int32]]:
        """Return texts as rows of the encoder's word table, valid until the next call of the encoder."""
        self._forget_stale()
        if self._kept is not None:
            return [self._kept[i] for i in indices]
        return [item.words for item in self.encode(indices)]

    def starts(self, indices: Indices) -> list[npt.NDArray[np.int32]] | None:
        """Return the first token of each word of texts; None if tokens are words, and for pairs."""
        if self.encoder.config.tokens == "words":
            return None
        if self._kept_starts is not None:
            return [self._kept_starts[i] for i in indices] if self._kept_starts else None
        starts = [item.starts for item in self.encode(indices) if item.starts is not None]
        return starts if len(starts) == len(indices) else None

    def _forget_stale(self) -> None:
        """Forget kept rows if the encoder, which other texts share, has begun a new table."""
        if self._generation != self.encoder.generation:
            self._kept = self._kept_starts = None

    def encode(self, indices: Sequence[int] | Indices, *, offsets: bool = False) -> list[Encoded]:
        """Encode texts again."""
        return self.encoder.encode([self.dataset.texts[i] for i in indices], offsets=offsets)


def training_batches(lengths: npt.NDArray[np.int32], batch_size: int, *, seed: int, epoch: int) -> list[Indices]:
    """Return the batches of an epoch: shuffled, sorted by length within windows of 50 batches, batches shuffled.

    They depend only on the arguments, so a resumed run needs no more than the number of its next batch.
    """
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths))
    window = 50 * batch_size
    batches: list[Indices] = []
    for first in range(0, len(order), window):
        part = order[first : first + window]
        part = part[np.argsort(lengths[part], kind="stable")]
        batches += [part[i : i + batch_size] for i in range(0, len(part), batch_size)]
    return [batches[i] for i in rng.permutation(len(batches))]


def length_batches(lengths: npt.NDArray[np.int32], batch_size: int, *, max_tokens: int = 1 << 14) -> Iterator[Indices]:
    """Yield batches for evaluation, sorted by length: up to `batch_size` texts and `max_tokens`, padding included."""
    order = np.argsort(lengths, kind="stable")
    first = 0
    while first < len(order):
        last = first + 1
        while (
            last < len(order) and last - first < batch_size and (last + 1 - first) * lengths[order[last]] <= max_tokens
        ):
            last += 1
        yield order[first:last]
        first = last


def drop_words(
    texts: Sequence[npt.NDArray[np.int32]], rate: float, *, chosen: Indices, size: int, seed: Sequence[int]
) -> list[npt.NDArray[np.int32]]:
    """Replace each token of texts of a batch by padding (a zero vector) with probability `rate`.

    The tokens that are dropped from a text depend on its index in the batch, not on the other texts, so that they are
    the same however many processes share the batch.

    Args:
        texts: (N,) rows of a word table each.
        chosen: the indices of the texts in the batch.
        size: number of texts in the complete batch.
    """
    if rate == 0:
        return list(texts)
    flat = np.concatenate(texts)
    read = real_tokens(texts)
    # The numbers of a token do not depend on how many tokens follow.
    drawn = np.random.default_rng(seed).random((read.shape[1], size), np.float32)[:, chosen].T
    flat[drawn[read] < rate] = 0
    return split_like(flat, texts)


def real_tokens(texts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
    """Return the mask (B, N) of the tokens of texts, whose longest has N."""
    lengths = np.array(list(map(len, texts)))
    return np.arange(max(int(lengths.max(initial=1)), 1)) < lengths[:, None]


def split_like(flat: npt.NDArray[np.int32], texts: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[np.int32]]:
    """Return the parts of an array that are as long as the texts."""
    ends = list(itertools.accumulate(map(len, texts)))
    return [flat[first:last] for first, last in zip([0, *ends], ends, strict=False)]


def pad_targets(targets: Sequence[npt.NDArray[np.integer]], width: int, value: int) -> npt.NDArray[np.int64]:
    """Return rows of different lengths as one array (B, N), padded with `value`."""
    out = np.full((len(targets), width), value, np.int64)
    for row, items in zip(out, targets, strict=True):
        row[: len(items)] = items
    return out


def shard(batch: Sequence[int] | Indices, rank: int, world: int) -> Indices:
    """Return the part of a batch for one of several processes; it may be empty."""
    return np.asarray(batch)[rank::world]


def _chunks(count: int, size: int) -> Iterator[range]:
    for first in range(0, count, size):
        yield range(first, min(first + size, count))
