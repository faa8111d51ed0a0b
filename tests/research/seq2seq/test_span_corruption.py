"""Span corruption: nothing lost, T5's numbers, every division equally likely."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixling import ConfigError
from mixling.config import parse
from mixling.research.seq2seq import SpanConfig
from mixling.research.seq2seq.span_corruption import corrupt, corrupted_lengths, noise_counts, raw_length

EOS = 1
SENTINELS = list(range(5000, 4000, -1))  # falling, as those of the published T5 models are
configs = st.builds(SpanConfig, fraction=st.floats(0.01, 0.99), mean_length=st.floats(1, 20))


def spans_of(subwords: list[int]) -> list[list[int]]:
    """What stands before the first sentinel and behind each; sentinels come in order and only the end is an end."""
    assert subwords[-1] == EOS
    spans: list[list[int]] = [[]]
    for subword in subwords[:-1]:
        assert subword != EOS
        if subword in SENTINELS:
            assert subword == SENTINELS[len(spans) - 1]
            spans.append([])
        else:
            spans[-1].append(subword)
    return spans


def text(length: int) -> np.ndarray:
    return np.arange(10, 10 + length, dtype=np.int32)


@given(st.integers(2, 700), configs, st.integers(0, 2**32))
def test_source_and_target_together_are_the_text(length: int, config: SpanConfig, seed: int) -> None:
    source, target = corrupt(text(length), config, SENTINELS, EOS, np.random.default_rng(seed))
    assert source.dtype == target.dtype == np.int32
    *kept, last = spans_of(source.tolist())
    before, *taken = spans_of(target.tolist())
    assert last == []  # it ends with a span,
    assert before == []  # whose sentinel is the last one
    assert all(kept)
    assert all(taken)
    together = itertools.chain.from_iterable(itertools.chain(*zip(kept, taken, strict=True)))
    assert list(together) == text(length).tolist()
    assert (len(source), len(target)) == corrupted_lengths(length, config)


@pytest.mark.parametrize("length", [*range(2, 60), 512, 568, 1000])
def test_numbers_are_those_of_the_formula(length: int) -> None:
    source, target = corrupt(text(length), SpanConfig(), SENTINELS, EOS, np.random.default_rng(length))
    noise = max(1, round(0.15 * length))
    spans = max(1, round(noise / 3))
    assert len(set(target.tolist()) & set(text(length).tolist())) == noise
    assert len(set(target.tolist()) & set(SENTINELS)) == spans
    assert len(source) == length - noise + spans + 1
    assert len(target) == noise + spans + 1


@given(st.integers(2, 2000), configs)
def test_something_is_taken_and_something_kept(length: int, config: SpanConfig) -> None:
    noise, spans = noise_counts(length, config)
    assert 1 <= spans <= min(noise, length - noise)
    assert noise == pytest.approx(config.fraction * length, abs=0.5) or noise in (1, length - 1)


def test_lengths_are_those_of_t5() -> None:
    assert raw_length(SpanConfig(), 512, 512) == 568
    assert corrupted_lengths(568, SpanConfig()) == (512, 114)
    assert raw_length(SpanConfig(), 512, 114) == 568
    assert raw_length(SpanConfig(), 512, 113) < 568


@given(configs, st.integers(3, 300), st.integers(3, 300))
def test_the_raw_length_is_the_largest_that_fits(config: SpanConfig, source: int, target: int) -> None:
    def fits(length: int) -> bool:
        pair = corrupt(text(length), config, SENTINELS, EOS, np.random.default_rng(0))
        return len(pair[0]) <= source and len(pair[1]) <= target

    found = raw_length(config, source, target)
    assert fits(found)
    assert not any(fits(length) for length in (found + 1, found + 2, found + 10, source + target))


def test_every_division_is_equally_likely() -> None:
    config, rng = SpanConfig(fraction=0.4, mean_length=2), np.random.default_rng(0)
    taken: Counter[tuple[int, ...]] = Counter()
    kept: Counter[tuple[int, ...]] = Counter()
    both: Counter[tuple[int, ...]] = Counter()
    for _ in range(3000):  # 9 kept and 6 taken subwords in 3 spans: C(8, 2) = 28 and C(5, 2) = 10 divisions
        source, target = corrupt(text(15), config, SENTINELS, EOS, rng)
        lengths = [tuple(len(span) for span in spans_of(part.tolist()) if span) for part in (source, target)]
        kept[lengths[0]] += 1
        taken[lengths[1]] += 1
        both[lengths[0][0], lengths[1][0]] += 1
    assert len(taken) == 10
    assert len(kept) == 28
    assert all(abs(count - 300) < 6 * 17 for count in taken.values())
    assert all(abs(count - 3000 / 28) < 6 * 10.2 for count in kept.values())
    # Kept and taken subwords are divided apart: (7 of 28) * (4 of 10) begin with one of each.
    assert both[1, 1] == pytest.approx(3000 * 0.25 * 0.4, abs=6 * 17)


def test_corruption_is_a_function_of_the_generator() -> None:
    def made(seed: int) -> list[list[int]]:
        return [part.tolist() for part in corrupt(text(100), SpanConfig(), SENTINELS, EOS, np.random.default_rng(seed))]

    assert made(3) == made(3)
    assert made(3) != made(4)


def test_what_cannot_be_corrupted_is_reported() -> None:
    with pytest.raises(
        ConfigError, match=r"568 subwords has 28 spans, but there are 27 sentinels; .*tokenizer\.sentinels = 28"
    ):
        corrupt(text(568), SpanConfig(), SENTINELS[:27], EOS, np.random.default_rng(0))
    corrupt(text(568), SpanConfig(), SENTINELS[:28], EOS, np.random.default_rng(0))
    with pytest.raises(
        ConfigError,
        match=r"sources of at most 2 and targets of at most 50 subwords; both must be at least 3",
    ):
        raw_length(SpanConfig(), 2, 50)
    with pytest.raises(ConfigError, match=r"sources of at most 50 and targets of at most 2 subwords"):
        raw_length(SpanConfig(), 50, 2)
    assert raw_length(SpanConfig(), 3, 3) == 2
    for values in ({"fraction": 0}, {"fraction": 1}, {"mean_length": 0.9}, {"mean_length": float("inf")}):
        with pytest.raises(ConfigError, match=rf"spans: {next(iter(values))}: got "):
            parse(SpanConfig, values, where="spans")
