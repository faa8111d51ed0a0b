"""How a task is put into words: its predictions on a terminal and in files, and its sections of the model card."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from mixling.answers.predictions import JSON_DIGITS, Prediction, most_probable
from mixling.errors import ConfigError, printable
from mixling.metrics.base import Metrics

if TYPE_CHECKING:
    from mixling.answers.predictions import Read


_SHOWN = 5  # labels with their probabilities, on a terminal


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The probabilities of labels that are written with a prediction.

    Attributes:
        top_k: the number of probabilities, the most probable label first; a table has columns for them.
        probabilities: True: all of them, in a table as a column for each label, instead of the label. False: none.
            None: all, and in a table the one of the label.

    Raises:
        ConfigError: both are given.
    """

    top_k: int | None = None
    probabilities: bool | None = None

    def __post_init__(self) -> None:
        if self.top_k is not None and self.probabilities is not None:
            name = "--probabilities" if self.probabilities else "--no-probabilities"
            raise ConfigError(f"--top-k: got {name} as well; leave one of them out")

    @property
    def needed(self) -> int | None:
        """The number of labels whose probabilities are needed; None: all."""
        return 1 if self.probabilities is False else self.top_k

    def of(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON values of a prediction as they are written."""
        return {key: values[key] for key in values if key != "probabilities"} if self.probabilities is False else values


DEFAULT_SHOWN = Shown()


class Presentation(ABC):
    """The words for a task and its predictions.

    Attributes:
        pipeline: the hub's name of the task.
        card_metrics: the hub's names of metrics, and the corresponding ones of `evaluate`.
        purpose: what a model does, for the title of its card; {n} is the number of labels.
        usage: a Python expression that shows a `prediction`, for the card.
        test_file: the name of a file with labeled rows, in examples.
        may_be_cut: what models truncate, for the card.
        csv_columns: columns of predictions in a CSV; empty if CSV cannot represent them.
        keeps: columns of the input that are written with predictions, if it has them.
        json_of_texts: whether `json_lines` is defined.
    """

    name: ClassVar[str]
    pipeline: ClassVar[str] = "text-classification"
    card_metrics: ClassVar[Mapping[str, str]]
    purpose: ClassVar[str]
    usage: ClassVar[str]
    test_file: ClassVar[str] = "test.csv"
    may_be_cut: ClassVar[str] = "text"
    csv_columns: ClassVar[tuple[str, ...]] = ()
    keeps: ClassVar[tuple[str, ...]] = ()
    has_probabilities: ClassVar[bool]
    gives: ClassVar[str]
    json_of_texts: ClassVar[bool] = False

    @classmethod
    def sample_inputs(cls, *, pairs: bool) -> list[str]:
        """Return example arguments of `mixling predict MODEL`."""
        return ["FILE"] if pairs else ["a text"]

    @classmethod
    def card_inputs(cls, *, pairs: bool) -> tuple[str, str]:
        """Return example inputs for the card, on the command line and in Python."""
        return ("pairs.csv", '("a text", "another")') if pairs else ('"a text"', '"a text"')

    def card_outputs(self, reading: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return heading and text of the card's section on outputs; None: a list of the labels.

        Args:
            reading: how contexts of questions are read, a `ReadingConfig` as JSON values.
        """
        return None

    @classmethod
    def card_quantization(cls, quantization: Mapping[str, Any]) -> str:
        """Return the card's sentence on 8-bit weights; `quantization` has the fields of a `QuantizationCheck`."""
        drop = round(quantization["accuracy_drop"], 2)
        change = f"{abs(drop):.2f} points {'lower' if drop > 0 else 'higher'}" if drop else "the same"
        return (
            f"With 8-bit weights, {quantization['agreement']:.2%} of the decisions on these examples equal "
            f"the float model's;\naccuracy is {change}."
        )

    @classmethod
    def card_limits(cls, text: Mapping[str, Any], reading: Mapping[str, Any]) -> str:
        """Return the first items of the card's list of limitations.

        Args:
            text: how texts are read, a `TextConfig` as JSON values.
            reading: as of `card_outputs`.
        """
        return f"""- It reads {text["max_len"]} {text["tokens"]} at a time; longer texts are read to the end
  in windows, which it was not trained on."""

    @classmethod
    def csv_values(cls, prediction: Prediction) -> list[Any]:
        """Return the values of `csv_columns`."""
        raise NotImplementedError(f"{cls.name} has no columns")

    @classmethod
    def table(cls, labels: Sequence[str], shown: Shown) -> tuple[tuple[str, ...], Callable[[Prediction], list[Any]]]:
        """Return the columns of predictions in a CSV, and a function that returns the values of one.

        Args:
            labels: the names of the model's labels.
        """
        if shown.probabilities:
            return tuple(labels), lambda prediction: [_digits(_probabilities(prediction)[label]) for label in labels]
        if shown.probabilities is None and shown.top_k is None:
            return cls.csv_columns, cls.csv_values
        number = min(shown.top_k or 0, len(labels))
        own = [column for column in cls.csv_columns if column != "probability"]
        columns = (*own, *(f"{name}_{i}" for i in range(1, number + 1) for name in ("label", "probability")))

        def values(prediction: Prediction) -> list[Any]:
            out = cls.csv_values(prediction)[: len(own)]
            for label, probability in list(_probabilities(prediction).items())[:number]:
                out += [label, _digits(probability)]
            return out

        return columns, values

    @classmethod
    def check_shown(cls, shown: Shown) -> None:
        """Refuse to choose among probabilities where predictions have none.

        Raises:
            ConfigError: it is asked for.
        """
        if not cls.has_probabilities and shown != DEFAULT_SHOWN:
            name = "--probabilities" if shown.top_k is None else "--top-k"
            raise ConfigError(f"{name}: the model predicts {cls.gives}, without probabilities of labels")

    def json_lines(self, logits: npt.NDArray[np.floating], read: Sequence[Read]) -> list[str]:
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
        """Return a line with the score of always predicting the most frequent answer; "" if it is not defined."""
        return ""


def _probabilities(prediction: Prediction) -> Mapping[str, float]:
    assert prediction.probabilities is not None
    return prediction.probabilities


def _digits(probability: float) -> str:
    return f"{probability:.{JSON_DIGITS}f}"


def probable(prediction: Prediction, number: int = _SHOWN) -> list[str]:
    """Return the most probable labels as lines for a terminal."""
    likely = most_probable(prediction.probabilities or {}, number).items()
    return [f"  {probability:6.1%}  {printable(label)}" for label, probability in likely]
