"""Features of texts for fitting a linear n-gram branch, see `mixling.ngrams.fit`.

A feature of a text is the number of its distinct words that have the term, times the term's inverse document frequency
as scikit-learn has it. Words with their pairs, and character n-grams, are two blocks; a constant for each gives them
about the same length. Then a text's features are divided by their length: the root of the sum, over its terms as often
as they are there, of a small integer in proportion to the term's squared factor, which the branch stores. Factors are
multiplied into the weights afterwards, so that the branch needs them no more; pruning of terms changes the lengths.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float32, Int32, UInt32
from mixling.native.sparse import SparseRows
from mixling.text.ngram_branch import MAX_CELLS, MAX_SQUARE
from mixling.text.ngrams import Distinct, Words, parts_of
from mixling.training.memory import release

MAX_NONZEROS = 3 << 24  # features of all texts that are not zero; of more texts a sample is taken
_MIN_TEXTS = 2  # with a term, where texts are many
_MANY_TEXTS = 10_000
# Up to this number, a character n-gram of one text is a term, too, since words of later texts have it. On validation
# rows of SNIPS that is worth .9 points with 5 rows of each label, and 0 from some 1,000 rows on (6 to 8 samples).
_FEW_TEXTS = 2_000


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """The features of training texts.

    Attributes:
        hashes: (F,) of the terms of the counted texts, the most frequent first: the fit reads their weights from fewer
            lines of the cache.
        factors: (F,) the factor of a term's frequency in a text.
        squares: (F,) the integers in proportion to their squares.
        spread: (F,) the root mean square of the frequencies: numbers over lengths.
        matrix: (B, F) frequencies times factors.
        lengths: (B,) the root of the sum of the squares of a text's terms.
        chosen: (B,) the indices of the texts.
        kept: (F, K), the weights that a fit has; None: all.
        columns: (B, W), the columns beside each text; None: there are none.
    """

    hashes: UInt32
    factors: npt.NDArray[np.float32]
    squares: npt.NDArray[np.uint8]
    spread: npt.NDArray[np.float32]
    matrix: SparseRows
    lengths: npt.NDArray[np.float32]
    chosen: npt.NDArray[np.int64]
    kept: npt.NDArray[np.bool_] | None = None
    columns: Float32 | None = None

    @property
    def num_columns(self) -> int:
        """W, the values of the columns beside each text."""
        return 0 if self.columns is None else self.columns.shape[1]

    def beside(self) -> SparseRows:
        """Return the matrix (B, F + W) with the columns behind the terms."""
        if self.columns is None:
            return self.matrix
        return SparseRows.beside([self.matrix, SparseRows.of_dense(self.columns)])

    def keep(self, columns: npt.NDArray[np.int64]) -> Features:
        """Return some of the features, in this order; they take the memory of these, which are no longer of use."""
        located = np.full(len(self.hashes), -1, np.int32)
        located[columns] = np.arange(len(columns))
        matrix = self.matrix
        end = 0
        starts = np.zeros_like(matrix.indptr)
        lengths = np.ones(len(self.lengths), np.float32)
        kept_factors = self.factors[columns]
        kept_squares = self.squares[columns]
        for first, last in parts_of(np.diff(matrix.indptr)):
            part = slice(*matrix.indptr[[first, last]])
            found = located[matrix.indices[part]]
            mine = found >= 0
            rows = matrix.indptr[first : last + 1] - part.start
            starts[first + 1 : last + 1] = [np.count_nonzero(mine[a:b]) for a, b in itertools.pairwise(rows)]
            kept = slice(end, end := end + int(np.count_nonzero(mine)))
            found = found[mine]
            owners = np.repeat(np.arange(last - first), starts[first + 1 : last + 1])
            before = self.lengths[first:last]
            numbers = matrix.data[part][mine] * before[owners] / kept_factors[found]
            sums = np.bincount(owners, weights=numbers * kept_squares[found], minlength=last - first)
            lengths[first:last] = np.sqrt(np.maximum(np.rint(sums), 1))
            matrix.data[kept] = matrix.data[part][mine] * (before / lengths[first:last])[owners]
            matrix.indices[kept] = found
        np.cumsum(starts, out=starts)
        # One after the other, so that only one is there twice.
        matrix.data = matrix.data[:end].copy()
        matrix.indices = matrix.indices[:end].copy()
        return replace(
            self,
            hashes=self.hashes[columns],
            factors=kept_factors,
            squares=kept_squares,
            lengths=lengths,
            spread=self.spread[columns],
            matrix=SparseRows(matrix.data, matrix.indices, starts, (len(starts) - 1, len(columns))),
            kept=None if self.kept is None else self.kept[columns],
        )

    def sample(self, nonzeros: int) -> Features:
        """Return the features of evenly spaced texts, about a given number that are not zero."""
        number = max(len(self.chosen) * nonzeros // max(self.matrix.nnz, 1), 1)
        rows = np.unique(np.linspace(0, len(self.chosen) - 1, min(number, len(self.chosen))).astype(np.int64))
        columns = None if self.columns is None else self.columns[rows]
        part = replace(self, matrix=self.matrix.rows(rows), lengths=self.lengths[rows], chosen=self.chosen[rows])
        return replace(part, columns=columns)


def make_features(
    texts: Sequence[Int32],
    words: Words,
    *,
    outputs: int = 1,
    counted: int | None = None,
    many_texts: int = _MANY_TEXTS,
    columns: Float32 | None = None,
) -> Features:
    """Return the features of texts, given as rows of a word table; of very many, a sample's.

    With more `outputs` than a reader can hold a weight of each term for, the terms are the weightiest.

    Args:
        counted: number of first texts that give the terms and their frequencies; None: all do.
        columns: (B, W), the columns beside the texts.
        many_texts: from this number on, a word or pair of words that only one text has is left out.
    """
    release()  # what encoding the texts took
    chosen, found = _sampled(texts, words)
    number = len(chosen) if counted is None else int(np.searchsorted(chosen, counted))
    of_words = _whole_words(found, words, number, many_texts)
    sizes = found.sizes
    in_text = _in_text(found, len(words.hashes))
    del found
    blocks = [of_words, _characters(in_text, sizes, words, number)]
    release()  # what finding them took
    features = _join(blocks, sizes, chosen, number)
    del blocks, of_words, in_text
    release()
    features = _weightiest(features, MAX_CELLS // max(outputs, 1))
    return features if columns is None else replace(features, columns=columns[features.chosen])


def _sampled(texts: Sequence[Int32], words: Words) -> tuple[npt.NDArray[np.int64], Distinct]:
    """Return the indices of all texts, or of as many as `MAX_NONZEROS` allows, with their words."""
    of_word = np.diff(words.starts) + 1
    parts: list[Distinct] = []
    cells = 0
    for part in Distinct.parts(texts, words.hashes):
        cells += int(of_word[part.rows].sum()) + len(part.pairs)
        parts.append(part)
        if cells > MAX_NONZEROS:  # the others are counted only
            parts.clear()
    if cells <= MAX_NONZEROS:
        return np.arange(len(texts)), Distinct.join(parts)
    chosen = np.linspace(0, len(texts) - 1, max(len(texts) * MAX_NONZEROS // cells, 1)).astype(np.int64)
    return chosen, Distinct.of_texts([texts[int(i)] for i in chosen], words.hashes)


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Terms, and how often each is in each text.

    Attributes:
        hashes: (F,) of the terms.
        texts: (F,) number of counted texts that have each.
        total: sum over all terms and counted texts of the numbers of times.
        nonzeros: number of texts, counted or not, that have each, over all terms.
        rows: returns the numbers for the texts from one up to another.
    """

    hashes: UInt32
    texts: npt.NDArray[np.int64]
    total: float
    nonzeros: int
    rows: Callable[[int, int], SparseRows]


