"""Predictions for a text: labels with probabilities, spans, an answer, a number.

The first prediction of a process waits for this module, which is why it has no dataclass: their module takes longer to
import than a model to read and to predict.
"""

from __future__ import annotations

import math
from heapq import nlargest
from operator import itemgetter

from mixling.lazy import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    import numpy as np
    import numpy.typing as npt

    from mixling.answers.spans import Answer, Span

    class Read(Protocol):
        """What decoding asks of a text as it was read."""

        @property
        def truncated(self) -> bool: ...

        @property
        def is_empty(self) -> bool: ...


JSON_DIGITS = 6  # of probabilities in files; more are rounding errors of float32


_FIELDS = (
    "truncated", "empty", "label", "abstained", "label_set", "path", "labels", "probabilities", "spans", "tokens",
    "tags", "answer", "value",
)  # fmt: skip
_FALSE = frozenset({"truncated", "empty"})  # by default; the others are None


class Prediction:
    """The result for one text; fields that do not belong to the task are None.

    Attributes:
        truncated: part of the text was ignored: what exceeds the model's maximum, if texts are not read in windows, or
            a million characters, or the end of a very long word; in question answering, part of the question.
        empty: the text has no words, so the prediction depends on the model alone. False for questions.
        label: the most probable class (single).
        abstained: whether `label` is too uncertain to be an answer; None: the model never abstains (single).
        label_set: the labels of the conformal set, the most probable first; it may be empty. None: the model has none
            (single).
        path: the parts of the answer from the top, such as "card" and "card > lost", with their probabilities; where a
            model abstains, `label` is the last part that is certain. None: labels have no levels (single).
        labels: the classes whose probability reaches the threshold, in the order of the label set (multi).
        probabilities: class name to probability (single, multi).
        spans: the predicted spans, with character offsets (tagging).
        tokens, tags: the words and their IOB tags (tagging).
        answer: the answer to the question (question answering).
        value: the number, in the unit of the training targets (regression).
    """

    # Beyond the fields: what the probabilities are made of when they are first asked for.
    __slots__ = (*_FIELDS, "_make", "_row")

    truncated: bool
    empty: bool
    label: str | None
    abstained: bool | None
    label_set: tuple[str, ...] | None
    path: dict[str, float] | None
    labels: tuple[str, ...] | None
    probabilities: dict[str, float] | None
    spans: tuple[Span, ...] | None
    tokens: tuple[str, ...] | None
    tags: tuple[str, ...] | None
    answer: Answer | None
    value: float | None
    _make: Callable[[Any], dict[str, float]]
    _row: Any

    def __init__(
        self,
        *,
        truncated: bool,
        empty: bool = False,
        label: str | None = None,
        abstained: bool | None = None,
        label_set: tuple[str, ...] | None = None,
        path: dict[str, float] | None = None,
        labels: tuple[str, ...] | None = None,
        probabilities: dict[str, float] | None = None,
        spans: tuple[Span, ...] | None = None,
        tokens: tuple[str, ...] | None = None,
        tags: tuple[str, ...] | None = None,
        answer: Answer | None = None,
        value: float | None = None,
    ) -> None:
        self.__setstate__(
            (
                truncated,
                empty,
                label,
                abstained,
                label_set,
                path,
                labels,
                probabilities,
                spans,
                tokens,
                tags,
                answer,
                value,
            )
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Called only for a slot that `prediction_of_label`, or the native engine, left out.
            if name == "probabilities":
                value = self._make(self._row)
                _set_probabilities(self, value)
                return value
            if name in _FIELDS:
                return False if name in _FALSE else None
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(f"predictions do not change: cannot assign to {name!r}")

        def __delattr__(self, name: str) -> None:
            raise AttributeError(f"predictions do not change: cannot delete {name!r}")

    def __getstate__(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in _FIELDS)

    def __setstate__(self, values: tuple[Any, ...]) -> None:
        for set_value, value in zip(_SETTERS, values, strict=True):
            set_value(self, value)

    def __eq__(self, other: object) -> bool:
        return self.__getstate__() == other.__getstate__() if isinstance(other, Prediction) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.__getstate__())

    def __repr__(self) -> str:
        """Show the fields that differ from their defaults, and of many labels the most probable ones."""
        values = zip(_FIELDS, self.__getstate__(), strict=True)
        shown = [
            f"{name}={_few(value) if name == 'probabilities' else repr(value)}"
            for name, value in values
            if name == "truncated" or value is not (False if name in _FALSE else None)
        ]
        return f"Prediction({', '.join(shown)})"

    def _repr_html_(self) -> str:
        from mixling.notebook import Html, bar, html_table

        fields = [item for item in self.to_dict().items() if item[0] not in ("probabilities", "truncated")]
        out = html_table(["prediction", ""], fields)
        likely = most_probable(self.probabilities or {}, _HTML_LABELS).items()
        rows = [(name, f"{value:.1%}", Html(bar(value))) for name, value in likely]
        return out + (html_table(["label", "probability", ""], rows) if rows else "")

    def top(self, number: int) -> Prediction:
        """Return the prediction with the probabilities of its `number` most probable labels, in their order."""
        values = [getattr(self, name) for name in _FIELDS]
        if (probabilities := self.probabilities) is not None:
            values[_FIELDS.index("probabilities")] = most_probable(probabilities, number)
        out = object.__new__(Prediction)
        out.__setstate__(tuple(values))
        return out

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, without the fields that are None, and `empty` only if it is true."""
        # To ask for a field that `prediction_of_label` left out takes longer than all the others.
        of_label = hasattr(self, "_make")
        out: dict[str, Any] = {}
        for name in _OF_A_LABEL if of_label else _WITH_OTHERS:
            if (value := getattr(self, name)) is not None:
                out[name] = list(value) if isinstance(value, tuple) else value
        if "probabilities" in out:
            out["probabilities"] = dict(out["probabilities"])
        if "spans" in out:
            from dataclasses import asdict

            out["spans"] = list(map(asdict, out["spans"]))
        if not of_label and (answer := self.answer) is not None:
            out |= {"answer": answer.text, "start": answer.start, "end": answer.end, "score": answer.score}
            out["no_answer"] = answer.is_none
        if not of_label and self.value is not None:
            out["value"] = self.value
        out["truncated"] = self.truncated
        return out | {"empty": True} if self.empty else out

    def to_json(self) -> dict[str, Any]:
        """Return `to_dict()` with probabilities rounded, as files have it."""
        out = self.to_dict()
        return out | {key: rounded(out[key]) for key in ("path", "probabilities") if key in out}

    @property
    def probability(self) -> float:
        """The probability of `label`, which may be a part of several labels; NaN if `top` has left it out."""
        return (self.path or self.probabilities or {}).get(self.label or "", math.nan)

    @property
    def leaf(self) -> str | None:
        """The whole label that `path` leads to, or `label` without levels."""
        return [*self.path][-1] if self.path else self.label


_REPR_LABELS = 5
_HTML_LABELS = 10


def _few(probabilities: dict[str, float]) -> str:
    """Return the `repr` of probabilities, of many the highest ones."""
    if len(probabilities) <= _REPR_LABELS:
        return repr(probabilities)
    likely = ", ".join(f"{name!r}: {value!r}" for name, value in most_probable(probabilities, _REPR_LABELS).items())
    return f"{{{likely}, ... {len(probabilities) - _REPR_LABELS} more}}"


_OF_A_LABEL = ("label", "abstained", "label_set", "path", "probabilities")
_WITH_OTHERS = ("label", "abstained", "label_set", "path", "labels", "probabilities", "spans", "tokens", "tags")
_SETTERS = tuple(vars(Prediction)[name].__set__ for name in _FIELDS)
_set_truncated, _set_empty, _set_label, _set_abstained, _set_label_set, _set_path, _, _set_probabilities = _SETTERS[:8]
_set_make, _set_row = (vars(Prediction)[name].__set__ for name in ("_make", "_row"))


def softmax(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the probabilities (..., C) of logits (..., C)."""
    import numpy as np

    exponentials = np.exp(values - values.max(-1, keepdims=True))
    probabilities: npt.NDArray[np.float64] = exponentials / exponentials.sum(-1, keepdims=True)
    return probabilities


