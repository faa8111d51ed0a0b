"""The bag of words against its equation in loops."""

from __future__ import annotations

import pytest
import torch

from mixling.mixers import Pooling
from mixling.mixers.pooling import PoolingKind

DIM = 3
both = pytest.mark.parametrize("pooling", ["mean", "max"])


def summary(rows: list[list[float]], pooling: PoolingKind) -> list[float]:
    columns = list(zip(*rows, strict=True))
    return [max(column) if pooling == "max" else sum(column) / len(column) for column in columns]


@both
@pytest.mark.parametrize("causal", [False, True])
def test_each_token_gets_the_summary_of_the_real_ones(pooling: PoolingKind, causal: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 7, DIM, dtype=torch.float64) - 5.0  # negative: no zero of padding may win the maximum
    mask = torch.tensor([[True] * 7, [False, True, True, False, True, False, False]])  # gaps are padding too
    y = Pooling(dim=DIM, pooling=pooling, causal=causal)(x, mask)
    for text, real, rows in zip(x.tolist(), mask.tolist(), y, strict=True):
        for i in range(7):
            seen = [row for j, row in enumerate(text) if real[j] and (j <= i or not causal)]
            expected = torch.tensor(summary(seen, pooling) if seen else [0.0] * DIM, dtype=torch.float64)
            torch.testing.assert_close(rows[i], expected, rtol=0, atol=1e-12)


@both
def test_a_text_of_padding_only_has_a_summary_of_zeros(pooling: PoolingKind) -> None:
    x, mask = torch.randn(1, 4, DIM), torch.zeros(1, 4, dtype=torch.bool)
    for causal in (False, True):
        assert not Pooling(dim=DIM, pooling=pooling, causal=causal)(x, mask).any()


@both
def test_the_last_causal_position_is_that_of_the_full_form(pooling: PoolingKind) -> None:
    x, mask = torch.randn(2, 6, DIM, dtype=torch.float64), torch.ones(2, 6, dtype=torch.bool)
    full, causal = Pooling(dim=DIM, pooling=pooling, causal=False), Pooling(dim=DIM, pooling=pooling, causal=True)
    torch.testing.assert_close(causal(x, mask)[:, -1], full(x, mask)[:, -1], rtol=0, atol=1e-12)


def test_the_state_does_not_grow() -> None:
    x = torch.randn(2, DIM)
    for pooling, shapes in (("mean", {"sum": (2, DIM), "count": (2,)}), ("max", {"max": (2, DIM)})):
        mixer = Pooling(dim=DIM, pooling=pooling, causal=True)
        state = mixer.start(x)
        for _ in range(5):
            _, state = mixer.step(x, state)
        assert {key: tuple(value.shape) for key, value in state.items()} == shapes


@pytest.mark.parametrize("causal", [False, True])
def test_sums_above_float16s_largest_number_stay_exact(causal: bool) -> None:
    x, mask = torch.full((1, 3000, 1), 40.0).half(), torch.ones(1, 3000, dtype=torch.bool)  # they sum to 120,000
    mixer = Pooling(dim=1, pooling="mean", causal=causal)
    assert (mixer(x, mask) == 40.0).all()
    if causal:
        state = mixer.start(x[:, 0])
        for now in range(3000):
            y, state = mixer.step(x[:, now], state)
        assert (y == 40.0).all()
