"""Which tokens of a text are hidden from a masked language model, and what stands in their place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int32]


def choose_masked(
    targets: npt.NDArray[np.int64],
    starts: npt.NDArray[np.bool_],
    *,
    fraction: float,
    whole_words: bool,
    rng: np.random.Generator,
) -> npt.NDArray[np.bool_]:
    """(B, N), True at the tokens to hide: of each text `fraction` of those with a target, at least one.

    Whole words are taken in a random order: the first, and the others as long as no more than half of a word is too
    much.

    Args:
        targets: (B, N), negative at tokens that are never hidden.
        starts: (B, N), True at the first token of each word.
    """
    allowed = targets >= 0
    wanted = np.maximum(np.round(fraction * allowed.sum(1)), 1).astype(np.int64)
    keys = rng.random(targets.shape)
    if whole_words:
        first = np.maximum.accumulate(np.where(starts, np.arange(targets.shape[1]), 0), axis=1)
        keys = np.take_along_axis(keys, first, axis=1)  # the tokens of a word have the number of its first one
    keys = np.where(allowed, keys, np.inf)
    order = np.argsort(keys, axis=1, kind="stable")
    locations = np.arange(targets.shape[1])
    middles = np.broadcast_to(locations, targets.shape)
    if whole_words:
        ranked = np.take_along_axis(keys, order, axis=1)
        changes = ranked[:, 1:] != ranked[:, :-1]
        edge = np.ones((len(keys), 1), bool)
        begin = np.maximum.accumulate(np.where(np.concatenate([edge, changes], 1), locations, 0), axis=1)
        last = np.where(np.concatenate([changes, edge], 1), locations, len(locations))
        end = np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]
        middles = np.where(begin == 0, 0, (begin + end) / 2)
    taken = (middles < wanted[:, None]) & np.take_along_axis(allowed, order, axis=1)
    out = np.zeros(targets.shape, bool)
    np.put_along_axis(out, order, taken, axis=1)
    return out


def replace_masked(
    tokens: Rows,
    hidden: npt.NDArray[np.bool_],
    *,
    mask_row: int,
    others: Sequence[int] | Rows,
    masked: float,
    random: float,
    rng: np.random.Generator,
) -> Rows:
    """The tokens (B, N) as the model reads them: of the hidden ones `masked` are `mask_row`, `random` any of `others`.

    BERT's 80% and 10%; the rest stay as they are.
    """
    draw = rng.random(tokens.shape)
    drawn = np.asarray(others, np.int32)[rng.integers(len(others), size=tokens.shape)]
    out = np.where(hidden & (draw < masked), np.int32(mask_row), tokens)
    return np.where(hidden & (draw >= masked) & (draw < masked + random), drawn, out)
