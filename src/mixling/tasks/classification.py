"""Classification: one label for a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from mixling.answers.decoding import LabelDecoder
from mixling.answers.predictions import Prediction
from mixling.arrays import Float32
from mixling.data.cells import read_cell
from mixling.data.character_spans import is_spans
from mixling.data.examples import Target, TextReader
from mixling.data.number_codes import reason_for_classes
from mixling.data.readers.rows import SKIP, Row
from mixling.data.values import label_of, labels_in, row_error, shown_value
from mixling.errors import DataError, printable
from mixling.metrics.base import ClassificationMetrics, Metrics, Score
from mixling.metrics.quantization import QuantizationCheck, compare_quantized
from mixling.metrics.reports import answer_metrics, classification_report
from mixling.native.margins import MAX_RATIO_LABELS, RATIO_POWERS, fit_margins
from mixling.native.regressions import Rows, fit_logistic
from mixling.tasks.base import Task
from mixling.tasks.baselines import LinearModel
from mixling.tasks.objective import LossTerms
from mixling.tasks.presentation import probable
from mixling.tasks.sample import Sample
from mixling.text.encoder import Encoded, Text
from mixling.threads import num_threads

if TYPE_CHECKING:
    from torch import Tensor

    from mixling.answers.predictions import Read
    from mixling.networks.config import Output


class LabelReader(TextReader):
    """Reads one label: a string, stripped of outer spaces, or a list of one.

    In JSON, Parquet and on the hub it may also be an integer, a float with an integer value (1.0 becomes "1") or a
    boolean ("true", "false"). Values of a CSV are not converted, but lists in its cells are read.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._kinds: dict[str, type] = {}  # the types that labels were written as

    def target(self, row: Row, column: str, value: Any) -> Target:
        found = read_cell(value)
        labels = labels_in(found)
        if labels is not None and len(labels) == 1:
            return label_of(row, column, labels[0], self._kinds if found is value else {})
        if isinstance(found, list | dict):
            got = f"column {column!r} holds {shown_value(found)}"
            if is_spans(found):
                raise row_error(row, f"{got}, spans of characters, which --task tagging reads; correct it {SKIP}")
            several = "" if labels is None else ", and several with --task multi_label"
            raise row_error(row, f"{got}; one label is allowed{several}; correct it {SKIP}")
        return label_of(row, column, value, self._kinds)


