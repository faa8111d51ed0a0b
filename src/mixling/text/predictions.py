"""What a user gets for a text: labels with probabilities, spans, an answer."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Span:
    """A labeled stretch of a text: characters `start` to `end`, the end excluded.

    `score` is the mean probability of the tags that the span was made of, or 1.0 where there were no probabilities.
    """

    label: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a question, as it stands in the context; empty where there is none.

    start, end: its characters, the end excluded; None where there is none.
    score: the probability of what is told, an answer or none, among all answers that the context could give and none.
    """

    text: str
    start: int | None
    end: int | None
    score: float

    @property
    def is_none(self) -> bool:
        """Whether the question has no answer in the context."""
        return self.start is None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Prediction:
    """What a user gets for one text; fields that do not belong to the task are None.

    Attributes:
        truncated: the text was longer than the model reads, so its end had no part in the answer; where questions are
            answered, the question was (contexts are read to their end).
        empty: the text had no words, so the model read nothing: what it predicts is its habit. False for questions.
        label: the most probable class (single).
        labels: the classes whose probability reaches the threshold, in the order of the label set (multi).
        probabilities: class name to probability (single, multi).
        spans: the spans found, with character offsets (tagging).
        tokens, tags: the words and the IOB tag of each (tagging).
        answer: to the question (question answering).
        value: the number, in the unit of the training targets (regression).
    """

    truncated: bool
    empty: bool = False
    label: str | None = None
    labels: tuple[str, ...] | None = None
    probabilities: dict[str, float] | None = None
    spans: tuple[Span, ...] | None = None
    tokens: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    answer: Answer | None = None
    value: float | None = None

    def __repr__(self) -> str:
        """Name the fields that have another value than their default."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        defaults = {field.name: field.default for field in fields(self)}
        shown = (f"{name}={value!r}" for name, value in values.items() if value is not defaults[name])
        return f"Prediction({', '.join(shown)})"

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values only, without the fields that are None, and `empty` only where it is true."""
        out: dict[str, Any] = {}
        if self.label is not None:
            out["label"] = self.label
        if self.labels is not None:
            out["labels"] = list(self.labels)
        if self.probabilities is not None:
            out["probabilities"] = dict(self.probabilities)
        if self.spans is not None:
            out["spans"] = [{"label": s.label, "start": s.start, "end": s.end, "score": s.score} for s in self.spans]
        if self.tokens is not None:
            out["tokens"] = list(self.tokens)
        if self.tags is not None:
            out["tags"] = list(self.tags)
        if (answer := self.answer) is not None:
            out |= {"answer": answer.text, "start": answer.start, "end": answer.end, "score": answer.score}
            out["no_answer"] = answer.is_none
        if self.value is not None:
            out["value"] = self.value
        out["truncated"] = self.truncated
        if self.empty:
            out["empty"] = True
        return out
