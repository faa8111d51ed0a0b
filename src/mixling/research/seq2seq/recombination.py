"""Augmentation by a lexicon: words, and their translations in the targets, are replaced by others.

Source: LexSym (Akyurek and Andreas 2023), where a lexicon is learned from the training pairs and its entries are
exchanged in source and target; data recombination (Jia and Liang 2016) did so with a grammar. Differences: an entry is
a pair of subwords, found by counting. Entries that targets repeat, such as names, are only exchanged among each other,
and so are entries that are translated, such as `shipped` to `ship`. There are no finer types, so that a word seen in
one context only is seen in all contexts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mixling.research.seq2seq.batches import SubwordIds

_RECALL = 0.9  # least fraction of the pairs with an entry's source subword that have its target subword
_PRECISION = 0.1  # least fraction of the pairs with the target subword that have the source subword
_COMMON = 0.1  # subwords in more than this fraction of all targets are syntax that co-occurs by chance, as COGS' "."


class Lexicon(NamedTuple):
    """Entries sorted by source subword: the subwords in sources, and those in targets, (entries,) each."""

    source: npt.NDArray[np.int32]
    target: npt.NDArray[np.int32]


def learn_lexicon(pairs: Sequence[tuple[SubwordIds, SubwordIds]]) -> Lexicon:
    """Learn a lexicon. A source subword is paired with itself if targets repeat it, else with the most similar subword.

    Args:
        pairs: sources and targets, each with its end token.
    """
    rows = [(set(source[:-1].tolist()), set(target[:-1].tolist())) for source, target in pairs]
    sources, targets = (Counter(subword for row in rows for subword in row[side]) for side in (0, 1))
    most = max(_COMMON * len(rows), 1)
    together = Counter(
        (subword, other) for source, target in rows for subword in source for other in target if targets[other] <= most
    )
    best: dict[int, tuple[float, int]] = {}
    for (subword, other), count in together.items():
        if count < _RECALL * sources[subword] or (subword != other and count < _PRECISION * targets[other]):
            continue
        similarity = 2.0 if subword == other else 2 * count / (sources[subword] + targets[other])
        best[subword] = max(best.get(subword, (0.0, 0)), (similarity, -other))
    entries = sorted((subword, -other) for subword, (_, other) in best.items())
    return Lexicon(*np.array(entries, np.int32).reshape(-1, 2).T)


def recombine(
    source: SubwordIds, target: SubwordIds, lexicon: Lexicon, fraction: float, rng: np.random.Generator
) -> tuple[SubwordIds, SubwordIds]:
    """Return the pair with a random `fraction` of its entries replaced, in both texts, by others of the same kind.

    Replacements do not occur in either text, so that different words stay different. Entries with the same target
    subword are not replaced.
    """
    in_source = np.isin(lexicon.source, source)
    in_target = np.isin(lexicon.target, target)
    present = np.flatnonzero(in_source & in_target)
    outputs, counts = np.unique(lexicon.target[present], return_counts=True)
    free = ~in_source & ~in_target
    repeated = lexicon.source == lexicon.target
    in_source_changes: dict[int, int] = {}
    in_target_changes: dict[int, int] = {}
    for entry in present[rng.random(len(present)) < fraction]:
        others = np.flatnonzero(free & (repeated == repeated[entry]))
        if not len(others) or counts[outputs == lexicon.target[entry]] > 1:
            continue
        new = rng.choice(others)
        free &= (lexicon.source != lexicon.source[new]) & (lexicon.target != lexicon.target[new])
        in_source_changes[int(lexicon.source[entry])] = int(lexicon.source[new])
        in_target_changes[int(lexicon.target[entry])] = int(lexicon.target[new])
    if not in_source_changes:
        return source, target
    return _replaced(source, in_source_changes), _replaced(target, in_target_changes)


def _replaced(text: SubwordIds, changes: dict[int, int]) -> SubwordIds:
    return np.array([changes.get(subword, subword) for subword in text.tolist()], np.int32)
