"""The interface of tasks: everything about a task that the rest of the library depends on.

Torch is imported only to compute losses, so that a base install can predict and evaluate.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from mixling.answers.labels import LabelSet, Targets, not_finite
from mixling.answers.predictions import Prediction, softmax
from mixling.data.dataset import Dataset
from mixling.data.examples import RowReader, Target, names_of
from mixling.errors import ConfigError, near_miss
from mixling.metrics.base import LESS_IS_BETTER, Metrics
from mixling.metrics.quantization import QuantizationCheck
from mixling.tasks.baselines import Baselines
from mixling.tasks.objective import LossConfig, Objective
from mixling.tasks.presentation import Presentation
from mixling.text.encoder import Encoded, Text

if TYPE_CHECKING:
    from torch import Tensor

    from mixling.answers.conformal import ConformalSets
    from mixling.answers.decision import DecisionRule
    from mixling.tasks.sample import Sample

_PART_SCORES = 1 << 22  # of rows whose probabilities are computed together
_Floats = npt.NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Choice:
    """A chosen preset, changes to its `ModelConfig`, the reason in a few words, and defaults of the training."""

    name: str
    changes: dict[str, Any]
    why: str
    train: dict[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, Any]:
        """The choice as values of a `RunConfig`."""
        return {"model": {"preset": self.name, **self.changes}}


class Task(Objective, Presentation, Baselines):
    """A task with labeled examples, for a set of labels; each file of this package defines one task.

    Its bases are how it is learned (`Objective`), put into words (`Presentation`) and compared (`Baselines`). Targets
    of losses are ids, or a teacher's probabilities (..., C), which are not smoothed.

    Args:
        labels: the labels of the training examples, see `label_set`.
        loss: the training loss.
        counts: (C,) training examples per label, for balanced weights; None: equal.

    Raises:
        ConfigError: class weights are configured, but the task has no classes.
        DataError: see `check`.

    Attributes:
        threshold: what predictions depend on, None: the default. Of exclusive labels the top probability below which a
            model abstains (default: never), of others the probability from which a label is predicted (default: 0.5).
        label_thresholds: of labels that have a threshold of their own, instead of `threshold`.
        conformal: makes the sets of labels of predictions; None: they have none.
        rule: which label is the answer, of exclusive labels of texts; None: the most probable one.
        aims: the metrics that a model can be made for, by the names of --metric; the values are keys of
            `Metrics.numbers`.
        transitions: (C, C), the score of each tag after each other one; None: the model did not learn them.
        unseen: number of labels at the end that models do not have; see `with_unknown`.
        name: the name in configurations and model files, and of the file.
        kind: the kind of its label sets, in model files.
        gives: what the model predicts for a text, in a few words, for messages.
        reader: the class that makes examples from rows.
        own_columns: keys of `ColumnsConfig` that only this task has; naming one selects the task.
        estimator: the class in `mixling.estimators` for its models; "": none.
        per_word: predictions are per word; logits (W, C) come from the first tokens.
        exclusive: a text, or word, has exactly one label; probabilities sum to 1.
        windows: examples are questions with contexts of any length, read in windows (`mixling.text.windows`).
        has_labels: outputs are labels named by the user, which teachers can predict and losses can weigh.
        has_probabilities: predictions of texts have a probability per label.
        has_classes: texts have one class each; the number of rows per class decides the length of training.
        smooths: whether the loss has label smoothing.
        abstains: predictions can abstain below a top probability, and have conformal sets.
        has_threshold: predictions depend on `threshold`.
        has_label_thresholds: predictions depend on `label_thresholds`.
        calibrates: probabilities are calibrated after training, on `decisions`.
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    gives: ClassVar[str]
    reader: ClassVar[type[RowReader]]
    own_columns: ClassVar[frozenset[str]] = frozenset()
    estimator: ClassVar[str] = ""
    per_word: ClassVar[bool] = False
    exclusive: ClassVar[bool] = True
    windows: ClassVar[bool] = False
    has_labels: ClassVar[bool] = True
    has_probabilities: ClassVar[bool] = False
    has_classes: ClassVar[bool] = False
    smooths: ClassVar[bool] = True
    calibrates: ClassVar[bool] = False
    abstains: ClassVar[bool] = False
    has_threshold: ClassVar[bool] = False
    has_label_thresholds: ClassVar[bool] = False
    aims: ClassVar[Mapping[str, str]] = {}
    aimed_label: str | None = None  # whose F1 is the metric

    def __init__(
        self, labels: LabelSet, loss: LossConfig | None = None, counts: npt.NDArray[np.int64] | None = None
    ) -> None:
        assert labels.kind == self.kind, f"labels of kind {labels.kind!r} for {self.name}"
        self.labels, self.loss_config = labels, loss or LossConfig()
        self.unseen = 0
        self.transitions: npt.NDArray[np.float32] | None = None
        self.threshold: float | None = None
        self.label_thresholds: Mapping[str, float] = {}
        self.conformal: ConformalSets | None = None
        self.rule: DecisionRule | None = None
        self.check()
        if not self.has_labels and (got := self.loss_config.class_weights) != "none":
            raise ConfigError(f"train.loss.class_weights: got {got!r}; {self.name} has no classes: none is allowed")
        self.class_weights: npt.NDArray[np.float32] | None = None
        if self.loss_config.class_weights == "balanced" and counts is not None:
            self.class_weights = self._balance(counts).astype(np.float32)

    @classmethod
    def metric_key(cls, aim: str | None) -> str:
        """Return the key of `Metrics.numbers` for a name of --metric; None: the task's.

        Raises:
            ConfigError: the task has no such metric.
        """
        if aim is None:
            return cls.metric
        name = aim.partition(":")[0] + ":" * (":" in aim)
        if name not in cls.aims or name == aim == "f1:":
            allowed = (*(f"{known}LABEL" if known.endswith(":") else known for known in cls.aims),)
            raise ConfigError(f"decisions.metric: got {aim!r}; {cls.name} has {', '.join(allowed) or 'no choice'}")
        return cls.aims[name]

    def aim_at(self, aim: str | None) -> None:
        """Let a metric choose the best evaluation; raises as `metric_key`, and where it names an unknown label."""
        key = self.metric_key(aim)
        if aim is not None and (label := aim.partition(":")[2]):
            if label not in self.labels.names:
                raise ConfigError(f"decisions.metric: no label {label!r}; {near_miss(label, self.labels.names)}")
            self.aimed_label = label
        self.less_is_better = key in LESS_IS_BETTER
        self.metric = key

    @property
    def aimed_id(self) -> int | None:
        """The id of the label whose F1 is the metric; None: it is another metric."""
        return None if self.aimed_label is None else self.labels.names.index(self.aimed_label)

    # Examples and labels

    @classmethod
    def recognize(cls, sample: Sample) -> str | None:
        """Return why training rows belong to this task, in a few words; None if they may belong to another."""
        return None

    @classmethod
    def label_set(cls, train: Dataset) -> LabelSet:
        """Return the labels of training examples.

        Raises:
            DataError: the labels cannot be learned.
        """
        return LabelSet.from_labels(
            train.label_counts(), cls.kind, types=train.label_types, columns=train.label_columns
        )

    def check(self) -> None:
        """Check the labels.

        Raises:
            DataError: they are not labels of this task, or too few.
        """

    @abstractmethod
    def targets(self, targets: Iterable[Any]) -> npt.NDArray[Any] | list[npt.NDArray[Any]]:
        """Return the targets of examples as numbers, one item per example.

        Raises:
            DataError: a label is unknown.
        """

    def learnable(self, targets: Any) -> tuple[Any, npt.NDArray[np.float32] | None]:
        """Return targets that `loss` accepts, given the targets of a task with more labels (see `with_unknown`).

        Returns:
            The targets, and weights of the examples (B,): 0 for examples without a loss; None: all 1.
        """
        return targets, None

    @classmethod
    def choose_model(cls, train: Dataset) -> Choice | None:
        """Return the model for the training examples; None: chosen by their number and length."""
        return None

    # Training

    def stack(self, targets: Targets, width: int) -> npt.NDArray[Any]:
        """Return the targets of a batch as one array; `width` is the padded length of its texts."""
        return targets if isinstance(targets, np.ndarray) else np.stack(targets)

    def _balance(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        present = counts > 0
        weights = np.ones(len(counts))
        weights[present] = counts.sum() / (present.sum() * counts[present])
        return weights

    def _weights_like(self, logits: Tensor) -> Tensor:
        """Return the class weights (C,) with the type and device of the logits."""
        import torch

        return torch.as_tensor(self.class_weights).to(logits)

    # Predictions

    def logits_shape(self, texts: int, tokens: int) -> tuple[int, ...]:
        """Return the shape of the logits of texts of equal length."""
        return (texts, len(self.labels))

    def probabilities(self, logits: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the probabilities (..., C) of logits (..., C - unseen); unseen labels have probability 0.

        Raises:
            ModelFileError: a logit is not finite.
        """
        values = np.asarray(logits, dtype=np.float64)
        known = len(self.labels) - self.unseen
        assert values.shape[-1] == known, f"{values.shape[-1]} logits for {known} labels"
        if not np.isfinite(values).all():
            raise not_finite()
        if self.unseen:
            none = np.zeros((*values.shape[:-1], self.unseen))
            return np.concatenate([self._normalized(values), none], axis=-1)
        return self._normalized(values)

    def probability_parts(self, outputs: Sequence[Any]) -> Iterator[npt.NDArray[np.float64]]:
        """Yield the probabilities (..., C) of logits (C,), as many rows at a time as take little memory."""
        rows = max(_PART_SCORES // len(self.labels), 1)
        for first in range(0, len(outputs), rows):
            yield self.probabilities(np.stack(outputs[first : first + rows]))

    def _normalized(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if not self.exclusive:
            small = np.exp(-np.abs(values))
            return np.where(values >= 0, 1.0, small) / (1.0 + small)
        return softmax(values)

    def scores(self, probabilities: _Floats, *, least: float) -> _Floats:
        """Return logits with these probabilities, raised to at least `least`."""
        logs = np.log(np.clip(probabilities, least, 1))
        return logs if self.exclusive else logs - np.log(np.clip(1 - np.exp(logs), least, 1))

    def best(self, logits: npt.NDArray[Any]) -> int:
        """Return the id of the label that logits (C,) are answered with."""
        return int(logits.argmax() if self.rule is None else self.rule.answers(logits))

    def target_scores(self, logits: npt.NDArray[Any], label: int) -> npt.NDArray[np.float64]:
        """Return what explanations divide among the words: the log-odds (B,) of a label, given logits (B, C).

        Raises:
            ModelFileError: a logit is not finite.
        """
        values = np.array(np.asarray(logits).T, order="C")  # reduced over rows, and in float32, which is faster
        if not np.isfinite(values).all():
            raise not_finite()
        scores: npt.NDArray[np.float64] = values[label].astype(np.float64)
        if not self.exclusive:
            return scores
        values[label] = -np.inf
        highest = values.max(0)
        values -= highest
        scores -= highest + np.log(np.exp(values, out=values).sum(0, dtype=np.float64))
        return scores

    def word_scores(self, logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return logits (W, C) of words that have nothing to do with each other, given a text's (W, C)."""
        return logits

    def best_tags(self, logits: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the ids (W,) of the labels that are predicted for words, given logits (W, C)."""
        ids: npt.NDArray[np.int64] = logits.argmax(-1)
        return ids

    def pool_windows(self, logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the logits (C,) of a long text, given its windows' (windows, C).

        Their mean has the lowest log-loss on long reviews (experiments/long_texts.py).
        """
        mean: npt.NDArray[Any] = logits.mean(0)
        return mean

    def thresholds(self) -> dict[str, float]:
        """Return the probability from which each label is predicted, if the task `has_label_thresholds`."""
        raise NotImplementedError(f"labels of {self.name} have no thresholds of their own")

    @abstractmethod
    def decode(self, logits: npt.NDArray[Any], encoded: Encoded, text: Text) -> Prediction:
        """Return the prediction for one text.

        Args:
            logits: (C,), or (W, C) for predictions per word.
            encoded: the text as the model read it, with offsets for predictions per word.

        Raises:
            ModelFileError: a logit is not finite.
            DataError: the task has no prediction for a text of this form.
        """

    def decode_many(
        self, logits: Sequence[npt.NDArray[Any]], encoded: Sequence[Encoded], texts: Sequence[Text]
    ) -> list[Prediction]:
        """Return the result of `decode` for each text."""
        return [self.decode(*item) for item in zip(logits, encoded, texts, strict=True)]

    @abstractmethod
    def evaluate(self, outputs: Sequence[Any], targets: Any, *, tables: bool = True) -> Metrics:
        """Return the metrics of a model's outputs, in the order of the targets.

        Args:
            outputs: logits per text, (C,) or (W, C); for questions the answers as text.
            targets: from `targets`; for questions their right answers.
            tables: compute the scores of each class and the confusion matrix, which takes much longer.

        Raises:
            DataError: there are no examples.
        """

    @abstractmethod
    def compare_quantized(self, before: Sequence[Any], after: Sequence[Any], targets: Any) -> QuantizationCheck:
        """Compare the decisions of an 8-bit model with the float model's.

        Args:
            before, after: outputs of the float and the 8-bit model, as in `evaluate`.
        """

    def decisions(self, outputs: Sequence[Any], targets: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return what probabilities are calibrated on, if the task `calibrates`.

        Args:
            outputs, targets: as of `evaluate`.

        Returns:
            Logits (D, C) of the decisions with known labels, and their classes (D,), or with labels that do not exclude
            each other 0 or 1 for each (D, C).
        """
        raise NotImplementedError(f"{self.name} is not calibrated")

    def with_unknown(self, *answers: Sequence[Target]) -> Task:
        """Return the task with the labels of the answers added, or itself if it has all of them.

        It evaluates models of this task; labels that they do not have count as errors.
        """
        names = {name for target in (item for part in answers for item in part) for name in names_of(target)}
        known = self.labels.names
        if not (new := names - set(known)):
            return self
        task = type(self)(LabelSet((*known, *sorted(new)), self.kind, self.labels.numbers))
        task.unseen = len(new)
        task.threshold = self.threshold
        task.label_thresholds = self.label_thresholds
        task.conformal = self.conformal
        task.transitions = self.transitions
        task.metric = self.metric
        task.headline = self.headline
        task.less_is_better = self.less_is_better
        task.aimed_label = self.aimed_label
        task.rule = None if self.rule is None else self.rule.of(task.labels.names)
        return task


def sigmoid(value: float) -> float:
    """Return 1 / (1 + exp(-value))."""
    small = math.exp(-abs(value))
    return (1.0 if value >= 0 else small) / (1.0 + small)
