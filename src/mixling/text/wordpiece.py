"""WordPiece: words split by the longest subwords they begin with, and subwords trained by merging frequent pairs.

Words are split as BERT's (Devlin et al., 2019). Training is byte pair encoding (Sennrich et al., 2016, algorithm 1)
over the characters of words, with a mark on each subword that continues one.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

CONTINUATION = "##"
_MAX_CHARS = 1_000  # of a word that is split into subwords

Neighbors = tuple[int, int]


def split_word(word: str, subwords: Collection[str], continuation: str = CONTINUATION) -> list[str]:
    """Return the subwords of a word, each the longest that fits; an empty list if it cannot be split."""
    split: list[str] = []
    start = 0
    while start < len(word) <= _MAX_CHARS:
        mark = continuation if start else ""
        end = len(word)
        while end > start and mark + word[start:end] not in subwords:
            end -= 1
        if end == start:
            return []
        split.append(mark + word[start:end])
        start = end
    return split


def train_wordpiece(counts: Mapping[str, int], size: int, fixed: Sequence[str]) -> list[str]:
    """Return subwords in the order of their ids; the same words give the same subwords.

    The most frequent pair of neighboring subwords becomes one, until there are `size`; of equally frequent pairs, the
    one whose subwords were made first. Every character of the words has a subword, even beyond `size`.

    Args:
        counts: how often each word occurs.
        size: number of subwords, the fixed ones included.
        fixed: special tokens, which come first.
    """
    words = [word for word in counts if word]
    chars = set().union(*words)  # new words may begin with any of them
    later = {CONTINUATION + char for word in words for char in word[1:]}
    names = [*fixed, *sorted(chars), *sorted(later)]
    ids = {name: number for number, name in enumerate(names)}
    spelled: list[list[int]] = []
    pairs: Counter[Neighbors] = Counter()
    places: defaultdict[Neighbors, set[int]] = defaultdict(set)  # words that have, or had, a pair
    for number, word in enumerate(words):
        spelled.append([ids[word[0]], *(ids[CONTINUATION + char] for char in word[1:])])
        for pair in pairwise(spelled[number]):
            pairs[pair] += counts[word]
            places[pair].add(number)
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapq.heapify(heap)
    while heap and len(names) < size:
        count, pair = heapq.heappop(heap)
        if -count != pairs[pair]:  # some of its words have been merged otherwise since
            if pairs[pair] > 0:
                heapq.heappush(heap, (-pairs[pair], pair))
            continue
        name = names[pair[0]] + names[pair[1]].removeprefix(CONTINUATION)
        merged = ids.setdefault(name, len(names))
        if merged == len(names):
            names.append(name)
        grown: set[Neighbors] = set()
        for number in places.pop(pair):
            times = counts[words[number]]
            before = spelled[number]
            after = _merge(before, pair, merged)
            spelled[number] = after
            for old in pairwise(before):
                pairs[old] -= times
            for new in pairwise(after):
                pairs[new] += times
                if merged in new:
                    places[new].add(number)
                    grown.add(new)
        for new in grown:
            heapq.heappush(heap, (-pairs[new], new))
    return names


def _merge(subwords: Sequence[int], pair: Neighbors, merged: int) -> list[int]:
    """Return subwords with each occurrence of a pair, from the left, as one."""
    out: list[int] = []
    at = 0
    while at < len(subwords):
        both = tuple(subwords[at : at + 2]) == pair
        out.append(merged if both else subwords[at])
        at += 2 if both else 1
    return out
