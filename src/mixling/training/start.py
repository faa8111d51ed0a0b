"""The unsupervised start of a projection: its bottleneck makes word vectors before it has seen a label.

The vectors of words (`mixling.text.vectors`) are regressed on the features that the projection gives the words, so that
words which no corpus had get vectors too, by what they share with others. Ours.
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

# Of the mean diagonal of the normal equations. Chosen on the accuracy of models that began so, where 0.001 to 0.1 are
# alike: what counts are the vectors of known words, and a penalty that is best for words left out (above 1) blurs them.
_PENALTY = 0.03


@dataclass(frozen=True, kw_only=True)
class Started:
    """words: regressed on. explained: share of their vectors' squares that the rows make, weighted by sqrt(count)."""

    words: int
    explained: float


def start_bottleneck(
    embedding: ProjectionEmbedding, encoder: TextEncoder, vectors: WordVectors, *, scale: float = 0.5
) -> Started:
    """Set the bottleneck's rows by ridge regression of the word vectors.

    Of a wider bottleneck the first `vectors.config.dim` columns are set, of a narrower one all, to the widest
    directions. Words' rows have a root mean square of `scale` for each column that is set.

    Raises:
        ConfigError: the embedding layer has an embedding table, or reads words that were split otherwise.
    """
    text, config = encoder.config, vectors.config
    check_projection(text)
    if text.lowercase != config.lowercase:
        raise ConfigError(
            f"the word vectors were made with lowercase = {config.lowercase}, the model has model.text.lowercase = "
            f"{text.lowercase}; make others: mixling vectors --set lowercase={str(text.lowercase).lower()}"
        )
    features = _features(encoder, vectors.words)
    weights = np.sqrt(vectors.counts.astype(np.float64))
    wanted = vectors.vectors.astype(np.float64)
    rows = _ridge(features, wanted, weights)
    made = features @ rows
    explained = 1 - np.square(made - wanted).sum(1) @ weights / (np.square(wanted).sum(1) @ weights)
    rows *= scale / np.sqrt(np.average(np.square(made).mean(1), weights=weights))
    with torch.no_grad():
        width = min(rows.shape[1], embedding.dim)
        # The word's own of the 2w+1 matrices; the common one of a factorised window.
        first = 0 if embedding.spread is not None else embedding.window * embedding.dim
        embedding.weight[: len(rows), first : first + width] = torch.from_numpy(rows[:, :width])
    return Started(words=len(wanted), explained=float(explained))


def check_projection(text: TextConfig) -> None:
    """Refuse a start where there is nothing to regress on.

    Raises:
        ConfigError: the embedding layer has a table of subwords.
    """
    if not text.projection.hashed:
        raise ConfigError(
            f"a start from word vectors needs hashed features; projection {text.projection.type!r} has none"
        )


def _features(encoder: TextEncoder, words: tuple[str, ...]) -> Any:
    """The features of words as a sparse matrix (W, m), the counts of the bags."""
    from scipy.sparse import coo_matrix

    rows = np.concatenate([item.words[:1] for item in encoder.encode([[word] for word in words])])
    bags = encoder.bags(rows)
    values = np.ones(bags.positions.shape, np.float64) if bags.weights is None else bags.weights
    locations = np.repeat(np.arange(len(words)), bags.positions.shape[1])
    shape = (len(words), encoder.config.num_rows)
    return coo_matrix((values.ravel(), (locations, bags.positions.ravel())), shape, dtype=np.float64).tocsr()


def _ridge(features: Any, wanted: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> Any:
    """The (m, dim) rows that make the vectors of words from their features best."""
    from scipy.linalg import solve

    weighted = features.multiply(weights[:, None]).tocsr()
    squares = (features.T @ weighted).toarray()
    squares[np.diag_indices_from(squares)] += _PENALTY * np.trace(squares) / len(squares)
    return solve(squares, weighted.T @ wanted, assume_a="pos")
