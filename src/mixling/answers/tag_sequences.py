"""The most probable IOB2 sequence of tags, and the probabilities of tags, with or without learned transitions.

With transitions A (C, C), a linear-chain conditional random field (Lafferty, McCallum and Pereira, ICML 2001; with a
network's logits: Collobert et al., JMLR 2011, section 3.4.2):

    p(y | x) = exp( sum_t logits[t, y_t] + sum_t A[y_{t-1}, y_t] ) / Z        over the sequences of IOB2

In such a sequence I-x follows B-x or I-x only. Without transitions each word has a softmax of its own, and the best
sequence is the IOB2 sequence with the greatest sum of logits. Computed in C (native/tags.c), in O(W C^2) with
transitions, else O(W C).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.answers.predictions import softmax
from mixling.arrays import Float32, Float64
from mixling.errors import ModelFileError
from mixling.native import _core

_Ids = npt.NDArray[np.int64]


class TagSequences:
    """The sequences of some tags.

    Args:
        names: the tags (C,), O first.
        transitions: (C, C), the score of each tag after each other one; None: there are none.
    """

    def __init__(self, names: Sequence[str], transitions: Float32 | None = None) -> None:
        self._names = names
        self._transitions = transitions

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_tagger"}

    def best(self, logits: npt.NDArray[Any]) -> _Ids:
        """Return the ids (W,) of the most probable sequence, given the logits (W, C) of its words."""
        return next(self.best_with_probabilities([logits]))[0]

    def best_with_probabilities(self, logits: Sequence[npt.NDArray[Any]]) -> Iterator[tuple[_Ids, npt.NDArray[Any]]]:
        """Yield the most probable sequence of each text and the probability (W,) of each of its tags.

        Raises:
            ModelFileError: the names are no tags.
        """
        if not logits:
            return
        joined = np.concatenate(logits).astype(np.float32)
        lengths = np.array(list(map(len, logits)), np.int32)
        ends = np.cumsum(lengths)[:-1]
        tags, of_tags = self._tagger.best(joined.tobytes(), lengths.tobytes())
        ids = np.frombuffer(tags, np.uint32).astype(np.int64)
        yield from zip(np.split(ids, ends), np.split(np.frombuffer(of_tags, np.float32), ends), strict=True)

    def probabilities(self, logits: Float64) -> Float64:
        """Return the probability (W, C) of each tag of each word, given the logits (W, C) of its words."""
        if self._transitions is None or not len(logits):
            return softmax(logits)
        found = self._tagger.probabilities(logits.astype(np.float32).tobytes())
        return np.frombuffer(found, np.float64).reshape(logits.shape)

    @functools.cached_property
    def _tagger(self) -> _core.Tagger:
        transitions = None if self._transitions is None else self._transitions.astype(np.float32).tobytes()
        try:
            return _core.Tagger(tuple(self._names), transitions)
        except ValueError as error:
            raise ModelFileError(f"labels: {error}") from None
