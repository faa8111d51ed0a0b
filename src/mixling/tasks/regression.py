"""Regression: a number for a text or a pair of texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from mixling.answers.labels import LabelSet, Targets, not_finite
from mixling.answers.predictions import Prediction
from mixling.arrays import Float32
from mixling.data.dataset import Dataset
from mixling.data.examples import Target, TextReader
from mixling.data.number_codes import LARGEST, as_number, plain_number, reason_for_classes
from mixling.data.readers.rows import SKIP, Row
from mixling.data.values import row_error, shown_value
from mixling.errors import DataError
from mixling.metrics.base import Metrics, Score
from mixling.metrics.quantization import QuantizationCheck, quantization_check
from mixling.native.regressions import Rows, fit_ridge
from mixling.tasks.base import Task
from mixling.tasks.baselines import LinearModel
from mixling.tasks.objective import LossTerms
from mixling.tasks.sample import Sample
from mixling.text.encoder import Encoded, Text

if TYPE_CHECKING:
    from torch import Tensor

    from mixling.networks.config import Output

_PENALTY = 30  # of ridge regression at strength 1
_EQUAL = 0.1  # of the training numbers' deviation: closer predictions agree, for the check of 8-bit weights


class NumberReader(TextReader):
    """Reads a finite number, in JSON also as a string such as "2.5" or "1e-3"."""

    def target(self, row: Row, column: str, value: Any) -> float:
        number = as_number(value)
        if number is None:
            got = "empty" if value is None or value == "" else shown_value(value)
            plain = plain_number(value) if isinstance(value, str) else None
            allowed = f"a finite number with a decimal point, such as {plain or 2.5}, is allowed"
            raise row_error(row, f"column {column!r} is {got}; {allowed}; correct it {SKIP}")
        if abs(number) > LARGEST:
            got = f"column {column!r} is {number:g}, which is too large to square"
            raise row_error(row, f"{got}; numbers up to {LARGEST:g} are allowed; correct it {SKIP}")
        return number


@dataclass(frozen=True, kw_only=True, repr=False)
class RegressionMetrics(Metrics):
    """Metrics of predicted numbers.

    Attributes:
        mse, mae: mean squared and mean absolute error, in the (squared) unit of the targets.
        r2: 1 - mse / variance of the targets; None if all targets are equal.
        pearson, spearman: correlation of predictions and targets, by value and by rank (ties have their mean rank);
            None if all predictions or all targets are equal.
    """

    mse: float
    mae: float
    r2: float | None
    pearson: float | None
    spearman: float | None

    def summary(self) -> str:
        pearson, spearman = ("-" if value is None else f"{value:.4f}" for value in (self.pearson, self.spearman))
        return (
            f"mean squared error {self.mse:.4g}, mean absolute error {self.mae:.4g}, Pearson {pearson}, "
            f"Spearman {spearman}, {self.n} texts"
        )


class Regression(Task):
    """One number per text: squared error.

    The model learns (number - mean) / deviation with mean and standard deviation of the training numbers, which are the
    `numbers` of the label set; predictions and metrics have the unit of the training numbers.
    """

    name = "regression"
    kind = "number"
    gives = "a number a text"
    output: Output = "text"
    metric = "mse"
    less_is_better = True
    reader = NumberReader
    estimator = "TextRegressor"
    has_labels = False
    smooths = False
    card_metrics: ClassVar[Mapping[str, str]] = {
        "mse": "mse",
        "mae": "mae",
        "pearsonr": "pearson",
        "spearmanr": "spearman",
    }
    purpose = "predicts a number for a text"
    usage = "prediction.value"
    csv_columns = ("value",)
    baselines = ("tf-idf",)
    headline = "mae"
    aside = ("pearson", "spearman", "mse")
    resamples = "the rows"
    linear = ("ridge", "ridge regression")
    has_scores = True
    aims: ClassVar[Mapping[str, str]] = {
        "mse": "mse",
        "rmse": "mse",
        "mae": "mae",
        "pearson": "pearson",
        "spearman": "spearman",
    }

    @classmethod
    def recognize(cls, sample: Sample) -> str | None:
        """Recognize many different numbers that are no codes, at least one of them with a fraction."""
        if reason_for_classes(sample.label_counts) != "":
            return None
        different = len(set(map(as_number, sample.label_counts)))
        return f"{sample.path} has {different} different numbers with fractions in the first rows of {sample.label}"

    @classmethod
    def label_set(cls, train: Dataset) -> LabelSet:
        """Return the single output, with mean and deviation of the training numbers."""
        values = np.array(list(train.targets), np.float64)
        mean = float(values.mean())
        deviation = float(values.std())
        if len(values) and values.min() == values.max():
            raise DataError(f"every text has the same number, {values[0]:g}; there is nothing to learn")
        return LabelSet(("value",), cls.kind, {"mean": mean, "deviation": deviation})

    def check(self) -> None:
        numbers = self.labels.numbers
        if len(self.labels) != 1 or set(numbers) != {"mean", "deviation"} or numbers["deviation"] <= 0:
            got = f"{len(self.labels)} outputs with {dict(numbers)}"
            raise DataError(f"got {got}; one with a mean and a deviation above 0 is needed")
        self.mean, self.deviation = float(numbers["mean"]), float(numbers["deviation"])

    def targets(self, targets: Iterable[Any]) -> npt.NDArray[np.float64]:
        """Return the numbers (B,)."""
        return np.array(list(targets), np.float64)

    def stack(self, targets: Targets, width: int) -> npt.NDArray[Any]:
        """Return standardized targets (B, 1)."""
        return ((np.asarray(targets) - self.mean) / self.deviation).astype(np.float32)[:, None]

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        import torch

        losses = (logits - targets.to(logits.dtype))[:, 0].square()
        scale = torch.ones_like(losses) if weights is None else weights
        return (losses * scale).sum(), scale.sum()

    def loss_terms(self, *, transitions: bool) -> LossTerms:
        return LossTerms("squares")

    def values(self, outputs: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
        """Return the numbers (B,) of logits (1,).

        Raises:
            ModelFileError: a logit is not finite.
        """
        logits = np.asarray(outputs, np.float64).reshape(len(outputs), 1)[:, 0]
        if not np.isfinite(logits).all():
            raise not_finite()
        return self.mean + self.deviation * logits

    def target_scores(self, logits: npt.NDArray[Any], label: int) -> npt.NDArray[np.float64]:
        """Return the predicted numbers (B,)."""
        return self.values(logits)  # type: ignore[arg-type]

    def decode(self, logits: npt.NDArray[Any], encoded: Encoded, text: Text) -> Prediction:
        value = float(self.values([logits])[0])
        return Prediction(value=value, truncated=encoded.truncated, empty=encoded.is_empty)

    def evaluate(self, outputs: Sequence[Any], targets: Any, *, tables: bool = True) -> RegressionMetrics:
        return regression_report(np.asarray(targets, np.float64), self.values(outputs))

    def compare_quantized(self, before: Sequence[Any], after: Sequence[Any], targets: Any) -> QuantizationCheck:
        """Compare predictions; a difference of a tenth of the training numbers' deviation is a change.

        A text is worse if its error grew; points of accuracy are hundredths of the deviation.
        """
        first = self.values(before)
        second = self.values(after)
        grown = (np.abs(second - targets) - np.abs(first - targets)) / self.deviation
        changed = int((np.abs(second - first) > _EQUAL * self.deviation).sum())
        quantization = quantization_check(np.sign(grown).astype(np.int64), changed=changed, decisions=len(first))
        return replace(quantization, accuracy_drop=100 * float(grown.mean()))

    def card_outputs(self, reading: Mapping[str, Any]) -> tuple[str, str]:
        text = (
            f"A prediction is a number in the unit of the training rows, whose mean was {self.mean:.4g} and whose "
            f"standard\ndeviation was {self.deviation:.4g}. It is not limited to the range of the training rows."
        )
        return "Predictions", text

    @classmethod
    def card_quantization(cls, quantization: Mapping[str, Any]) -> str:
        growth = round(quantization["accuracy_drop"] / 100, 4)
        change = f"{abs(growth):.4f} deviations {'larger' if growth > 0 else 'smaller'}" if growth else "the same"
        return (
            f"With 8-bit weights {quantization['agreement']:.2%} of the predictions on these rows are within "
            f"{_EQUAL:g} "
            f"standard deviations of\nthe float model's; the mean absolute error is {change}."
        )

    @classmethod
    def csv_values(cls, prediction: Prediction) -> list[Any]:
        return [f"{prediction.value:.6g}"]

    @classmethod
    def lines(cls, prediction: Prediction) -> list[str]:
        return [f"{prediction.value:.6g}"]

    @classmethod
    def comparison_line(cls, metrics: Metrics) -> str:
        assert isinstance(metrics, RegressionMetrics)
        if metrics.r2 is None or metrics.r2 == 1:
            return ""
        return f"always the mean has mean squared error {metrics.mse / (1 - metrics.r2):.4g}"

    def score(self, targets: Sequence[Target], answers: Sequence[Target]) -> Score:
        truth = self.targets(targets)
        given = self.targets(answers)

        def metrics(rows: npt.NDArray[np.int64]) -> dict[str, float]:
            found = regression_report(truth[rows], given[rows]).numbers()
            return {name: found.get(name, math.nan) for name in (type(self).headline, *self.aside)}

        return Score(metrics(np.arange(len(truth))), len(truth), metrics)

    @classmethod
    def answer(cls, prediction: Prediction, text: Text) -> Target:
        return prediction.value

    @classmethod
    def constant(cls, targets: Sequence[Target]) -> Callable[[Text], Target]:
        """Return what gives every text the median, which has the smallest absolute errors."""
        median = float(np.median(np.array(targets, np.float64)))
        return lambda text: median

    @classmethod
    def fit_linear(cls, features: Rows, targets: Sequence[Target], *, strength: float) -> LinearModel:
        # Of the grid of strengths, 1 to 30, this makes penalties of 30 to 1; less fits STS-B's validation rows worse.
        weights, bias = fit_ridge(features, np.array(targets, np.float64), strength / _PENALTY)
        return LinearModel(weights[None], np.array([bias]), lambda scores: scores[:, 0].tolist())

    def fit_scores(
        self,
        features: Any,
        targets: npt.NDArray[Any],
        weights: npt.NDArray[np.float32] | None,
        *,
        strength: float,
        ratio_power: float = 0.0,
        few: bool = False,
        duals: Float32 | None = None,
        kept: npt.NDArray[np.bool_] | None = None,
        columns: int = 0,
    ) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]:
        """Fit ridge regression of the standardized numbers."""
        slopes, bias = fit_ridge(features, (targets - self.mean) / self.deviation, strength, weights)
        return slopes[None], np.array([bias])

    def score_loss(self, logits: npt.NDArray[Any], targets: npt.NDArray[Any]) -> tuple[float, npt.NDArray[np.float64]]:
        errors = np.asarray(logits, np.float64) - ((targets - self.mean) / self.deviation)[:, None]
        return float(np.square(errors).mean()), 2 * errors / len(errors)


def regression_report(targets: npt.NDArray[np.float64], values: npt.NDArray[np.float64]) -> RegressionMetrics:
    """Score predicted numbers (B,) against the true ones (B,).

    Raises:
        DataError: there is no text.
    """
    if not len(targets):
        raise DataError("there is nothing to evaluate: got no rows; give at least one labeled row")
    errors = values - targets
    mse = float(np.mean(errors**2))
    variance = float(targets.var())
    return RegressionMetrics(
        n=len(targets),
        per_class=(),
        mse=mse,
        mae=float(np.abs(errors).mean()),
        r2=1 - mse / variance if targets.min() < targets.max() else None,
        pearson=_correlation(targets, values),
        spearman=_correlation(_ranks(targets), _ranks(values)),
    )


def _correlation(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> float | None:
    if first.min() == first.max() or second.min() == second.max():
        return None
    a = first - first.mean()
    b = second - second.mean()
    return float(np.clip((a @ b) / math.sqrt((a @ a) * (b @ b)), -1, 1))


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return ranks from 1; equal values have the mean of their ranks."""
    _, groups, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[groups]