def _whole_words(found: Distinct, words: Words, number: int, many_texts: int) -> _Block:
    """Return words and pairs of words, of many texts without words of a single one; the first `number` are counted."""
    terms = np.concatenate([words.hashes[found.rows], found.pairs])
    # As np.unique with the inverse, in half the memory: with long texts, no other part of a training takes more.
    order = terms.argsort()
    terms = terms[order]
    is_first = np.concatenate([np.ones(min(len(terms), 1), bool), terms[1:] != terms[:-1]])
    starts = np.flatnonzero(is_first)
    hashes = terms[is_first]
    counts = np.diff(np.append(starts, len(terms)))
    if number < len(found.sizes) and len(terms):
        is_counted = np.concatenate([found.word_texts < number, found.pair_texts < number])[order]
        counts = np.add.reduceat(is_counted, starts, dtype=np.int64)
        del is_counted
    kept = counts >= (1 if number < many_texts else _MIN_TEXTS)
    located = np.empty(len(terms), np.int32)
    columns = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
    located[order] = columns[np.cumsum(is_first, dtype=np.int32) - 1]
    del terms, order, is_first, starts
    of_words, of_pairs = np.split(located, [len(found.rows)])
    # With numbers of another type, the search would copy all texts'.
    edges = np.arange(len(found.sizes) + 1, dtype=found.word_texts.dtype)
    word_starts = found.word_texts.searchsorted(edges)
    pair_starts = found.pair_texts.searchsorted(edges)

    def rows(first: int, last: int) -> SparseRows:
        parts = [(of_words, word_starts[first : last + 1]), (of_pairs, pair_starts[first : last + 1])]
        terms = np.concatenate([columns[starts[0] : starts[-1]] for columns, starts in parts])
        owners = np.concatenate([np.repeat(np.arange(last - first), np.diff(starts)) for _, starts in parts])
        owners = owners[terms >= 0]
        terms = terms[terms >= 0]
        return SparseRows.of_pairs(owners, terms, (last - first, int(kept.sum())))

    nonzeros = int(np.count_nonzero(located >= 0))
    return _Block(hashes[kept], counts[kept], float(counts[kept].sum()), nonzeros, rows)


