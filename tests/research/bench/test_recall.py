"""Multi-query associative recall: what is asked can be answered, and models are trained and measured on it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mixling.mixers import AttentionConfig, FourierConfig, LinearAttentionConfig
from mixling.research.bench import (
    CHOOSING,
    DIM,
    NUM_BLOCKS,
    PAIRS_BY_LENGTH,
    SYMBOLS,
    RecallData,
    RecallModel,
    causal_choices,
    draw_texts,
    recall,
    run_recall,
    state_size,
    train_recall,
)


@pytest.mark.parametrize("length", PAIRS_BY_LENGTH)
def test_each_pairs_key_comes_once_more_and_asks_for_its_value(length: int) -> None:
    pairs = PAIRS_BY_LENGTH[length]
    texts, places, values = draw_texts(300, length, [0, 1])
    assert texts.shape == (300, length)
    for text, asked, answers in zip(texts, places, values, strict=True):
        stored = dict(zip(text[: 2 * pairs : 2], text[1 : 2 * pairs : 2], strict=True))
        assert len(stored) == pairs
        assert max(stored) < SYMBOLS <= min(stored.values())
        assert min(asked) >= 2 * pairs
        assert {*text[asked]} == {*stored}
        assert [stored[key] - SYMBOLS for key in text[asked]] == answers.tolist()
    again, _, _ = draw_texts(300, length, [0, 1])
    assert np.array_equal(again, texts)


def test_gaps_follow_the_power_law() -> None:
    """Of the first key that is drawn: p(g) ~ g^(.01 - 1), so that ratios of neighbors are those of the law."""
    _, places, _ = draw_texts(40_000, 32, [0, 1])
    gaps = np.arange(1, 13)
    expected = gaps**-0.99 / (gaps**-0.99).sum()
    found = np.bincount((places[:, 0] - 8) // 2, minlength=12) / len(places)
    assert np.abs(found - expected).max() < 0.01


def test_a_causal_model_sees_nothing_later_and_a_full_one_does() -> None:
    texts, places = torch.zeros(1, 32, dtype=torch.int64), torch.tensor([[10]])
    later = texts.clone()
    later[0, 11:] = 5
    for causal in (False, True):
        model = RecallModel(AttentionConfig(), length=32, causal=causal).eval()
        assert torch.equal(model(texts, places), model(later, places)) == causal


def test_states_are_those_of_the_equations() -> None:
    """Attention keeps keys and values of every token; linear attention a matrix (E, E + 1) for each head."""
    assert state_size(AttentionConfig(num_heads=1), 32) == NUM_BLOCKS * 32 * 2 * DIM
    assert state_size(LinearAttentionConfig(num_heads=4), 32) == NUM_BLOCKS * 4 * 16 * 17
    assert causal_choices(FourierConfig()) == [False]


def test_a_form_that_takes_too_long_is_left_out() -> None:
    lines: list[str] = []
    assert list(run_recall(AttentionConfig(), most_seconds=0, log=lines.append)) == []
    assert [line.partition(": would take ")[0] for line in lines] == ["attention, full", "attention, causal"]


@pytest.mark.slow
def test_attention_learns_it_and_no_mixing_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = train_recall(AttentionConfig(), length=32, causal=True, rate=1e-2, steps=150)
    metrics, _ = RecallData(32, 1).recalled(model)
    assert metrics["recall"] > 0.6
    monkeypatch.setattr(recall, "PAIRS_BY_LENGTH", {32: 4, CHOOSING: 8})
    lines: list[str] = []
    (found,) = run_recall(FourierConfig(), steps=2, log=lines.append)
    assert (found.form, found.state, [*found.recall]) == ("full", None, ["32", "64"])
    assert found.rate == float(max(found.validation, key=found.validation.__getitem__))
    assert len(lines) == 3 + 2
