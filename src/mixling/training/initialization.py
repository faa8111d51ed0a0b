"""Initialization of a projection's bottleneck from word vectors.

Word vectors (`mixling.text.vectors`) are regressed on the feature indices of their words, so that unseen words get
vectors too, by the features they share with others. The method is this project's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mixling.errors import ConfigError
from mixling.models.embedding import ProjectionEmbedding
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
    embedding: ProjectionEmbedding, encoder: TextEncoder, vectors: WordVectors, *, scale: float = 0.5
) -> Fit:
    """Set the rows of the bottleneck by ridge regression of the word vectors.

    If the bottleneck is wider than the vectors, its first `vectors.config.dim` columns are set; if it is narrower, it
    gets the first dimensions of the vectors.

    Args:
        scale: root mean square of the resulting embeddings of words, per column.

    Raises:
        ConfigError: the projection does not hash, or the vectors were made with another `lowercase`.
    """
    text, config = encoder.config, vectors.config
    check_projection(text)
    if text.lowercase != config.lowercase:
        raise ConfigError(
            f"the word vectors were made with lowercase = {config.lowercase}, but the model has model.text.lowercase = "
            f"{text.lowercase}; make others: mixling vectors --set lowercase={str(text.lowercase).lower()}"
        )
    features = _features(encoder, vectors.words)
    weights = np.sqrt(vectors.counts.astype(np.float64))
    wanted = vectors.vectors.astype(np.float64)
    rows = _ridge(features, wanted, weights)
    fitted = features @ rows
    explained = 1 - np.square(fitted - wanted).sum(1) @ weights / (np.square(wanted).sum(1) @ weights)
    rows *= scale / np.sqrt(np.average(np.square(fitted).mean(1), weights=weights))
    with torch.no_grad():
        width = min(rows.shape[1], embedding.dim)
        # The matrix of the word itself among the 2w+1 of its window, or the shared matrix of a factorized window.
        first = 0 if embedding.spread is not None else embedding.window * embedding.dim
        embedding.weight[: len(rows), first : first + width] = torch.from_numpy(rows[:, :width])
    return Fit(words=len(wanted), explained=float(explained))


def check_projection(text: TextConfig) -> None:
    """Check that a projection can be initialized from word vectors.

    Raises:
        ConfigError: it does not hash.
    """
    if not text.projection.hashed:
        raise ConfigError(
            f"initialization from word vectors needs hashed features; projection {text.projection.type!r} has none"
        )


def _features(encoder: TextEncoder, words: tuple[str, ...]) -> Any:
    """Return the weights of the features of words as a sparse matrix (words, features)."""
    from scipy.sparse import coo_matrix

    rows = np.concatenate([item.words[:1] for item in encoder.encode([[word] for word in words])])
    bags = encoder.bags(rows)
    values = np.ones(bags.positions.shape, np.float64) if bags.weights is None else bags.weights
    locations = np.repeat(np.arange(len(words)), bags.positions.shape[1])
    shape = (len(words), encoder.config.num_rows)
    return coo_matrix((values.ravel(), (locations, bags.positions.ravel())), shape, dtype=np.float64).tocsr()


def _ridge(features: Any, wanted: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> Any:
    """Return the matrix (features, dim) that reproduces the vectors of words from their features best."""
    from scipy.linalg import solve

    weighted = features.multiply(weights[:, None]).tocsr()
    squares = (features.T @ weighted).toarray()
    squares[np.diag_indices_from(squares)] += _PENALTY * np.trace(squares) / len(squares)
    return solve(squares, weighted.T @ wanted, assume_a="pos")
