"""Examples -> batches of tensors: bucketed by length, padded to the longest, each distinct word once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mixling.data.dataset import Dataset
from mixling.text.encoder import Encoded, TextEncoder

Indices = npt.NDArray[np.int64]


class Inputs(Protocol):
    """What a model reads of a batch."""

    @property
    def arguments(self) -> tuple[Tensor | None, ...]:
        """Those of the model's `forward`."""

    @property
    def num_tokens(self) -> int:
        """Real tokens, without padding."""

    def to(self, device: torch.device) -> Self:
        """The batch on a device."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What a model reads: the bags of the batch's U distinct words, and which word stands where."""

    positions: Int[Tensor, "U P"]
    weights: Float[Tensor, "U P"] | None
    index: Int[Tensor, "B N"]  # 1 + number of the word; 0 for padding and for dropped words
    mask: Bool[Tensor, "B N"]  # True at tokens
    starts: Int[Tensor, "B W"] | None = None  # the first token of each word, where answers are for words of several

    @property
    def num_answers(self) -> int:
        """Words of the longest text, which is as many as tokens unless tokens are subwords and answers are for
        words."""
        return self.mask.shape[1] if self.starts is None else self.starts.shape[1]

    @property
    def arguments(self) -> tuple[Tensor | None, ...]:
        """Those of `Model.forward`."""
        return self.positions, self.weights, self.index, self.mask, self.starts

    @property
    def num_tokens(self) -> int:
        """Tokens without padding."""
        return int(self.mask.sum())

    def to(self, device: torch.device) -> Batch:
        """The batch on a device."""
        weights, starts = (None if item is None else item.to(device) for item in (self.weights, self.starts))
        return Batch(self.positions.to(device), weights, self.index.to(device), self.mask.to(device), starts)


def collate(
    texts: Sequence[npt.NDArray[np.int32]],
    encoder: TextEncoder,
    starts: Sequence[npt.NDArray[np.int32]] | None = None,
) -> Batch:
    """A batch of texts, given as rows of the encoder's word table, and as `starts` of words where those count."""
    lengths = np.array([len(words) for words in texts])
    mask = np.arange(max(int(lengths.max(initial=1)), 1)) < lengths[:, None]
    flat = np.concatenate(texts)
    kept = np.flatnonzero(flat)  # row 0 of the word table is padding, which stands where word dropout took a word
    distinct, first, numbers = np.unique(flat[kept], return_index=True, return_inverse=True)
    # In the order of the text, not of the table: gradients are summed in this order, and the bits of a sum must not
    # depend on what was encoded before.
    order = np.argsort(first)
    locations = np.empty_like(order)
    locations[order] = np.arange(1, len(order) + 1)
    flat_index = np.zeros(len(flat), np.int64)
    flat_index[kept] = locations[numbers]
    index = np.zeros(mask.shape, np.int64)
    index[mask] = flat_index
    bags = encoder.bags(distinct[order])
    weights = None if bags.weights is None else torch.from_numpy(bags.weights)
    return Batch(
        torch.from_numpy(bags.positions),
        weights,
        torch.from_numpy(index),
        torch.from_numpy(mask),
        None if starts is None else pad_targets(starts, max(map(len, starts)), 0),
    )


class TextSet:
    """Texts by index, encoded once where memory allows, else each time that they are asked for.

    Args:
        dataset: the examples whose texts are encoded.
        keep: whether the encoded form of all texts may be held (4 bytes a word).
    """

    def __init__(self, dataset: Dataset, encoder: TextEncoder, *, keep: bool = True) -> None:
        self.dataset, self.encoder = dataset, encoder
        self._kept: list[npt.NDArray[np.int32]] | None = None
        self._kept_starts: list[npt.NDArray[np.int32]] | None = None
        self._generation = encoder.generation
        if keep:
            encoded = [item for chunk in _chunks(len(dataset), 4096) for item in self.encode(chunk)]
            self._kept = [item.words for item in encoded]
            self._kept_starts = [item.starts for item in encoded if item.starts is not None]
        self._forget_stale()
        # A rough length is enough for buckets; only kept texts have an exact one without work.
        self.lengths = (
            np.array([len(words) for words in self._kept], np.int32)
            if self._kept is not None
            else np.full(len(dataset), encoder.config.max_len, np.int32)
        )

    def __len__(self) -> int:
        return len(self.dataset)

    def words(self, indices: Indices) -> list[npt.NDArray[np.int32]]:
        """The texts as rows of the encoder's word table, valid until the next call of the encoder."""
        self._forget_stale()
        if self._kept is not None:
            return [self._kept[i] for i in indices]
        return [item.words for item in self.encode(indices)]

    def starts(self, indices: Indices) -> list[npt.NDArray[np.int32]] | None:
        """The first token of each word of the texts; None where tokens are words, and of pairs."""
        if self.encoder.config.tokens == "words":
            return None
        if self._kept_starts is not None:
            return [self._kept_starts[i] for i in indices] if self._kept_starts else None
        found = [item.starts for item in self.encode(indices)]
        return None if any(item is None for item in found) else [item for item in found if item is not None]

    def _forget_stale(self) -> None:
        """Kept rows mean nothing once the encoder, which other texts share, has begun a new table."""
        if self._generation != self.encoder.generation:
            self._kept = self._kept_starts = None

    def encode(self, indices: Sequence[int] | Indices, *, offsets: bool = False) -> list[Encoded]:
        """Encode texts anew."""
        return self.encoder.encode([self.dataset.texts[i] for i in indices], offsets=offsets)


def training_batches(lengths: npt.NDArray[np.int32], batch_size: int, *, seed: int, epoch: int) -> list[Indices]:
    """The batches of one epoch: a random order, sorted by length inside windows of 50 batches, batches in random order.

    It depends on nothing but its arguments, so that a resumed run needs only the number of its next batch.
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
    """Batches for evaluation, by length: at most `batch_size` texts, and `max_tokens` with padding or one text."""
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
    texts: Sequence[npt.NDArray[np.int32]], rate: float, *, seed: Sequence[int]
) -> list[npt.NDArray[np.int32]]:
    """Texts with each word replaced by padding (a zero vector) with probability `rate`."""
    if rate == 0:
        return list(texts)
    rng = np.random.default_rng(seed)
    return [np.where(rng.random(len(words)) < rate, np.int32(0), words) for words in texts]


def pad_targets(targets: Sequence[npt.NDArray[np.integer]], width: int, value: int) -> Int[Tensor, "B N"]:
    """Rows of different lengths as one tensor."""
    out = np.full((len(targets), width), value, np.int64)
    for row, items in zip(out, targets, strict=True):
        row[: len(items)] = items
    return torch.from_numpy(out)


def shard(batch: Sequence[int] | Indices, rank: int, world: int) -> Indices:
    """The part of a batch that one of several processes works on; may be empty."""
    return np.asarray(batch)[rank::world]


def _chunks(count: int, size: int) -> Iterator[range]:
    for first in range(0, count, size):
        yield range(first, min(first + size, count))
