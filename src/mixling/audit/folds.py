"""Predict every example with a model that was not trained on it."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mixling.comparison.baselines import TfidfFeatures, TfidfRegression
from mixling.data.dataset import Dataset
from mixling.data.splits import split_validation
from mixling.errors import DataError
from mixling.runs.config import RunConfig
from mixling.runs.spec import LABELS, resolve
from mixling.runs.training import fit
from mixling.runtime.predictor import Predictor
from mixling.tasks.classification import Classification

_EPOCHS = 1 / 3  # of those of `mixling train`; label errors are found as well, in a third of the time
_VALIDATION = 0.1  # of the training examples of a fold, to choose the epoch
_STRENGTH = 10.0  # of the baseline's logistic regression, the inverse of the regularization


def assign_folds(examples: Dataset, folds: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the fold (n,) of each example: equal texts have the same, and each label is in all as evenly as can be.

    Raises:
        DataError: there are fewer distinct texts than folds.
    """
    hashes, classes = examples.text_hashes(), examples.class_ids()
    assert classes is not None
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    if len(first) < folds:
        raise DataError(
            f"{len(first)} distinct texts are too few for {folds} folds; give more examples or a smaller --folds",
            path=examples.where(0)[0] if len(examples) else None,
        )
    order = np.random.default_rng(seed).permutation(len(first))
    order = order[np.argsort(classes[first][order], kind="stable")]
    fold = np.empty(len(first), np.int64)
    fold[order] = np.arange(len(first)) % folds  # label after label, so that each is spread over the folds
    return fold[group]


def out_of_fold(
    examples: Dataset,
    names: Sequence[str],
    *,
    folds: int,
    seed: int,
    epochs: int | None,
    log: Callable[[str], None],
) -> tuple[npt.NDArray[np.float64], list[str]]:
    """Train one model and one baseline for each fold on the others.

    Args:
        names: the labels, in the order of the probabilities.
        epochs: of each training; None: a third of those of `mixling train`.

    Returns:
        The model's probabilities (n, C), 0 for labels that it does not know, and the baseline's answers.
    """
    fold = assign_folds(examples, folds, seed)
    column = {name: index for index, name in enumerate(names)}
    probabilities = np.zeros((len(examples), len(names)))
    answers = np.empty(len(examples), object)
    for number in range(folds):
        out = np.flatnonzero(fold == number)
        rest = examples.subset(np.flatnonzero(fold != number))
        texts = list(examples.subset(out).texts)
        with tempfile.TemporaryDirectory(prefix="mixling-") as folder:
            train, validation = split_validation(rest, fraction=_VALIDATION, seed=seed)
            config = _config(train, epochs=epochs, seed=seed)
            fit(config, train, validation, folder=Path(folder))
            predictor = Predictor(Path(folder))
        known = np.array([column[name] for name in predictor.labels.names])
        probabilities[np.ix_(out, known)] = predictor.predict_proba(texts)
        answers[out] = _baseline(rest, texts, seed)
        right = np.mean(
            [names[i] == t for i, t in zip(probabilities[out].argmax(1), examples.subset(out).targets, strict=True)]
        )
        log(f"fold {number + 1}/{folds}: {len(rest):,} examples, accuracy {right:.4f} on the other {len(out):,}")
    return probabilities, answers.tolist()


def _config(train: Dataset, *, epochs: int | None, seed: int) -> RunConfig:
    options = {"task": Classification.name, "train": {"seed": seed, "epochs": epochs}}
    # The 8-bit model would be compared with the float one, which takes time and improves nothing here.
    resolved = resolve(options, spec=LABELS, overrides={"precision": "float32"}).for_examples(train)
    config = resolved.config
    if epochs is not None:
        return config
    usual = config.train.resolved(
        len(train),
        rows_per_label=len(train) / max(len(train.label_counts()), 1),
        init=config.initialization.kind,
        distilled=False,
        augmented=True,
    ).epochs
    assert usual is not None
    fewer = config.train.model_copy(update={"epochs": max(math.ceil(_EPOCHS * usual), 2)})
    return config.model_copy(update={"train": fewer})


def _baseline(train: Dataset, texts: Sequence[object], seed: int) -> list[str]:
    """Return the answers of TF-IDF and logistic regression."""
    encode = TfidfFeatures("word")
    features = encode.fit_transform(list(train.texts))
    options = {"features": "word", "C": _STRENGTH, "columns": features.shape[1]}
    model = TfidfRegression(Classification, encode, features, list(train.targets), options, seed)
    return [str(answer) for answer in model.predict(texts)]  # type: ignore[arg-type]
