"""Projections: subwords -> hash positions, without an embedding table.

Every projection is a weighted bag: a word is a few positions out of `num_features`, each with a weight, so that
features times a matrix is a weighted sum of the matrix's rows, and the `num_features` wide row is never built.

Source: pNLP-Mixer, section 3.1 and Table 1; the ternary projection (TSP) is that of PRADO and pQRNN.
Decided beyond the paper: the hash family is `HASH_VERSION` below, in 32-bit arithmetic so that a browser computes the
same; a continuation unit ("##ing") and a unit of fewer than three characters are hashed as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from mixling.config import Config
from mixling.text.tsp import tsp_features
from mixling.text.vocabulary import CONTINUATION, Vocabulary

HASH_VERSION = 1
NGRAM = 3

UInt32 = npt.NDArray[np.uint32]


class ProjectionConfig(Config):
    """What the rest of the library asks of a projection."""

    hashed: ClassVar[bool] = True  # features are hashes; otherwise there is a row for each subword of the vocabulary
    weighted: ClassVar[bool] = True  # the positions of a bag have weights; otherwise all are one
    trained_rows: ClassVar[bool] = False  # the rows are an embedding table, one trained row for each subword

    @property
    def fixed_dim(self) -> int | None:
        """Width of fixed embeddings that the bags are summed over first; None: there are none."""
        return None


class MinHash(ProjectionConfig):
    """For each of `num_hashes` hashes the minimum over a word's trigrams, counted at position `minimum mod m`.

    Ours: `word_hashes` more positions are hashes of the whole word, which tell apart what shares its trigrams.
    """

    weighted = False
    type: Literal["minhash"] = "minhash"
    num_features: int = Field(1024, ge=2, le=2**24, description="m, the number of counters")
    num_hashes: int = Field(64, ge=1, le=4096, description="n")
    word_hashes: int = Field(0, ge=0, le=64, description="further positions, from hashes of the whole word")
    seed: int = Field(0, ge=0, lt=2**32)


class SimHash(ProjectionConfig):
    """Bit i is one where more of a word's trigrams have a one than a zero at bit i of their hash."""

    type: Literal["simhash"] = "simhash"
    num_features: int = Field(1024, ge=2, le=2**16)
    seed: int = Field(0, ge=0, lt=2**32)


class Binary(ProjectionConfig):
    """A Bloom filter: the bits at the `num_hashes` hashes of each unit, united over the subwords of a word."""

    type: Literal["binary"] = "binary"
    num_features: int = Field(1024, ge=2, le=2**24)
    num_hashes: int = Field(64, ge=1, le=4096)
    seed: int = Field(0, ge=0, lt=2**32)


class CharNgrams(ProjectionConfig):
    """The character n-grams of the word between boundary marks, "<word>", and that as a whole, averaged.

    These are fastText's features (Bojanowski et al. 2017, arXiv:1607.04606, section 3.2), of single characters too; the
    vocabulary has no part in them. Decided beyond the paper: each n-gram counts once in a word, a mark alone is none,
    and of many n-grams those with the smallest hashes are a sample, so that no long word makes the bags of all wide.
    """

    type: Literal["char_ngrams"] = "char_ngrams"
    num_features: int = Field(16384, ge=2, le=2**24)
    min_n: int = Field(1, ge=1, le=8, description="characters of the shortest n-grams, marks included")
    max_n: int = Field(3, ge=1, le=8, description="and of the longest")
    max_ngrams: int = Field(32, ge=1, le=1024, description="n-grams of a word, itself included")
    seed: int = Field(0, ge=0, lt=2**32)

    @model_validator(mode="after")
    def _lengths_are_a_range(self) -> CharNgrams:
        if self.min_n > self.max_n:
            raise ValueError(f"min_n = {self.min_n} is more than max_n = {self.max_n}; allowed: at most that")
        return self


class Tsp(ProjectionConfig):
    """Ternary: two bits of the word's 128-bit hash make each feature 0, 1 or -1."""

    type: Literal["tsp"] = "tsp"
    num_features: int = Field(1024, ge=2, le=2**16)


class AveragedEmbedding(ProjectionConfig):
    """The mean of fixed unit embeddings: a bag of unit numbers over a table that the model carries."""

    hashed = False
    type: Literal["embedding"] = "embedding"
    num_features: int = Field(ge=1, description="number of subwords in the vocabulary")
    embedding_dim: int = Field(ge=1, description="width of the embeddings")

    @property
    def fixed_dim(self) -> int | None:
        return self.embedding_dim


