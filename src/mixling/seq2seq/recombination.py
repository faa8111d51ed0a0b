"""Words and what answers say for them, given each other's places: new combinations to train on.

Source: LexSym (Akyurek and Andreas 2023): a lexicon is found in the training pairs, and its entries are exchanged in
source and target alike; data recombination (Jia and Liang 2016) did so with a grammar. Decided beyond it: an entry is
one piece and one piece, found by counting; those that answers repeat, as names, take the places of such only, and those
that they translate, as `shipped` by `ship`, of such only. No finer kinds are told apart, so what stands around a word
says what it is there, and a word that was seen in one place only is seen in all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mixling.seq2seq.batches import SubwordIds

_SAID = 0.9  # of the pairs with an entry's piece in the source, at least so many have its other one in the answer
_MEANT = 0.1  # and of those that say this, at least so many have that in the source
_COMMON = 0.1  # what more of all answers have is grammar, which words stand beside by chance, as COGS' "."


class Lexicon(NamedTuple):
    """Entries in rising order of their subwords in sources; of each, that piece and the one in answers."""

    source: npt.NDArray[np.int32]
    target: npt.NDArray[np.int32]


def learn_lexicon(pairs: Sequence[tuple[SubwordIds, SubwordIds]]) -> Lexicon:
    """The entries that the pairs show. A piece that answers repeat is its own entry; else the most alike counts.

    Args:
        pairs: sources and targets, each with its end piece.
    """
    rows = [(set(source[:-1].tolist()), set(target[:-1].tolist())) for source, target in pairs]
    sources, targets = (Counter(subword for row in rows for subword in row[side]) for side in (0, 1))
    most = max(_COMMON * len(rows), 1)
    together = Counter(
        (subword, other) for source, target in rows for subword in source for other in target if targets[other] <= most
    )
    found: dict[int, tuple[float, int]] = {}
    for (subword, other), count in together.items():
        if count < _SAID * sources[subword] or (subword != other and count < _MEANT * targets[other]):
            continue
        alike = 2.0 if subword == other else 2 * count / (sources[subword] + targets[other])
        found[subword] = max(found.get(subword, (0.0, 0)), (alike, -other))
    entries = sorted((subword, -other) for subword, (_, other) in found.items())
    return Lexicon(*np.array(entries, np.int32).reshape(-1, 2).T)


def recombine(
    source: SubwordIds, target: SubwordIds, lexicon: Lexicon, fraction: float, rng: np.random.Generator
) -> tuple[SubwordIds, SubwordIds]:
    """The pair with a random `fraction` of its entries exchanged, in both texts, for others of the same kind.

    Entries whose subwords stand in either text are not drawn, so that different words stay different; entries that
    share what the answer says of them stay.
    """
    in_source, in_target = np.isin(lexicon.source, source), np.isin(lexicon.target, target)
    present = np.flatnonzero(in_source & in_target)
    outputs, counts = np.unique(lexicon.target[present], return_counts=True)
    free, repeated = ~in_source & ~in_target, lexicon.source == lexicon.target
    changes: dict[int, int] = {}
    answers: dict[int, int] = {}
    for entry in present[rng.random(len(present)) < fraction]:
        others = np.flatnonzero(free & (repeated == repeated[entry]))
        if not len(others) or counts[outputs == lexicon.target[entry]] > 1:
            continue
        new = rng.choice(others)
        free &= (lexicon.source != lexicon.source[new]) & (lexicon.target != lexicon.target[new])
        changes[int(lexicon.source[entry])] = int(lexicon.source[new])
        answers[int(lexicon.target[entry])] = int(lexicon.target[new])
    if not changes:
        return source, target
    return _replaced(source, changes), _replaced(target, answers)


def _replaced(text: SubwordIds, changes: dict[int, int]) -> SubwordIds:
    return np.array([changes.get(subword, subword) for subword in text.tolist()], np.int32)
