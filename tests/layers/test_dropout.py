"""Dropout on a CPU: how much, how evenly, and its gradients."""

from __future__ import annotations

import pytest
import torch

from mixling.layers.dropout import dropout


def test_nothing_is_dropped_outside_of_training() -> None:
    x = torch.ones(3)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0) is x


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.99999, 0.9999999])
def test_entries_are_kept_and_scaled_or_dropped_and_so_are_their_gradients(dtype: torch.dtype, fraction: float) -> None:
    torch.manual_seed(0)
    x = torch.randn(7, 5, 3, dtype=dtype, requires_grad=True)  # 105 entries, no multiple of 4
    out = dropout(x, fraction)
    assert out.dtype == dtype
    out.sum().backward()
    assert x.grad is not None
    factor = torch.tensor(65536 / max(65536 - round(fraction * 65536), 1), dtype=dtype)
    assert (out == 0).any()
    assert set(x.grad.unique().tolist()) <= {0.0, factor.item()}
    torch.testing.assert_close(out, x * x.grad)


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9])
def test_every_location_is_dropped_as_often_and_apart_from_its_neighbours(fraction: float) -> None:
    torch.manual_seed(1)
    dropped = (dropout(torch.ones(100_000, 8), fraction) == 0).double()  # eight places: two draws of 64 bits
    error = 5 * (fraction * (1 - fraction) / len(dropped)) ** 0.5
    torch.testing.assert_close(dropped.mean(0), torch.full((8,), fraction).double(), rtol=0, atol=error)
    correlation = torch.corrcoef(dropped.T) - torch.eye(8)
    assert correlation.abs().max() < 5 / len(dropped) ** 0.5


def test_the_seed_decides() -> None:
    def drawn(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return dropout(torch.ones(100), 0.3)

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))
