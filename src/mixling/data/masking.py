"""Choose the tokens that a masked language model has to predict, and replace them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_Ids = npt.NDArray[np.int32]


def choose_masked(
    targets: npt.NDArray[np.int64],
    starts: npt.NDArray[np.bool_],
    *,
    fraction: float,
    whole_words: bool,
    rng: np.random.Generator,
) -> npt.NDArray[np.bool_]:
    """Return a mask (B, N), True at the tokens to hide: `fraction` of each text's tokens with a target, at least one.

    Whole words are taken in random order: the first one, then others as long as at least half of the word fits.

    Args:
        targets: (B, N), negative at tokens that are never hidden.
        starts: (B, N), True at the first token of each word.
        whole_words: hide all tokens of a word, or none.
    """
    allowed = targets >= 0
    wanted = np.maximum(np.round(fraction * allowed.sum(1)), 1).astype(np.int64)
    keys = rng.random(targets.shape)
    if whole_words:
        first = np.maximum.accumulate(np.where(starts, np.arange(targets.shape[1]), 0), axis=1)
        keys = np.take_along_axis(keys, first, axis=1)  # the tokens of a word share the key of its first one
    keys = np.where(allowed, keys, np.inf)
    order = np.argsort(keys, axis=1, kind="stable")
    ranks = np.arange(targets.shape[1])
    middles = np.broadcast_to(ranks, targets.shape)
    if whole_words:
        ordered = np.take_along_axis(keys, order, axis=1)
        changes = ordered[:, 1:] != ordered[:, :-1]
        edge = np.ones((len(keys), 1), bool)
        begin = np.maximum.accumulate(np.where(np.concatenate([edge, changes], 1), ranks, 0), axis=1)
        last = np.where(np.concatenate([changes, edge], 1), ranks, len(ranks))
        end = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]
        middles = np.where(begin == 0, 0, (begin + end) / 2)
    taken = (middles < wanted[:, None]) & np.take_along_axis(allowed, order, axis=1)
    out = np.zeros(targets.shape, bool)
    np.put_along_axis(out, order, taken, axis=1)
    return out


def replace_masked(
    tokens: _Ids,
    hidden: npt.NDArray[np.bool_],
    *,
    mask_row: int,
    others: Sequence[int] | _Ids,
    masked: float,
    random: float,
    rng: np.random.Generator,
) -> _Ids:
    """Return the tokens (B, N) that the model reads, with hidden ones replaced as in BERT.

    Args:
        hidden: (B, N), True at the hidden tokens.
        masked: probability (0.8 in BERT) of being replaced by `mask_row`.
        random: probability (0.1 in BERT) of being replaced by a random one of `others`; the rest are unchanged.
    """
    draw = rng.random(tokens.shape)
    drawn = np.asarray(others, np.int32)[rng.integers(len(others), size=tokens.shape)]
    out = np.where(hidden & (draw < masked), np.int32(mask_row), tokens)
    return np.where(hidden & (draw >= masked) & (draw < masked + random), drawn, out)
