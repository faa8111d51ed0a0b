"""Choose the linear n-gram branch of a run on validation data, beside the finished network, and fit it on all examples.

Where the network was trained on misspelled words, so is the branch: each example has a copy with misspelled words, in
training and in validation, unless the texts are very many. A branch that knows correct words only would be preferred to
a network that knows typos as well.

The network's logits for the validation examples are fixed. A first fit shows which terms a branch has room for; all
others are fits of these alone. For each regularization - its strength, and how much less it is for terms that are more
frequent with one label than with others - a branch is fitted on the training examples, stored in 8 bits, and added to
the network with the weights and biases that minimize the validation loss; the best of these sums is compared with the
network alone, whose logits are scaled and shifted as well. If the validation examples were split off the training
files, the exported branch is fitted on both together, with the regularization, the weights and the biases kept. Until
then, terms and their frequencies are counted in the training texts alone, and the features are the same in all fits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float32
from mixling.data.splits import unseen
from mixling.errors import ConfigError
from mixling.ngrams.across_folds import fit_across_folds
from mixling.ngrams.affordable import Measured, Watch, affordable_texts
from mixling.ngrams.data import (
    MAX_COPIED_VALIDATION_WORDS,
    NO_TERMS,
    TYPOS,
    LinearData,
    check_without_terms,
    copied_texts,
    encode_rows,
    sample,
    to_the_end,
    training_texts,
)
from mixling.ngrams.features import Features, make_features
from mixling.ngrams.fit import fit_branch, prune
from mixling.ngrams.fitted import Fitted, Reader, report_of
from mixling.ngrams.many_labels import BYTES_PER_LABEL, MANY_LABELS, fit_many_labels
from mixling.ngrams.mixture import fit_mixture
from mixling.ngrams.search import FIRST_STRENGTH, Attempt, search
from mixling.text.ngram_branch import NgramBranch, NgramMetadata
from mixling.text.ngrams import Words
from mixling.text.noise import mixed_noise
from mixling.training.callbacks import Detail
from mixling.training.config import NgramConfig
from mixling.training.memory import release

FILE_BYTES = 1_000_000  # intended size of a model file
MAX_BRANCH_BYTES = 300_000  # of a branch without `max_bytes`
MIN_BRANCH_BYTES = 10_000
_OVERHEAD = 1000  # bytes in the file for the names and shapes of a branch's arrays, and its metadata
_DECIDED = 5000  # bytes at most that decisions and the profile of the data take beside them
_MAX_VALIDATION = 10_000  # texts that it is chosen on
# Features of all texts that are not zero, and these times outputs, in each fit of a search: some seconds.
_MAX_SEARCH_NONZEROS = 1 << 23
_MAX_SEARCH_CELLS = 500_000_000
# Features that are not zero times outputs that all fits of a search take in a second, where there are many; and the
# longest search, in seconds, unless the user has planned a time.
_CELLS_PER_SECOND = 5_000_000
_MOST_SECONDS = 600.0
_REFIT = 1.2  # time of the fit of all rows, relative to the first's
_MIN_GAIN = 2.0  # nats on all validation examples together, what two parameters gain by chance
# Fewer validation examples cannot show the gain; with 10 and 50 examples per label the branch is better or as good.
_MIN_PROOF = 100


def budget(config: NgramConfig, file_bytes: int, outputs: int) -> int:
    """Return how many bytes a branch may have, given the size of the network's file and the number of scores."""
    if config.max_bytes is not None:
        return config.max_bytes
    if config.max_size is not None:
        return max(config.max_size - _OVERHEAD - _DECIDED - file_bytes, MIN_BRANCH_BYTES)
    if outputs > MANY_LABELS:
        return max(MAX_BRANCH_BYTES, BYTES_PER_LABEL * outputs)
    return max(min(FILE_BYTES - _OVERHEAD - file_bytes, MAX_BRANCH_BYTES), MIN_BRANCH_BYTES)


def check_size(file_bytes: int, most: int) -> None:
    """Check that a file of the wanted size has room for n-grams beside a network's file.

    Raises:
        ConfigError: it has none.
    """
    least = file_bytes + _OVERHEAD + _DECIDED + MIN_BRANCH_BYTES
    if least > most:
        raise ConfigError(
            f"--max-size: got {most:,} bytes; this model's file has at least {least:,}; a smaller one: --model "
            "mixling-small, mixling-tiny or mixling-linear"
        )


