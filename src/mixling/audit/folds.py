"""Predict every example with a model that was not trained on it."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.comparison.baselines import LinearBaseline
from mixling.comparison.tfidf_features import FEATURES, TfidfFeatures
from mixling.comparison.with_columns import TextAndColumns
from mixling.comparison.word_tags import TAG_STRENGTHS, WordFeatures, WordTags
from mixling.data.dataset import Dataset
from mixling.data.examples import Target, names_of
from mixling.data.splits import assign_folds, split_validation
from mixling.errors import DataError
from mixling.features.kinds import parse_features
from mixling.runs.resolve.config import RunConfig
from mixling.runs.resolve.spec import LABELS, resolve
from mixling.runs.training import fit
from mixling.runtime.predictor import Predictor
from mixling.tasks.base import Task
from mixling.text.encoder import Text
from mixling.training.callbacks import Log
from mixling.training.jobs import train_jobs

_EPOCHS = 1 / 3  # of `mixling train`'s; label errors are found as well, in a third of the time
_VALIDATION = 0.1  # of the training examples of a fold, to choose the epoch
_LEAST = 1e-9  # probability
_STRENGTH = 10.0  # of the baseline's logistic regression, the inverse of the regularization


def out_of_fold(
    task: Task,
    examples: Dataset,
    *,
    folds: int,
    seed: int,
    epochs: int | None,
    features: Sequence[str],
    log: Log,
) -> tuple[Any, list[Target]]:
    """Train one model and one baseline for each fold on the others, in the processes that `use_workers` allows.

    Args:
        task: with all labels, in the order of the probabilities.
        epochs: of each training; None: a third of `mixling train`'s.
        features: the columns beside the texts, as of `mixling.features.kinds.parse_features`; both read them.

    Returns:
        The model's probabilities (n, C), 0 for labels that it does not know, and the baseline's answers. Of tags, each
        sentence has an array (words, C).

    Raises:
        DataError: without one of the folds, the examples all have the same label.
    """
    fold = assign_folds(examples, folds, seed)
    _check_labels(examples, fold)
    probabilities: Any = [np.empty(0)] * len(examples)
    answers = np.empty(len(examples), object)
    held_out = {f"fold {number + 1}/{folds}": np.flatnonzero(fold == number) for number in range(folds)}
    with tempfile.TemporaryDirectory(prefix="mixling-") as folder:
        train = partial(_predict, task, examples, seed, epochs, features, folder)
        # Texts in a temporary file cannot be sent to another process.
        done = train_jobs(train, held_out, most=folds, alone=examples.spooled, log=log)
        with contextlib.closing(done):
            for out, (found, baseline) in done:
                for index, values, answer in zip(out.tolist(), found, baseline, strict=True):
                    probabilities[index] = values
                    answers[index] = answer
    return probabilities if task.per_word else np.stack(probabilities), answers.tolist()


def _predict(
    task: Task,
    examples: Dataset,
    seed: int,
    epochs: int | None,
    features: Sequence[str],
    work: str,
    out: npt.NDArray[np.int64],
    log: Log,
) -> tuple[Sequence[npt.NDArray[np.float64]], list[Target]]:
    """Return the probabilities and the baseline's answers for the examples at `out` by models trained on the others."""
    rest = examples.subset(np.setdiff1d(np.arange(len(examples)), out))
    texts = list(examples.subset(out).texts)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        train, validation = split_validation(rest, fraction=_VALIDATION, seed=seed)
        fit(_config(task, train, epochs=epochs, features=features, seed=seed), train, validation, folder=Path(folder))
        predictor = Predictor(Path(folder))
    known = [task.labels.names.index(name) for name in predictor.labels.names]
    targets = task.targets(examples.subset(out).targets)
    if task.per_word:
        found = [predictor.task.probabilities(logits) for logits in predictor.text_logits(texts)]
        probabilities = [np.eye(len(task.labels))[tags] for tags in targets]  # words that no model reads are right
        for row, values in zip(probabilities, found, strict=True):
            row[: len(values)] = 0
            row[: len(values), known] = values
    else:
        rows = np.zeros((len(out), len(task.labels)))
        rows[:, known] = predictor.predict_proba(texts)
        probabilities = list(rows)
    outputs = [task.scores(row, least=_LEAST) for row in probabilities]
    score = task.evaluate(outputs, targets, tables=False).value(task.metric)
    metric = task.metric.replace("_f1", " F1")
    log(f"{len(rest):,} examples, {metric} {score:.4f} on the other {len(out):,}")
    return probabilities, _baseline(task, rest, texts, features)


def _check_labels(examples: Dataset, fold: npt.NDArray[np.int64]) -> None:
    if (classes := examples.class_ids()) is None:
        return
    for number in range(fold.max() + 1):
        if len(np.unique(classes[fold != number])) < 2:
            label = examples.targets[int(np.flatnonzero(fold != number)[0])]
            raise DataError(
                f"nearly every text has the label {label!r}: without one of {fold.max() + 1} folds, no other label is "
                "left to train on; give more examples of the others",
                path=examples.where(0)[0],
            )


def _config(task: Task, train: Dataset, *, epochs: int | None, features: Sequence[str], seed: int) -> RunConfig:
    data = {"columns": {"features": list(features)}}
    options = {"task": task.name, "train": {"seed": seed, "epochs": epochs}, "data": data}
    # The 8-bit model would be compared with the float one, which takes time and improves nothing here.
    resolved = resolve(
        options, spec=LABELS, overrides={"decisions": {"precision": "float32"}, "ngrams": {"refit": True}}
    )
    resolved = resolved.for_examples(train)
    config = resolved.config
    if epochs is not None:
        return config
    usual = config.train.resolved(
        len(train),
        rows_per_label=len(train) / max(len(train.label_counts()), 1) if task.has_classes else None,
        init=config.initialization.kind,
        distilled=False,
        augmented=True,
    ).epochs
    assert usual is not None
    fewer = config.train.model_copy(update={"epochs": max(math.ceil(_EPOCHS * usual), 2)})
    return config.model_copy(update={"train": fewer})


def _baseline(task: Task, train: Dataset, texts: Sequence[Text], beside: Sequence[str]) -> list[Target]:
    """Return the answers of TF-IDF and logistic regression; of texts without terms, the most frequent label.

    Of words, these are the answers of a linear model.
    """
    if task.per_word:
        encode_words = WordFeatures(list(train.texts))
        tags = [tag for target in train.targets for tag in names_of(target)]
        features_of_words = encode_words.transform(list(train.texts))
        return WordTags(encode_words, features_of_words, tags, TAG_STRENGTHS[1]).predict(texts)
    for kind in FEATURES:
        encode = TextAndColumns(kind, parse_features(beside)) if beside else TfidfFeatures(kind)
        with contextlib.suppress(DataError):  # there may be characters where there are no words
            features = encode.fit_transform(list(train.texts))
            options = {"features": kind, "C": _STRENGTH, "columns": features.shape[1]}
            return LinearBaseline(type(task), encode, features, list(train.targets), options).predict(texts)
    return [Counter(train.targets).most_common(1)[0][0]] * len(texts)
