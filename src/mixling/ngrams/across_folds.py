"""Choose the n-gram branch of few examples by out-of-fold predictions, see `mixling.ngrams.cross_fitting`.

Where there are unlabeled texts, the branch is fitted again on these, too, with the labels that the first fit gives them
(self-training; Lee, "Pseudo-Label", ICML workshop 2013). A model of all
examples guesses labels better than one of a part, so that this fit stays unless the out-of-fold loss is clearly higher.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mixling.data.splits import unseen
from mixling.ngrams.cross_fitting import OutOfFold, branch_folds
from mixling.ngrams.data import NO_TERMS, LinearData, check_without_terms, encode_rows, to_the_end
from mixling.ngrams.features import Features, make_features
from mixling.ngrams.fit import fit_branch, prune
from mixling.ngrams.fitted import Fitted, Reader, report_of
from mixling.ngrams.mixture import fit_mixture
from mixling.ngrams.search import FEW_STRENGTHS, Attempt, climb
from mixling.text.encoder import TextEncoder
from mixling.text.ngram_branch import NgramBranch, NgramMetadata
from mixling.text.ngrams import Words
from mixling.training.callbacks import Detail
from mixling.training.config import NgramConfig

_FEW_FIRST = 10.0  # the first strength with few examples
_UNLABELED_WEIGHT = 0.1  # of a text beside a labeled one; .2 and .5 are no better
_HIGHER_LOSS = 1.03  # that unlabeled texts may cost


def fit_across_folds(
    config: NgramConfig, data: LinearData, held: OutOfFold, *, max_bytes: int, log: Callable[[str], None]
) -> Fitted | None:
    """Return the branch as `fit_ngrams` does, chosen by out-of-fold predictions; None if there is nothing to fit."""
    task = data.task
    encoder = TextEncoder(data.text, data.vocabulary, keep=True)
    power = config.ratio_power or 0.0
    parts = [data.train, data.validation] if data.refit else [data.train]
    texts, targets = ([one for part in parts for one in getattr(part, name)] for name in ("texts", "targets"))
    known = np.arange(len(texts))
    if task.has_labels and data.refit:
        known = np.setdiff1d(known, unseen(data.validation, task.labels.names) + len(data.train))
    gold = np.asarray(task.targets([targets[int(i)] for i in known]))
    weights = None
    if data.weights is not None:
        weights = np.concatenate([data.weights, np.ones(len(known) - len(data.train), np.float32)])
    rows = encode_rows(encoder, texts)
    read = to_the_end(encoder, texts)
    others = encode_rows(encoder, data.unlabeled)
    read_others = to_the_end(encoder, data.unlabeled)
    words = Words.of_table(encoder, 0, config.min_n, config.max_n)
    beside = data.beside(texts)
    reader = Reader(task, words, read, columns=beside)
    reader_of_others = Reader(task, words, read_others)

    def features(chosen: npt.NDArray[np.int64]) -> Features:
        columns = None if beside is None else beside[known[chosen]]
        found = make_features([rows[int(i)] for i in known[chosen]], words, outputs=task.num_scores, columns=columns)
        if not len(found.hashes):
            return found
        if config.use == "never":
            return found.keep(NO_TERMS)
        given = None if weights is None else weights[chosen]
        first = config.strength or _FEW_FIRST
        return prune(task, found, gold[chosen], given, strength=first, max_bytes=max_bytes, few=True)

    def branch(part: Features, chosen: npt.NDArray[np.int64], strength: float) -> NgramBranch:
        given = None if weights is None else weights[chosen]
        return fit_branch(
            task, part, gold[chosen], given, strength=strength, ratio_power=power, max_bytes=max_bytes, few=True
        )

    def self_trained(first: NgramBranch, chosen: npt.NDArray[np.int64], strength: float) -> NgramBranch:
        columns = None
        if beside is not None and (of_others := data.beside(data.unlabeled)) is not None:
            columns = np.concatenate([beside[known[chosen]], of_others])
        both = [*(rows[int(i)] for i in known[chosen]), *others]
        labels = np.concatenate([gold[chosen], reader_of_others.logits(first).argmax(1)])
        given = np.ones(len(both), np.float32) if weights is None else np.resize(weights[chosen], len(both))
        given[len(chosen) :] = _UNLABELED_WEIGHT
        part = make_features(both, words, outputs=task.num_scores, columns=columns)
        part = prune(task, part, labels, given, strength=strength, max_bytes=max_bytes, few=True)
        return fit_branch(task, part, labels, given, strength=strength, max_bytes=max_bytes, few=True)

    network = None if config.use == "alone" else held.logits[known]
    everything = np.arange(len(known))
    whole = features(everything)
    if not len(whole.hashes):
        check_without_terms(data)
        return None
    folds = branch_folds(parts, task.num_scores, held.folds)
    rest = [np.flatnonzero(folds[known] != fold) for fold in range(int(folds.max()) + 1)]
    of_folds = [features(chosen) for chosen in rest]

    def attempt(strength: float, *, unlabeled: bool = False) -> Attempt:
        logits = np.zeros((len(texts), held.logits.shape[1]), np.float32)
        of_columns = None if beside is None else np.zeros_like(logits)
        branches = [branch(part, chosen, strength) for part, chosen in zip(of_folds, rest, strict=True)]
        if unlabeled:
            branches = [self_trained(one, chosen, strength) for one, chosen in zip(branches, rest, strict=True)]
        for fold, fitted in enumerate(branches):
            mine = folds == fold
            logits[mine] = reader.logits(fitted)[mine]
            found = reader.column_logits(fitted)
            if of_columns is not None and found is not None:
                of_columns[mine] = found[mine]
        columns = None if of_columns is None else of_columns[known]
        of_texts = None if config.use == "never" else logits[known]
        mixture = fit_mixture(task, network, of_texts, gold, columns=columns)
        return Attempt(strength, power, branches, logits, mixture, of_columns)

    more = data.deadline.repeats()
    best = attempt(_FEW_FIRST if config.strength is None else config.strength)
    best = best if config.strength is not None else climb(attempt, best, FEW_STRENGTHS, more=more)
    chosen = branch(whole, everything, best.strength)
    if len(others):
        again = attempt(best.strength, unlabeled=True)
        losses = f"{again.mixture.loss:.4f} with them, {best.mixture.loss:.4f} without"
        better = again.mixture.loss < _HIGHER_LOSS * best.mixture.loss
        log(f"n-gram branch: {len(others):,} unlabeled texts are {'used' if better else 'left out'}: loss {losses}")
        if better:
            best = again
            chosen = self_trained(chosen, everything, best.strength)
    mixture = best.mixture
    chosen = chosen.scaled(mixture.branch, mixture.bias, mixture.columns)
    loss_scaled = mixture.loss if network is None else fit_mixture(task, network, None, gold).loss
    report = report_of(best, chosen, loss_scaled) | {"folds": len(rest)}
    terms = f"{len(chosen.terms):,} terms, {report['bytes'] / 1e6:.2f} MB"
    change = f"by models that had not seen them {loss_scaled:.4f} without it, {mixture.loss:.4f} with it"
    log(Detail(f"n-gram branch: {terms}; loss on the {len(known):,} examples {change}"))
    addition = mixture.addition(task, best.logits, best.columns)
    together = mixture.network * held.logits[known] + addition[known]
    return Fitted(
        branch=chosen,
        metadata=NgramMetadata(min_n=config.min_n, max_n=config.max_n, network=mixture.network),
        held_out=addition if data.refit else None,
        report=report,
        columns=data.columns,
        out_of_fold=None if data.refit else (together.astype(np.float32), gold),
    )
