"""Span corruption: spans of a text are taken out, and are what a model is to write.

Source: T5 (Raffel et al. 2020), section 3.1.4 and Figure 2: of each text 15% of the subwords, in spans of 3 on average.
Each span's place in the source has a sentinel of its own, and the target is all spans, each behind its sentinel. As in
T5's published code, and beyond the paper: the numbers of subwords and of spans depend on the text's length alone, the
lengths of spans, and of what stands between them, are random; a text begins with subwords that are kept and ends with a
span; no sentinel stands behind the last span. Decided here: there are never more spans than subwords that are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mixling.config import Config
from mixling.errors import ConfigError

SubwordIds = npt.NDArray[np.int32]


class SpanConfig(Config):
    """How much is taken out of a text."""

    fraction: float = Field(0.15, gt=0, lt=1, description="part of the subwords that is taken out")
    mean_length: float = Field(3.0, ge=1, allow_inf_nan=False, description="subwords of a span, on average")


def noise_counts(length: int, config: SpanConfig) -> tuple[int, int]:
    """How many subwords are taken out of a text of `length`, at least 2, and in how many spans."""
    assert length > 1, "something is taken out and something is kept"
    noise = min(max(round(length * config.fraction), 1), length - 1)
    return noise, min(max(round(noise / config.mean_length), 1), length - noise)


def corrupted_lengths(length: int, config: SpanConfig) -> tuple[int, int]:
    """How many subwords source and target of a text of `length` have, each with its sentinels and end."""
    noise, spans = noise_counts(length, config)
    return length - noise + spans + 1, noise + spans + 1


def raw_length(config: SpanConfig, max_source: int, max_target: int) -> int:
    """The largest number of subwords of a text whose source and target are within both limits.

    Raises:
        ConfigError: no text is short enough.
    """
    length = 1
    while all(np.less_equal(corrupted_lengths(length + 1, config), (max_source, max_target))):  # both only grow
        length += 1
    if length < 2:
        raise ConfigError(
            f"span corruption: got sources of at most {max_source} and targets of at most {max_target} subwords; "
            "a piece, a sentinel and an end need 3 of each"
        )
    return length


def check_sentinels(length: int, config: SpanConfig, known: int) -> None:
    """Refuse texts of `length` subwords that need more than the `known` sentinels.

    Raises:
        ConfigError: tells how many are needed.
    """
    _, needed = noise_counts(length, config)
    if needed > known:
        raise ConfigError(
            f"span corruption: a text of {length} subwords has {needed} spans, but there are {known} sentinels; "
            f"train or "
            f"load the subwords with more (tokenizer.sentinels = {needed}), or take shorter texts, a smaller share "
            f"or a "
            "larger mean_length"
        )


def corrupt(
    subwords: SubwordIds, config: SpanConfig, sentinels: Sequence[int], eos: int, rng: np.random.Generator
) -> tuple[SubwordIds, SubwordIds]:
    """Source and target of a text: what is kept, and what is taken out, with sentinels and `eos` at the end.

    Args:
        sentinels: the numbers of `<extra_id_0>`, `<extra_id_1>`, ...; spans take them in this order.

    Raises:
        ConfigError: there are more spans than sentinels.
    """
    check_sentinels(len(subwords), config, len(sentinels))
    count, spans = noise_counts(len(subwords), config)
    kept, taken = _segments(len(subwords) - count, spans, rng), _segments(count, spans, rng)
    is_noise = np.repeat(np.arange(2 * spans) % 2 == 1, np.stack([kept, taken], axis=1).ravel())
    marks = np.asarray(sentinels[:spans])
    source = np.insert(subwords[~is_noise], np.cumsum(kept), marks)
    target = np.insert(subwords[is_noise], np.cumsum(taken) - taken, marks)
    return np.append(source, eos).astype(np.int32), np.append(target, eos).astype(np.int32)


def _segments(items: int, segments: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Lengths of nonempty segments of `items`; every way to divide them is equally likely."""
    cuts = np.sort(rng.choice(items - 1, segments - 1, replace=False)) + 1
    return np.diff(cuts, prepend=0, append=items)
