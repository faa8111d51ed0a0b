"""Logits of windows -> the answer to a question; shared by training, evaluation and serving."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mixling.text.labels import not_finite
from mixling.text.predictions import Answer
from mixling.text.windows import EncodedWindows, ReadingConfig


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


def find_answer(encoding: EncodedWindows, logits: Iterable[npt.NDArray[np.floating]], reading: ReadingConfig) -> Found:
    """The best span of at most `max_answer` tokens, over all windows.

    A span's score is the sum of the logits of its start and its end, the greatest where several windows hold it; that
    of no answer is the separator's sum, the least of all windows (Devlin et al. 2019, section 4.3). Decided here:
    windows are alike, a token need not stand in the middle of one; of equal scores the first and shortest span wins;
    probabilities are the softmax of the scores of all spans and of no answer.

    Args:
        logits: (N, 2) of each window, in their order; they are read one at a time, and not kept.

    Raises:
        ModelFileError: a logit is not finite.
    """
    location, total = encoding.separator, len(encoding.context)
    width = min(reading.max_answer, max(total, 1))
    nothing, best = np.inf, _Best(width)
    for begin, values in zip(encoding.begins, logits, strict=True):
        if not np.isfinite(values).all():
            raise not_finite()
        starts, ends = values[location:].astype(np.float64).T
        nothing = min(nothing, float(starts[0] + ends[0]))
        if not total:
            continue
        beyond = np.concatenate([ends[1:], np.full(width - 1, -np.inf)])
        best.add(begin, starts[1:, None] + np.lib.stride_tricks.sliding_window_view(beyond, width))
    if not total:
        return Found(span=None, margin=np.inf, probability=0.0, no_answer=1.0)
    best.close(total)
    highest = max(best.score, nothing)
    sum_of_all = best.sum * float(np.exp(best.score - highest)) + float(np.exp(nothing - highest))
    return Found(
        span=(int(encoding.spans[best.first, 0]), int(encoding.spans[best.last, 1])),
        margin=nothing - best.score,
        probability=float(np.exp(best.score - highest)) / sum_of_all,
        no_answer=float(np.exp(nothing - highest)) / sum_of_all,
    )


class _Best:
    """The best of spans whose scores come window by window; only those that another window may hold too are kept.

    score: of the span from token `first` to token `last`, and sum: of exp(score of a span - score), over all spans.
    """

    def __init__(self, width: int) -> None:
        self.score, self.sum, self.first, self.last = -np.inf, 0.0, 0, 0
        self._open, self._begin = np.zeros((0, width)), 0  # (K, width) scores of spans from token `_begin` on

    def add(self, begin: int, scores: npt.NDArray[np.float64]) -> None:
        """Take in the spans (N, width) that start at token `begin` or later, in a window that begins there."""
        self.close(begin)
        grown = np.full((max(len(self._open), len(scores)), scores.shape[1]), -np.inf)
        grown[: len(self._open)] = self._open
        np.maximum(grown[: len(scores)], scores, out=grown[: len(scores)])
        self._open, self._begin = grown, begin

    def close(self, end: int) -> None:
        """Count the spans that start before token `end`, which no later window holds."""
        done, self._open = self._open[: end - self._begin], self._open[end - self._begin :]
        if not len(done):
            return
        location = int(done.argmax())
        top = float(done.flat[location])
        if top > self.score:
            self.sum *= float(np.exp(self.score - top))
            first, more = divmod(location, done.shape[1])
            self.score, self.first, self.last = top, self._begin + first, self._begin + first + more
        self.sum += float(np.exp(done - self.score).sum())
