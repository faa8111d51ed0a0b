"""Gated linear attention against its equation in loops, and against the numbers of flash-linear-attention."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mixling import ConfigError
from mixling.mixers import GatedLinearAttention, GatedLinearAttentionConfig
from mixling.mixers.gated_linear_attention import GATED_CHUNK, gated_scan

DIM, HEADS = 8, 2
GOLDEN = [
    [
        [0.560414, 0.147453, -0.377097, -0.616268],
        [0.962024, 1.570018, 0.989853, -0.339413],
        [-0.076524, -1.51205, -1.803287, -0.729832],
    ],
    [
        [-0.058043, -0.320698, -0.340655, -0.102811],
        [2.630007, 1.478065, -0.792446, -2.46325],
        [-1.947723, -0.908655, 0.818065, 1.92569],
    ],
]


def built(*, causal: bool = False, temperature: float = 2.0) -> GatedLinearAttention:
    torch.manual_seed(0)
    mixer = GatedLinearAttention(dim=DIM, num_heads=HEADS, gate_rank=3, temperature=temperature, causal=causal).double()
    for parameter in mixer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return mixer


def by_loops(mixer: GatedLinearAttention, x: Tensor) -> Tensor:
    """Token i reads each token j by q_i . (k_j * the gates between them), from either side in the full form."""
    q, k, v = mixer.query(x), mixer.key(x), mixer.value(x)
    a = mixer.gate_up(mixer.gate_down(x)).sigmoid() ** (1 / mixer.temperature)
    keys, values = DIM // 2 // HEADS, DIM // HEADS
    read = torch.zeros(len(x), DIM, dtype=x.dtype)
    for head in range(HEADS):
        of_keys, of_values = slice(head * keys, (head + 1) * keys), slice(head * values, (head + 1) * values)
        for i in range(len(x)):
            for j in range(i + 1 if mixer.causal else len(x)):
                passed = a[j + 1 : i + 1] if j <= i else a[i:j]
                kept = k[j, of_keys] * passed[:, of_keys].prod(0)
                read[i, of_values] += float(q[i, of_keys] @ kept) / math.sqrt(keys) * v[j, of_values]
        part = read[:, of_values]
        read[:, of_values] = part / (part.square().mean(-1, keepdim=True) + 1e-6).sqrt() * mixer.norm.weight
    y: Tensor = mixer.out(F.silu(mixer.swish(x)) * read)
    return y


@torch.no_grad()
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 5, GATED_CHUNK, GATED_CHUNK + 1, 3 * GATED_CHUNK + 2])
def test_it_is_the_equation(length: int, causal: bool) -> None:
    mixer = built(causal=causal)
    x = torch.randn(2, length, DIM, dtype=torch.float64)
    expected = torch.stack([by_loops(mixer, text) for text in x])
    torch.testing.assert_close(mixer(x), expected, rtol=0, atol=1e-9)


def wave(width: int, phase: float) -> Tensor:
    """(1, heads, tokens, width)."""
    t, h, c = (torch.arange(size, dtype=torch.float64) for size in (40, 2, width))
    return (0.7 * t[None, :, None] + 1.3 * h[:, None, None] + 0.9 * c + phase).sin()[None]


def test_the_recurrence_is_that_of_flash_linear_attention() -> None:
    """Numbers that naive_recurrent_gla of fla-core 0.6.0 printed for these inputs, at tokens 0, 17 and 39."""
    query, keys, values, gates = wave(3, 0.0), wave(3, 1.0), wave(4, 2.0), -0.3 * (1 + wave(3, 3.0))
    read = gated_scan(query / math.sqrt(3), keys, values, gates, chunk=GATED_CHUNK, longest=40)
    expected = torch.tensor(GOLDEN, dtype=torch.float64)
    torch.testing.assert_close(read[0][:, [0, 17, 39]], expected, rtol=0, atol=2e-6)


def test_gates_at_their_limits_stay_finite_in_single_precision() -> None:
    mixer = built().float()
    with torch.no_grad():
        mixer.gate_up.bias.fill_(-1e4)
    x = torch.randn(1, 100, DIM, requires_grad=True)
    y = mixer(x)
    y.sum().backward()
    assert y.isfinite().all()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_the_state_does_not_grow() -> None:
    mixer = built(causal=True)
    state = mixer.start(torch.zeros(3, DIM, dtype=torch.float64))
    for _ in range(3):
        _, state = mixer.step(torch.randn(3, DIM, dtype=torch.float64), state)
        assert {key: tuple(value.shape) for key, value in state.items()} == {"own": (3, HEADS, 2, 4)}


def test_heads_must_divide_half_of_the_width() -> None:
    with pytest.raises(ConfigError, match="width 12 is not a multiple of num_heads 8; change one of them"):
        GatedLinearAttentionConfig(num_heads=4).build(12, 8)
