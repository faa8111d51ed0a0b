"""Logits of windows -> the answer to a question; shared by training, evaluation and serving."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mixling.text.labels import LabelSet, not_finite
from mixling.text.predictions import Answer
from mixling.text.windows import Passage, ReadingConfig

ANSWER_ENDS = LabelSet(("start", "end"), "span")
"""The two numbers that a model has for each token: how likely an answer starts there, and ends there."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to a question that count as right, as they stand in its context; none where it has no answer."""

    texts: tuple[str, ...]
    starts: tuple[int, ...]

    @property
    def first(self) -> tuple[int, int] | None:
        """Start and end characters of the one that is learnt."""
        return (self.starts[0], self.starts[0] + len(self.texts[0])) if self.texts else None


@dataclass(frozen=True, slots=True)
class Found:
    """The best span of a context, and how it compares.

    span: start and end characters; None where the context has no word.
    margin: the score of no answer less that of the span.
    probability, no_answer: of the span and of no answer, among both and all other spans.
    """

    span: tuple[int, int] | None
    margin: float
    probability: float
    no_answer: float

    def answer(self, context: str, threshold: float | None) -> Answer:
        """What is told; without a threshold always the span."""
        if self.span is None or (threshold is not None and self.margin > threshold):
            return Answer(text="", start=None, end=None, score=self.no_answer)
        start, end = self.span
        return Answer(text=context[start:end], start=start, end=end, score=self.probability)


def find_answer(passage: Passage, logits: Sequence[npt.NDArray[np.floating]], reading: ReadingConfig) -> Found:
    """The best span of at most `max_answer` tokens, over all windows.

    A span's score is the sum of the logits of its start and its end, the greatest where several windows hold it; that
    of no answer is the separator's sum, the least of all windows (Devlin et al. 2019, section 4.3). Decided here:
    windows are alike, a token need not stand in the middle of one; of equal scores the first and shortest span wins;
    probabilities are the softmax of the scores of all spans and of no answer.

    Args:
        logits: (N, 2) of each window.

    Raises:
        ModelFileError: a logit is not finite.
    """
    assert len(logits) == len(passage.begins), f"{len(logits)} answers for {len(passage.begins)} windows"
    place, total = passage.separator, len(passage.context)
    width = min(reading.max_answer, max(total, 1))
    scores = np.full((total, width), -np.inf)
    nothing = np.inf
    for begin, values in zip(passage.begins, logits, strict=True):
        if not np.isfinite(values).all():
            raise not_finite()
        starts, ends = values[place:].astype(np.float64).T
        nothing = min(nothing, float(starts[0] + ends[0]))
        if not total:
            break
        beyond = np.concatenate([ends[1:], np.full(width - 1, -np.inf)])
        spans = starts[1:, None] + np.lib.stride_tricks.sliding_window_view(beyond, width)
        part = scores[begin : begin + len(spans)]
        np.maximum(part, spans, out=part)
    if not total:
        return Found(span=None, margin=np.inf, probability=0.0, no_answer=1.0)
    best = int(scores.argmax())
    first, more = divmod(best, width)
    top = float(scores.flat[best])
    highest = max(top, nothing)
    sum_of_all = float(np.exp(scores - highest).sum() + np.exp(nothing - highest))
    return Found(
        span=(int(passage.spans[first, 0]), int(passage.spans[first + more, 1])),
        margin=nothing - top,
        probability=float(np.exp(top - highest)) / sum_of_all,
        no_answer=float(np.exp(nothing - highest)) / sum_of_all,
    )
