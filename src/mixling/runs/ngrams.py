"""The linear n-gram branch of a run: chosen on validation data beside the finished network, then fitted on all rows.

The network's logits on the validation data are fixed. For each regularisation tried, a branch is fitted on the training
rows alone, pruned, stored in 8 bits and added to the network with the two weights that give the smallest loss on
validation; the best of them is compared with the network by itself, whose logits are scaled as well. What is exported
is a branch fitted on training and validation rows together, with the regularisation and the weights kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.data.dataset import Dataset
from mixling.tasks.base import Task
from mixling.text.config import TextConfig
from mixling.text.encoder import TextEncoder
from mixling.text.ngram_branch import NgramBranch, NgramMetadata
from mixling.text.ngrams import Distinct, Rows, Words
from mixling.text.vocabulary import Vocabulary
from mixling.training.config import NgramConfig
from mixling.training.ngrams import Mixture, fit_branch, fit_mixture, fit_scale, make_features

FILE_BYTES = 1_000_000  # of a model file that is to stay small
MOST_BYTES, LEAST_BYTES = 300_000, 10_000  # of a branch whose size the configuration leaves open
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_AROUND = 1000  # bytes of a file that name the arrays of a branch, and its metadata
_MOST_TEXTS = 100_000  # that a branch is fitted on
_GAIN = 2.0  # nats of all validation texts together that a branch must bring, as much as chance gives two parameters


@dataclass(frozen=True, kw_only=True)
class LinearData:
    """What a branch is fitted on and chosen by.

    network: (V, C), the network's logits of the validation texts. weights: (T,) of the training examples.
    """

    task: Task
    train: Dataset
    validation: Dataset
    network: npt.NDArray[np.floating]
    weights: npt.NDArray[np.float32] | None
    text: TextConfig
    vocabulary: Vocabulary


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A branch for the model file, and what is known of it.

    branch: with the weight of the sum multiplied in. logits: (V, C) of the validation texts with the branch that was
    not fitted on them. report: for metrics.json.
    """

    branch: NgramBranch
    metadata: NgramMetadata
    logits: npt.NDArray[np.float32]
    report: dict[str, Any]


def budget(config: NgramConfig, file_bytes: int) -> int:
    """Return the bytes that a branch may take beside a network's file of so many."""
    if config.max_bytes is not None:
        return config.max_bytes
    return max(min(FILE_BYTES - _AROUND - file_bytes, MOST_BYTES), LEAST_BYTES)


def fit_ngrams(
    config: NgramConfig, data: LinearData, *, max_bytes: int, log: Callable[[str], None] = lambda message: None
) -> Fitted | None:
    """Return the branch; None where it does not pay, or the training rows have no term.

    Where only scaling the network's logits pays, it is a branch without terms.

    Raises:
        DataError: as `Task.targets`.
    """
    task, train = data.task, _sample(data.train)
    weights = None if data.weights is None else data.weights[train]
    encoder = TextEncoder(data.text, data.vocabulary, keep=True)
    texts, validation = _encode(encoder, data.train, train), _encode(encoder, data.validation)
    targets = np.asarray(task.targets([data.train.targets[i] for i in train]))
    gold = np.asarray(task.targets(data.validation.targets))
    words = Words.of_table(encoder, 0, config.min_n, config.max_n)
    found = Distinct.of_texts(validation, words.hashes)
    shape = {"min_n": config.min_n, "max_n": config.max_n, "outputs": task.num_scores}
    features = make_features(texts, encoder, **shape)
    if not len(features.hashes):
        return None

    def attempt(strength: float) -> _Attempt:
        branch = fit_branch(task, features, targets, weights, strength=strength, max_bytes=max_bytes)
        own = task.logits_of_scores(branch.logits(found, branch.row_sums(words)))
        return _Attempt(strength, own, fit_mixture(task, data.network, own, gold))

    best = attempt(config.strength) if config.strength is not None else climb(attempt)
    scaled = fit_scale(task, data.network, gold)
    alone = scaled.loss
    change = f"validation loss {scaled.alone:.4f} alone, {alone:.4f} scaled, {best.mixture.loss:.4f} with it"
    if config.use == "auto" and (alone - best.mixture.loss) * len(gold) < _GAIN:
        log(f"n-gram branch: left out, it does not pay ({change})")
        return _scale_alone(config, data, scaled) if (scaled.alone - alone) * len(gold) >= _GAIN else None
    everything = make_features([*texts, *validation], encoder, **shape)
    fractions = None if weights is None else np.concatenate([weights, np.ones(len(gold), np.float32)])
    branch = fit_branch(
        task, everything, np.concatenate([targets, gold]), fractions, strength=best.strength, max_bytes=max_bytes
    ).scaled(best.mixture.branch)
    report = _report(best.strength, branch, best.mixture, alone)
    log(f"n-gram branch: {len(branch.terms):,} terms, {report['bytes'] / 1e6:.2f} MB; {change}")
    return Fitted(
        branch=branch,
        metadata=NgramMetadata(min_n=config.min_n, max_n=config.max_n, network=best.mixture.network),
        logits=best.mixture.logits(data.network, best.logits),
        report=report,
    )


def _scale_alone(config: NgramConfig, data: LinearData, scaled: Mixture) -> Fitted:
    """A branch of no terms, with which the network's logits are scaled: its probabilities are better all the same."""
    scores = data.task.num_scores
    nothing = NgramBranch(
        np.zeros(0, np.uint32),
        np.zeros((0, scores), np.int8),
        np.ones(scores, np.float32),
        np.zeros(scores, np.float32),
    )
    return Fitted(
        branch=nothing,
        metadata=NgramMetadata(min_n=config.min_n, max_n=config.max_n, network=scaled.network),
        logits=(scaled.network * data.network).astype(np.float32),
        report=_report(None, nothing, scaled, scaled.loss),
    )


def _report(strength: float | None, branch: NgramBranch, mixture: Mixture, scaled: float) -> dict[str, Any]:
    num_bytes = sum(array.nbytes for array in branch.to_arrays().values())
    own = {"strength": strength, "terms": len(branch.terms), "bytes": num_bytes, "loss_scaled": scaled}
    return {**own, **{f"mixture_{key}": value for key, value in asdict(mixture).items()}}


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A branch's logits of the validation texts, and how they are added."""

    strength: float
    logits: npt.NDArray[np.float32]
    mixture: Mixture


def climb(attempt: Callable[[float], _Attempt]) -> _Attempt:
    """Return the attempt with the lowest loss, from strength 1 on in the direction in which the loss falls."""
    at = STRENGTHS.index(1.0)
    best = attempt(STRENGTHS[at])
    for step in (1, -1):
        number = at + step
        improved = False
        while 0 <= number < len(STRENGTHS):
            other = attempt(STRENGTHS[number])
            if other.mixture.loss >= best.mixture.loss:
                break
            best, improved, number = other, True, number + step
        if improved:
            break
    return best


def _sample(dataset: Dataset) -> npt.NDArray[np.int64]:
    """The examples that are taken: all, or as many as a fit can hold."""
    return np.unique(np.linspace(0, len(dataset) - 1, min(len(dataset), _MOST_TEXTS)).astype(np.int64))


def _encode(encoder: TextEncoder, dataset: Dataset, chosen: npt.NDArray[np.int64] | None = None) -> list[Rows]:
    numbers = np.arange(len(dataset)) if chosen is None else chosen
    parts = np.array_split(numbers, max(-(-len(numbers) // 4096), 1))
    return [item.words for part in parts for item in encoder.encode([dataset.texts[int(i)] for i in part])]
