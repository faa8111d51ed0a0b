"""Initialization of a projection's bottleneck from word vectors.

Word vectors (`mixling.text.vectors`) are regressed on the feature indices of their words, so that unseen words get
vectors too, by the features they share with others. The method is this project's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from mixling.arrays import Float32
from mixling.errors import ConfigError
from mixling.native.cholesky import Cholesky
from mixling.native.sparse import SparseRows
from mixling.networks.config import EmbeddingConfig
from mixling.text.config import TextConfig
from mixling.text.encoder import TextEncoder
from mixling.text.vectors import WordVectors

# As a fraction of the mean diagonal of the normal equations. Chosen by the accuracy of initialized models, for which
# 0.001 to 0.1 are alike: the vectors of known words matter, and the best penalty for unseen words (above 1) blurs them.
_PENALTY = 0.03


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The quality of an initialization.

    Attributes:
        words: number of words.
        explained: fraction of their vectors' squares that the embeddings reproduce, weighted by sqrt(count).
    """

    words: int
    explained: float


def init_bottleneck(
    table: Float32,
    options: EmbeddingConfig,
    encoder: TextEncoder,
    vectors: WordVectors,
    *,
    dim: int,
    scale: float = 0.5,
) -> Fit:
    """Set the rows of the bottleneck by ridge regression of the word vectors.

    If the bottleneck is wider than the vectors, its first `vectors.config.dim` columns are set; if it is narrower, it
    gets the first dimensions of the vectors.

    Args:
        table: the weights of the bottleneck, which are changed.
        options: of the embedding.
        dim: D, the width of the tokens.
        scale: root mean square of the resulting embeddings of words, per column.

    Raises:
        ConfigError: the projection does not hash, or the vectors were made with another `lowercase`.
    """
    text = encoder.config
    config = vectors.config
    check_projection(text)
    if text.lowercase != config.lowercase:
        raise ConfigError(
            f"the word vectors were made with lowercase = {config.lowercase}, but the model has model.text.lowercase = "
            f"{text.lowercase}; make others with VectorConfig(lowercase={text.lowercase})"
        )
    features = _features(encoder, vectors.words)
    weights = np.sqrt(vectors.counts).astype(np.float32)
    wanted = vectors.vectors.astype(np.float32)
    rows = _ridge(features, wanted, weights)
    fitted = features @ rows
    explained = 1 - np.square(fitted - wanted).sum(1) @ weights / (np.square(wanted).sum(1) @ weights)
    rows *= scale / np.sqrt(np.average(np.square(fitted).mean(1), weights=weights))
    width = min(rows.shape[1], dim)
    # The matrix of the word itself among the 2w+1 of its window, or the shared matrix of a factorized window.
    first = 0 if options.window_type == "factorized" else options.window * dim
    table[: len(rows), first : first + width] = rows[:, :width]
    return Fit(words=len(wanted), explained=float(explained))


def read_embeddings(path: str | None, shape: tuple[int, ...]) -> Float32:
    """Return the fixed embeddings of a .npy or .safetensors file; a saved model has them among its weights.

    Raises:
        ConfigError: the configuration names no file, or the file has no matrix of the right shape.
    """
    if path is None:
        raise ConfigError("projection 'embedding': set model.embedding.embeddings to a .npy or .safetensors file")
    try:
        arrays = (
            list(load_file(path).values()) if path.endswith(".safetensors") else [np.load(path, allow_pickle=False)]
        )
    except (OSError, ValueError, SafetensorError) as error:
        raise ConfigError(f"{path}: cannot be read as subword embeddings: {error}") from None
    if (shapes := [array.shape for array in arrays]) != [shape]:
        raise ConfigError(
            f"{path}: has arrays of shapes {shapes}; one of (num_features, embedding_dim) = {shape} is needed"
        )
    return np.asarray(arrays[0], np.float32)


def check_projection(text: TextConfig) -> None:
    """Check that a projection can be initialized from word vectors.

    Raises:
        ConfigError: it does not hash.
    """
    if not text.projection.hashed:
        raise ConfigError(
            f"initialization from word vectors needs hashed features; projection {text.projection.type!r} has none"
        )


def _features(encoder: TextEncoder, words: tuple[str, ...]) -> SparseRows:
    """Return the weights of the features of words as a sparse matrix (words, features)."""
    rows = np.concatenate([item.words[:1] for item in encoder.encode([[word] for word in words])])
    bags = encoder.bags(rows)
    values = np.ones(bags.features.shape, np.float32) if bags.weights is None else bags.weights
    ends = np.arange(0, values.size + 1, values.shape[1], dtype=np.int32)
    return SparseRows(values.ravel(), bags.features.ravel(), ends, (len(words), encoder.config.num_rows))


def _ridge(features: SparseRows, wanted: Float32, weights: Float32) -> Float32:
    """Return the matrix (features, dim) that reproduces the vectors of words from their features best.

    In single precision: the penalty bounds the condition of the equations by the number of features over `_PENALTY`.
    """
    transposed = features.transposed()
    weighted = replace(transposed, data=transposed.data * weights[transposed.indices])
    squares = transposed.upper_product(weighted.transposed())
    size = features.shape[1]
    squares[np.diag_indices(size)] += np.float32(_PENALTY * np.trace(squares, dtype=np.float64) / size)
    return Cholesky(squares).solve(weighted @ wanted)
