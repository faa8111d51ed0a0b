"""Projections from words and their subwords to feature indices.

Every projection yields an embedding bag: a word has a few of `num_features` feature indices, each with a weight, so
features times a matrix is a weighted sum of rows, and the sparse vector of length `num_features` is never built.

Source: pNLP-Mixer, section 3.1 and Table 1; the projection TSP comes from PRADO and pQRNN, Ternary the
paper's.
Decided beyond the paper: the hash family is `HASH_VERSION` below, in 32-bit arithmetic that a browser can reproduce; a
continuation subword ("##ing") and a subword of up to three characters are hashed as a whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mixling.arrays import UInt32
from mixling.config import Config
from mixling.native._core import Hasher
from mixling.text.hashes import hash_family, hash_letters, hash_strings
from mixling.text.tsp import tsp_features
from mixling.text.vocabulary import Vocabulary
from mixling.text.wordpiece import CONTINUATION

HASH_VERSION = 1
NGRAM = 3


class ProjectionConfig(Config):
    """The properties that every projection has."""

    hashed: ClassVar[bool] = True  # features are hashes; otherwise each subword of the vocabulary has a row
    weighted: ClassVar[bool] = True  # the indices of a bag have weights; otherwise all weights are one
    trained_rows: ClassVar[bool] = False  # the rows are an embedding table, one trained row for each subword

    @property
    def fixed_dim(self) -> int | None:
        """Width of the fixed embeddings that bags are summed over; None: there are none."""
        return None


class MinHash(ProjectionConfig):
    """Each of `num_hashes` hashes has the feature index `minimum over the word's trigrams mod m`.

    Added here: `word_hashes` more indices from hashes of the whole word, to distinguish words with the same trigrams,
    and `letter_hashes` more from hashes of its characters in any order, which a word keeps where two of them have
    changed places.
    """

    weighted = False
    type: Literal["minhash"] = "minhash"
    num_features: int = Field(default=1024, ge=2, le=2**24, description="m, the number of features")
    num_hashes: int = Field(default=64, ge=1, le=4096, description="n")
    word_hashes: int = Field(default=0, ge=0, le=64, description="further indices, from hashes of the whole word")
    letter_hashes: int = Field(
        default=0, ge=0, le=64, description="further indices, from hashes of its characters in any order"
    )
    seed: int = Field(default=0, ge=0, lt=2**32, description="seed of the hash functions")


class SimHash(ProjectionConfig):
    """Bit i is one if more of a word's trigrams have a one than a zero at bit i of their hash."""

    type: Literal["simhash"] = "simhash"
    num_features: int = Field(default=1024, ge=2, le=2**16, description="number of bits")
    seed: int = Field(default=0, ge=0, lt=2**32, description="seed of the hash functions")


class Binary(ProjectionConfig):
    """A Bloom filter: the union of the bits at the `num_hashes` hashes of each subword of a word."""

    type: Literal["binary"] = "binary"
    num_features: int = Field(default=1024, ge=2, le=2**24, description="size of the Bloom filter")
    num_hashes: int = Field(default=64, ge=1, le=4096, description="hash functions per subword")
    seed: int = Field(default=0, ge=0, lt=2**32, description="seed of the hash functions")


class Tsp(ProjectionConfig):
    """Ternary: two bits of the word's 128-bit hash make each feature 0, 1 or -1."""

    type: Literal["tsp"] = "tsp"
    num_features: int = Field(default=1024, ge=2, le=2**16, description="number of ternary features")


class Ternary(ProjectionConfig):
    """`Binary` with 2 `num_features` bits; each pair makes a feature 0, 1 or -1, as in `Tsp`.

    Source: the row TSP of pNLP-Mixer's Table 1, whose ternary feature is made of the binary one; PRADO's is `Tsp`.
    Decided beyond the paper: the bitmap has twice as many bits, so that the bottleneck is as large as with the others.
    """

    type: Literal["ternary"] = "ternary"
    num_features: int = Field(default=1024, ge=2, le=2**23, description="number of ternary features")
    num_hashes: int = Field(default=64, ge=1, le=4096, description="hash functions per subword")
    seed: int = Field(default=0, ge=0, lt=2**32, description="seed of the hash functions")


