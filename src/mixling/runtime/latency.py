"""The time that a model takes for one text."""

from __future__ import annotations

import itertools
import time
from statistics import median
from typing import Any

from mixling.features.cells import with_missing
from mixling.runtime.predictor import Predictor

_WORDS = 10
_TEXTS = 20


def time_for_a_text(predictor: Predictor) -> dict[str, Any]:
    """Return the median milliseconds for one of 20 texts of 10 words of the vocabulary, asked twice, and the engine.

    Of a model for pairs or questions, they are pairs of such texts.
    """
    words = [word for word in predictor.encoder.vocabulary.names() if word.isalpha()][: _TEXTS * _WORDS] or ["a"]
    number = len(predictor.text_names or ("",))
    source = itertools.cycle(words)
    several = [" ".join(itertools.islice(source, _WORDS)) for _ in range(_TEXTS)]
    seconds = []
    for text in 2 * several:
        begin = time.perf_counter()
        predictor.predict_one(with_missing((text,) * number if number > 1 else text, predictor.feature_names))
        seconds.append(time.perf_counter() - begin)
    kind = f"{'a pair of texts' if number == 2 else f'{number} texts' if number > 2 else 'a text'} of {_WORDS} words"
    return {"milliseconds": round(1e3 * median(seconds[_TEXTS:]), 4), "of": kind, "engine": predictor.engine}