def rounded(probabilities: dict[str, float]) -> dict[str, float]:
    """Return probabilities as files have them."""
    return {name: round(value, JSON_DIGITS) for name, value in probabilities.items()}


def most_probable(probabilities: dict[str, float], number: int) -> dict[str, float]:
    """Return the `number` highest probabilities, the highest first; equal ones keep the order of the labels."""
    return dict(nlargest(number, probabilities.items(), key=itemgetter(1)))


def certain_part(path: dict[str, float], threshold: float) -> tuple[str, bool]:
    """Return the deepest part of a path that reaches a threshold; if none does, the last one, and True: it abstains."""
    reached = [part for part, probability in path.items() if probability >= threshold]
    return (reached[-1], False) if reached else ([*path][-1], True)


def prediction_of_label(
    label: str,
    make: Callable[[Any], dict[str, float]],
    row: Any,
    read: Read,
    abstained: bool | None = None,
    label_set: tuple[str, ...] | None = None,
    path: dict[str, float] | None = None,
) -> Prediction:
    """Return a prediction of one label, whose probabilities are `make(row)` when they are first asked for.

    To set all fields of an object and to fill a dictionary takes longer than a small model takes for a short text.
    """
    out = object.__new__(Prediction)
    _set_label(out, label)
    _set_make(out, make)
    _set_row(out, row)
    _set_truncated(out, read.truncated)
    _set_empty(out, read.is_empty)
    if abstained is not None:
        _set_abstained(out, abstained)
    if label_set is not None:
        _set_label_set(out, label_set)
    if path is not None:
        _set_path(out, path)
    return out