class AveragedEmbedding(ProjectionConfig):
    """The mean of fixed subword embeddings, whose table is part of the model."""

    hashed = False
    type: Literal["embedding"] = "embedding"
    num_features: int = Field(ge=1, description="number of subwords in the vocabulary")
    embedding_dim: int = Field(ge=1, description="width of the embeddings")

    @property
    def fixed_dim(self) -> int | None:
        return self.embedding_dim


class SubwordEmbedding(ProjectionConfig):
    """An embedding table: one trained row for each subword of the vocabulary; a word is the mean of its subwords."""

    hashed = False
    trained_rows = True
    type: Literal["subwords"] = "subwords"
    num_features: int | None = Field(
        default=None, ge=1, description="rows of the table; None: as many as the vocabulary has"
    )


Projection = Annotated[
    MinHash | SimHash | Binary | Tsp | Ternary | AveragedEmbedding | SubwordEmbedding,
    Field(discriminator="type"),
]


@dataclass(frozen=True, slots=True)
class Bags:
    """Words as embedding bags.

    Attributes:
        features: (U, P) int32, feature indices below `num_features`.
        weights: (U, P) float32, zero where a bag has fewer than P indices; None means that all are one.
    """

    features: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32] | None


class Projector:
    """Turns words into bags; the hashes of a subword are computed once.

    MinHash features of words are computed in C where the vocabulary is standard WordPiece.
    """

    def __init__(self, config: Projection, vocabulary: Vocabulary) -> None:
        self.config = config
        self._vocabulary = vocabulary
        self._known: dict[str, int] = {}
        self._fingerprints: UInt32 = np.empty((0, getattr(config, "num_hashes", 0)), np.uint32)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_hasher"}

    def bags_of_words(self, words: Sequence[str]) -> Bags:
        """Return the bags of normalized words, which are spelled with the vocabulary."""
        if self._hasher is not None:
            with contextlib.suppress(UnicodeEncodeError):  # the vocabulary's error names lone surrogates
                rows = np.frombuffer(self._hasher.features(words), np.int32)
                return Bags(rows.reshape(len(words), -1), None)
        return self.bags(words, self._vocabulary.subwords(words))

    def bags(self, words: Sequence[str], subwords: Sequence[Sequence[str]]) -> Bags:
        """Return the bags of words; `subwords[i]`, never empty, spells `words[i]`."""
        config = self.config
        match config:
            case MinHash():
                rows, starts = self._rows(subwords)
                hashes = np.minimum.reduceat(rows, starts, axis=0)
                for number, base in ((config.word_hashes, hash_strings), (config.letter_hashes, hash_letters)):
                    if number:  # they follow the others in the same family
                        before = hashes.shape[1]
                        more = hash_family(base(words), before + number, config.seed)[:, before:]
                        hashes = np.concatenate([hashes, more], axis=1)
                return Bags((hashes % np.uint32(config.num_features)).astype(np.int32), None)
            case Binary():
                rows, starts = self._rows(subwords)
                flat = (rows % np.uint32(config.num_features)).astype(np.int32)
                return _ragged([np.unique(part) for part in np.split(flat, starts[1:])])
            case Ternary():
                rows, starts = self._rows(subwords)
                bits = rows % np.uint32(2 * config.num_features)
                return _ragged(*zip(*(_ternary(np.unique(part)) for part in np.split(bits, starts[1:])), strict=True))
            case SimHash():
                return _from_dense(_simhash(subwords, config))
            case Tsp():
                return _from_dense(tsp_features(words, config.num_features))
            case AveragedEmbedding() | SubwordEmbedding():
                return _ragged(
                    [np.array([self._vocabulary.subword_id(u) for u in spelled]) for spelled in subwords], mean=True
                )

    @cached_property
    def _hasher(self) -> Any:
        """What computes the bags of words in C; None where it cannot."""
        config = self.config
        name, content = self._vocabulary.serialize()
        if not isinstance(config, MinHash) or name != "vocab.txt":
            return None
        numbers = config.num_hashes, config.word_hashes, config.letter_hashes
        try:
            return Hasher(content, config.num_features, *numbers, config.seed)
        except (ValueError, NotImplementedError):  # subwords with a line feed
            return None

    def _rows(self, subwords: Sequence[Sequence[str]]) -> tuple[UInt32, npt.NDArray[np.intp]]:
        """Return the fingerprints (sum of lengths, n) of all subwords, and the index of each word's first."""
        fresh = list(dict.fromkeys(u for spelled in subwords for u in spelled if u not in self._known))
        if fresh:
            make = _minhash if isinstance(self.config, MinHash) else _subword_hashes
            new = make(fresh, self._fingerprints.shape[1], self.config.seed)  # type: ignore[union-attr]
            self._known.update(zip(fresh, range(len(self._known), len(self._known) + len(fresh)), strict=True))
            self._fingerprints = np.concatenate([self._fingerprints, new])
        index = np.array([self._known[u] for spelled in subwords for u in spelled])
        return self._fingerprints[index], _starts(subwords)


