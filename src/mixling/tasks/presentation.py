"""How a task is put into words: its predictions on a terminal and in files, and its sections of the model card."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from mixling.errors import printable
from mixling.metrics.base import Metrics
from mixling.text.predictions import Prediction

if TYPE_CHECKING:
    from mixling.text.predictions import Read


_SHOWN = 5  # labels with their probabilities, on a terminal


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
            f"With 8-bit weights, {quantization['agreement']:.2%} of the decisions on these examples equal those of "
            f"the float model;\naccuracy is {change}."
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
    def csv_values(cls, prediction: Prediction, name: str | None) -> list[Any]:
        """Return the values of `csv_columns`; `name` is the id of the row, or None."""
        raise NotImplementedError(f"{cls.name} has no columns")

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


def probable(prediction: Prediction) -> list[str]:
    """Return the most probable labels as lines for a terminal."""
    likely = sorted((prediction.probabilities or {}).items(), key=lambda item: -item[1])[:_SHOWN]
    return [f"  {probability:6.1%}  {printable(label)}" for label, probability in likely]
