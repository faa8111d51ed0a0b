"""Span corruption: spans of a text are removed, and the model generates them.

Source: T5 (Raffel et al. 2020), section 3.1.4 and Figure 2: 15% of the subwords of each text, in spans of 3 on average.
In the source each span is replaced by its own sentinel; the target consists of all spans, each after its sentinel. As
in T5's published code, beyond the paper: the numbers of subwords and spans depend only on the text's length, the
lengths of spans and of the text between them are random; a text begins with kept subwords and ends with a span; there
is no sentinel after the last span. Differs in that there are never more spans than kept subwords.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mixling.config import Config
from mixling.errors import ConfigError
from mixling.research.seq2seq.batches import SubwordIds


class SpanConfig(Config):
    """How much of a text is removed."""

    fraction: float = Field(default=0.15, gt=0, lt=1, description="fraction of the subwords to remove")
    mean_length: float = Field(default=3.0, ge=1, allow_inf_nan=False, description="mean number of subwords of a span")


def noise_counts(length: int, config: SpanConfig) -> tuple[int, int]:
    """Return how many subwords are removed from a text of `length`, at least 2, and in how many spans."""
    assert length > 1, "something is removed and something is kept"
    noise = min(max(round(length * config.fraction), 1), length - 1)
    return noise, min(max(round(noise / config.mean_length), 1), length - noise)


def corrupted_lengths(length: int, config: SpanConfig) -> tuple[int, int]:
    """Return the lengths of source and target for a text of `length`, with sentinels and end token."""
    noise, spans = noise_counts(length, config)
    return length - noise + spans + 1, noise + spans + 1


def raw_length(config: SpanConfig, max_source: int, max_target: int) -> int:
    """Return the maximum length of a text whose source and target are within the limits.

    Raises:
        ConfigError: the limits are too small for any text.
    """
    length = 1
    while all(np.less_equal(corrupted_lengths(length + 1, config), (max_source, max_target))):  # both are monotonic
        length += 1
    if length < 2:
        raise ConfigError(
            f"span corruption: got sources of at most {max_source} and targets of at most {max_target} subwords; "
            "both must be at least 3, for a subword, a sentinel and an end token"
        )
    return length


def check_sentinels(length: int, config: SpanConfig, known: int) -> None:
    """Check that `known` sentinels suffice for texts of `length` subwords.

    Raises:
        ConfigError: more are needed.
    """
    _, needed = noise_counts(length, config)
    if needed > known:
        raise ConfigError(
            f"span corruption: a text of {length} subwords has {needed} spans, but there are {known} sentinels; use a "
            f"vocabulary with more (tokenizer.sentinels = {needed}), shorter texts, a smaller fraction or a larger "
            "mean_length"
        )


def corrupt(
    subwords: SubwordIds, config: SpanConfig, sentinels: Sequence[int], eos: int, rng: np.random.Generator
) -> tuple[SubwordIds, SubwordIds]:
    """Return source and target of a text, with sentinels and end token.

    Args:
        sentinels: the ids of `<extra_id_0>`, `<extra_id_1>`, ..., which spans get in this order.
        eos: the id of the end token.

    Raises:
        ConfigError: there are more spans than sentinels.
    """
    check_sentinels(len(subwords), config, len(sentinels))
    count, spans = noise_counts(len(subwords), config)
    kept = _segments(len(subwords) - count, spans, rng)
    taken = _segments(count, spans, rng)
    is_noise = np.repeat(np.arange(2 * spans) % 2 == 1, np.stack([kept, taken], axis=1).ravel())
    ids = np.asarray(sentinels[:spans])
    source = np.insert(subwords[~is_noise], np.cumsum(kept), ids)
    target = np.insert(subwords[is_noise], np.cumsum(taken) - taken, ids)
    return np.append(source, eos).astype(np.int32), np.append(target, eos).astype(np.int32)


def _segments(items: int, segments: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Divide `items` into nonempty segments at random, uniformly over all ways, and return their lengths."""
    cuts = np.sort(rng.choice(items - 1, segments - 1, replace=False)) + 1
    return np.diff(cuts, prepend=0, append=items)
