"""The audit of words with tags: each word's tag is judged, and the worst words of a sentence are its finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float64, Int64
from mixling.audit.audits import LabelAudit
from mixling.audit.label_errors import likely_errors, planted_errors, self_confidence
from mixling.tasks.tagging import Tagging


@dataclass(frozen=True, kw_only=True)
class TagsAudit(LabelAudit):
    """An audit of sentences with a tag for each word. `quality` is the probability of the worst tag of a sentence.

    Source: Wang and Mueller, Detecting Label Errors in Token Classification Data (2022), which ranks sentences so.

    Attributes:
        given: (words of all sentences,) ids of the given tags; the probabilities are (words, C).
        bounds: (n + 1,) where the words of each sentence begin.
        word_errors: (words,) tags that the models find improbable.
    """

    bounds: Int64
    word_errors: npt.NDArray[np.bool_]

    what = "sentences with a tag that the models find improbable"
    baseline_name = "a linear model of words"

    def _worst(self, index: int) -> slice:
        """Return the words, in all sentences, of an example's finding: the worst one, and the wrong ones beside it."""
        first, end = self.bounds[index : index + 2].tolist()
        own = self_confidence(self.given[first:end], self.probabilities[first:end])
        wrong = self.word_errors[first:end]
        at = int(np.argmin(np.where(wrong, own, own + 1)))
        begin = stop = at
        while begin > 0 and wrong[begin - 1]:
            begin -= 1
        while stop + 1 < end - first and wrong[stop + 1]:
            stop += 1
        return slice(first + begin, first + stop + 1)

    def _tagged(self, index: int, words: slice, tags: Sequence[int]) -> str:
        first = int(self.bounds[index])
        text = " ".join(self.examples.texts[index][words.start - first : words.stop - first])
        return f"{text}: {' '.join(self.names[tag] for tag in tags)}"

    def label_of(self, index: int) -> str:
        words = self._worst(index)
        return self._tagged(index, words, self.given[words].tolist())

    @property
    def suggested(self) -> list[tuple[str, float]]:
        out = []
        for index in range(len(self.examples)):
            words = self._worst(index)
            best = self.probabilities[words].argmax(1)
            score = float(self.probabilities[words].max(1).min())
            out.append((self._tagged(index, words, best.tolist()), score))
        return out


def tags_audit(
    learned: Tagging, given: Sequence[Int64], probabilities: Sequence[Float64], learnable: npt.NDArray[np.bool_],
    common: dict[str, Any],
) -> TagsAudit:  # fmt: skip
    """Audit tags.

    Args:
        given: ids of the tags of each sentence.
        probabilities: (words, C) of each sentence.
        learnable: (C,) whether a tag is in several sentences.
        common: what `Audit` has beside its errors.
    """
    flat = np.concatenate(given)
    values = np.concatenate(probabilities)
    bounds = np.concatenate([[0], np.cumsum(list(map(len, given)))])
    own = self_confidence(flat, values)
    errors = likely_errors(flat, values) & learnable[flat]
    worst = np.minimum.reduceat(np.where(errors, own, own + 1), bounds[:-1])
    scores = [learned.scores(row, least=1e-9) for row in probabilities]
    return TagsAudit(
        probabilities=values,
        quality=np.where(worst > 1, worst - 1, worst),
        errors=np.logical_or.reduceat(errors, bounds[:-1]),
        planted=planted_errors(flat, values),
        metrics=learned.evaluate(scores, list(given)),
        given=flat,
        bounds=bounds,
        word_errors=errors,
        **common,
    )
