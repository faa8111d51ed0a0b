"""Word 1-2-grams and character n-grams of a text, as 32-bit hashes.

The terms of a text are its distinct words, its distinct pairs of neighboring words, and the character n-grams of each
distinct word with a space before and after it. Words are taken as the model's encoder has them: split,
cut, normalized, and in several texts marked where the encoder marks them (`TextConfig.segments`, `.overlap`), in which
case each word has its marks as a term, too. No pair of words goes over the separator of two texts.

With `segments`, a word of a further text has the terms that it would have in the first, so that what is alike in all is
learned once, and beside them its n-grams, its marks and itself as terms of that text alone. A word of two texts counts
once, as it is in the first.

The hashes belong to the file format (`HASH_VERSION` of `mixling.text.fingerprint`). All arithmetic is modulo 2^32:

    word       mix(fnv(UTF-8) xor mix(marks + 1))
    pair       mix(first * 0x9E3779B1 + mix(second) + 7)
    n-gram     mix(fnv(code points) xor mix(4096 n + marks + 1)), where FNV-1a's step takes a whole code point
    marks      mix(marks + 0x51ED270B)

`fnv` and `mix` are the projections' functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from mixling.arrays import Int32, Int64, UInt32
from mixling.text.hashes import hash_strings, mix
from mixling.text.table import FIRST, FURTHER, WordTable

_CHARS = 1 << 20  # whose n-grams are hashed at a time
_PART_WORDS = 1 << 15  # of texts that are computed at a time


def word_hashes(words: Sequence[str], marks: npt.NDArray[np.integer]) -> UInt32:
    """Return the hashes (W,) of normalized words and their marks."""
    if not words:
        return np.zeros(0, np.uint32)
    return mix(hash_strings(words) ^ mix(marks.astype(np.uint32) + np.uint32(1)))


def pair_hashes(first: UInt32, second: UInt32) -> UInt32:
    """Return the hashes (P,) of pairs of words, given by theirs."""
    return mix(first * np.uint32(0x9E3779B1) + mix(second) + np.uint32(7))


def gram_hashes(
    words: Sequence[str], marks: npt.NDArray[np.integer], min_n: int, max_n: int, *, marked: bool
) -> tuple[UInt32, Int64]:
    """Return the hashes of each word's character n-grams, and of its marks if it is `marked`.

    A word of a text after the first has these without the mark of its text, and then with it, and itself with it.

    Returns:
        the hashes (G,) word after word, repeated where a word has an n-gram twice; and where each word's begin
        (W + 1,).
    """
    padded = [f" {word} " for word in words]
    lengths = np.array(list(map(len, padded)), np.int64)
    points = np.frombuffer("".join(padded).encode("utf-32-le"), np.uint32)
    owners = np.repeat(np.arange(len(words)), lengths)
    is_further = marks & FURTHER > 0
    of_further = np.flatnonzero(is_further)
    free, own = ((kept.astype(np.uint32) + np.uint32(1)) for kept in (marks & ~FURTHER, marks))
    found: list[tuple[UInt32, Int64]] = []
    hashes = np.full(len(points), 2166136261, np.uint32)
    for n in range(1, min(max_n, int(lengths.max(initial=0))) + 1):
        count = len(points) - n + 1
        hashes = (hashes[:count] ^ points[n - 1 :]) * np.uint32(16777619)
        if n >= min_n:
            inside = owners[:count] == owners[n - 1 :]
            owner = owners[:count][inside]
            found.append((mix(hashes[inside] ^ mix(np.uint32(4096 * n) + free[owner])), owner))
            if len(of_further):
                inside &= is_further[owners[:count]]
                owner = owners[:count][inside]
                found.append((mix(hashes[inside] ^ mix(np.uint32(4096 * n) + own[owner])), owner))
    if marked:
        found.append((mix(free + np.uint32(0x51ED270A)), np.arange(len(words))))
        found.append((mix(own[of_further] + np.uint32(0x51ED270A)), of_further))
    found.append((word_hashes([words[i] for i in of_further.tolist()], marks[of_further]), of_further))
    owner = np.concatenate([np.zeros(0, np.int64), *(item for _, item in found)])
    order = np.argsort(owner, kind="stable")
    starts = np.zeros(len(words) + 1, np.int64)
    np.cumsum(np.bincount(owner, minlength=len(words)), out=starts[1:])
    return np.concatenate([np.zeros(0, np.uint32), *(item for item, _ in found)])[order], starts


@dataclass(frozen=True, slots=True)
class Words:
    """The terms of rows of a word table.

    Attributes:
        hashes: (R,) of the words themselves.
        grams: (G,) of their character n-grams, word after word; row r's begin at `starts` (R + 1,)[r].
    """

    hashes: UInt32
    grams: UInt32
    starts: Int64

    @classmethod
    def of_table(cls, table: WordTable, first: int, min_n: int, max_n: int) -> Words:
        """Return the terms of a table's rows from `first` on; special rows, below `FIRST`, have n-grams that no text
        counts."""
        words, marks = table.words_from(first)
        marked = table.config.segments > 0 or table.config.overlap
        parts = []
        begin = 0
        ends = np.cumsum(list(map(len, words)))
        while begin < len(words):
            spent = ends[begin - 1] if begin else 0
            end = max(int(np.searchsorted(ends, spent + _CHARS)), begin + 1)
            parts.append(gram_hashes(words[begin:end], marks[begin:end], min_n, max_n, marked=marked))
            begin = end
        sizes = np.concatenate([np.zeros(1, np.int64), *(np.diff(starts) for _, starts in parts)])
        grams = np.concatenate([np.zeros(0, np.uint32), *(hashes for hashes, _ in parts)])
        return cls(word_hashes(words, marks & ~FURTHER), grams, np.cumsum(sizes))

    def of_rows(self, rows: npt.NDArray[np.integer]) -> Words:
        """Return the terms of some rows, in this order."""
        sizes = np.diff(self.starts)[rows]
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes)
        return Words(self.hashes[rows], self.grams[np.repeat(self.starts[rows], sizes) + within], starts)

    def only(self, terms: UInt32) -> Words:
        """Return the words with their character n-grams that are among the terms."""
        kept = np.isin(self.grams, terms)
        return replace(self, grams=self.grams[kept], starts=np.append(0, np.cumsum(kept))[self.starts])

    def part(self, first: int, last: int) -> Words:
        """Return the terms of the words from `first` up to `last`."""
        begin = self.starts[first]
        end = self.starts[last]
        return Words(self.hashes[first:last], self.grams[begin:end], self.starts[first : last + 1] - begin)


@dataclass(frozen=True, slots=True)
class Distinct:
    """The distinct words and pairs of words of some texts, text after text.

    Attributes:
        rows: (K,) rows of the word table, of texts `word_texts` (K,).
        pairs: (P,) hashes, of texts `pair_texts` (P,).
        sizes: (B,) number of distinct words of each text.
    """

    rows: Int32
    word_texts: Int32
    pairs: UInt32
    pair_texts: Int32
    sizes: Int64

    @classmethod
    def of_texts(cls, texts: Sequence[Int32], hashes: UInt32) -> Distinct:
        """Return the n-grams of texts, given as rows of a word table whose words have the `hashes` (R,)."""
        return cls.join(list(cls.parts(texts, hashes)))

    @classmethod
    def parts(cls, texts: Sequence[Int32], hashes: UInt32) -> Iterator[Distinct]:
        """Yield the n-grams of some texts after the other, which takes little memory beside them."""
        if not len(texts):
            yield cls._of_part(texts, hashes)
        for first, last in parts_of(list(map(len, texts))):
            part = cls._of_part(texts[first:last], hashes)
            moved = {name: getattr(part, name) + np.int32(first) for name in ("word_texts", "pair_texts") if first}
            yield replace(part, **moved)

    @classmethod
    def join(cls, parts: list[Distinct]) -> Distinct:
        """Return what `parts` yields as one; at least one is needed. The list is emptied."""
        if len(parts) == 1:
            return parts.pop()
        names = [field.name for field in fields(cls)]
        columns = {name: [getattr(part, name) for part in parts] for name in names}
        parts.clear()
        return cls(**{name: np.concatenate(columns.pop(name)) for name in names})  # little is there twice

    @classmethod
    def _of_part(cls, texts: Sequence[Int32], hashes: UInt32) -> Distinct:
        alone = len(texts) == 1  # without the numbers of texts, which cost as much as all else
        rows = texts[0] if alone else np.concatenate([np.zeros(0, np.int32), *texts])
        owners = np.zeros(len(rows), np.int32)
        if not alone:
            owners = np.repeat(np.arange(len(texts), dtype=np.int32), list(map(len, texts)))
        is_word = rows >= FIRST
        found = hashes[rows]
        neighbors = is_word[:-1] & is_word[1:]
        if not alone:
            neighbors &= owners[:-1] == owners[1:]
        pairs = pair_hashes(found[:-1], found[1:])[neighbors]
        first = owners[:-1][neighbors]
        rows = rows[is_word]
        owners = owners[is_word]
        found = found[is_word]
        chosen = _distinct(found if alone else _keys(owners, found))
        others = _distinct(pairs if alone else _keys(first, pairs))
        owners = owners[chosen]
        return cls(rows[chosen], owners, pairs[others], first[others], np.bincount(owners, minlength=len(texts)))

    def only(self, terms: UInt32) -> Distinct:
        """Return all words, and the pairs that are among the terms."""
        kept = np.isin(self.pairs, terms)
        return replace(self, pairs=self.pairs[kept], pair_texts=self.pair_texts[kept])


def parts_of(sizes: Sequence[int] | Int64) -> Iterator[tuple[int, int]]:
    """Yield the first and last text, exclusive, of parts with about as many words, given the number of each text."""
    ends = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        spent = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, spent + _PART_WORDS, side="right")), first + 1)
        yield first, last
        first = last


def _distinct(keys: npt.NDArray[np.unsignedinteger]) -> Int64:
    """Return the first index of each distinct key, in the order of the keys; faster than np.unique on short arrays."""
    order = keys.argsort(kind="stable")
    ordered = keys[order]
    is_first = np.ones(len(keys), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return order[is_first]


def _keys(texts: Int32, hashes: UInt32) -> npt.NDArray[np.uint64]:
    """Return numbers (K,) in the order of the texts that are equal only for equal hashes of the same text."""
    return texts.astype(np.uint64) << np.uint64(32) | hashes
