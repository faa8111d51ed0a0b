"""Remixing against the paper's equation in loops, and against the public port of its block."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from remixer_pytorch import RemixerBlock
from torch import Tensor, nn

from mixling import ConfigError
from mixling.mixers import Remixing, mixer_config

MAX_LEN, DIM = 6, 4
OPTIONS: dict[str, dict[str, Any]] = {
    "literal": {},
    "vector": {"alpha": "vector"},
    "gated": {"alpha": "gated"},
    "fixed": {"alpha": 0.3},
    "product": {"alpha": 1.0},
    "difference": {"alpha": 0.0},
    "not-compositional": {"compositional": False},
    "wide": {"inner_dim": 5},
    "wide-vector": {"inner_dim": 5, "alpha": "vector"},
    "narrow-gated": {"inner_dim": 3, "alpha": "gated"},
    "choose": {"choose": True},
    "wide-choose": {"inner_dim": 5, "choose": True, "alpha": "vector"},
    "same-width": {"inner_dim": DIM},
    "wide-not-compositional": {"inner_dim": 5, "compositional": False},
}
every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def built(*, spread: float = 1.0, **options: Any) -> Remixing:
    torch.manual_seed(0)
    mixer = Remixing(dim=DIM, max_len=MAX_LEN, **options).double().eval()
    for parameter in mixer.parameters():
        nn.init.normal_(parameter, std=spread)
    return mixer


def full(x: Tensor) -> Tensor:
    return torch.ones(x.shape[:2], dtype=torch.bool)


def gelu(value: float) -> float:
    return 0.5 * value * (1 + math.erf(value / math.sqrt(2)))


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def matvec(matrix: list[list[float]], vector: list[float]) -> list[float]:
    return [sum(weight * value for weight, value in zip(row, vector, strict=True)) for row in matrix]


def by_loops(
    mixer: Remixing, options: dict[str, Any], x: list[list[float]], real: list[bool], causal: bool
) -> list[list[float]]:
    """The equation for one text, token by token; rows at padding are left empty."""
    w1, w2, w3 = (linear.weight.tolist() for linear in (mixer.gate, mixer.value, mixer.out))
    h = mixer.scores.tolist()
    kind = options.get("alpha", "scalar")
    inner = [[gelu(g) * v for g, v in zip(matvec(w1, t), matvec(w2, t), strict=True)] for t in x]
    y: list[list[float]] = []
    for i in range(len(x)):
        if not real[i]:
            y.append([])
            continue
        seen = [j for j in range(len(x)) if real[j] and (j <= i or not causal)]
        total = sum(math.exp(h[i][j]) for j in seen)
        composed = []
        for e in range(len(w1)):
            mixed = sum(math.exp(h[i][j]) / total * inner[j][e] for j in seen)
            if not options.get("compositional", True):
                composed.append(mixed)
                continue
            if kind == "scalar":
                a = sigmoid(mixer.alpha.item())
            elif kind == "vector":
                a = sigmoid(mixer.alpha[e].item())
            elif kind == "gated":
                a = sigmoid(matvec(mixer.alpha.weight.tolist(), x[i])[e])
            else:
                a = kind
            whole = a * mixed * inner[i][e] + (1 - a) * (inner[i][e] - mixed)
            g = sigmoid(matvec(mixer.choice.weight.tolist(), x[i])[e]) if "choose" in options else 1.0
            composed.append(g * whole + (1 - g) * mixed)
        out = matvec(w3, composed)
        if "inner_dim" not in options:
            out = [value + rest for value, rest in zip(out, inner[i], strict=True)]
        y.append(out)
    return y


@every_option
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "real",
    [[True] * MAX_LEN, [True] * 4, [True, True, True, False, False], [False, True, True, False, True]],
    ids=["full", "short", "padded", "holes"],
)
def test_it_is_the_equation(options: dict[str, Any], causal: bool, real: list[bool]) -> None:
    mixer = built(causal=causal, **options)
    x, mask = torch.randn(2, len(real), DIM, dtype=torch.float64), torch.tensor(real)
    y = mixer(x, mask.expand(2, -1))
    for text, result in zip(x, y, strict=True):
        expected = by_loops(mixer, options, text.tolist(), real, causal)
        rows = torch.tensor([row for row in expected if row], dtype=torch.float64)
        torch.testing.assert_close(result[mask], rows, rtol=0, atol=1e-12)


def public(mixer: Remixing, *, causal: bool) -> RemixerBlock:
    """The port with our weights: the first half of its input projection is W2, the second W1."""
    block = RemixerBlock(DIM, MAX_LEN, causal=causal).double()
    weights = {
        "proj_in.weight": torch.cat([mixer.value.weight, mixer.gate.weight]),
        "mixer": mixer.scores,
        "alpha": mixer.alpha,
        "proj_out.weight": mixer.out.weight,
    }
    block.load_state_dict(weights)
    return block


@pytest.mark.parametrize("causal", [False, True])
def test_the_public_port_is_the_same_but_for_the_inner_residual(causal: bool) -> None:
    mixer = built(causal=causal)
    x = torch.randn(3, MAX_LEN, DIM, dtype=torch.float64)
    inner = nn.functional.gelu(mixer.gate(x)) * mixer.value(x)
    torch.testing.assert_close(mixer(x, full(x)), public(mixer, causal=causal)(x) + inner, rtol=0, atol=1e-12)


def test_the_matched_block_of_the_same_width_is_the_public_port() -> None:
    mixer = built(inner_dim=DIM)
    x = torch.randn(3, MAX_LEN, DIM, dtype=torch.float64)
    torch.testing.assert_close(mixer(x, full(x)), public(mixer, causal=False)(x), rtol=0, atol=1e-12)


def test_a_shorter_input_works_where_the_public_port_does_not() -> None:
    mixer = built()
    x = torch.randn(1, MAX_LEN - 2, DIM, dtype=torch.float64)
    with pytest.raises(RuntimeError):
        public(mixer, causal=False)(x)
    assert mixer(x, full(x)).isfinite().all()


@pytest.mark.parametrize("alpha", ["scalar", "vector", "gated"])
@pytest.mark.parametrize(("dim", "ffn_dim", "length"), [(8, 24, 12), (16, 40, 5)])
def test_each_replaced_feed_forward_adds_length_squared_and_alpha(
    alpha: str, dim: int, ffn_dim: int, length: int
) -> None:
    t5 = [nn.Linear(dim, ffn_dim, bias=False), nn.Linear(dim, ffn_dim, bias=False), nn.Linear(ffn_dim, dim, bias=False)]
    replaced = sum(parameter.numel() for layer in t5 for parameter in layer.parameters())
    of_alpha = {"scalar": 1, "vector": ffn_dim, "gated": dim * ffn_dim}[alpha]

    def count(**more: Any) -> int:
        mixer = mixer_config({"type": "remixing", "inner_dim": ffn_dim, **more}).build(dim, length)
        return sum(parameter.numel() for parameter in mixer.parameters())

    assert count(alpha=alpha) - replaced == length**2 + of_alpha
    assert count(alpha=0.5) - replaced == count(compositional=False) - replaced == length**2


def test_it_begins_as_the_mean_of_what_is_seen_and_half_of_each_composition() -> None:
    for alpha in ("scalar", "vector", "gated"):
        mixer = Remixing(dim=DIM, max_len=MAX_LEN, alpha=alpha).double()
        x = torch.randn(1, 5, DIM, dtype=torch.float64)
        mask = torch.tensor([[True, True, False, True, False]])
        inner = nn.functional.gelu(mixer.gate(x)) * mixer.value(x)
        mean = inner[mask].mean(dim=0)
        expected = mixer.out(0.5 * mean * inner + 0.5 * (inner - mean)) + inner
        torch.testing.assert_close(mixer(x, mask)[mask], expected[mask], rtol=0, atol=1e-12)


def test_what_begins_at_zero_does_not_stay_there() -> None:
    mixer = Remixing(dim=DIM, max_len=MAX_LEN, alpha="gated")
    x = torch.randn(2, MAX_LEN, DIM, generator=torch.Generator().manual_seed(1))
    (mixer(x, full(x)) ** 2).sum().backward()
    assert mixer.scores.grad is not None
    assert mixer.scores.grad.unique().numel() == MAX_LEN**2  # no two entries move together
    assert isinstance(mixer.alpha, nn.Linear)
    assert mixer.alpha.weight.grad is not None
    assert mixer.alpha.weight.grad.all()


def test_dropout_falls_on_the_weights_in_training_only() -> None:
    mixer = built(inner_dim=DIM, compositional=False, dropout=0.5)
    nn.init.zeros_(mixer.scores)
    nn.init.eye_(mixer.out.weight)
    x = torch.randn(1, 1, DIM, dtype=torch.float64).expand(64, MAX_LEN, DIM)
    inner = (nn.functional.gelu(mixer.gate(x)) * mixer.value(x))[0, 0]
    torch.testing.assert_close(mixer(x, full(x)), inner.expand(64, MAX_LEN, DIM), rtol=0, atol=1e-12)
    mixer.train()
    kept = mixer(x, full(x)) / inner * (MAX_LEN / 2)  # equal tokens: how many of the row's entries were kept
    torch.testing.assert_close(kept, kept[..., :1].round().expand_as(kept), rtol=0, atol=1e-9)
    counts = kept[..., 0].detach().round()
    assert counts.min() >= 0
    assert counts.max() <= MAX_LEN
    assert abs(float(counts.mean()) - MAX_LEN / 2) < 0.5
    assert (counts[0] != counts[1]).any()  # each text has its own


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_half_precision_with_large_scores_and_padding(dtype: torch.dtype, causal: bool) -> None:
    mixer = built(causal=causal, spread=0.3)
    nn.init.normal_(mixer.scores, std=100.0)  # what is masked has larger scores than what is not
    x = torch.randn(3, MAX_LEN, DIM, dtype=torch.float64).to(dtype)
    mask = torch.tensor([[True] * 6, [False, False, True, True, False, False], [False] * 6])
    x[~mask] = torch.finfo(dtype).max
    mixer = mixer.to(dtype)
    y = mixer(x, mask)
    assert y.isfinite().all()
    expected = mixer.double()(x.double(), mask)
    scale = float(expected[mask].detach().abs().max())
    torch.testing.assert_close(y[mask].double(), expected[mask], rtol=0, atol=0.05 * scale)


@pytest.mark.parametrize("alpha", ["scalar", "vector", "gated"])
def test_autocast_forward_and_steps(alpha: str) -> None:
    mixer = built(causal=True, alpha=alpha, spread=0.3).float()
    x = torch.randn(2, MAX_LEN, DIM)
    expected = mixer(x, full(x))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(mixer(x, full(x)).float(), expected, rtol=0, atol=0.05)
        state = mixer.start(x[:, 0])
        for now in range(MAX_LEN):
            y, state = mixer.step(x[:, now], state)
            torch.testing.assert_close(y.float(), expected[:, now], rtol=0, atol=0.05)


def test_a_state_can_be_stepped_from_twice_and_its_rows_picked() -> None:
    mixer = built(causal=True, alpha="gated")
    x = torch.randn(2, MAX_LEN, DIM, dtype=torch.float64)
    state = mixer.start(x[:, 0])
    for now in range(3):
        _, state = mixer.step(x[:, now], state)
    once, _ = mixer.step(x[:, 3], state)
    again, _ = mixer.step(x[:, 3].flip(0), {key: value.flip(0) for key, value in state.items()})
    torch.testing.assert_close(again.flip(0), once, rtol=0, atol=1e-12)
    assert state["new_inner"].shape == (2, 3, DIM)


def test_mistakes_in_the_configuration_are_named() -> None:
    for value in ("quantization", 1.5, float("nan"), True, [0.5]):
        with pytest.raises(ConfigError, match=r"alpha: got .*; it is scalar, vector, gated or a number from 0 to 1$"):
            mixer_config({"type": "remixing", "alpha": value})
    with pytest.raises(ConfigError, match="alpha = 'vector' has no use with compositional = false"):
        mixer_config({"type": "remixing", "alpha": "vector", "compositional": False})