class SubwordEmbedding(ProjectionConfig):
    """An embedding table: one trained row for each unit of the vocabulary; a word is the mean of its subwords."""

    hashed, trained_rows = False, True
    type: Literal["subwords"] = "subwords"
    num_features: int | None = Field(None, ge=1, description="rows of the table; None: as many as the vocabulary has")


Projection = Annotated[
    MinHash | SimHash | Binary | CharNgrams | Tsp | AveragedEmbedding | SubwordEmbedding, Field(discriminator="type")
]


@dataclass(frozen=True, slots=True)
class Bags:
    """Words as weighted bags.

    positions: (U, P) int32 below `num_features`.
    weights: (U, P) float32, zero where a bag has fewer than P positions; None means that all are one.
    """

    positions: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32] | None


class Projector:
    """Turns words, given as subwords, into bags; the hashes of a unit are computed once."""

    def __init__(self, config: Projection, vocabulary: Vocabulary) -> None:
        self.config = config
        self._vocabulary = vocabulary
        self._known: dict[str, int] = {}
        self._fingerprints: UInt32 = np.empty((0, getattr(config, "num_hashes", 0)), np.uint32)

    def bags(self, words: Sequence[str], subwords: Sequence[Sequence[str]]) -> Bags:
        """The bags of words; `subwords[i]`, never empty, spells `words[i]`."""
        config = self.config
        match config:
            case MinHash():
                rows, starts = self._rows(subwords)
                hashes = np.minimum.reduceat(rows, starts, axis=0)
                if config.word_hashes:  # those after the trigrams' in the same family
                    number = config.num_hashes + config.word_hashes
                    whole = hash_family(hash_strings(words), number, config.seed)[:, config.num_hashes :]
                    hashes = np.concatenate([hashes, whole], axis=1)
                return Bags((hashes % np.uint32(config.num_features)).astype(np.int32), None)
            case Binary():
                rows, starts = self._rows(subwords)
                flat = (rows % np.uint32(config.num_features)).astype(np.int32)
                return _ragged([np.unique(part) for part in np.split(flat, starts[1:])])
            case SimHash():
                return _from_dense(_simhash(subwords, config))
            case CharNgrams():
                return _ragged(_char_ngrams(words, config), mean=True)
            case Tsp():
                return _from_dense(tsp_features(words, config.num_features))
            case AveragedEmbedding() | SubwordEmbedding():
                return _ragged(
                    [np.array([self._vocabulary.subword_id(u) for u in spelled]) for spelled in subwords], mean=True
                )

    def _rows(self, subwords: Sequence[Sequence[str]]) -> tuple[UInt32, npt.NDArray[np.intp]]:
        """The fingerprints (sum of lengths, n) of all subwords, and where each word starts."""
        fresh = list(dict.fromkeys(u for spelled in subwords for u in spelled if u not in self._known))
        if fresh:
            make = _minhash if isinstance(self.config, MinHash) else _subword_hashes
            new = make(fresh, self._fingerprints.shape[1], self.config.seed)  # type: ignore[union-attr]
            self._known.update(zip(fresh, range(len(self._known), len(self._known) + len(fresh)), strict=True))
            self._fingerprints = np.concatenate([self._fingerprints, new])
        index = np.array([self._known[u] for spelled in subwords for u in spelled])
        return self._fingerprints[index], _starts(subwords)


def hash_strings(strings: Sequence[str]) -> UInt32:
    """The 32-bit FNV-1a hash (S,) of each string's UTF-8 bytes."""
    encoded = [string.encode() for string in strings]
    lengths = np.array([len(data) for data in encoded])
    width = int(lengths.max(initial=1))
    data = np.frombuffer(b"".join(item.ljust(width, b"\0") for item in encoded), np.uint8).reshape(-1, width)
    out = np.full(len(strings), 2166136261, np.uint32)
    for column in range(width):
        stepped = (out ^ data[:, column]) * np.uint32(16777619)
        out = np.where(column < lengths, stepped, out)
    return out


def hash_family(base: UInt32, num_hashes: int, seed: int) -> UInt32:
    """Hashes (S, n) of strings whose FNV-1a hashes are `base` (S,): `mix(base xor mix(seed + (i + 1) * golden))`."""
    keys = np.uint32(seed) + np.arange(1, num_hashes + 1, dtype=np.uint32) * np.uint32(0x9E3779B9)
    return mix(base[:, None] ^ mix(keys))


