"""Pieces that answers repeat from their sources, given each other's places: new combinations to train on.

Source: data recombination (Jia and Liang 2016, section 3) in its simplest form, in which entities take each other's
places in a text and its parse; here no grammar says which pieces are entities, the training pairs do. Decided beyond
it: every repeated piece may take the place of every other, so that what stands around a piece says what it is there,
and a piece that was seen in one place only is seen in all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mixling.data.pair_batches import Pieces

_REPEATED = 0.9  # of the pairs with the piece in the source, at least so many have it in the answer
_COMMON = 0.1  # a piece in more of all sources is grammar, which parses repeat by chance, as COGS' "."


def repeated_pieces(pairs: Sequence[tuple[Pieces, Pieces]]) -> npt.NDArray[np.int32]:
    """The pieces that answers repeat wherever a source has them, but for those of most sources; in rising order.

    Args:
        pairs: sources and targets, each with its end piece.
    """
    sources, both = Counter[int](), Counter[int]()
    for source, target in pairs:
        pieces = set(source[:-1].tolist())
        sources.update(pieces)
        both.update(pieces & set(target[:-1].tolist()))
    found = [
        piece
        for piece, count in both.items()
        if count >= _REPEATED * sources[piece] and sources[piece] <= max(_COMMON * len(pairs), 1)
    ]
    return np.array(sorted(found), np.int32)


def recombine(
    source: Pieces, target: Pieces, repeated: npt.NDArray[np.int32], share: float, rng: np.random.Generator
) -> tuple[Pieces, Pieces]:
    """The pair with a random `share` of its repeated pieces exchanged, in both texts, for others drawn alike.

    Pieces that stand in either text are not drawn, so that different pieces stay different.
    """
    in_source, in_target = np.isin(repeated, source), np.isin(repeated, target)
    present, free = repeated[in_source & in_target], repeated[~(in_source | in_target)]
    old = present[rng.random(len(present)) < share]
    old = rng.permutation(old)[: len(free)]
    if not len(old):
        return source, target
    new = dict(zip(old.tolist(), rng.choice(free, len(old), replace=False).tolist(), strict=True))
    source, target = (
        np.array([new.get(piece, piece) for piece in text.tolist()], np.int32) for text in (source, target)
    )
    return source, target
