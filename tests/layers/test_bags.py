"""Sums of rows and their gradients, beside loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mixling.layers.bags import sum_bags


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("bags", "size"), [(5, 4), (1, 1), (0, 3)])
def test_sums_and_gradients_equal_loops(bags: int, size: int, weighted: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(7, 3, generator=generator, requires_grad=True)
    positions = torch.randint(0, 6, (bags, size), generator=generator, dtype=torch.int32)  # some rows several times
    factors = torch.randn(bags, size, generator=generator) if weighted else None
    grad = torch.randn(bags, 3, generator=generator)
    expected, expected_grad = np.zeros((bags, 3)), np.zeros((7, 3))
    for bag, row in enumerate(positions.tolist()):
        for number, position in enumerate(row):
            factor = 1.0 if factors is None else float(factors[bag, number])
            expected[bag] += factor * weight[position].detach().numpy()
            expected_grad[position] += factor * grad[bag].numpy()
    sums = sum_bags(positions, weight, factors)
    sums.backward(grad)
    np.testing.assert_allclose(sums.detach().numpy(), expected, atol=1e-5)
    assert weight.grad is not None
    np.testing.assert_allclose(weight.grad.numpy(), expected_grad, atol=1e-5)


def test_without_gradients_and_in_other_precisions_the_sums_are_the_same() -> None:
    weight = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))
    positions = torch.tensor([[0, 1, 1], [6, 6, 2]], dtype=torch.int32)
    sums = sum_bags(positions, weight, None)
    double = sum_bags(positions, weight.double().requires_grad_(), None)
    np.testing.assert_allclose(sums.numpy(), weight[positions.long()].sum(1).numpy(), atol=1e-6)
    np.testing.assert_allclose(sums.numpy(), double.detach().numpy(), atol=1e-6)
