"""The schedule and the optimiser against their formulas."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
import torch
from torch import nn

from mixling.training.optim import OptimConfig, build_optimizer, learning_rate


@pytest.mark.parametrize("warmup", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("final", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("total", [1, 2, 7, 200])
def test_warm_up_is_linear_and_the_rest_half_a_cosine(warmup: float, final: float, total: int) -> None:
    config = OptimConfig(lr=0.3, warmup=warmup, final_lr=final)
    rising = max(1, round(warmup * total))
    for step in range(total):
        rate = learning_rate(config, step, total)
        if step < rising:
            assert rate == pytest.approx(0.3 * (step + 1) / rising)
        else:
            angle = math.pi * (step - rising) / (total - rising)
            assert rate == pytest.approx(0.3 * final + 0.3 * (1 - final) * math.cos(angle / 2) ** 2)
    assert max(learning_rate(config, step, total) for step in range(total)) == pytest.approx(0.3)


@pytest.mark.parametrize("warmup", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("final", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("total", [1, 2, 7, 200])
def test_linear_decay_is_a_line_from_the_warm_up_to_the_last_value(warmup: float, final: float, total: int) -> None:
    config = OptimConfig(lr=0.3, warmup=warmup, final_lr=final, schedule="linear")
    rising = max(1, round(warmup * total))
    for step in range(total):
        # Between (0, 0) and (rising, lr), and between (rising, lr) and (total, final).
        rate = 0.3 * (step + 1) / rising if step < rising else np.interp(step, [rising, total], [0.3, 0.3 * final])
        assert learning_rate(config, step, total) == pytest.approx(rate)
    rates = [learning_rate(config, step, total) for step in range(rising, total)]
    assert np.diff(rates) == pytest.approx(-0.3 * (1 - final) / max(1, total - rising)), "equal falls"


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_the_rate_ends_near_its_last_value(schedule: Literal["cosine", "linear"]) -> None:
    config = OptimConfig(lr=1.0, final_lr=0.25, schedule=schedule)
    assert learning_rate(config, 9_999, 10_000) == pytest.approx(0.25, abs=1e-4)


def test_only_matrices_decay() -> None:
    """With no gradient AdamW does nothing but decay: w <- w (1 - lr * weight_decay)."""
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimizer = build_optimizer(model, OptimConfig(lr=0.1, weight_decay=0.5))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, value in model.named_parameters():
        torch.testing.assert_close(value.detach(), before[name] * (0.95 if name == "0.weight" else 1.0))


def test_parameters_that_are_not_trained_are_left_out() -> None:
    model = nn.Linear(3, 4)
    model.weight.requires_grad_(False)
    groups = build_optimizer(model, OptimConfig()).param_groups
    assert [parameter for group in groups for parameter in group["params"]] == [model.bias]