class Classification(Task):
    """One label per text: softmax and cross-entropy."""

    name = "classification"
    kind = "single"
    gives = "one label a text"
    output: Output = "text"
    metric = "accuracy"
    reader = LabelReader
    estimator = "TextClassifier"
    has_probabilities = True
    has_classes = True
    card_metrics: ClassVar[Mapping[str, str]] = {"accuracy": "accuracy", "f1": "macro_f1"}
    purpose = "assigns one of {n} labels to a text"
    usage = "prediction.label, prediction.probabilities"
    csv_columns = ("label", "probability")
    json_of_texts = True
    baselines = ("tf-idf", "fasttext")
    headline = "accuracy"
    aside = ("macro_f1",)
    has_scores = True
    calibrates = True
    abstains = has_threshold = True
    aims: ClassVar[Mapping[str, str]] = {
        "accuracy": "accuracy",
        "macro-f1": "macro_f1",
        "balanced-accuracy": "balanced_accuracy",
        "mcc": "matthews",
        "f1:": "label_f1",
        "cost": "mean_cost",
    }

    @classmethod
    def recognize(cls, sample: Sample) -> str | None:
        if why := reason_for_classes(sample.label_counts):
            return f"column {sample.label} of {sample.path}: {why}"
        if sample.list_sizes != {1}:
            return None
        return f"each list in the column {sample.label} of {sample.path} has one label"

    def check(self) -> None:
        if len(self.labels) == 1:
            raise DataError(f"every text has the same label, {self.labels.names[0]!r}; at least two classes are needed")

    def targets(self, targets: Iterable[Any]) -> npt.NDArray[np.int64]:
        """Return the ids (B,) of labels."""
        return self.labels.ids(targets)

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        import torch
        from torch.nn import functional as F

        soft = targets.is_floating_point()
        smoothing = 0.0 if soft else self.loss_config.label_smoothing
        targets = targets.to(logits.dtype) if soft else targets
        losses = F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)
        scale = torch.ones_like(losses) if weights is None else weights
        if self.class_weights is not None:
            of_class = self._weights_like(logits)
            scale = scale * (targets @ of_class if soft else of_class[targets])
        return (losses * scale).sum(), scale.sum()

    def loss_terms(self, *, transitions: bool) -> LossTerms:
        return LossTerms("softmax", self.loss_config.label_smoothing, self.class_weights)

    def learnable(self, targets: Any) -> tuple[Any, npt.NDArray[np.float32] | None]:
        known = np.asarray(targets) < len(self.labels)
        return (targets, None) if known.all() else (np.where(known, targets, 0), known.astype(np.float32))

    @property
    def _decoder(self) -> LabelDecoder:
        return LabelDecoder(self.labels.names, threshold=self.threshold, conformal=self.conformal, rule=self.rule)

    def decode(self, logits: npt.NDArray[Any], encoded: Encoded, text: Text) -> Prediction:
        return self._decoder.decode(logits, encoded)

    def decode_many(
        self, logits: Sequence[npt.NDArray[Any]], encoded: Sequence[Encoded], texts: Sequence[Text]
    ) -> list[Prediction]:
        return self._decoder.decode_many(logits, encoded)

    def json_lines(self, logits: npt.NDArray[Any], read: Sequence[Read]) -> list[str]:
        return self._decoder.json_lines(logits, read)

    def evaluate(self, outputs: Sequence[Any], targets: Any, *, tables: bool = True) -> ClassificationMetrics:
        return classification_report(
            self.labels,
            np.asarray(targets),
            self.probability_parts(outputs),
            unseen=self.unseen,
            threshold=self.threshold,
            conformal=self.conformal,
            rule=self.rule,
            aimed=self.aimed_id,
            tables=tables,
        )

    def decisions(self, outputs: Sequence[Any], targets: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        known = np.asarray(targets) < len(self.labels) - self.unseen
        return np.stack(outputs)[known], np.asarray(targets)[known]

    def compare_quantized(self, before: Sequence[Any], after: Sequence[Any], targets: Any) -> QuantizationCheck:
        first, second = (np.stack(part).argmax(-1) for part in (before, after))
        return compare_quantized(first, second, np.asarray(targets))

    @classmethod
    def csv_values(cls, prediction: Prediction) -> list[Any]:
        label = "" if prediction.abstained else prediction.label
        return [label, f"{prediction.probability:.6f}"]

    @classmethod
    def lines(cls, prediction: Prediction) -> list[str]:
        label = printable(prediction.label or "")
        lines = [f"(abstained: {label}?)" if prediction.abstained else label, *probable(prediction)]
        if prediction.path is not None:
            parts = (f"{printable(part)} {probability:.1%}" for part, probability in prediction.path.items())
            lines.append("  path: " + ", ".join(parts))
        if prediction.label_set is not None:
            lines.append("  set: " + (printable(", ".join(prediction.label_set)) or "(empty)"))
        return lines

    @classmethod
    def comparison_line(cls, metrics: Metrics) -> str:
        assert isinstance(metrics, ClassificationMetrics)
        most = max(metrics.per_class, key=lambda row: row.support)
        return f"always {printable(most.label)!r} has accuracy {most.support / metrics.n:.4f}"

    def score(self, targets: Sequence[Target], answers: Sequence[Target]) -> Score:
        task = self.with_unknown(targets, answers)
        truth = np.asarray(task.targets(targets))
        given = np.asarray(task.targets(answers))

        def metrics(rows: npt.NDArray[np.int64]) -> dict[str, Any]:
            found = answer_metrics(truth[rows], given[rows], len(task.labels), task.aimed_id)
            return {name: value for name, value in found.items() if value is not None}

        return Score(metrics(np.arange(len(truth))), len(truth), metrics, np.asarray(truth == given, np.float64))

    @classmethod
    def answer(cls, prediction: Prediction, text: Text) -> Target:
        return prediction.leaf

    @classmethod
    def fit_linear(cls, features: Rows, targets: Sequence[Target], *, strength: float) -> LinearModel:
        names, classes = np.unique(list(map(str, targets)), return_inverse=True)
        weights, bias = fit_logistic(features, classes, len(names), strength)

        def answers(scores: Float32) -> list[Target]:
            best = (scores[:, 0] > 0).astype(int) if len(names) == 2 else scores.argmax(1)
            return [str(names[index]) for index in best]

        return LinearModel(weights, bias, answers)

    @property
    def num_scores(self) -> int:
        """One for each label; of two labels one, how much rather it is the second."""
        return 1 if len(self.labels) == 2 else len(self.labels)

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
        """Fit one model for each label against the others, as `fit_margins`; a label that no text has scores low.

        On few texts logistic regression of all labels together is more accurate where labels are of different
        frequency (experiments/README.md).
        """
        fractions = np.ones(len(targets), np.float32) if weights is None else weights
        if self.class_weights is not None:
            fractions = fractions * self.class_weights[targets]
        if few and ratio_power == 0:
            present, classes = np.unique(targets, return_inverse=True)
            if len(present) > 1:
                fitted = fit_logistic(features, classes, len(present), strength, fractions)
                return fitted if len(present) == len(self.labels) else self._with_absent(present, *fitted)
        labels = np.arange(len(self.labels) - self.num_scores, len(self.labels))
        threads = num_threads()
        return fit_margins(
            features,
            targets == labels[:, None],
            fractions,
            strength,
            ratio_power=ratio_power,
            duals=duals,
            kept=kept,
            columns=columns,
            threads=threads,
        )

    def _with_absent(
        self, present: npt.NDArray[np.integer], coefficients: npt.NDArray[np.floating], intercepts: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]:
        """Return the weights (K, F) and biases (K,), given the present labels' only; the others score low."""
        if len(present) == 2:  # one score, how much rather it is the second
            coefficients = np.concatenate([-coefficients / 2, coefficients / 2])
            intercepts = np.concatenate([-intercepts / 2, intercepts / 2])
        weights = np.zeros((self.num_scores, coefficients.shape[1]))
        biases = np.full(self.num_scores, intercepts.min() - 1)
        weights[present] = coefficients
        biases[present] = intercepts
        return weights, biases

    def logits_of_scores(self, scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return np.concatenate([-scores / 2, scores / 2], axis=1) if self.num_scores == 1 else scores

    def score_loss(self, logits: npt.NDArray[Any], targets: npt.NDArray[Any]) -> tuple[float, npt.NDArray[np.float64]]:
        slopes = self.probabilities(logits)
        rows = np.arange(len(targets))
        loss = -float(np.log(np.maximum(slopes[rows, targets], 1e-300)).mean())
        slopes[rows, targets] -= 1
        return loss, slopes / len(targets)
