"""The token-mixing MLP against its equation in loops, and its truncation to the real length."""

from __future__ import annotations

import math

import pytest
import torch

from mixling.mixers.token_mlp import TokenMLP

MAX_LEN, DIM, HIDDEN = 9, 3, 5


def built() -> TokenMLP:
    torch.manual_seed(0)
    return TokenMLP(dim=DIM, max_len=MAX_LEN, hidden_dim=HIDDEN).double()


def gelu(value: float) -> float:
    return 0.5 * value * (1 + math.erf(value / math.sqrt(2)))


def by_loops(mixer: TokenMLP, x: list[list[float]]) -> list[list[float]]:
    """Y[i, c] = b2[i] + sum_h W2[i, h] gelu(b1[h] + sum_j W1[h, j] X[j, c]), for a text of `max_len` tokens."""
    w1, b1 = mixer.expand.weight.tolist(), mixer.expand.bias.tolist()
    w2, b2 = mixer.contract.weight.tolist(), mixer.contract.bias.tolist()
    y = [[0.0] * DIM for _ in range(MAX_LEN)]
    for c in range(DIM):
        hidden = [gelu(b1[h] + sum(w1[h][j] * x[j][c] for j in range(MAX_LEN))) for h in range(HIDDEN)]
        for i in range(MAX_LEN):
            y[i][c] = b2[i] + sum(w2[i][h] * hidden[h] for h in range(HIDDEN))
    return y


def test_a_full_text_is_the_equation() -> None:
    mixer, x = built(), torch.randn(2, MAX_LEN, DIM, dtype=torch.float64)
    y = mixer(x, torch.ones(2, MAX_LEN, dtype=torch.bool))
    expected = torch.tensor([by_loops(mixer, item.tolist()) for item in x], dtype=torch.float64)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", range(1, MAX_LEN + 1))
@pytest.mark.parametrize("padding", [0, 2])
def test_a_short_text_is_the_equation_on_its_zero_padded_form(length: int, padding: int) -> None:
    mixer, x = built(), torch.randn(1, length, DIM, dtype=torch.float64)
    full = torch.zeros(MAX_LEN, DIM, dtype=torch.float64)
    full[:length] = x[0]
    expected = torch.tensor(by_loops(mixer, full.tolist()), dtype=torch.float64)[:length]
    width = min(length + padding, MAX_LEN)
    shown = torch.full((1, width, DIM), 9.0, dtype=torch.float64)
    shown[:, :length] = x
    mask = torch.arange(width)[None] < length
    torch.testing.assert_close(mixer(shown, mask)[0, :length], expected, rtol=0, atol=1e-12)


def test_there_is_one_weight_matrix_for_all_channels() -> None:
    shapes = {name: tuple(value.shape) for name, value in built().named_parameters()}
    assert shapes == {
        "expand.weight": (HIDDEN, MAX_LEN),
        "expand.bias": (HIDDEN,),
        "contract.weight": (MAX_LEN, HIDDEN),
        "contract.bias": (MAX_LEN,),
    }
