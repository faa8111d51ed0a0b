"""Choose the mixture of a network and its n-gram branch by cross-fitting, where labeled examples are few.

A tenth of a few examples cannot show how much each of the two should count, and a network that was trained on the rest
cannot be judged on it. So networks are trained that each leave out one fold of all labeled examples, in the same way as
the one that is exported, and branches are fitted that each leave out a fold; the mixture and the strength of the
regularization minimize the loss of what these predict for the examples that they left out (out-of-fold predictions, as
in D. Wolpert, "Stacked generalization", 1992). The exported network and branch are trained on all examples.

The branch has no misspelled copies here, which made it worse (experiments/README.md), and its n-grams may weigh more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.answers.labels import Targets
from mixling.data.batches import Indices, TextSet
from mixling.data.dataset import Dataset
from mixling.data.splits import assign_folds
from mixling.networks.network import TextNetwork
from mixling.tasks.base import Task
from mixling.training.config import NgramConfig, TrainConfig
from mixling.training.dataset_adapter import LabeledData
from mixling.training.loop import Trainer

# Networks that are trained on a half show as much as on three quarters (experiments/README.md), and together they
# take as long as one network that is trained on all.
FOLDS = 2
# Branches take little time, and with 5 rows of each label every row counts: a part of them is left out by each of more,
# unless texts times scores are many.
BRANCH_FOLDS = 5
_MANY_SCORES = 20_000
# With more examples of each label, or more in all, a tenth of them shows as much; a pair shows less. With 500 of each
# of two labels it does not: one of three samples of SST-2 lost ten points of accuracy (benchmarks/small_data.py).
FEW_OF_LABEL = 600
FEW_EXAMPLES = 2_000
FEW_PAIRS = 5_000
_FEWEST = 8  # different texts, or groups, that are divided


@dataclass(frozen=True, kw_only=True)
class OutOfFold:
    """Predictions of networks for the examples that they were not trained on.

    Attributes:
        folds: (R,) of the training examples and then, if the exported model is fitted on them, of validation.
        logits: (R, C).
    """

    folds: npt.NDArray[np.int64]
    logits: npt.NDArray[np.floating]


def choose_folds(
    fitted: Sequence[Dataset],
    *,
    task: type[Task],
    ngrams: NgramConfig,
    training: TrainConfig,
    usual: bool,
    distilled: bool,
    world: int,
) -> npt.NDArray[np.int64] | None:
    """Return the folds (R,) of the examples, where equal texts and groups are in one; None: there is no cross-fitting.

    Args:
        fitted: the exported model's data: the training examples, and perhaps validation's.
        usual: whether nothing else is chosen that cross-fitting was not tried with, such as weights of examples.
        distilled: whether a teacher is distilled.
        world: number of processes that train.
    """
    chosen = ngrams.cross_fit
    number = sum(map(len, fitted))
    pairs = fitted[0].schema.pairs
    possible = task.has_scores and ngrams.use != "never" and not distilled and world == 1
    if chosen is False or not possible:
        return None
    if chosen is None:
        planned = training.epochs is not None or training.steps is not None
        labels = len(fitted[0].label_counts()) if task.has_labels else 2
        few = FEW_PAIRS if pairs else min(FEW_OF_LABEL * labels, FEW_EXAMPLES)
        if number > few or planned or not usual:
            return None
    if len(np.unique(np.concatenate([part.group_hashes() for part in fitted]))) < _FEWEST:
        return None
    return _assign(fitted, FOLDS, training.seed)


def branch_folds(fitted: Sequence[Dataset], scores: int, networks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the folds (R,) for branches: more than for networks, where these take little time.

    Args:
        fitted: as of `choose_folds`.
        scores: number of scores of a branch.
        networks: the folds for networks.
    """
    if len(networks) * scores > _MANY_SCORES:
        return networks
    return _assign(fitted, BRANCH_FOLDS, 0)


def _assign(fitted: Sequence[Dataset], folds: int, seed: int) -> npt.NDArray[np.int64]:
    groups = np.concatenate([part.group_hashes() for part in fitted])
    joined = Dataset.from_examples((one for part in fitted for one in part), texts=fitted[0].schema.texts)
    return assign_folds(joined, folds, seed, groups=groups)


@dataclass(frozen=True, kw_only=True)
class CrossFitted:
    """Networks that were each trained without one fold.

    Attributes:
        folds: (R,) of all examples.
        networks: the one that was trained without fold 0, and so on.
    """

    folds: npt.NDArray[np.int64]
    networks: Sequence[TextNetwork]

    def logits(self, predict: Callable[[TextNetwork, Indices], Sequence[npt.NDArray[Any]]]) -> npt.NDArray[Any]:
        """Return the logits (R, C) of the examples, each by the network that was trained without it.

        Args:
            predict: returns the logits (C,) of a network for the examples with some indices.
        """
        rows: list[npt.NDArray[Any]] = [np.empty(0)] * len(self.folds)
        for fold, network in enumerate(self.networks):
            held = np.flatnonzero(self.folds == fold)
            for index, row in zip(held, predict(network, held), strict=True):
                rows[index] = row
        return np.stack(rows)


def cross_fit(
    folds: npt.NDArray[np.int64],
    data: LabeledData,
    known: npt.NDArray[np.int64],
    training: TrainConfig,
    untrained: TextNetwork,
) -> CrossFitted:
    """Train a network for each fold on the others.

    Args:
        folds: (R,) of all examples.
        data: the examples with known labels.
        known: (R',) the indices of these among all.
        training: its time budget is for all of them together.
        untrained: has the initial weights.
    """
    networks = []
    number = int(folds.max()) + 1
    for fold in range(number):
        part = _part(data, np.flatnonzero(folds[known] != fold))
        network = untrained.copy()
        epochs = training.epochs or 1
        changes = {"steps": None, "time_budget": None, "patience": None, "track": ()}
        total = epochs * math.ceil(len(part) / training.batch_size)
        seconds = None if training.time_budget is None else training.time_budget / number
        Trainer(network, part, training.model_copy(update=changes), last_step=total, seconds=seconds).fit()
        networks.append(network)
    return CrossFitted(folds=folds, networks=networks)


def _part(data: LabeledData, chosen: npt.NDArray[np.int64]) -> LabeledData:
    """Return some of the training examples."""
    targets: Targets = data.train_targets
    return replace(
        data,
        train=TextSet(data.train.dataset.subset(chosen), data.train.encoder),
        train_targets=targets[chosen] if isinstance(targets, np.ndarray) else [targets[int(i)] for i in chosen],
        weights=None if data.weights is None else data.weights[chosen],
    )