def ngrams(subword: str) -> list[str]:
    """Return a subword's trigrams of code points, or the subword itself if it is short or a continuation."""
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
        low = starts[first]
        high = starts[stop] if stop < len(subwords) else len(flat)
        out[first:stop] = np.minimum.reduceat(hashes[flat[low:high]], starts[first:stop] - low, axis=0)
    return out


def _ternary(bits: UInt32) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int8]]:
    """Return the features that are not zero, and their values, of a bitmap given by its distinct bits."""
    features, first, count = np.unique(bits // 2, return_index=True, return_counts=True)
    values = np.where(bits[first] % 2, -1, 1).astype(np.int8)
    return features[count == 1].astype(np.int32), values[count == 1]


def _subword_hashes(subwords: Sequence[str], num_hashes: int, seed: int) -> UInt32:
    return hash_family(hash_strings(subwords), num_hashes, seed)


def _simhash(subwords: Sequence[Sequence[str]], config: SimHash) -> npt.NDArray[np.int8]:
    grams = [[gram for subword in spelled for gram in ngrams(subword)] for spelled in subwords]
    base = hash_strings([gram for spelled in grams for gram in spelled])
    num_words = -(-config.num_features // 32)
    out = np.empty((len(subwords), config.num_features), np.int8)
    for i, first in enumerate(map(int, _starts(grams))):
        stop = first + len(grams[i])
        ones = np.zeros(32 * num_words, np.int64)
        for part in range(first, stop, 256):  # bounds the bits of a long word
            hashes = hash_family(base[part : min(part + 256, stop)], num_words, config.seed)
            bits = (hashes[:, :, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)  # low bit first
            ones += bits.reshape(len(hashes), -1).sum(axis=0, dtype=np.int64)
        out[i] = 2 * ones[: config.num_features] > stop - first
    return out


def _starts(groups: Sequence[Sequence[object]]) -> npt.NDArray[np.intp]:
    lengths = np.array(list(map(len, groups)), np.intp)
    return np.cumsum(lengths) - lengths


def _from_dense(features: npt.NDArray[np.int8]) -> Bags:
    """Make bags of a matrix (U, m) of small integers: the indices of nonzero values, with the values as weights."""
    return _ragged([np.flatnonzero(row) for row in features], [row[row != 0] for row in features])


def _ragged(
    features: Sequence[npt.NDArray[np.integer]],
    weights: Sequence[npt.NDArray[np.integer]] | None = None,
    *,
    mean: bool = False,
) -> Bags:
    width = max([1, *(map(len, features))])  # an embedding bag cannot read rows of no width
    out = Bags(np.zeros((len(features), width), np.int32), np.zeros((len(features), width), np.float32))
    assert out.weights is not None
    for i, row in enumerate(features):
        out.features[i, : len(row)] = row
        out.weights[i, : len(row)] = weights[i] if weights is not None else 1 / len(row) if mean else 1
    return out
