"""The n-gram branch of very many labels: each has weights of a few terms of its own, the others are 0.

A matrix of all terms' weights for all labels would neither fit into a file nor be fitted in time. So each label's
linear support vector machine has the terms that its texts have most of, and reads its own texts and those that share a
term with it (`mixling.native.own_terms`). Its strength and its factor are chosen on the validation examples, as
`mixling.ngrams.choose` has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float32, Int32
from mixling.data.splits import unseen
from mixling.native.own_terms import fit_own_terms, own_terms
from mixling.native.sparse import SparseRows
from mixling.ngrams.affordable import Measured, Watch, affordable_texts
from mixling.ngrams.data import LinearData, encode_rows, sample, to_the_end, training_texts
from mixling.ngrams.features import MAX_NONZEROS, Features, make_features
from mixling.ngrams.fit import most_within
from mixling.ngrams.fitted import Fitted, Reader, report_of
from mixling.ngrams.mixture import fit_mixture
from mixling.ngrams.search import FIRST_STRENGTH, Attempt, climb
from mixling.tasks.base import Task
from mixling.text.ngram_branch import MAX_PER_TERM, NgramBranch, NgramMetadata, stored_bytes, term_bytes
from mixling.text.ngrams import Words
from mixling.text.sparse_weights import SparseWeights
from mixling.training.config import NgramConfig

MANY_LABELS = 1_000
# Scores of validation texts that strength and factor are chosen by, and the fewest texts.
_MAX_JUDGED_SCORES = 1 << 22
_LEAST_JUDGED = 300
_RARE_TEXTS = 5  # of a label, from which on a word of a single text is left out
_NO_TEXT = -3.0  # the score of a label without terms; others begin at -1
BYTES_PER_LABEL = 64


def limit_grams(rows: list[Int32], words: Words) -> Words:
    """Return words without their character n-grams where there would be too many in all texts."""
    of_word = np.diff(words.starts)
    if sum(int(of_word[row].sum()) for row in rows) <= MAX_NONZEROS:
        return words
    return replace(words, grams=words.grams[:0], starts=np.zeros_like(words.starts))


def fit_many_labels(
    config: NgramConfig,
    data: LinearData,
    *,
    max_bytes: int,
    network: npt.NDArray[np.floating] | None,
    log: Callable[[str], None],
) -> Fitted | None:
    """Return the branch; None if there is nothing to fit or to choose it on.

    Args:
        network: (V, C), the network's logits for the validation examples; None: the branch is alone.
    """
    task = data.task
    everything = np.arange(len(data.validation))
    known = np.setdiff1d(everything, unseen(data.validation, task.labels.names))
    if not len(known):
        return None
    judged = known[sample(known, max(_MAX_JUDGED_SCORES // task.num_scores, _LEAST_JUDGED))]
    encoder, rows, targets, _, weights = training_texts(data)
    gold = np.asarray(task.targets([data.validation.targets[int(i)] for i in judged]))
    read = to_the_end(encoder, [data.validation.texts[int(i)] for i in judged])
    words = limit_grams(rows, Words.of_table(encoder, 0, config.min_n, config.max_n))
    rare: dict[str, Any] = {"many_texts": _RARE_TEXTS * task.num_scores}
    mine = None if network is None else network[judged]

    def try_some(chosen: npt.NDArray[np.int64]) -> Measured:
        watch = Watch()
        features = make_features([rows[int(i)] for i in chosen], words, **rare)
        of_features = watch.lap()
        fit = _OwnTerms(task, features, targets[chosen], weights[chosen])
        fit.prune(FIRST_STRENGTH, max_bytes)
        branch = fit.branch(FIRST_STRENGTH)
        of_fits = watch.lap()
        fit_mixture(task, mine, Reader(task, words, read, terms=branch.terms).logits(branch), gold)
        return Measured(of_features, of_fits, watch.lap())

    affordable = affordable_texts(
        len(rows), data.deadline, try_some, refitted=len(known) if data.refit else None, log=log
    )
    rows = [rows[int(i)] for i in affordable]
    targets = targets[affordable]
    weights = weights[affordable]
    watch = Watch()
    log(f"n-gram branch: counting the terms of {len(rows):,} texts")
    features = make_features(rows, words, counted=len(rows), **rare)
    if not len(features.hashes):
        return None
    log(f"n-gram branch: {len(task.labels):,} labels, {len(features.hashes):,} terms of {len(features.chosen):,} texts")
    fit = _OwnTerms(task, features, targets, weights)
    unbounded = fit.branch(FIRST_STRENGTH)
    log(f"n-gram branch: fitted with {len(unbounded.terms):,} terms; choosing those that {max_bytes / 1e6:.2f} MB hold")
    fit.prune(FIRST_STRENGTH, max_bytes)
    reader = Reader(task, words, read, terms=unbounded.terms)
    if data.refit:
        data.deadline.keep(watch.lap() * (1 + len(known) / len(rows)))

    def attempt(strength: float) -> Attempt:
        branch = fit.branch(strength)
        logits = reader.logits(branch)
        mixture = fit_mixture(task, mine, logits, gold)
        log(f"n-gram branch: strength {strength:g}, validation loss {mixture.loss:.4f}")
        return Attempt(strength, 0.0, [branch], logits, mixture)

    more = data.deadline.repeats()
    best = attempt(FIRST_STRENGTH if config.strength is None else config.strength)
    if config.strength is None:
        best = climb(attempt, best, more=more)
    whole = fit_mixture(task, mine, reader.logits(unbounded), gold)
    scaled = whole.alone if network is not None else math.log(len(task.labels))
    branch = best.branches[0]
    held_out = None
    if data.refit or network is None:
        whole_reader = Reader(task, words, to_the_end(encoder, list(data.validation.texts)), terms=branch.terms)
        held_out = best.mixture.addition(task, whole_reader.logits(branch))
    if data.refit:
        rows += encode_rows(encoder, [data.validation.texts[int(i)] for i in known])
        targets = np.concatenate([targets, task.targets([data.validation.targets[int(i)] for i in known])])
        weights = np.concatenate([weights, np.ones(len(known), np.float32)])
        log(f"n-gram branch: fitting it on all {len(rows):,} texts")
        fit = _OwnTerms(task, make_features(rows, words, **rare), targets, weights)
        fit.prune(best.strength, max_bytes)
        branch = fit.branch(best.strength)
    branch = branch.scaled(best.mixture.branch, best.mixture.bias)
    report = report_of(best, branch, scaled) | {"loss_unbounded": whole.loss}
    log(
        f"n-gram branch: {len(branch.terms):,} terms, {report['bytes'] / 1e6:.2f} MB; validation loss "
        f"{best.mixture.loss:.4f}, with all terms {whole.loss:.4f}"
    )
    metadata = NgramMetadata(min_n=config.min_n, max_n=config.max_n, network=best.mixture.network)
    return Fitted(branch=branch, metadata=metadata, held_out=held_out, report=report)


class _OwnTerms:
    """The terms of each label, and branches with their weights."""

    def __init__(
        self, task: Task, features: Features, targets: npt.NDArray[Any], weights: npt.NDArray[np.float32]
    ) -> None:
        self._counted = int(np.searchsorted(features.chosen, len(targets)))
        chosen = features.chosen[: self._counted]
        self._weights = weights[chosen]
        self._members = _members(targets[chosen], task.num_scores)
        self.starts, terms = own_terms(features.matrix.part(0, self._counted), self._members)
        self._labels = np.repeat(np.arange(task.num_scores, dtype=np.int32), np.diff(self.starts))
        self._keep(features, terms)

    def prune(self, strength: float, max_bytes: int) -> None:
        """Keep the weights that fit into a number of bytes, chosen by a fit of all."""
        values = np.abs(self._values(strength))
        outputs = len(self.starts) - 1
        self._keep(self.features, self.terms, _heaviest(values, self._labels, self.terms, outputs, max_bytes))

    def _keep(self, features: Features, terms: Int32, kept: npt.NDArray[np.int64] | None = None) -> None:
        """Keep some of the labels' terms, in their order, and the features that these are."""
        order = np.arange(len(terms)) if kept is None else np.sort(kept)
        self._labels = self._labels[order]
        columns, places = np.unique(terms[order], return_inverse=True)
        self.features = features.keep(columns.astype(np.int64))
        self.terms = places.astype(np.int32)
        self.starts = np.searchsorted(self._labels, np.arange(len(self.starts)))

    def _values(self, strength: float) -> Float32:
        """Return the weights of the labels' terms, for their frequencies."""
        matrix = self.features.matrix.part(0, self._counted)
        found = fit_own_terms(matrix, self._members, self._weights, strength, self.starts, self.terms)
        return found * self.features.factors[self.terms]

    def branch(self, strength: float) -> NgramBranch:
        values = self._values(strength)
        outputs = len(self.starts) - 1
        features = self.features
        scale = np.full(outputs, 1e-12, np.float32)
        np.maximum.at(scale, self._labels, np.abs(values) / 127)
        packed = np.rint(values / scale[self._labels]).astype(np.int8)
        used = np.unique(features.hashes, return_index=True)[1]  # ascending; of equal hashes the first
        place = np.full(len(features.hashes), -1, np.int64)
        place[used] = np.arange(len(used))
        of_term = place[self.terms]
        order = np.lexsort((self._labels, of_term))
        order = order[of_term[order] >= 0]
        starts = np.append(0, np.cumsum(np.bincount(of_term[order], minlength=len(used)))).astype(np.int64)
        weights = SparseWeights(starts, self._labels[order], packed[order], outputs)
        bias = np.where(np.diff(self.starts) > 0, -1, _NO_TEXT).astype(np.float32)
        return NgramBranch(features.hashes[used], features.squares[used], weights, scale, bias)


