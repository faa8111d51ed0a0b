"""Multi-label classification: any number of labels for a text or a pair of texts."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from mixling.answers.labels import LabelSet, not_finite
from mixling.answers.predictions import Prediction
from mixling.arrays import Float32
from mixling.data.cells import read_cell
from mixling.data.character_spans import is_spans
from mixling.data.dataset import Dataset
from mixling.data.examples import Target, names_of
from mixling.data.readers.rows import SKIP, Row
from mixling.data.values import is_blank, label_of, labels_in, mark_of, row_error, shown_value
from mixling.errors import DataError, printable
from mixling.metrics.base import MultiLabelMetrics, Score
from mixling.metrics.quantization import QuantizationCheck, compare_quantized
from mixling.metrics.reports import multilabel_report, set_metrics
from mixling.native.margins import MAX_RATIO_LABELS, RATIO_POWERS, fit_margins
from mixling.native.regressions import Rows, fit_logistic
from mixling.tasks.base import Task, sigmoid
from mixling.tasks.baselines import LinearModel
from mixling.tasks.classification import LabelReader
from mixling.tasks.objective import LossTerms
from mixling.tasks.presentation import probable
from mixling.tasks.sample import Sample
from mixling.text.encoder import Encoded, Text
from mixling.threads import num_threads

if TYPE_CHECKING:
    from torch import Tensor

    from mixling.networks.config import Output


class LabelsReader(LabelReader):
    """Reads a set of labels; an empty cell is the empty set.

    It is a list, a string of labels joined by `columns.label_delimiter`, an object such as {"a": 1, "b": 0}, or
    (with `columns.labels`) a column of 0 and 1 for each label, or a list of 0 and 1.
    """

    of_sets = True

    def _needed(self, row: Row) -> Iterator[tuple[str, str]]:
        marks = self._has_marks(row)
        for key, name in super()._needed(row):
            if marks and key == "label":
                yield from (("labels", name) for name in self.columns.labels or ())
            else:
                yield key, name

    def _has_marks(self, row: Row) -> bool:
        """Return whether each label has a column: some of them are there, or the column of lists is not."""
        labels = self.columns.labels
        return labels is not None and (not row.values.keys().isdisjoint(labels) or self.columns.label not in row.values)

    def label_value(self, row: Row) -> Any:
        if not self._has_marks(row):
            return super().label_value(row)
        values = {name: row.values.get(name) for name in self.columns.labels or ()}
        return values if self.labeled or not all(map(is_blank, values.values())) else None

    def target(self, row: Row, column: str, value: Any) -> tuple[str, ...]:
        found = read_cell(value, bare=True)
        labels = labels_in(found)
        if isinstance(found, str):
            delimiter = self.columns.label_delimiter
            labels = found.split() if delimiter == " " else found.strip().removesuffix(delimiter).split(delimiter)
            labels = labels if found.strip() else []
        if labels is not None:
            labels = self._named(row, column, labels)
        elif isinstance(found, dict):
            name, wrong = next((name, item) for name, item in found.items() if mark_of(item) is None)
            where = "" if found is value and self._has_marks(row) else f"{column!r}: "
            got = f"column {where}{name!r} is {'empty' if is_blank(wrong) else shown_value(wrong)}"
            raise row_error(row, f"{got}; 0 and 1 are allowed, for a text without and with this label, {SKIP}")
        else:
            got = "empty" if value is None else shown_value(found)
            if is_spans(found):
                got += ", spans of characters, which --task tagging reads"
            allowed = "a list of labels or a string such as 'a|b' is allowed ([] for none)"
            raise row_error(row, f"column {column!r} is {got}; {allowed}, {SKIP}")
        kinds = self._kinds if found is value else {}  # a cell with 1 in brackets may stand beside one without them
        return tuple(dict.fromkeys(label_of(row, column, item, kinds) for item in labels))

    def _named(self, row: Row, column: str, labels: list[Any]) -> list[Any]:
        """Return the labels of a list, which is a row of an indicator matrix if their names are configured."""
        names = self.columns.labels
        marks = list(map(mark_of, labels))
        are_names = None in marks and set(names or ()).issuperset(map(str, labels))
        if names is None or are_names or not labels or self._has_marks(row):
            if len(marks) > len(set(marks)) and None not in marks:  # a set has each label once
                got = f"column {column!r} is {shown_value(labels)}, a row of an indicator matrix"
                raise row_error(row, f"{got}; name its labels in their order with --set data.columns.labels=a,b,c")
            return labels
        if len(labels) != len(names) or None in marks:
            got = f"column {column!r} is {shown_value(labels)}"
            wanted = f"{len(names)} items of 0 and 1 are required, as of data.columns.labels"
            raise row_error(row, f"{got}; {wanted}, {SKIP}")
        return list(itertools.compress(names, marks))


_THRESHOLD = 0.5


class MultiLabel(Task):
    """Any number of labels per text: a sigmoid per label, and binary cross-entropy averaged over labels."""

    name = "multi_label"
    kind = "multi"
    gives = "several labels a text"
    output: Output = "text"
    metric = "micro_f1"
    reader = LabelsReader
    own_columns = frozenset({"labels", "label_delimiter"})
    estimator = "TextClassifier"
    exclusive = False
    has_probabilities = True
    card_metrics: ClassVar[Mapping[str, str]] = {"f1": "micro_f1"}
    purpose = "assigns any of {n} labels to a text"
    usage = "prediction.labels, prediction.probabilities"
    csv_columns = ("labels",)
    baselines = ("tf-idf", "fasttext")
    headline = "subset_accuracy"
    aside = ("micro_f1", "macro_f1")
    has_scores = True
    calibrates = True
    has_threshold = has_label_thresholds = True
    aims: ClassVar[Mapping[str, str]] = {
        "micro-f1": "micro_f1",
        "macro-f1": "macro_f1",
        "sample-f1": "sample_f1",
        "subset-accuracy": "subset_accuracy",
    }

    @classmethod
    def recognize(cls, sample: Sample) -> str | None:
        if sample.list_sizes <= {1}:
            return None
        return f"{sample.path} has lists of labels in the column {sample.label}"

    @classmethod
    def label_set(cls, train: Dataset) -> LabelSet:
        """Return the labels of training examples.

        Raises:
            DataError: they are rows of an indicator matrix of two columns, read as sets.
        """
        two = set(train.label_counts()) == {"0", "1"} and not train.label_columns
        if two and all(len(names_of(target)) == 2 for target in train.targets):
            got = "every list of labels is [0, 1] or [1, 0], as in an indicator matrix"
            remedy = "name its labels in their order with --set data.columns.labels=a,b"
            raise DataError(f"{got}; {remedy}", path=train.where(0)[0])
        return super().label_set(train)

    def targets(self, targets: Iterable[Any]) -> npt.NDArray[np.int64]:
        """Return sets of labels as an array (B, C) of zeros and ones."""
        rows = [self.labels.ids(names) for names in targets]
        out = np.zeros((len(rows), len(self.labels)), np.int64)
        for marks, row in zip(out, rows, strict=True):
            marks[row] = 1
        return out

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        import torch
        from torch.nn import functional as F

        smoothing = self.loss_config.label_smoothing
        soft = targets.to(logits.dtype)
        if not targets.is_floating_point():
            soft = soft * (1 - smoothing) + smoothing / 2
        positive = None if self.class_weights is None else self._weights_like(logits)
        losses = F.binary_cross_entropy_with_logits(logits, soft, reduction="none", pos_weight=positive).mean(1)
        scale = torch.ones_like(losses) if weights is None else weights
        return (losses * scale).sum(), scale.sum()

    def loss_terms(self, *, transitions: bool) -> LossTerms:
        return LossTerms("sigmoid", self.loss_config.label_smoothing, self.class_weights)

    def learnable(self, targets: Any) -> tuple[Any, npt.NDArray[np.float32] | None]:
        return np.asarray(targets)[:, : len(self.labels)], None

    def decode(self, logits: npt.NDArray[Any], encoded: Encoded, text: Text) -> Prediction:
        values = logits.tolist()
        assert len(values) == len(self.labels), f"{len(values)} logits for {len(self.labels)} labels"
        if not math.isfinite(sum(values)):
            raise not_finite()
        return self._prediction(map(sigmoid, values), encoded)

    def decode_many(
        self, logits: Sequence[npt.NDArray[Any]], encoded: Sequence[Encoded], texts: Sequence[Text]
    ) -> list[Prediction]:
        if not len(logits):
            return []
        rows = self.probabilities(np.asarray(logits)).tolist()
        return [self._prediction(row, item) for row, item in zip(rows, encoded, strict=True)]

    def _prediction(self, values: Iterable[float], encoded: Encoded) -> Prediction:
        probabilities = dict(zip(self.labels.names, values, strict=True))
        threshold = _THRESHOLD if self.threshold is None else self.threshold
        own = self.label_thresholds
        return Prediction(
            labels=tuple(name for name, value in probabilities.items() if value >= own.get(name, threshold)),
            probabilities=probabilities,
            truncated=encoded.truncated,
            empty=encoded.is_empty,
        )

    def thresholds(self) -> dict[str, float]:
        threshold = _THRESHOLD if self.threshold is None else self.threshold
        return {name: self.label_thresholds.get(name, threshold) for name in self.labels.names}

    def evaluate(self, outputs: Sequence[Any], targets: Any, *, tables: bool = True) -> MultiLabelMetrics:
        thresholds = np.array(list(self.thresholds().values()))
        probabilities = self.probabilities(np.stack(outputs))
        return multilabel_report(self.labels, np.asarray(targets), probabilities, thresholds=thresholds, tables=tables)

    def decisions(self, outputs: Sequence[Any], targets: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        return np.stack(outputs), np.asarray(targets)[:, : len(self.labels) - self.unseen]

    def compare_quantized(self, before: Sequence[Any], after: Sequence[Any], targets: Any) -> QuantizationCheck:
        """Compare decisions, one per text and label."""
        known = np.asarray(targets, bool)[:, : len(self.labels) - self.unseen]
        return compare_quantized(np.stack(before) > 0, np.stack(after) > 0, known)

    @classmethod
    def csv_values(cls, prediction: Prediction) -> list[Any]:
        return ["|".join(prediction.labels or ())]

    @classmethod
    def lines(cls, prediction: Prediction) -> list[str]:
        return [printable(", ".join(prediction.labels or ()) or "(none)"), *probable(prediction)]

    def score(self, targets: Sequence[Target], answers: Sequence[Target]) -> Score:
        task = self.with_unknown(targets, answers)
        truth = np.asarray(task.targets(targets)).astype(bool)
        given = np.asarray(task.targets(answers)).astype(bool)

        def metrics(rows: npt.NDArray[np.int64]) -> dict[str, float]:
            return set_metrics(truth[rows], given[rows])

        hits = (truth == given).all(1).astype(np.float64)
        return Score(metrics(np.arange(len(truth))), len(truth), metrics, hits)

    @classmethod
    def answer(cls, prediction: Prediction, text: Text) -> Target:
        return prediction.labels

    @classmethod
    def fit_linear(cls, features: Rows, targets: Sequence[Target], *, strength: float) -> LinearModel:
        """Fit one regression per label, except for labels that all training texts have."""
        # Not scikit-learn's OneVsRestClassifier: its threshold is wrong for all labels where the first is constant.
        rows = list(map(names_of, targets))
        counts = Counter(name for row in rows for name in row)
        always = tuple(sorted(name for name in counts if counts[name] == len(rows)))
        names = sorted(counts.keys() - set(always))
        fitted = [fit_logistic(features, np.array([name in row for row in rows], int), 2, strength) for name in names]

        def answers(scores: npt.NDArray[np.float32]) -> list[Target]:
            return [(*always, *(names[index] for index in np.flatnonzero(row))) for row in scores > 0]

        weights = np.concatenate([np.zeros((0, features.shape[1]), np.float32), *(weights for weights, _ in fitted)])
        return LinearModel(weights, np.concatenate([np.zeros(0, np.float32), *(bias for _, bias in fitted)]), answers)

    @property
    def ratio_powers(self) -> tuple[float, ...]:
        return RATIO_POWERS if self.num_scores <= MAX_RATIO_LABELS else ()

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
        """Fit one model for each label, as `fit_margins`; a label that all texts have or none needs no features."""
        fractions = np.ones(len(targets), np.float32) if weights is None else weights
        marks = targets.T > 0
        if self.class_weights is not None:
            fractions = np.where(marks, fractions * np.asarray(self.class_weights)[:, None], fractions)
        return fit_margins(
            features,
            marks,
            fractions,
            strength,
            ratio_power=ratio_power,
            duals=duals,
            kept=kept,
            columns=columns,
            threads=num_threads(),
        )

    def score_loss(self, logits: npt.NDArray[Any], targets: npt.NDArray[Any]) -> tuple[float, npt.NDArray[np.float64]]:
        probabilities = self.probabilities(logits)
        right = np.where(targets, probabilities, 1 - probabilities)
        loss = -float(np.log(np.maximum(right, 1e-300)).mean())
        return loss, (probabilities - targets) / targets.size