def mix(x: UInt32) -> UInt32:
    """The finaliser of MurmurHash3 (32 bits): a permutation whose output bits each depend on all input bits."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def ngrams(subword: str) -> list[str]:
    """What of a unit is hashed: its trigrams of code points, or the unit where it is short or a continuation."""
    if len(subword) <= NGRAM or subword.startswith(CONTINUATION):
        return [subword]
    return [subword[i : i + NGRAM] for i in range(len(subword) - NGRAM + 1)]


def _minhash(subwords: Sequence[str], num_hashes: int, seed: int) -> UInt32:
    grams = [ngrams(subword) for subword in subwords]
    distinct = {gram: i for i, gram in enumerate(dict.fromkeys(g for spelled in grams for g in spelled))}
    hashes = hash_family(hash_strings(list(distinct)), num_hashes, seed)
    flat = np.array([distinct[g] for spelled in grams for g in spelled])
    starts = _starts(grams)
    out = np.empty((len(subwords), num_hashes), np.uint32)
    for first in range(0, len(subwords), 4096):  # bounds the gathered block
        stop = min(first + 4096, len(subwords))
        low, high = starts[first], starts[stop] if stop < len(subwords) else len(flat)
        out[first:stop] = np.minimum.reduceat(hashes[flat[low:high]], starts[first:stop] - low, axis=0)
    return out


def _subword_hashes(subwords: Sequence[str], num_hashes: int, seed: int) -> UInt32:
    return hash_family(hash_strings(subwords), num_hashes, seed)


def _char_ngrams(words: Sequence[str], config: CharNgrams) -> list[npt.NDArray[np.int32]]:
    """The positions of each word: itself, then its n-grams in the order of their hashes."""
    marked = [f"<{word}>" for word in words]
    grams = [
        [
            word[i : i + n]
            for n in range(config.min_n, min(config.max_n, len(word) - 1) + 1)
            for i in range(n == 1, len(word) - n + (n > 1))  # a mark alone says nothing
        ]
        for word in marked
    ]
    number = {gram: i for i, gram in enumerate(dict.fromkeys(gram for found in grams for gram in found))}
    hashes = hash_family(hash_strings(list(number)), 1, config.seed)[:, 0]
    itself = hash_family(hash_strings(marked), 1, config.seed)
    features = np.uint32(config.num_features)
    return [
        (np.append(word, np.unique(hashes[[number[gram] for gram in found]])[: config.max_ngrams - 1]) % features)
        .astype(np.int32)
        for word, found in zip(itself, grams, strict=True)
    ]  # fmt: skip


def _simhash(subwords: Sequence[Sequence[str]], config: SimHash) -> npt.NDArray[np.int8]:
    grams = [[gram for subword in spelled for gram in ngrams(subword)] for spelled in subwords]
    base = hash_strings([gram for spelled in grams for gram in spelled])
    num_words = -(-config.num_features // 32)
    out = np.empty((len(subwords), config.num_features), np.int8)
    for i, (first, stop) in enumerate(_bounds(grams)):
        ones = np.zeros(32 * num_words, np.int64)
        for part in range(first, stop, 256):  # bounds the bits of a long word
            hashes = hash_family(base[part : min(part + 256, stop)], num_words, config.seed)
            bits = (hashes[:, :, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)  # low bit first
            ones += bits.reshape(len(hashes), -1).sum(axis=0, dtype=np.int64)
        out[i] = 2 * ones[: config.num_features] > stop - first
    return out


def _starts(groups: Sequence[Sequence[object]]) -> npt.NDArray[np.intp]:
    lengths = np.array([len(group) for group in groups], np.intp)
    return np.cumsum(lengths) - lengths


def _bounds(groups: Sequence[Sequence[object]]) -> list[tuple[int, int]]:
    return [(int(start), int(start) + len(group)) for start, group in zip(_starts(groups), groups, strict=True)]


def _from_dense(features: npt.NDArray[np.int8]) -> Bags:
    """Bags of a matrix (U, m) of small integers: the positions that are not zero, with their values as weights."""
    return _ragged([np.flatnonzero(row) for row in features], [row[row != 0] for row in features])


def _ragged(
    positions: Sequence[npt.NDArray[np.integer]],
    weights: Sequence[npt.NDArray[np.integer]] | None = None,
    *,
    mean: bool = False,
) -> Bags:
    width = max([1, *(len(row) for row in positions)])  # an embedding bag cannot read rows of no width
    out = Bags(np.zeros((len(positions), width), np.int32), np.zeros((len(positions), width), np.float32))
    assert out.weights is not None
    for i, row in enumerate(positions):
        out.positions[i, : len(row)] = row
        out.weights[i, : len(row)] = weights[i] if weights is not None else 1 / len(row) if mean else 1
    return out
