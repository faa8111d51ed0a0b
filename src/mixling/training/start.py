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
from mixling.models.frontend import ProjectionFrontend
from mixling.text.encoder import TextConfig, TextEncoder
from mixling.text.fingerprint import AveragedEmbedding, Units
from mixling.text.vectors import WordVectors

# Of the mean diagonal of the normal equations; the best on words held out is taken.
_PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_HELD_OUT = 10  # every tenth word


@dataclass(frozen=True, kw_only=True)
class Started:
    """words: regressed on. explained: share of the vectors' variance, of words held out; weighted by sqrt(count)."""

    words: int
    explained: float
    penalty: float


def start_bottleneck(
    frontend: ProjectionFrontend, encoder: TextEncoder, vectors: WordVectors, *, scale: float = 0.5
) -> Started:
    """Set the bottleneck's rows by ridge regression of the word vectors.

    Of a wider bottleneck the first `vectors.config.dim` columns are set, of a narrower one all, to the widest
    directions. Words' rows have a root mean square of `scale` for each column that is set.

    Raises:
        ConfigError: the front end has an embedding table, or reads words that were split otherwise.
    """
    text, config = encoder.config, vectors.config
    check_projection(text)
    for name in ("lowercase", "contractions"):
        if getattr(text, name) != getattr(config, name):
            raise ConfigError(
                f"the word vectors were made with {name} = {getattr(config, name)}, the model has "
                f"model.text.{name} = {getattr(text, name)}; make one like the other"
            )
    features = _features(encoder, vectors.words)
    weights = np.sqrt(vectors.counts.astype(np.float64))
    wanted = vectors.vectors.astype(np.float64)
    held_out = np.arange(len(wanted)) % _HELD_OUT == _HELD_OUT - 1
    scores = {}
    for penalty, rows in _ridge(features[~held_out], wanted[~held_out], weights[~held_out], _PENALTIES):
        rest = np.square(features[held_out] @ rows - wanted[held_out]).sum(1) @ weights[held_out]
        scores[penalty] = 1 - rest / (np.square(wanted[held_out]).sum(1) @ weights[held_out])
    penalty = max(scores, key=lambda item: scores[item])
    rows = next(_ridge(features, wanted, weights, (penalty,)))[1]
    made = features @ rows
    rows *= scale / np.sqrt(np.average(np.square(made).mean(1), weights=weights))
    with torch.no_grad():
        width = min(rows.shape[1], frontend.dim)
        # The word's own of the 2w+1 matrices; the common one of a factorised window.
        first = 0 if frontend.spread is not None else frontend.window * frontend.dim
        frontend.weight[: len(rows), first : first + width] = torch.from_numpy(rows[:, :width])
    return Started(words=len(wanted), explained=float(scores[penalty]), penalty=penalty)


def check_projection(text: TextConfig) -> None:
    """Refuse a start where there is nothing to regress on.

    Raises:
        ConfigError: the front end has a table of units.
    """
    if isinstance(text.projection, Units | AveragedEmbedding):
        raise ConfigError(
            f"a start from word vectors needs hashed features; projection {text.projection.type!r} has none"
        )


def _features(encoder: TextEncoder, words: tuple[str, ...]) -> Any:
    """The features of words as a sparse matrix (W, m), the counts of the bags."""
    from scipy.sparse import coo_matrix

    rows = np.concatenate([item.words[:1] for item in encoder.encode([[word] for word in words])])
    bags = encoder.bags(rows)
    values = np.ones(bags.positions.shape, np.float64) if bags.weights is None else bags.weights
    places = np.repeat(np.arange(len(words)), bags.positions.shape[1])
    shape = (len(words), encoder.config.num_rows)
    return coo_matrix((values.ravel(), (places, bags.positions.ravel())), shape, dtype=np.float64).tocsr()


def _ridge(features: Any, wanted: npt.NDArray[np.float64], weights: npt.NDArray[np.float64], penalties: tuple) -> Any:
    """Each penalty with the (m, dim) rows that it gives."""
    from scipy.linalg import solve

    weighted = features.multiply(weights[:, None]).tocsr()
    squares = (features.T @ weighted).toarray()
    products = weighted.T @ wanted
    mean = np.trace(squares) / len(squares)
    for penalty in penalties:
        yield penalty, solve(squares + penalty * mean * np.eye(len(squares)), products, assume_a="pos")