def _in_text(found: Distinct, rows: int) -> SparseRows:
    """Return a matrix (B, R) with a one for each distinct word of a text."""
    starts = np.append(np.int32(0), np.cumsum(found.sizes, dtype=np.int32))
    return SparseRows(np.ones(len(found.rows), np.float32), found.rows, starts, (len(found.sizes), rows))


def _characters(in_text: SparseRows, sizes: npt.NDArray[np.int64], words: Words, number: int) -> _Block:
    """Return the n-grams of the distinct words of each text, of many texts without n-grams of one alone; `number` are
    counted.

    The numbers for all texts are not kept: computing them twice takes less time than so much memory.
    """
    hashes, columns = np.unique(words.grams, return_inverse=True)
    ones = np.ones(len(columns), np.float32)
    starts = words.starts.astype(np.int32)
    of_word = SparseRows(ones, columns.astype(np.int32), starts, (len(words.hashes), len(hashes)))
    texts = np.zeros(len(hashes), np.int64)
    others = np.zeros(len(hashes), np.int64)
    sums = np.zeros(len(hashes))
    for first, last in parts_of(sizes):
        counts = in_text.part(first, last).times(of_word)
        end = int(counts.indptr[min(max(number - first, 0), last - first)])
        texts += np.bincount(counts.indices[:end], minlength=len(hashes))
        others += np.bincount(counts.indices[end:], minlength=len(hashes))
        sums += np.bincount(counts.indices[:end], weights=counts.data[:end], minlength=len(hashes))
    kept = texts >= (1 if number <= _FEW_TEXTS else _MIN_TEXTS)
    of_word = of_word.columns(kept)
    nonzeros = int((texts + others)[kept].sum())

    def rows(first: int, last: int) -> SparseRows:
        return in_text.part(first, last).times(of_word)

    return _Block(hashes[kept], texts[kept], float(sums[kept].sum()), nonzeros, rows)


def _join(
    blocks: Sequence[_Block], sizes: npt.NDArray[np.int64], chosen: npt.NDArray[np.int64], number: int
) -> Features:
    factors = []
    texts, hashes = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("texts", "hashes"))
    order = np.argsort(-texts, kind="stable")
    column = np.empty(len(order), np.int32)
    column[order] = np.arange(len(order))
    for block in blocks:
        idf = np.log((1 + number) / (1 + block.texts)) + 1
        of_word = block.total / max(int(sizes[:number].sum()), 1)
        factors.append(idf / max(idf.mean() if len(idf) else 1, 1e-9) / np.sqrt(max(of_word, 1e-9)))
    factor = np.concatenate(factors).astype(np.float32)[order]
    unit = np.square(factor).max(initial=1e-9) / MAX_SQUARE
    integers = np.clip(np.rint(np.square(factor) / unit), 1, MAX_SQUARE).astype(np.uint8)
    factor /= np.sqrt(unit)
    lengths = np.ones(len(sizes), np.float32)
    nonzeros = sum(block.nonzeros for block in blocks)
    data = np.empty(nonzeros, np.float32)
    indices = np.empty(nonzeros, np.int32)
    starts = np.zeros(len(sizes) + 1, np.int32)
    squares = np.zeros(len(factor))
    for first, last in parts_of(sizes):
        part = SparseRows.beside([block.rows(first, last) for block in blocks])
        columns = column[part.indices]
        owners = part.owners
        sums = np.bincount(owners, weights=part.data * integers[columns], minlength=last - first)
        lengths[first:last] = np.sqrt(np.maximum(sums, 1))
        values = part.data / lengths[first:last][owners]
        end = int(part.indptr[min(max(number - first, 0), last - first)])
        squares += np.bincount(columns[:end], weights=values[:end].astype(np.float64) ** 2, minlength=len(factor))
        begin = int(starts[first])
        starts[first + 1 : last + 1] = begin + part.indptr[1:]
        indices[begin : begin + part.nnz] = columns
        np.multiply(values, factor[columns], out=data[begin : begin + part.nnz])
    end = int(starts[-1])  # a text can have a word and a pair with equal hashes
    matrix = SparseRows(data[:end], indices[:end], starts, (len(sizes), len(order)))
    spread = np.sqrt(squares / max(number, 1)).astype(np.float32)
    return Features(hashes[order], factor, integers, spread, matrix, lengths, chosen)


def _weightiest(features: Features, number: int) -> Features:
    """Return the features with a limited number of terms: those with the largest mean square."""
    if len(features.hashes) <= number:
        return features
    return features.keep(np.sort(np.argsort(-features.spread * features.factors, kind="stable")[:number]))
