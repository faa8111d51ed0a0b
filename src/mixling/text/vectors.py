"""Count word vectors from unlabeled text in seconds, to initialize the embeddings of a small model.

Source: positive pointwise mutual information, smoothed over contexts, and a truncated singular value decomposition
(Levy, Goldberg and Dagan 2015, sections 2 and 3). Decided here: a window of 5 words to each side, all weighted equally;
vectors U sqrt(S), scaled to unit length.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from safetensors import SafetensorError
from safetensors.numpy import load_file, save
from threadpoolctl import threadpool_limits

from mixling.arrays import Float32, Float64
from mixling.config import Config, parse
from mixling.errors import DataError, ModelFileError, shown
from mixling.native._counts import count_pairs
from mixling.native.sparse import SparseRows
from mixling.storage import check_sha256, read_json, sha256_of, write_atomic, write_sealed
from mixling.text.config import TextConfig
from mixling.text.encoder import Text, split_normal_words
from mixling.text.splitting import SplitTexts

_CONFIG_FILE = "vectors.json"
_VECTORS_FILE = "vectors.safetensors"
_MAX_DOCUMENT = 1 << 24  # characters
_ROUNDING = 1e-3  # of the length of a vector
_LEAST_LENGTH = 1e-6  # of a vector before it is scaled, as a fraction of the longest
_CHARS = 1 << 22  # that are split at a time; the work for a word is done once
_DOCUMENTS = 1 << 14  # at most
_TILE = 1 << 10  # rows whose products are summed at a time
_LEAST_SQUARE = 1e-12  # of a direction, as a fraction of the largest


class VectorConfig(Config):
    """How words are counted; the defaults match mixling's models. `lowercase` must match the model's."""

    dim: int = Field(default=128, ge=1, le=1024, description="width of the vectors")
    window: int = Field(default=5, ge=1, le=100, description="words to each side")
    max_words: int = Field(default=30_000, ge=2, description="number of most frequent words that get vectors")
    max_contexts: int = Field(default=4_000, ge=2, description="number of most frequent words counted as contexts")
    min_count: int = Field(default=2, ge=1, description="rarer words get no vector")
    smoothing: float = Field(default=0.75, gt=0, le=1, description="exponent of the context counts")
    max_tokens: int = Field(
        default=100_000_000, ge=1, description="read no more tokens than this (4 bytes of memory each)"
    )
    lowercase: bool = Field(default=True, description="read texts in lower case")
    contractions: bool = Field(default=True, description='English: "isn\'t" is two words, "is" and "n\'t"')

    @model_validator(mode="after")
    def _enough_contexts(self) -> VectorConfig:
        if min(self.max_contexts, self.max_words) <= self.dim:
            raise ValueError(f"dim: got {self.dim}; it must be less than max_contexts and max_words")
        return self


@dataclass(frozen=True, kw_only=True)
class WordVectors:
    """Word vectors.

    Attributes:
        words: W words that have neighbors, the most frequent first.
        counts: (W,) int64.
        vectors: (W, dim) float32 of unit length, dimensions by decreasing singular value.
        num_tokens: number of tokens that were counted.
    """

    config: VectorConfig
    words: tuple[str, ...]
    counts: npt.NDArray[np.int64]
    vectors: npt.NDArray[np.float32]
    num_tokens: int

    def save(self, folder: str | Path) -> None:
        """Write a folder that `load` reads.

        Raises:
            StorageError: a file could not be written.
        """
        write_atomic(Path(folder) / _VECTORS_FILE, save({"counts": self.counts, "vectors": self.vectors}))
        content = {"config": self.config.to_dict(), "num_tokens": self.num_tokens, "words": self.words}
        content["vectors_sha256"] = sha256_of(Path(folder) / _VECTORS_FILE)
        write_sealed(Path(folder) / _CONFIG_FILE, content)

    @classmethod
    def load(cls, folder: str | Path) -> WordVectors:
        """Read a folder of word vectors.

        Raises:
            ModelFileError: the folder has no word vectors, or they are damaged.
        """
        path = Path(folder) / _CONFIG_FILE
        try:
            content = read_json(path)
            check_sha256(Path(folder) / _VECTORS_FILE, content.get("vectors_sha256"))
            arrays = load_file(Path(folder) / _VECTORS_FILE)
            out = cls(
                config=parse(VectorConfig, content["config"], where=str(path)),
                words=tuple(map(str, content["words"])),
                counts=arrays["counts"],
                vectors=arrays["vectors"],
                num_tokens=int(content["num_tokens"]),
            )
        except FileNotFoundError:
            raise ModelFileError(f"{folder}: has no word vectors, as WordVectors.save writes them") from None
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise ModelFileError(f"{path}: is damaged: {error}") from None
        shape = (len(out.words), out.config.dim)
        if out.vectors.shape != shape or out.counts.shape != shape[:1] or not out.words:
            raise ModelFileError(
                f"{path}: is damaged: {len(out.words)} words, but vectors of shape {out.vectors.shape}"
            )
        with np.errstate(all="ignore"):
            good = (np.abs(np.linalg.norm(out.vectors, axis=1) - 1) < _ROUNDING) & (out.counts > 0)
        if not good.all():
            word = out.words[int(good.argmin())]
            raise ModelFileError(
                f"{path}: is damaged: the vector of {shown(word)} is not of unit length, or its count is 0"
            )
        return out


def train_vectors(texts: Iterable[Text], config: VectorConfig) -> WordVectors:
    """Count word vectors from texts, which are read once; equal texts give equal vectors.

    Raises:
        DataError: the texts have too few distinct words.
    """
    tokens, words, counts, num_tokens = _read(texts, config)
    associations = _pmi(_pairs(tokens, len(words), config), config)
    if (beside := np.count_nonzero(np.diff(associations.indptr))) <= config.dim:
        raise DataError(
            f"{beside} distinct words occur {config.min_count} times or more and have neighbors, but vectors of "
            f"{config.dim} dimensions need more than {config.dim}; provide more text"
        )
    left, sizes = _largest_singular(associations, config.dim)
    vectors = left * np.sqrt(sizes)
    lengths = np.linalg.norm(vectors, axis=1)
    # A word without neighbors has a zero vector; scaling it would only scale rounding errors.
    used = lengths > _LEAST_LENGTH * lengths.max()
    return WordVectors(
        config=config,
        words=tuple(itertools.compress(words, used)),
        counts=counts[used],
        vectors=(vectors[used] / lengths[used, None]).astype(np.float32),
        num_tokens=num_tokens,
    )


def _largest_singular(
    matrix: SparseRows, number: int, *, iterations: int = 4, more: int = 10
) -> tuple[Float32, Float32]:
    """Return the largest left singular vectors, up to their signs, and singular values of a matrix with few columns.

    Randomized, with power iterations (Halko, Martinsson and Tropp 2011, algorithms 4.3 and 5.1). Bases are orthonormal
    by the eigenvectors of their products in double precision, summed tile by tile and by one thread of LAPACK: so the
    result does not depend on the number of threads.

    Args:
        more: vectors beyond `number` that the iterations have.
    """
    transposed = matrix.transposed()
    basis = np.random.RandomState(0).normal(size=(matrix.shape[1], number + more)).astype(np.float32)
    with threadpool_limits(1):
        for _ in range(iterations):
            basis = _orthonormal(matrix @ basis)
            basis = _orthonormal(transposed @ basis)
        basis = _orthonormal(matrix @ basis)
        squares, vectors = np.linalg.eigh(_products(transposed @ basis))
        left = basis @ vectors[:, ::-1][:, :number].astype(np.float32)
    sizes = np.sqrt(np.maximum(squares[::-1][:number], 0)).astype(np.float32)
    return left * np.sign(left[np.abs(left).argmax(0), np.arange(number)]), sizes


def _orthonormal(vectors: Float32) -> Float32:
    """Return an orthonormal basis of what the columns of a matrix span."""
    squares, directions = np.linalg.eigh(_products(vectors))
    lengths = np.sqrt(np.maximum(squares, _LEAST_SQUARE * max(squares[-1], np.finfo(np.float32).tiny)))
    basis: Float32 = vectors @ (directions / lengths).astype(np.float32)
    return basis


def _products(vectors: Float32) -> Float64:
    """Return the inner products of the columns of a matrix."""
    out = np.zeros((vectors.shape[1], vectors.shape[1]))
    for first in range(0, len(vectors), _TILE):
        tile = vectors[first : first + _TILE].astype(np.float64)
        out += tile.T @ tile
    return out


def _read(
    texts: Iterable[Text], config: VectorConfig
) -> tuple[npt.NDArray[np.int32], tuple[str, ...], npt.NDArray[np.int64], int]:
    """Return tokens as indices of words (-1: a rare word, or `window` times a border of texts), words and counts."""
    numbers: dict[str, int] = {}
    stream = array("i")
    num_tokens = 0
    for split in _split(texts, config):
        ids = np.array([numbers.setdefault(word, len(numbers)) for word in split.words], np.int32)
        ends = np.cumsum(split.lengths, dtype=np.int64)
        read = int(np.searchsorted(num_tokens + ends, config.max_tokens)) + 1  # documents, if there are enough
        ends = ends[:read]
        owners = np.repeat(np.arange(len(ends)), split.lengths[:read])
        part = np.full(sum(ends[-1:]) + config.window * len(ends), -1, np.int32)
        if len(ids):
            part[np.arange(len(owners)) + config.window * owners] = ids[split.index[: len(owners)]]
        stream.frombytes(part.tobytes())
        num_tokens += len(owners)
        if num_tokens >= config.max_tokens:
            break
    raw = np.frombuffer(stream, np.int32) if stream else np.zeros(0, np.int32)
    counts = np.bincount(raw[raw >= 0], minlength=len(numbers))
    order = np.argsort(-counts, kind="stable")[: config.max_words]
    order = order[counts[order] >= config.min_count]
    ranks = np.full(len(numbers) + 1, -1, np.int32)  # the last entry is for borders
    ranks[order] = np.arange(len(order))
    names = list(numbers)
    return ranks[raw], tuple(names[i] for i in order), counts[order], num_tokens


def _split(texts: Iterable[Text], config: VectorConfig) -> Iterator[SplitTexts]:
    """Yield the words of documents; a pair of texts is two."""
    documents = itertools.chain.from_iterable(map(_documents, texts))
    rules = TextConfig(lowercase=config.lowercase, contractions=config.contractions)
    for chunk in _chunks(documents):
        yield split_normal_words(chunk, rules, max_chars=_MAX_DOCUMENT)


def _chunks(documents: Iterable[str]) -> Iterator[list[str]]:
    """Divide documents into chunks that are split at a time."""
    chunk: list[str] = []
    size = 0
    for document in documents:
        chunk.append(document)
        size += len(document)
        if size >= _CHARS or len(chunk) == _DOCUMENTS:
            yield chunk
            chunk = []
            size = 0
    if chunk:
        yield chunk


def _documents(text: Text) -> tuple[str, ...]:
    return text if isinstance(text, tuple) else (text if isinstance(text, str) else " ".join(text),)


def _pairs(tokens: npt.NDArray[np.int32], num_words: int, config: VectorConfig) -> SparseRows:
    """Count how often each word occurs within the window of each context: (W, C)."""
    shape = (num_words, min(num_words, config.max_contexts))
    ends, columns, counts = count_pairs(np.ascontiguousarray(tokens, np.int32), config.window, *shape)
    starts = np.concatenate([np.zeros(1, np.int32), np.frombuffer(ends, np.int32)])
    return SparseRows(np.frombuffer(counts, np.float32), np.frombuffer(columns, np.int32), starts, shape)


def _pmi(counts: SparseRows, config: VectorConfig) -> SparseRows:
    """Return max(0, log P(w, c) / (P(w) P'(c))); P' is from counts to the power of `smoothing`."""
    owners = counts.owners
    of_word = np.bincount(owners, counts.data, counts.shape[0])
    of_context = np.bincount(counts.indices, counts.data, counts.shape[1]) ** config.smoothing
    expected = of_word[owners] * of_context[counts.indices] / of_context.sum()
    values = np.maximum(np.log(counts.data / expected), 0).astype(np.float32)
    kept = values > 0
    starts = np.append(0, np.cumsum(kept))[counts.indptr].astype(np.int32)
    return SparseRows(values[kept], counts.indices[kept], starts, counts.shape)
