"""Parts of a text that predictions name: labeled spans, and answers to questions."""

from __future__ import annotations

from dataclasses import dataclass


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
