"""The schedule and the optimizer against their formulas."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from mixling import ConfigError, TrainConfig
from mixling.config import parse
from mixling.research.seq2seq import build_encoder_decoder, seq2seq_config
from mixling.training import OptimConfig, learning_rate
from mixling.training.backends import build_optimizer

Floats = npt.NDArray[np.float64]


@pytest.mark.parametrize("warmup", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("total", [1, 2, 7, 200])
def test_warm_up_is_linear_and_the_rest_half_a_cosine(warmup: float, total: int) -> None:
    config = OptimConfig(lr=0.3, warmup=warmup)
    rising = max(1, round(warmup * total))
    for step in range(total):
        rate = learning_rate(config, step, total)
        if step < rising:
            assert rate == pytest.approx(0.3 * (step + 1) / rising)
        else:
            angle = math.pi * (step - rising) / (total - rising)
            assert rate == pytest.approx(0.3 * math.cos(angle / 2) ** 2)
    assert max(learning_rate(config, step, total) for step in range(total)) == pytest.approx(0.3)


@pytest.mark.parametrize("warmup", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("total", [1, 2, 7, 200])
def test_linear_decay_is_a_line_from_the_warm_up_to_zero(warmup: float, total: int) -> None:
    config = OptimConfig(lr=0.3, warmup=warmup, schedule="linear")
    rising = max(1, round(warmup * total))
    for step in range(total):
        # Between (0, 0) and (rising, lr), and between (rising, lr) and (total, 0).
        rate = 0.3 * (step + 1) / rising if step < rising else np.interp(step, [rising, total], [0.3, 0])
        assert learning_rate(config, step, total) == pytest.approx(rate)
    rates = [learning_rate(config, step, total) for step in range(rising, total)]
    assert np.diff(rates) == pytest.approx(-0.3 / max(1, total - rising)), "equal falls"


@pytest.mark.parametrize("warmup", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("total", [1, 2, 7, 200])
def test_a_constant_rate_and_one_that_falls_with_the_root_of_the_step(warmup: float, total: int) -> None:
    rising = max(1, round(warmup * total))
    constant = OptimConfig(lr=0.3, warmup=warmup, schedule="constant")
    falling = OptimConfig(lr=0.3, warmup=warmup, schedule="inverse_sqrt")
    for step in range(1, total + 1):  # as papers count
        assert learning_rate(constant, step - 1, total) == pytest.approx(0.3 * min(1, step / rising))
        # Attention Is All You Need, equation 3, whose scale is such that the warm-up ends at lr.
        wanted = 0.3 * rising**0.5 * min(step**-0.5, step * rising**-1.5)
        assert learning_rate(falling, step - 1, total) == pytest.approx(wanted)


@pytest.mark.parametrize("name", ["adamw", "adafactor"])
def test_only_matrices_decay(name: Literal["adamw", "adafactor"]) -> None:
    """With no gradient nothing is done but decay: w <- w (1 - lr * weight_decay)."""
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimizer = build_optimizer(model, OptimConfig(name=name, lr=0.1, weight_decay=0.5))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name_, value in model.named_parameters():
        torch.testing.assert_close(value.detach(), before[name_] * (0.95 if name_ == "0.weight" else 1.0))


def adafactor_of_the_paper(parameter: Floats, gradients: list[Floats], lr: float) -> Floats:
    """Algorithms 4 (matrices) and 5 (vectors) with the proposed hyperparameters, lr in place of 1e-2; no decay."""
    x, row, column, square = parameter.copy(), {}, {}, {}  # the averages, by their indices
    for t, gradient in enumerate(gradients, 1):
        beta = 1 - t**-0.8
        size = math.sqrt(sum(value**2 for value in x.flat) / x.size)
        alpha = max(1e-3, size) * min(lr, 1 / math.sqrt(t))
        update = np.zeros_like(x)
        if x.ndim == 1:
            for i in range(len(x)):
                square[i] = beta * square.get(i, 0) + (1 - beta) * (gradient[i] ** 2 + 1e-30)
                update[i] = gradient[i] / math.sqrt(square[i])
        else:
            for i in range(len(x)):
                total = sum(value**2 + 1e-30 for value in gradient[i])
                row[i] = beta * row.get(i, 0) + (1 - beta) * total
            for j in range(x.shape[1]):
                total = sum(value**2 + 1e-30 for value in gradient[:, j])
                column[j] = beta * column.get(j, 0) + (1 - beta) * total
            for i, j in np.ndindex(*x.shape):
                update[i, j] = gradient[i, j] / math.sqrt(row[i] * column[j] / sum(row.values()))
        size = math.sqrt(sum(value**2 for value in update.flat) / x.size)
        x -= alpha * update / max(1, size)
    return x


# Gradients as large as they come; as small as those of a large model are, clipped; and with a row that has none, as
# those of a word table do.
GRADIENTS = {"large": 1.0, "small": 1e-5, "none for a row": 1.0}


@pytest.mark.parametrize("lr", [0.02, 0.9])  # the second is over 1 / sqrt(t) from the second step on
@pytest.mark.parametrize("shape", [(5,), (3, 4), (1, 4), (4, 1), (1,)])
@pytest.mark.parametrize("kind", GRADIENTS)
def test_adafactor_is_that_of_the_paper(kind: str, shape: tuple[int, ...], lr: float) -> None:
    rng = np.random.default_rng(0)
    start = rng.normal(size=shape)
    gradients = [GRADIENTS[kind] * rng.normal(size=shape) * rng.exponential() for _ in range(6)]
    if kind == "none for a row":
        for gradient in gradients:
            gradient[0] = 0
    model = nn.ParameterList([nn.Parameter(torch.tensor(start, dtype=torch.float32))])
    config = OptimConfig(name="adafactor", lr=lr, weight_decay=0)
    optimizer = build_optimizer(model, config)
    for gradient in gradients:
        model[0].grad = torch.tensor(gradient, dtype=torch.float32)
        optimizer.step()
    wanted = adafactor_of_the_paper(start, gradients, lr)
    np.testing.assert_allclose(model[0].detach().numpy(), wanted, rtol=1e-4, atol=1e-6)


def test_t5_s_rate_of_pretraining_is_adafactor_s_constant_one() -> None:
    """1 / sqrt(max(t, 10^4)): where all numbers are equal, a step moves them by that share of themselves."""
    config = OptimConfig(name="adafactor", lr=0.01, schedule="constant", warmup=0, weight_decay=0)
    model = nn.ParameterList([nn.Parameter(torch.full((2, 2), 2.0, dtype=torch.float64))])
    optimizer = build_optimizer(model, config)
    for step in (1, 100, 10_000, 40_000, 1_000_000):
        model[0].grad = torch.ones(2, 2, dtype=torch.float64)
        before = model[0].detach().clone()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, step - 1, 1_000_000)
        optimizer.state[model[0]].get("step", torch.zeros(())).fill_(step - 1)
        optimizer.step()
        wanted = before * (1 - 1 / math.sqrt(max(step, 10_000)))
        torch.testing.assert_close(model[0].detach(), wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("values", "reported"),
    [
        ({"optim": {"name": "adafactor", "beta1": 0.8}}, r"optim: beta1 = 0.8 needs AdamW; leave it out, or set name"),
        ({"optim": {"name": "adafactor", "beta2": 0.99}}, "optim: beta2 = 0.99 needs AdamW"),
        ({"optim": {"name": "adafacter"}}, "optim.name: got 'adafacter'; .*\"adafactor\""),
    ],
)
def test_what_has_no_use_or_does_not_go_together_is_refused(values: dict[str, Any], reported: str) -> None:
    with pytest.raises(ConfigError, match=reported):
        parse(TrainConfig, values, where="test")


def test_what_a_configuration_was_saved_as_is_read() -> None:
    config = OptimConfig(name="adafactor", schedule="inverse_sqrt")
    assert parse(OptimConfig, config.to_dict(), where="test") == config


def test_parameters_that_are_not_trained_are_left_out() -> None:
    model = nn.Linear(3, 4)
    model.weight.requires_grad_(False)
    groups = build_optimizer(model, OptimConfig()).param_groups
    assert [parameter for group in groups for parameter in group["params"]] == [model.bias]


def test_the_table_of_an_encoder_decoder_has_a_rate_of_its_own() -> None:
    model = build_encoder_decoder(seq2seq_config("t5-2m"), vocab_size=7)
    groups = build_optimizer(model, OptimConfig(embedding_lr=0.0)).param_groups
    assert [parameter is model.table.weight for parameter in groups[0]["params"]] == [True]
    assert [group["fraction"] for group in groups] == [0.0, 1.0, 1.0]
    assert not any(parameter is model.table.weight for group in groups[1:] for parameter in group["params"])


@pytest.fixture(scope="module")
def weights_without_the_compiler() -> dict[str, list[list[float]]]:
    """The weights after two steps, by optimizer, in a process that must not import torch's compiler."""
    code = """
import json, sys, torch
from mixling.training import OptimConfig
from mixling.training.backends import build_optimizer
weights = {}
for name in ("adamw", "adafactor"):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = build_optimizer(model, OptimConfig(name=name, weight_decay=0.01))
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    for _ in range(2):
        model(torch.ones(4, 3)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
    assert "torch._dynamo" not in sys.modules
    weights[name] = model.weight.tolist()
print(json.dumps(weights))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    weights: dict[str, list[list[float]]] = json.loads(done.stdout)
    return weights


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adamw", "adafactor"])
def test_training_does_not_import_the_compiler_and_steps_as_torch_does(
    name: str, weights_without_the_compiler: dict[str, list[list[float]]]
) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    groups = [{"params": [model.weight], "weight_decay": 0.01}, {"params": [model.bias], "weight_decay": 0.0}]
    plain: torch.optim.Optimizer
    if name == "adamw":
        plain = torch.optim.AdamW(groups, lr=0.01, fused=True)
    else:
        plain = torch.optim.Adafactor(groups, lr=0.01, eps=(1e-15, 1e-3), foreach=False)
    for _ in range(2):
        model(torch.ones(4, 3)).square().sum().backward()
        plain.step()
        plain.zero_grad()
    assert weights_without_the_compiler[name] == model.weight.tolist()
