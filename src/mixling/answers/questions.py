"""Find the answer to a question in the logits of its windows; shared by training, evaluation and serving."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mixling.answers.labels import not_finite
from mixling.answers.spans import Answer
from mixling.text.windows import EncodedWindows, ReadingConfig


@dataclass(frozen=True, slots=True)
class Answers:
    """The correct answers to a question, exactly as in its context; empty for an unanswerable question."""

    texts: tuple[str, ...]
    starts: tuple[int, ...]

    @property
    def first(self) -> tuple[int, int] | None:
        """Start and end characters of the first answer, which is the training target."""
        return (self.starts[0], self.starts[0] + len(self.texts[0])) if self.texts else None


@dataclass(frozen=True, slots=True)
class Found:
    """The best span of a context, compared with "no answer".

    Attributes:
        span: start and end characters; None if the context has no words.
        margin: the score of "no answer" minus the score of the span.
        probability, no_answer: probabilities of the span and of "no answer", normalized over all spans and "no answer".
    """

    span: tuple[int, int] | None
    margin: float
    probability: float
    no_answer: float

    def answer(self, context: str, threshold: float | None) -> Answer:
        """Return the span as an answer, or none if `margin` exceeds the threshold; without a threshold, the span."""
        if self.span is None or (threshold is not None and self.margin > threshold):
            return Answer(text="", start=None, end=None, score=self.no_answer)
        start, end = self.span
        return Answer(text=context[start:end], start=start, end=end, score=self.probability)


def find_answer(encoding: EncodedWindows, logits: Iterable[npt.NDArray[np.floating]], reading: ReadingConfig) -> Found:
    """Return the best span of at most `max_answer` tokens over all windows.

    A span's score is the sum of its start and end logits, maximized over the windows that contain it. The score of "no
    answer" is the sum of the separator's logits, minimized over the windows (Devlin et al. 2019, section 4.3). Decided
    here: windows are not weighted by how central a token is in them; the first and shortest of equally good spans wins;
    probabilities are the softmax of the scores of all spans and of "no answer".

    Args:
        logits: start and end logits (N, 2) of each window, in order; consumed one at a time.

    Raises:
        ModelFileError: a logit is not finite.
    """
    separator = encoding.separator
    total = len(encoding.context)
    width = min(reading.max_answer, max(total, 1))
    nothing = np.inf
    best = _Best(width)
    for begin, values in zip(encoding.begins, logits, strict=True):
        if not np.isfinite(values).all():
            raise not_finite()
        starts, ends = values[separator:].astype(np.float64).T
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
    """The best span so far; only scores of spans that a later window may contain as well are kept.

    `score` belongs to the span from token `first` to token `last`; `sum` is the sum of exp(score of a span - `score`).
    """

    def __init__(self, width: int) -> None:
        self.score = -np.inf
        self.sum = 0.0
        self.first = 0
        self.last = 0
        # (K, width) scores of spans from token `_begin` on
        self._open = np.zeros((0, width))
        self._begin = 0

    def add(self, begin: int, scores: npt.NDArray[np.float64]) -> None:
        """Add the scores (N, width) of the spans of the window that begins at token `begin`."""
        self.close(begin)
        grown = np.full((max(len(self._open), len(scores)), scores.shape[1]), -np.inf)
        grown[: len(self._open)] = self._open
        np.maximum(grown[: len(scores)], scores, out=grown[: len(scores)])
        self._open = grown
        self._begin = begin

    def close(self, end: int) -> None:
        """Finish the spans that start before token `end`, which no later window contains."""
        done = self._open[: end - self._begin]
        self._open = self._open[end - self._begin :]
        if not len(done):
            return
        index = int(done.argmax())
        top = float(done.flat[index])
        if top > self.score:
            self.sum *= float(np.exp(self.score - top))
            first, more = divmod(index, done.shape[1])
            self.score = top
            self.first = self._begin + first
            self.last = self._begin + first + more
        self.sum += float(np.exp(done - self.score).sum())
