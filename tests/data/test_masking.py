"""Which tokens are hidden: shares, whole words, and BERT's three kinds of replacement."""

from __future__ import annotations

import numpy as np
import pytest

from mixling.data.masking import choose_masked, replace_masked


def texts(seed: int, count: int = 400, length: int = 64) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    starts = rng.random((count, length)) < 0.6
    starts[:, 0] = True
    targets = rng.integers(0, 50, (count, length))
    targets[rng.random((count, length)) < 0.1] = -1
    return targets, starts


@pytest.mark.parametrize("whole_words", [False, True])
def test_the_fraction_is_kept_and_what_has_no_target_is_not_hidden(whole_words: bool) -> None:
    targets, starts = texts(0)
    hidden = choose_masked(targets, starts, fraction=0.15, whole_words=whole_words, rng=np.random.default_rng(1))
    assert not hidden[targets < 0].any()
    assert hidden.any(axis=1).all()
    assert hidden.sum() / (targets >= 0).sum() == pytest.approx(0.15, abs=0.006)
    if not whole_words:
        assert (hidden.sum(1) == np.round(0.15 * (targets >= 0).sum(1))).all()


def test_words_are_hidden_whole_and_all_alike() -> None:
    targets, starts = texts(0)
    words = np.cumsum(starts, axis=1)
    rng = np.random.default_rng(2)
    hits = np.zeros(targets.shape)
    for number in range(200):
        hidden = choose_masked(targets, starts, fraction=0.15, whole_words=True, rng=rng)
        hits += hidden
        for row in range(0, len(targets) * (number < 50), 40):
            for word in np.unique(words[row]):
                inside = (words[row] == word) & (targets[row] >= 0)
                assert hidden[row][inside].all() or not hidden[row][inside].any()
    # A token's chance depends neither on its place nor on the length of its word, to the noise of 200 draws.
    chances = hits / 200
    sizes = np.array([[(words[row] == words[row, i]).sum() for i in range(64)] for row in range(len(targets))])
    for size in (1, 2, 3):
        assert chances[(sizes == size) & (targets >= 0)].mean() == pytest.approx(0.15, abs=0.02)
    halves = [chances[:, part][targets[:, part] >= 0].mean() for part in (slice(0, 32), slice(32, 64))]
    assert halves[0] == pytest.approx(halves[1], abs=0.01)


def test_a_word_that_is_longer_than_the_fraction_is_hidden_all_the_same() -> None:
    targets = np.arange(8)[None]
    starts = np.zeros((1, 8), bool)
    starts[0, 0] = True
    hidden = choose_masked(targets, starts, fraction=0.15, whole_words=True, rng=np.random.default_rng(0))
    assert hidden.all()
    none = choose_masked(np.full((1, 8), -1), starts, fraction=0.15, whole_words=True, rng=np.random.default_rng(0))
    assert not none.any()


def test_eighty_ten_ten() -> None:
    rng = np.random.default_rng(3)
    tokens = rng.integers(100, 200, (500, 200)).astype(np.int32)
    hidden = rng.random(tokens.shape) < 0.3
    others = np.arange(1000, 1010)
    out = replace_masked(tokens, hidden, mask_row=3, others=others, masked=0.8, random=0.1, rng=rng)
    assert (out[~hidden] == tokens[~hidden]).all()
    fractions = [np.mean(out[hidden] == 3), np.isin(out[hidden], others).mean(), np.mean(out[hidden] == tokens[hidden])]
    assert fractions == pytest.approx([0.8, 0.1, 0.1], abs=0.01)
    drawn = np.bincount(out[np.isin(out, others)] - 1000)
    assert drawn.min() > 0.8 * drawn.mean()
