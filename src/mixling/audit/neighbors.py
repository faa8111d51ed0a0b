"""The training examples that are nearest to a text, as the model reads words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixling.arrays import Float32
from mixling.artifacts.artifact import read_folder
from mixling.artifacts.files import RUN_FILE, read_run
from mixling.config import parse
from mixling.data.config import DataConfig
from mixling.data.dataset import Dataset
from mixling.data.examples import Example, read_examples
from mixling.data.readers.rows import OnBadRow
from mixling.errors import ConfigError, ModelFileError, UserError
from mixling.runtime.predictor import Predictor
from mixling.text.encoder import Text

MAX_EXAMPLES = 100_000  # of the training examples, the first
_TOGETHER = 4096


@dataclass(frozen=True, kw_only=True)
class Neighbor:
    """A training example, and the cosine of its vector and the vector of the text near it."""

    example: Example
    similarity: float


def training_examples(model: str, predictor: Predictor) -> Dataset:
    """Return the examples that the model of a run folder was trained on, up to `MAX_EXAMPLES`.

    Raises:
        UserError: it is not a run folder, or its files cannot be read.
    """
    try:
        saved = read_folder(model, read_run)
        data = parse(DataConfig, saved["config"]["data"], where=f"{model}/{RUN_FILE}")
    except (OSError, KeyError, TypeError, ModelFileError):
        raise ConfigError(f"{model} has no record of a run") from None
    if not data.train:
        raise ConfigError(f"{model} was not trained on files")
    examples = read_examples(
        data.train,
        reader=predictor.task.reader,
        columns=data.columns,
        on_bad_row=OnBadRow("skip"),
        file_format=data.file_format,
    )
    return Dataset.from_examples(example for example, _ in zip(examples, range(MAX_EXAMPLES), strict=False))


def nearest(predictor: Predictor, train: Dataset, texts: Sequence[Text], count: int = 3) -> list[list[Neighbor]]:
    """Return the training examples nearest to each text, the nearest first.

    The vector of a text is the mean of its words' rows, as they enter the network, less the mean of all training texts.
    """
    vectors = _vectors(predictor, list(train.texts))
    center = vectors.mean(0)
    known = _unit(vectors - center)
    asked = _unit(_vectors(predictor, texts) - center)
    out = []
    for row in asked:
        cosines = known @ row
        best = np.argsort(-cosines, kind="stable")[:count]
        out.append([Neighbor(example=train[int(i)], similarity=float(cosines[i])) for i in best])
    return out


def training_or_reason(model: str, predictor: Predictor) -> tuple[Dataset | None, str]:
    """Return the training examples, or None and why they cannot be had."""
    try:
        return training_examples(model, predictor), ""
    except UserError as error:
        return None, str(error)


def _vectors(predictor: Predictor, texts: Sequence[Text]) -> Float32:
    parts = [predictor.encode(texts[first : first + _TOGETHER]) for first in range(0, len(texts), _TOGETHER)]
    return np.concatenate(parts)


def _unit(vectors: Float32) -> Float32:
    unit: Float32 = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit
