"""What a task is: everything that the rest of the library must know of it, and nothing of which it decides itself.

No file of this package imports torch before a loss is computed: a saved model predicts and is evaluated without it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mixling.config import Config
from mixling.data.dataset import Dataset
from mixling.data.examples import ColumnsConfig, RowReader, Target, names_of
from mixling.data.readers import format_of_name
from mixling.errors import ConfigError, printable
from mixling.metrics.base import Metrics, Score
from mixling.metrics.quantization import QuantizationCheck
from mixling.text.decoding import softmax
from mixling.text.encoder import Encoded, Text
from mixling.text.labels import LabelSet, not_finite
from mixling.text.predictions import Prediction

if TYPE_CHECKING:
    from torch import Tensor

    from mixling.models.model import Output
    from mixling.text.predictions import Read

_Floats = npt.NDArray[np.floating]

NO_TARGET = -100  # at tokens that have none


class LossConfig(Config):
    """How an answer's error is counted."""

    label_smoothing: float = Field(0.1, ge=0, lt=1)
    class_weights: Literal["none", "balanced"] = Field(
        "none", description="balanced: as if all labels were as frequent"
    )


UNSMOOTHED = LossConfig(label_smoothing=0.0)  # of subwords, unless more is asked for


class Objective(ABC):
    """What a model is trained for.

    A loss is a pair of sums, of the weighted losses and of the weights: dividing the one by the other over all
    processes gives the mean over the global batch, however it was divided between them.

    Attributes:
        output: what the model's head gives logits for.
        metric: the validation metric by which the best evaluation is chosen.
        less_is_better: of the metric.
    """

    output: Output
    metric: str
    less_is_better: bool = False

    @abstractmethod
    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the sum of weighted losses and the sum of weights; `weights` (B,) are those of the examples."""


class TokenObjective(Objective):
    """Cross-entropy of subwords, the mean over those of the batch that have a target."""

    output: Output = "subwords"

    def __init__(self, loss: LossConfig = UNSMOOTHED) -> None:
        self.label_smoothing = loss.label_smoothing

    def loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        from torch.nn import functional as F

        scale = (targets != NO_TARGET).to(logits.dtype)
        if weights is not None:
            scale = scale * weights[:, None]
        losses = F.cross_entropy(
            logits.flatten(0, 1),
            targets.flatten(),
            reduction="none",
            ignore_index=NO_TARGET,
            label_smoothing=self.label_smoothing,
        )
        return (losses.view_as(targets) * scale).sum(), scale.sum()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What is known of training rows before they are read, for a task to recognize them.

    named: the keys of `ColumnsConfig` that the user named. columns: with the user's names. rows: the first ones.
    """

    path: str
    file_format: str | None
    named: frozenset[str]
    columns: ColumnsConfig
    rows: Sequence[Mapping[str, Any]]

    @property
    def first(self) -> Mapping[str, Any]:
        """The first row; empty where there is none."""
        return self.rows[0] if self.rows else {}

    @property
    def is_conll(self) -> bool:
        """Whether the file is in CoNLL's format, by its name or as the user has it."""
        return "conll" in (self.file_format, format_of_name(self.path))


@dataclass(frozen=True, slots=True)
class Choice:
    """A preset's name, values of its `ModelConfig` that go with the rows, and the reason in a few words."""

    name: str
    changes: dict[str, Any]
    why: str

    @property
    def values(self) -> dict[str, Any]:
        """As values of a `RunConfig`."""
        return {"model": {"preset": self.name, **self.changes}}


@dataclass(frozen=True)
class LinearModel:
    """A fitted linear baseline: scikit-learn's models side by side, and what their scores (R, K) mean."""

    models: Sequence[Any]
    answers: Callable[[npt.NDArray[np.float32]], list[Target]]


class Task(Objective):
    """A task with labeled examples, bound to the labels of some: one file of this package is one task.

    Losses take ids, or probabilities (..., C) of a teacher, which are not smoothed.

    Args:
        labels: of the training examples, as `label_set` makes them.
        loss: how errors are counted in training.
        counts: (C,) training examples of each label, for balanced weights; None: all are alike.

    Raises:
        ConfigError: classes are to be weighted, and the task has none.
        DataError: as `check`.

    Attributes:
        threshold: what predictions depend on, None: the default. Of exclusive labels the top probability below which a
            model abstains (default: never), of others the probability from which a label is predicted (default: 0.5).
        unseen: number of labels, the last ones, that models do not know; see `with_unknown`.
        name: the name of the file, as configurations and model files have it.
        kind: of its label sets, as model files have it.
        gives: what a text gets, in a few words, for messages.
        reader: makes its examples of rows.
        own_columns: keys of `ColumnsConfig` that no other task has: naming one chooses the task.
        estimator: the class of `mixling.estimators` that reads its models; "" where there is none.
        per_word: answers are for words, the logits (W, C) those of their first tokens.
        exclusive: a text, or a word, has exactly one of the labels, with probabilities of sum 1.
        windows: examples are questions with contexts of any length, read in windows (`mixling.text.windows`).
        has_labels: the outputs are labels with the user's names, which a teacher can have probabilities of, and which
            the loss can weigh.
        has_probabilities: a text has a probability for each label.
        has_classes: texts are of classes, so that the rows of each decide how long is trained.
        pipeline: the hub's name of the task.
        card_metrics: the hub's names of metrics, and those of `evaluate` that they are.
        purpose: what a model does, for the title of its card; {n} is the number of labels.
        usage: what to print of a `prediction`, in Python.
        test_file: an example of labeled rows.
        may_be_cut: what the model reads only the beginning of.
        csv_columns: of answers in a CSV; empty where a CSV cannot hold them.
        baselines: names of `mixling.comparison.baselines` that fit; the first is the one that others are compared with.
        smooths: label smoothing is part of the loss.
        headline, aside: metrics of a comparison.
        resamples: of what the intervals of a comparison are; "" where each answer is right or wrong.
        linear: short and long name of what `fit_linear` fits.
        has_scores: a linear model of n-grams can be added to the network: `fit_scores` and what follows are there.
        abstains: predictions can abstain below a top probability.
        has_threshold: predictions depend on `threshold`.
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
    pipeline: ClassVar[str] = "text-classification"
    card_metrics: ClassVar[Mapping[str, str]]
    purpose: ClassVar[str]
    usage: ClassVar[str]
    test_file: ClassVar[str] = "test.csv"
    may_be_cut: ClassVar[str] = "text"
    csv_columns: ClassVar[tuple[str, ...]] = ()
    baselines: ClassVar[tuple[str, ...]] = ()
    smooths: ClassVar[bool] = True
    headline: ClassVar[str]
    aside: ClassVar[tuple[str, ...]]
    resamples: ClassVar[str] = ""
    linear: ClassVar[tuple[str, str]] = ("lr", "logistic regression")
    has_scores: ClassVar[bool] = False
    calibrates: ClassVar[bool] = False
    abstains: ClassVar[bool] = False
    has_threshold: ClassVar[bool] = False

    def __init__(
        self, labels: LabelSet, loss: LossConfig | None = None, counts: npt.NDArray[np.int64] | None = None
    ) -> None:
        assert labels.kind == self.kind, f"labels of kind {labels.kind!r} for {self.name}"
        self.labels, self.loss_config = labels, loss or LossConfig()
        self.unseen = 0
        self.threshold: float | None = None
        self.check()
        if not self.has_labels and (got := self.loss_config.class_weights) != "none":
            raise ConfigError(f"train.loss.class_weights: got {got!r}; {self.name} has no classes: none is allowed")
        self.class_weights: npt.NDArray[np.float32] | None = None
        if self.loss_config.class_weights == "balanced" and counts is not None:
            self.class_weights = self._balance(counts).astype(np.float32)

    # Examples and labels

    @classmethod
    def recognize(cls, sample: Sample) -> str | None:
        """Return why training rows are of this task, in a few words; None where they may be of another."""
        return None

    @classmethod
    def label_set(cls, train: Dataset) -> LabelSet:
        """Make the labels of training examples.

        Raises:
            DataError: they cannot be learned.
        """
        return LabelSet.from_labels(train.label_counts(), cls.kind)

    def check(self) -> None:
        """Refuse labels that are none of this task.

        Raises:
            DataError: they are not, or there are too few to tell anything apart.
        """

    @abstractmethod
    def targets(self, targets: Iterable[Any]) -> npt.NDArray | list[npt.NDArray]:
        """Return the targets of examples as numbers, one item for each.

        Raises:
            DataError: the task has no such label.
        """

    def learnable(self, targets: Any) -> tuple[Any, npt.NDArray[np.float32] | None]:
        """Return targets that `loss` accepts, given those of a task with more labels (see `with_unknown`).

        Returns:
            The targets, and weights of the examples (B,): 0 where there is no loss; None: all examples count.
        """
        return targets, None

    @classmethod
    def choose_model(cls, train: Dataset) -> Choice | None:
        """Return the model that fits the training examples; None: the one that their number and length suggest."""
        return None

    # Training

    def stack(self, targets: Sequence[npt.NDArray], width: int) -> Tensor:
        """Return the targets of a batch as one tensor; `width` is the padded length of its texts."""
        import torch

        return torch.from_numpy(np.stack(targets))

    def _balance(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        present = counts > 0
        weights = np.ones(len(counts))
        weights[present] = counts.sum() / (present.sum() * counts[present])
        return weights

    def _weights_like(self, logits: Tensor) -> Tensor:
        """The class weights (C,) with the type and on the device of the logits."""
        import torch

        return torch.as_tensor(self.class_weights).to(logits)

    # Predictions

    def logits_shape(self, texts: int, tokens: int) -> tuple[int, ...]:
        """Return the shape of the logits of so many texts, each of so many tokens."""
        return (texts, len(self.labels))

    def probabilities(self, logits: npt.NDArray) -> npt.NDArray[np.float64]:
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

    def _normalized(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if not self.exclusive:
            small = np.exp(-np.abs(values))
            return np.where(values >= 0, 1.0, small) / (1.0 + small)
        return softmax(values)

    def scores(self, probabilities: _Floats, *, least: float) -> _Floats:
        """Return logits that have such probabilities, of which none counts as less than `least`."""
        logs = np.log(np.clip(probabilities, least, 1))
        return logs if self.exclusive else logs - np.log(np.clip(1 - np.exp(logs), least, 1))

    def target_scores(self, logits: npt.NDArray, label: int) -> npt.NDArray[np.float64]:
        """Return what explanations divide among the words: the log-odds (B,) of a label, given logits (B, C).

        Raises:
            ModelFileError: a logit is not finite.
        """
        values = np.asarray(logits, np.float64)
        if not np.isfinite(values).all():
            raise not_finite()
        if not self.exclusive:
            return values[:, label]
        others = np.delete(values, label, axis=1)
        return values[:, label] - np.logaddexp.reduce(others, axis=1)

    @abstractmethod
    def decode(self, logits: npt.NDArray, encoded: Encoded, text: Text) -> Prediction:
        """Return the prediction for one text.

        Args:
            logits: (C,), or (W, C) where answers are for words.
            encoded: the text as the model read it, with offsets where answers are for words.

        Raises:
            ModelFileError: a logit is not finite.
            DataError: the text is of a form that the task has no answer for.
        """

    def decode_many(
        self, logits: Sequence[npt.NDArray], encoded: Sequence[Encoded], texts: Sequence[Text]
    ) -> list[Prediction]:
        """Return what `decode` gives for each text."""
        return [self.decode(*item) for item in zip(logits, encoded, texts, strict=True)]

    @abstractmethod
    def evaluate(self, outputs: Sequence[Any], targets: Any, *, tables: bool = True) -> Metrics:
        """Return the metrics of what a model gave for each text, in the order of the targets.

        Args:
            outputs: logits, (C,) or of words (W, C); of questions the answers as text.
            targets: as `targets` gives them; of questions their right answers.
            tables: with the scores of each class and the confusion matrix; the numbers alone take much less time.

        Raises:
            DataError: there is no example.
        """

    @abstractmethod
    def compare_quantized(self, before: Sequence[Any], after: Sequence[Any], targets: Any) -> QuantizationCheck:
        """Return how the decisions of an 8-bit model compare with those of the float model.

        Args:
            before, after: what the two gave, as of `evaluate`.
        """

    def decisions(self, outputs: Sequence[Any], targets: Any) -> tuple[npt.NDArray, npt.NDArray]:
        """Return what probabilities are calibrated on, if the task `calibrates`.

        Args:
            outputs, targets: as of `evaluate`.

        Returns:
            Logits (D, C) of the decisions with known labels, and their classes (D,), or with labels that do not exclude
            each other 0 or 1 for each (D, C).
        """
        raise NotImplementedError(f"{self.name} is not calibrated")

    # Text for people

    @classmethod
    def sample_inputs(cls, *, pairs: bool) -> list[str]:
        """Return arguments of `mixling predict MODEL`, as an example."""
        return ["FILE"] if pairs else ["a text"]

    @classmethod
    def card_inputs(cls, *, pairs: bool) -> tuple[str, str]:
        """Return an example of inputs for the card, on the command line and in Python."""
        return ("pairs.csv", '("a text", "another")') if pairs else ('"a text"', '"a text"')

    def card_outputs(self, config: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return the heading and the text of the card's section on what is predicted; None: a list of the labels."""
        return None

    @classmethod
    def card_quantization(cls, quantization: Mapping[str, Any]) -> str:
        """Return what the card says of 8-bit weights; `quantization` has the fields of a `QuantizationCheck`."""
        drop = round(quantization["accuracy_drop"], 2)
        change = f"{abs(drop):.2f} points {'lower' if drop > 0 else 'higher'}" if drop else "the same"
        return (
            f"With 8-bit weights, {quantization['agreement']:.2%} of the decisions on these examples equal those of "
            f"the float model;\naccuracy is {change}."
        )

    @classmethod
    def card_limits(cls, config: Mapping[str, Any]) -> str:
        """Return the card's first limits, as items of a list; `config` is a `RunConfig` as JSON values."""
        words = config["model"]["text"]["max_len"]
        return f"""- It reads the first {words} words of a text; the answer says `truncated` where there were
  more."""

    @classmethod
    def csv_values(cls, prediction: Prediction, name: str | None) -> list[Any]:
        """Return the values of `csv_columns`; `name` is the id of the row, if it has one."""
        raise NotImplementedError(f"{cls.name} has no columns")

    json_of_texts: ClassVar[bool] = False
    """Whether `json_lines` is defined."""

    def json_lines(self, logits: _Floats, read: Sequence[Read]) -> list[str]:
        """Return predictions as lines of JSON with their line ends, without making objects of them.

        Args:
            logits: (B, C).
        """
        raise NotImplementedError(f"{self.name} has no lines of JSON")

    @classmethod
    @abstractmethod
    def lines(cls, prediction: Prediction) -> list[str]:
        """Return a prediction as lines for a terminal."""

    @classmethod
    def comparison_line(cls, metrics: Metrics) -> str:
        """Return what a model would reach that always gives the same answer; "" where nothing is known of it."""
        return ""

    # Comparisons

    def score(self, targets: Sequence[Target], answers: Sequence[Target]) -> Score:
        """Score answers, by name, against the targets of the same rows; a target of an unknown label is an error."""
        raise NotImplementedError(f"{self.name} has no baselines")

    @classmethod
    def answer(cls, prediction: Prediction, text: Text) -> Target:
        """Return a prediction in the form of a target."""
        raise NotImplementedError(f"{cls.name} has no baselines")

    @classmethod
    def fit_linear(cls, features: Any, targets: Sequence[Target], *, strength: float, seed: int) -> LinearModel:
        """Fit a linear model on features (R, F).

        Args:
            strength: the inverse of the regularization.
        """
        raise NotImplementedError(f"{cls.name} has no linear baseline")

    # A linear model that is added to the network (`mixling.text.ngram_branch`)

    @property
    def num_scores(self) -> int:
        """K, the scores that a linear model has for a text."""
        return len(self.labels)

    def fit_scores(
        self, features: Any, targets: npt.NDArray, weights: npt.NDArray[np.float32] | None, *, strength: float
    ) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]]:
        """Fit a linear model by a convex loss: its weights (K, F) and biases (K,).

        Args:
            features: (B, F), sparse.
            targets: (B, ...), as `targets` gives them.
            weights: (B,) of the texts; None: all are 1.
            strength: the inverse of the regularization.
        """
        raise NotImplementedError(f"{self.name} has no scores")

    def logits_of_scores(self, scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the logits (B, C) that scores (B, K) are."""
        return scores

    def score_loss(self, logits: npt.NDArray, targets: npt.NDArray) -> tuple[float, npt.NDArray[np.float64]]:
        """Return the mean unsmoothed loss of logits (B, C), in NumPy, and its gradient (B, C)."""
        raise NotImplementedError(f"{self.name} has no scores")

    def with_unknown(self, *answers: Sequence[Target]) -> Task:
        """Return the same task with the labels of the answers added; itself if it has all of them.

        It evaluates models of this task; labels that they do not know count as errors.
        """
        names = {name for target in (item for part in answers for item in part) for name in names_of(target)}
        known = self.labels.names
        if not (new := names - set(known)):
            return self
        task = type(self)(LabelSet((*known, *sorted(new)), self.kind, self.labels.numbers))
        task.unseen, task.threshold = len(new), self.threshold
        return task


def sigmoid(value: float) -> float:
    """Return 1 / (1 + exp(-value))."""
    small = math.exp(-abs(value))
    return (1.0 if value >= 0 else small) / (1.0 + small)


def probable(prediction: Prediction, shown: int = 5) -> list[str]:
    """Return the most probable labels as lines for a terminal."""
    likely = sorted((prediction.probabilities or {}).items(), key=lambda item: -item[1])[:shown]
    return [f"  {probability:6.1%}  {printable(label)}" for label, probability in likely]
