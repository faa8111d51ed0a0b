"""The readable reference of native/tags.c: the best sequences and probabilities of tags, see `mixling.answers`."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.answers.predictions import softmax
from mixling.arrays import Float32, Float64

_Ids = npt.NDArray[np.int64]


class TagSequences:
    """The sequences of some tags.

    Args:
        names: the tags (C,).
        transitions: (C, C), the score of each tag after each other one; None: there are none.
    """

    def __init__(self, names: Sequence[str], transitions: Float32 | None = None) -> None:
        self._names = names
        self._transitions = transitions

    def best(self, logits: npt.NDArray[Any]) -> _Ids:
        """Return the ids (W,) of the most probable sequence, given the logits (W, C) of its words."""
        return self.best_of_texts([logits])[0]

    def best_of_texts(self, logits: Sequence[npt.NDArray[Any]]) -> list[_Ids]:
        """Return the most probable sequence of each text.

        Without transitions, where the most probable tags are a sequence of IOB2, they are the result; else the Viterbi
        algorithm finds it.
        """
        if self._transitions is not None or not logits:
            return [self._viterbi(np.asarray(rows, np.float64)) for rows in logits]
        tags = np.concatenate(logits).argmax(-1)
        lengths = np.array([len(rows) for rows in logits])
        before = self._begins[0][tags]
        ends = np.cumsum(lengths)
        previous = np.concatenate([[-1], tags])[:-1]
        previous[(ends - lengths)[lengths > 0]] = -1
        wrong = np.flatnonzero((before >= 0) & (previous != tags) & (previous != before))
        found = np.split(tags, ends[:-1])
        for text in np.unique(np.searchsorted(ends, wrong, side="right")).tolist():
            found[text] = self._viterbi(np.asarray(logits[text], np.float64))
        return found

    def best_with_probabilities(self, logits: Sequence[npt.NDArray[Any]]) -> Iterator[tuple[_Ids, npt.NDArray[Any]]]:
        """Yield the most probable sequence of each text and the probability (W,) of each of its tags."""
        for ids, rows in zip(self.best_of_texts(logits), logits, strict=True):
            yield ids, self.probabilities(rows.astype(np.float64))[np.arange(len(ids)), ids]

    def probabilities(self, logits: Float64) -> Float64:
        """Return the probability (W, C) of each tag of each word, given the logits (W, C) of its words."""
        if self._transitions is None or not len(logits):
            return softmax(logits)
        # Forward and backward sums, each scaled to a sum of 1: their product is proportional to the probability.
        follows = self._factors
        values = np.exp(logits - logits.max(-1, keepdims=True))
        forward = np.empty_like(values)
        backward = np.ones_like(values)
        for word, own in enumerate(values):
            sums = own * (self._may_begin if word == 0 else forward[word - 1] @ follows)
            forward[word] = sums / max(sums.sum(), 1e-300)
        for word in range(len(values) - 2, -1, -1):
            sums = follows @ (values[word + 1] * backward[word + 1])
            backward[word] = sums / max(sums.sum(), 1e-300)
        joint = forward * backward
        marginals: Float64 = joint / np.maximum(joint.sum(-1, keepdims=True), 1e-300)
        return marginals

    def _viterbi(self, logits: Float64) -> _Ids:
        if not len(logits):
            return np.zeros(0, np.int64)
        before, inside = self._begins
        begins = before[inside]
        best = np.where(self._may_begin, logits[0], -np.inf)
        sources = np.zeros(logits.shape, np.int64)
        for word in range(1, len(logits)):
            source = sources[word]
            value = np.empty(len(best))
            if self._transitions is None:
                source[self._open], value[self._open] = best.argmax(), best.max()
            else:
                scores = best[:, None] + self._after_any
                source[self._open] = top = scores.argmax(0)
                value[self._open] = scores[top, np.arange(len(top))]
            after_begin = best[begins] + self._after_begin
            after_itself = best[inside] + self._after_itself
            source[inside] = np.where(after_begin >= after_itself, begins, inside)
            value[inside] = np.maximum(after_begin, after_itself)
            best = value + logits[word]
        out = np.empty(len(logits), np.int64)
        out[-1] = best.argmax()
        for word in range(len(logits) - 1, 0, -1):
            out[word - 1] = sources[word, out[word]]
        return out

    @functools.cached_property
    def _begins(self) -> tuple[_Ids, _Ids]:
        """The id of B-x for each tag I-x, -1 without one and for other tags; and the ids of those with one."""
        ids = {name: index for index, name in enumerate(self._names)}
        before = np.array([ids.get(f"B-{name[2:]}", -1) if name.startswith("I-") else -1 for name in self._names])
        return before, np.flatnonzero(before >= 0)

    @functools.cached_property
    def _may_begin(self) -> npt.NDArray[np.bool_]:
        """Which tags may be first, and after any other."""
        return self._begins[0] < 0

    @functools.cached_property
    def _open(self) -> _Ids:
        return np.flatnonzero(self._may_begin)

    @functools.cached_property
    def _scores(self) -> Float64:
        number = len(self._names)
        return np.zeros((number, number)) if self._transitions is None else self._transitions.astype(np.float64)

    @functools.cached_property
    def _after_any(self) -> Float64:
        """The scores (C, open) of the tags that may follow any other."""
        return np.ascontiguousarray(self._scores[:, self._open])

    @functools.cached_property
    def _after_begin(self) -> Float64:
        before, inside = self._begins
        return self._scores[before[inside], inside]

    @functools.cached_property
    def _after_itself(self) -> Float64:
        inside = self._begins[1]
        return self._scores[inside, inside]

    @functools.cached_property
    def _factors(self) -> Float64:
        """The factor (C, C) of each tag after each other one, 0 where IOB2 excludes it."""
        before, inside = self._begins
        allowed = np.repeat(self._may_begin[None], len(before), 0)
        allowed[before[inside], inside] = allowed[inside, inside] = True
        scores = np.where(allowed, self._scores, -np.inf)
        odds: Float64 = np.exp(scores - scores.max())
        return odds
