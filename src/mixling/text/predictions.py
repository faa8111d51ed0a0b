"""Predictions for a text: labels with probabilities, spans, an answer, a number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any


@dataclass(frozen=True, slots=True)
class Span:
    """A labeled span of a text: characters `start` to `end`, end exclusive.

    `score` is the mean probability of the span's tags, or 1.0 if there are no probabilities.
    """

    label: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a question, exactly as in the context; empty if there is none.

    Attributes:
        start, end: its characters, end exclusive; None if there is none.
        score: the probability of this answer (or of none) among all spans of the context and none.
    """

    text: str
    start: int | None
    end: int | None
    score: float

    @property
    def is_none(self) -> bool:
        """Whether the question has no answer in the context."""
        return self.start is None


if TYPE_CHECKING:
    from typing import Protocol

    class Read(Protocol):
        """What decoding asks of a text as it was read."""

        @property
        def truncated(self) -> bool: ...

        @property
        def is_empty(self) -> bool: ...


JSON_DIGITS = 6  # of probabilities in files; more are rounding errors of float32


class _Later:
    """What the probabilities are made of when they are first asked for."""

    __slots__ = ("_make", "_row")

    _make: Callable[[Any], dict[str, float]]
    _row: Any

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Called only for a slot that `prediction_of_label`, or the native engine, left out.
            if name == "probabilities":
                value = self._make(self._row)
                object.__setattr__(self, name, value)
                return value
            if name in _NONE:
                return None
            if name in _FALSE:
                return False
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Prediction(_Later):
    """The result for one text; fields that do not belong to the task are None.

    Attributes:
        truncated: part of the text was ignored: what exceeds the model's maximum, if texts are not read in windows, or
            a million characters, or the end of a very long word; in question answering, part of the question.
        empty: the text has no words, so the prediction depends on the model alone. False for questions.
        label: the most probable class (single).
        abstained: whether `label` is too uncertain to be an answer; None: the model never abstains (single).
        label_set: the labels of the conformal set, the most probable first; it may be empty. None: the model has none
            (single).
        labels: the classes whose probability reaches the threshold, in the order of the label set (multi).
        probabilities: class name to probability (single, multi).
        spans: the predicted spans, with character offsets (tagging).
        tokens, tags: the words and their IOB tags (tagging).
        answer: the answer to the question (question answering).
        value: the number, in the unit of the training targets (regression).
    """

    truncated: bool
    empty: bool = False
    label: str | None = None
    abstained: bool | None = None
    label_set: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    probabilities: dict[str, float] | None = None
    spans: tuple[Span, ...] | None = None
    tokens: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    answer: Answer | None = None
    value: float | None = None

    def __repr__(self) -> str:
        """Show the fields that differ from their defaults."""
        values = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]
        return (
            f"Prediction({', '.join(f'{name}={value!r}' for name, value, default in values if value is not default)})"
        )

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
            out["spans"] = [asdict(span) for span in out["spans"]]
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
        if self.probabilities is not None:
            out["probabilities"] = {name: round(value, JSON_DIGITS) for name, value in self.probabilities.items()}
        return out


_OF_A_LABEL = ("label", "abstained", "label_set", "probabilities")
_WITH_OTHERS = ("label", "abstained", "label_set", "labels", "probabilities", "spans", "tokens", "tags")
_NONE = frozenset(field.name for field in fields(Prediction) if field.default is None)
_FALSE = frozenset({"truncated", "empty"})
_set_make, _set_row, _set_label, _set_abstained, _set_label_set, _set_truncated, _set_empty = (
    getattr(Prediction, name).__set__
    for name in ("_make", "_row", "label", "abstained", "label_set", "truncated", "empty")
)


def prediction_of_label(
    label: str,
    make: Callable[[Any], dict[str, float]],
    row: Any,
    read: Read,
    abstained: bool | None = None,
    label_set: tuple[str, ...] | None = None,
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
    return out