def fit_ngrams(
    config: NgramConfig, data: LinearData, *, max_bytes: int, log: Callable[[str], None] = lambda message: None
) -> Fitted | None:
    """Return the branch; None if it does not pay, or if there is nothing to fit or to choose it on.

    With few validation examples it is kept without proof, and the mixture stays close to its usual weights. Validation
    examples with labels that training does not know are left out of the fit and of the choice.

    Raises:
        DataError: as `Task.targets`.
    """
    alone = config.use == "alone"
    if data.task.num_scores > MANY_LABELS and data.columns is not None:
        got = f"--features: got {data.task.num_scores:,} labels; columns beside the text are for up to {MANY_LABELS:,}"
        raise ConfigError(got)
    if data.task.num_scores > MANY_LABELS:
        network = None if alone else data.network
        return fit_many_labels(config, data, max_bytes=max_bytes, network=network, log=log)
    if data.out_of_fold is not None:
        return fit_across_folds(config, data, data.out_of_fold, max_bytes=max_bytes, log=log)
    task = data.task
    judged = sample(data.validation, _MAX_VALIDATION)
    known = np.setdiff1d(judged, unseen(data.validation, task.labels.names)) if task.has_labels else judged
    if not len(known):
        return None
    encoder, rows, targets, columns, weights = training_texts(data)
    texts = [data.validation.texts[int(i)] for i in judged]
    encoded = encode_rows(encoder, texts)
    copied = copied_texts(encoded, data.augmentation, most=MAX_COPIED_VALIDATION_WORDS)
    # As texts, since the network reads them, too.
    copies = mixed_noise((texts[int(i)] for i in copied), data.augmentation.typo_kinds, TYPOS, seed=1)
    encoded += encode_rows(encoder, copies)
    examples = np.concatenate([judged, judged[copied]])
    fitted = np.flatnonzero(np.isin(examples, known))
    gold = np.asarray(task.targets([data.validation.targets[int(i)] for i in examples[fitted]]))
    beside = data.beside(texts)  # (V, W) of validation, with its copies, and (T, W) of all that is fitted
    if beside is not None:
        beside = np.concatenate([beside, beside[copied]])
    network = data.network[judged]
    if copies:
        network = np.concatenate([network, np.stack(data.predict(copies))])
    read = to_the_end(encoder, [*texts, *copies])
    others = np.setdiff1d(np.arange(len(data.validation)), judged)
    read_others = to_the_end(encoder, [data.validation.texts[int(i)] for i in others])
    words = Words.of_table(encoder, 0, config.min_n, config.max_n)

    def features_of(chosen: npt.NDArray[np.int64]) -> Features:
        some = None if columns is None else columns[chosen]
        found = make_features([rows[int(i)] for i in chosen], words, outputs=task.num_scores, columns=some)
        return found.keep(NO_TERMS) if config.use == "never" and len(found.hashes) else found

    def try_some(chosen: npt.NDArray[np.int64]) -> Measured:
        watch = Watch()
        features = features_of(chosen)
        of_features = watch.lap()
        options: dict[str, Any] = {"strength": strength, "ratio_power": ratio_power}
        features = prune(task, features, targets[chosen], weights[chosen], max_bytes=max_bytes, **options)
        branch = fit_branch(task, features, targets[chosen], weights[chosen], max_bytes=None, **options)
        of_fits = watch.lap()
        logits = Reader(task, words, read, terms=features.hashes).logits(branch)
        fit_mixture(task, None if alone else network[fitted], logits[fitted], gold, examples=len(known))
        return Measured(of_features, of_fits, watch.lap())

    strength = config.strength or FIRST_STRENGTH
    ratio_power = config.ratio_power or 0.0
    counted = len(rows)
    affordable = affordable_texts(
        counted, data.deadline, try_some, refitted=len(fitted) if data.refit else None, log=log
    )

    watch = Watch()
    features = features_of(affordable)
    if not len(features.hashes):
        check_without_terms(data)
        return None
    seconds = features.matrix.nnz * task.num_scores / _CELLS_PER_SECOND
    if data.deadline.left is None and seconds > _MOST_SECONDS:
        affordable = sample(affordable, int(counted * _MOST_SECONDS / seconds) + 1)
        log(
            f"n-gram branch: fitted on {len(affordable):,} of {counted:,} texts; all would take about "
            f"{seconds / 60:,.0f} minutes (--time-budget allows more)"
        )
        features = features_of(affordable)
    rows, targets, weights = [rows[int(i)] for i in affordable], targets[affordable], weights[affordable]
    columns = None if columns is None else columns[affordable]
    of_features = watch.lap()
    duals = np.zeros((len(features.chosen), task.num_scores), np.float32)
    unbounded = None
    terms = len(features.hashes)
    if config.max_size is not None:
        options: dict[str, Any] = {"strength": strength, "ratio_power": ratio_power, "duals": duals}
        whole = fit_branch(task, features, targets, weights, max_bytes=None, **options)
        logits = Reader(task, words, read).logits(whole)[fitted]
        unbounded = fit_mixture(task, None if alone else network[fitted], logits, gold, examples=len(known)).loss
    # Which terms a branch has room for hardly depends on the regularization; all later fits have these alone.
    features = prune(
        task, features, targets, weights, strength=strength, ratio_power=ratio_power, max_bytes=max_bytes, duals=duals
    )
    release()  # the features before
    reader = Reader(task, words, read, terms=features.hashes, columns=beside)
    if data.refit:
        data.deadline.keep(_REFIT * (of_features + watch.lap()) * (1 + len(fitted) / len(rows)))

    def fit(strength: float, ratio_power: float, part: Features, duals: Float32) -> NgramBranch:
        return fit_branch(
            task, part, targets, weights,
            strength=strength, ratio_power=ratio_power, max_bytes=None, duals=duals,
        )  # fmt: skip

    def attempt(strength: float, ratio_power: float, part: Features = features, duals: Float32 = duals) -> Attempt:
        branch = fit(strength, ratio_power, part, duals)
        logits = reader.logits(branch)
        of_columns = reader.column_logits(branch)
        mixture = fit_mixture(
            task, None if alone else network[fitted], logits[fitted] if config.use != "never" else None, gold,
            columns=None if of_columns is None else of_columns[fitted], examples=len(known),
        )  # fmt: skip
        of_judged = None if of_columns is None else of_columns[: len(judged)]
        return Attempt(strength, ratio_power, [branch], logits[: len(judged)], mixture, of_judged)

    if unbounded is not None:
        bounded = attempt(strength, ratio_power).mixture.loss
        log(
            f"n-gram branch: room for {len(features.hashes):,} of {terms:,} terms; validation loss {bounded:.4f}, with "
            f"all {unbounded:.4f}, before the regularization is chosen"
        )
    searched = min(_MAX_SEARCH_NONZEROS, _MAX_SEARCH_CELLS // task.num_scores)
    powers = task.ratio_powers if config.ratio_power is None else ()
    found = None
    if features.matrix.nnz > searched and (config.strength is None or powers):
        log("n-gram branch: choosing its regularization on a part of the texts, then on all")
        part = features.sample(searched)
        zeros = np.zeros((len(part.chosen), task.num_scores), np.float32)
        found = search(partial(attempt, part=part, duals=zeros), config, powers, more=data.deadline.repeats())
        del part
    best = search(attempt, config, powers, found=found, more=data.deadline.repeats())
    scaled = best.mixture if alone else fit_mixture(task, network[fitted], None, gold, examples=len(known))
    change = (
        f"validation loss {scaled.alone:.4f} without it, {scaled.loss:.4f} with its logits scaled and shifted, "
        f"{best.mixture.loss:.4f} with it"
    )
    gain = (scaled.loss - best.mixture.loss) * len(known)
    # Without a branch nothing is shifted either; a network that overfits may need it more than the n-grams.
    gain_of_all = (scaled.alone - best.mixture.loss) * len(known) - task.num_scores
    if config.use == "auto" and columns is None and len(known) >= _MIN_PROOF and max(gain, gain_of_all) < _MIN_GAIN:
        log("n-gram branch: left out, it does not pay")
        log(Detail(f"n-gram branch: {change}"))
        return None
    branch = best.branches[0]
    if data.refit:
        rows += [encoded[int(i)] for i in fitted]
        if columns is not None and beside is not None:
            columns = np.concatenate([columns, beside[fitted]])
        targets, weights = np.concatenate([targets, gold]), np.concatenate([weights, np.ones(len(gold), np.float32)])
        features = features_of(np.arange(len(rows)))  # with the terms that only validation texts have
        duals = np.zeros((len(features.chosen), task.num_scores), np.float32)
        features = prune(
            task, features, targets, weights,
            strength=best.strength, ratio_power=best.ratio_power, max_bytes=max_bytes, duals=duals,
        )  # fmt: skip
        branch = fit(best.strength, best.ratio_power, features, duals)
    branch = branch.scaled(best.mixture.branch, best.mixture.bias, best.mixture.columns)
    report = report_of(best, branch, scaled.loss)
    if unbounded is not None:
        report |= {"loss_unbounded": unbounded}
    log(Detail(f"n-gram branch: {len(branch.terms):,} terms, {report['bytes'] / 1e6:.2f} MB; {change}"))
    held_out = None
    if data.refit:
        held_out = np.empty(data.network.shape, np.float32)
        held_out[judged] = best.mixture.addition(task, best.logits, best.columns)
        if len(others):
            unrefitted = best.branches[0]
            of_others = data.beside([data.validation.texts[int(i)] for i in others])
            unread = Reader(task, words, read_others, terms=unrefitted.terms, columns=of_others)
            held_out[others] = best.mixture.addition(task, unread.logits(unrefitted), unread.column_logits(unrefitted))
    return Fitted(
        branch=branch,
        metadata=NgramMetadata(min_n=config.min_n, max_n=config.max_n, network=best.mixture.network),
        held_out=held_out,
        report=report,
        columns=data.columns,
    )