def _members(targets: npt.NDArray[Any], number: int) -> SparseRows:
    """Return a matrix (K, B) with a one for each text of a label, given ids (B,) or marks (B, K)."""
    if targets.ndim == 2:
        return SparseRows.of_dense(targets.T)
    return SparseRows.of_pairs(targets, np.arange(len(targets)), (number, len(targets)))


def _heaviest(
    matters: Float32, labels: Int32, terms: Int32, outputs: int, max_bytes: int | None
) -> npt.NDArray[np.int64]:
    """Return the indices of the weights to keep: the first of each label, then the second of each, and so on; of those
    the larger first. A term has as many as can be stored."""
    order = np.lexsort((-matters, labels))
    starts = np.searchsorted(labels[order], np.arange(outputs))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - starts[labels[order]]
    order = np.lexsort((-matters, rank))
    order = order[matters[order] > 0]
    by_term = order[np.argsort(terms[order], kind="stable")]
    first = np.searchsorted(terms[by_term], terms[by_term])
    crowded = by_term[np.arange(len(by_term)) - first >= MAX_PER_TERM]
    order = order[~np.isin(order, crowded)]
    if max_bytes is None:
        return order
    is_new = np.zeros(len(order), bool)
    is_new[np.unique(terms[order], return_index=True)[1]] = True
    different = np.cumsum(is_new)
    room = max_bytes - 8 * outputs - 200

    def size(number: int) -> int:
        terms = int(different[number - 1]) if number else 0
        return term_bytes(terms) + stored_bytes(terms, number, outputs)

    return order[: most_within(size, len(order), room)]
