"""Spatial gating against its equation in loops, against g-mlp-pytorch, and against the errors that others have."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from g_mlp_pytorch.g_mlp_pytorch import gMLPBlock
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from mixling import ConfigError
from mixling.layers import FFT_FROM, positions, toeplitz, toeplitz_product
from mixling.mixers import SpatialGating, SpatialGatingConfig

DIM, MAX_LEN, FFN_DIM = 3, 7, 4
EXACT = {"rtol": 0.0, "atol": 1e-12}
Rows = list[list[float]]


def built(*, causal: bool = False, random: bool = True, dim: int = DIM, max_len: int = MAX_LEN, **options: Any) -> Any:
    torch.manual_seed(0)
    mixer = SpatialGatingConfig(**{"ffn_dim": FFN_DIM, **options}).build(dim, max_len, causal=causal).double().eval()
    if random:
        for parameter in mixer.parameters():
            nn.init.normal_(parameter, std=0.5)
    return mixer


def every(length: int, batch: int = 1) -> Tensor:
    return torch.ones(batch, length, dtype=torch.bool)


def tokens(length: int, batch: int = 1, dim: int = DIM) -> Tensor:
    return torch.randn(batch, length, dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def linear(layer: nn.Linear, row: list[float]) -> list[float]:
    weight, bias = layer.weight.tolist(), layer.bias.tolist()
    return [bias[o] + sum(weight[o][i] * row[i] for i in range(len(row))) for o in range(len(bias))]


def gelu(value: float) -> float:
    return 0.5 * value * (1 + math.erf(value / math.sqrt(2)))


def layer_norm(norm: nn.LayerNorm, row: list[float]) -> list[float]:
    mean = sum(row) / len(row)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in row) / len(row) + 1e-5)
    return [
        (v - mean) / deviation * a + b for v, a, b in zip(row, norm.weight.tolist(), norm.bias.tolist(), strict=True)
    ]


def tiny_attention(mixer: SpatialGating, x: Rows, causal: bool) -> Rows:
    assert mixer.attention is not None
    rows = [linear(mixer.attention.qkv, row) for row in x]
    inner = len(rows[0]) // 3
    out = []
    for i, row in enumerate(rows):
        seen = range(i + 1) if causal else range(len(x))
        scores = [sum(row[a] * rows[j][inner + a] for a in range(inner)) / math.sqrt(inner) for j in seen]
        weights = [math.exp(score) / sum(math.exp(other) for other in scores) for score in scores]
        mixed = [sum(weights[j] * rows[j][2 * inner + a] for j in seen) for a in range(inner)]
        out.append(linear(mixer.attention.out, mixed))
    return out


def by_loops(mixer: SpatialGating, x: Rows, *, variant: str, weights: str, causal: bool) -> Rows:
    """Y = V s(gelu(U x)), token by token and channel by channel, for a text without padding."""
    n, w, b = mixer.max_len, mixer.weight.tolist(), mixer.bias.tolist()
    z = [[gelu(value) for value in linear(mixer.expand, row)] for row in x]
    z1, z2 = z, z
    if variant == "split":
        half = len(z[0]) // 2
        z1, z2 = [row[:half] for row in z], [row[half:] for row in z]
    normed = [layer_norm(mixer.norm, row) for row in z2]
    attended = None if mixer.attention is None else tiny_attention(mixer, x, causal)
    y = []
    for i in range(len(x)):
        row = []
        for c in range(len(normed[0])):
            f = b[i]
            for j in range(i + 1 if causal else len(x)):
                f += (w[i][j] if weights == "dense" else w[n - 1 + j - i]) * normed[j][c]
            if attended is not None:
                f += attended[i][c]
            row.append({"linear": f, "additive": z1[i][c] + f}.get(variant, z1[i][c] * f))
        y.append(linear(mixer.contract, row))
    return y


@pytest.mark.parametrize("length", [1, 4, MAX_LEN])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tiny_attention_dim", [None, 2])
@pytest.mark.parametrize("weights", ["toeplitz", "dense"])
@pytest.mark.parametrize("variant", ["split", "multiplicative", "additive", "linear"])
def test_it_is_the_equation(
    variant: str, weights: str, tiny_attention_dim: int | None, causal: bool, length: int
) -> None:
    mixer = built(variant=variant, weights=weights, tiny_attention_dim=tiny_attention_dim, causal=causal)
    x = tokens(length, 2)
    expected = [by_loops(mixer, item, variant=variant, weights=weights, causal=causal) for item in x.tolist()]
    y = mixer(x, every(length, 2))
    torch.testing.assert_close(y, torch.tensor(expected, dtype=torch.float64), **EXACT)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tiny_attention_dim", [None, 4])
def test_it_is_the_block_of_g_mlp_pytorch(tiny_attention_dim: int | None, causal: bool) -> None:
    """The greatest difference is below 1e-12 in float64; that package's qkv has no bias, so ours is zero."""
    torch.manual_seed(0)
    other = gMLPBlock(dim=6, dim_ff=10, seq_len=9, attn_dim=tiny_attention_dim, causal=causal).double()
    for parameter in other.parameters():
        nn.init.normal_(parameter, std=0.5)
    mixer = built(dim=6, max_len=9, ffn_dim=10, weights="dense", tiny_attention_dim=tiny_attention_dim, causal=causal)
    mixer.expand.load_state_dict(other.proj_in[0].state_dict())
    mixer.contract.load_state_dict(other.proj_out.state_dict())
    mixer.norm.load_state_dict(other.sgu.norm.state_dict())
    with torch.no_grad():
        mixer.weight.copy_(other.sgu.weight[0])
        mixer.bias.copy_(other.sgu.bias[0])
        if tiny_attention_dim is not None:
            mixer.attention.qkv.weight.copy_(other.attn.to_qkv.weight)
            mixer.attention.qkv.bias.zero_()
            mixer.attention.out.load_state_dict(other.attn.to_out.state_dict())
    x = tokens(9, 3, 6)
    torch.testing.assert_close(mixer(x, every(9, 3)), other(x), **EXACT)


# By hand: LN of the block 1,024; U 1,575,936; LN(1536) 3,072; w 255 or 1,023; b 128 or 512; V 786,944.
@pytest.mark.parametrize(
    ("max_len", "options", "parameters"),
    [
        (128, {}, 2_367_359),
        (512, {}, 2_368_511),
        (128, {"tiny_attention_dim": 64}, 2_367_359 + 198_336),
        (128, {"weights": "dense"}, 2_367_359 - 255 + 128 * 128),
        (128, {"variant": "multiplicative", "ffn_dim": 2048}, 1024 + 1_050_624 + 4096 + 255 + 128 + 1_049_088),
    ],
)
def test_the_parameters_of_a_block_of_the_paper(max_len: int, options: dict[str, Any], parameters: int) -> None:
    with torch.device("meta"):
        block = nn.ModuleList([nn.LayerNorm(512), SpatialGatingConfig(**options).build(512, max_len)])
    assert sum(parameter.numel() for parameter in block.parameters()) == parameters


@pytest.mark.parametrize("weights", ["toeplitz", "dense"])
@pytest.mark.parametrize("causal", [False, True])
def test_it_starts_as_the_identity_on_the_first_half(weights: str, causal: bool) -> None:
    """Others start the spatial weights far from zero, and training is unstable."""
    mixer = built(max_len=50, ffn_dim=64, weights=weights, causal=causal, random=False)
    assert mixer.weight.abs().max() <= 1e-3 / 50
    assert mixer.weight.std() > 0.5 * (1e-3 / 50) / math.sqrt(3)
    assert (mixer.bias == 1).all()
    x = tokens(50, 2)
    z1, _ = torch.nn.functional.gelu(mixer.expand(x)).chunk(2, dim=-1)
    torch.testing.assert_close(mixer(x, every(50, 2)), mixer.contract(z1), rtol=0.0, atol=2e-3)


@pytest.mark.parametrize(("weights", "causal"), list(itertools.product(["toeplitz", "dense"], [False, True])))
def test_toeplitz_weights_are_triangular_only_if_causal(weights: str, causal: bool) -> None:
    mixer = built(variant="linear", weights=weights, causal=causal)
    x = tokens(6).requires_grad_()
    y = mixer(x, every(6))[0]
    reached = torch.stack([torch.autograd.grad(row.sum(), x, retain_graph=True)[0][0].abs().sum(-1) for row in y])
    expected = torch.ones(6, 6).tril() if causal else torch.ones(6, 6)
    assert torch.equal((reached > 0).float(), expected)


def test_the_weight_depends_on_the_distance_only() -> None:
    weight = toeplitz(torch.arange(9.0), 5)
    assert weight.tolist() == [[4.0 + j - i for j in range(5)] for i in range(5)]


@pytest.mark.parametrize("weights", ["toeplitz", "dense"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tiny_attention_dim", [None, 2])
def test_a_longer_subword_gives_the_same_for_short_inputs(
    weights: str, causal: bool, tiny_attention_dim: int | None
) -> None:
    options = {"weights": weights, "tiny_attention_dim": tiny_attention_dim, "causal": causal}
    mixer, long = built(**options), built(**options)
    long.resize(MAX_LEN + 4)
    fresh = built(max_len=MAX_LEN + 4, **options)
    assert {k: v.shape for k, v in long.state_dict().items()} == {k: v.shape for k, v in fresh.state_dict().items()}
    for length in (1, 5, MAX_LEN):
        x = tokens(length)
        torch.testing.assert_close(long(x, every(length)), mixer(x, every(length)), **EXACT)
    x = tokens(MAX_LEN + 4)
    expected = by_loops(long, x[0].tolist(), variant="split", weights=weights, causal=causal)
    torch.testing.assert_close(long(x, every(MAX_LEN + 4))[0], torch.tensor(expected, dtype=x.dtype), **EXACT)
    assert (long.bias[MAX_LEN:] == 1).all()
    with pytest.raises(ConfigError, match=f"got {MAX_LEN + 5} tokens, built for at most {MAX_LEN + 4}"):
        long(tokens(MAX_LEN + 5), every(MAX_LEN + 5))


def test_frozen_weights_stay_frozen_and_shorter_is_refused() -> None:
    mixer = built().requires_grad_(False)
    mixer.resize(MAX_LEN + 1)
    assert not any(parameter.requires_grad for parameter in mixer.parameters())
    with pytest.raises(ConfigError, match=f"from {MAX_LEN + 1} tokens to {MAX_LEN}"):
        mixer.resize(MAX_LEN)


@pytest.mark.parametrize("weights", ["toeplitz", "dense"])
@pytest.mark.parametrize("tiny_attention_dim", [None, 2])
def test_the_papers_form_mixes_padding_in(weights: str, tiny_attention_dim: int | None) -> None:
    options = {"weights": weights, "tiny_attention_dim": tiny_attention_dim}
    masked, paper = built(**options), built(mask_padding=False, **options)
    x, mask = tokens(5), torch.tensor([[True, True, True, False, False]])
    torch.testing.assert_close(paper(x, mask), paper(x, every(5)), rtol=0.0, atol=0.0)
    torch.testing.assert_close(paper(x, every(5)), masked(x, every(5)), rtol=0.0, atol=0.0)
    assert not torch.allclose(paper(x, mask)[mask], masked(x, mask)[mask])
    torch.testing.assert_close(masked(x, mask)[:, :3], masked(x[:, :3], every(3)), **EXACT)


def test_not_even_infinity_in_padding_reaches_real_tokens() -> None:
    mixer = built(tiny_attention_dim=2)
    x, mask = tokens(5), torch.tensor([[True, True, True, False, False]])
    other = x.masked_fill(~mask[..., None], math.inf)
    torch.testing.assert_close(mixer(other, mask), mixer(x, mask)[:, :], rtol=0.0, atol=0.0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal", [False, True])
def test_a_text_of_padding_only_stays_finite(dtype: torch.dtype, causal: bool) -> None:
    mixer = built(tiny_attention_dim=2, causal=causal).to(dtype)
    x, mask = tokens(5, 2).to(dtype), torch.tensor([[False] * 5, [True] * 5])
    y = mixer(x, mask)
    assert y.isfinite().all()
    y.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in mixer.parameters())


def test_an_odd_width_cannot_be_split() -> None:
    with pytest.raises(ValueError, match="ffn_dim = 5 cannot be split"):
        SpatialGatingConfig(ffn_dim=5)
    assert SpatialGatingConfig(ffn_dim=5, variant="linear").build(2, 3).max_len == 3


def matrix_product(values: Tensor, x: Tensor) -> Tensor:
    return toeplitz(values, x.shape[1]) @ x


@pytest.fixture
def always_fft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "FFT_FROM", 1)


@pytest.mark.usefixtures("always_fft")
@pytest.mark.parametrize("length", [1, 2, 3, 31, 64, 100, 257])
@pytest.mark.parametrize("chunk", [1, 600, 1 << 18])
def test_the_fft_is_the_product_with_the_matrix(length: int, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "_FFT_CHUNK", chunk)
    torch.manual_seed(0)
    values = torch.randn(2 * length - 1, dtype=torch.float64, requires_grad=True)
    x = torch.randn(2, length, 5, dtype=torch.float64, requires_grad=True)
    grad = torch.randn_like(x)
    y, expected = toeplitz_product(values, x), matrix_product(values, x)
    torch.testing.assert_close(y, expected, rtol=0.0, atol=1e-11)
    with torch.no_grad():
        assert torch.equal(toeplitz_product(values, x), y)
    torch.testing.assert_close(
        torch.autograd.grad(y, (values, x), grad),
        torch.autograd.grad(expected, (values, x), grad),
        rtol=0.0,
        atol=1e-11,
    )


@pytest.mark.usefixtures("always_fft")
def test_the_fft_has_second_derivatives_and_a_jacobian() -> None:
    values = torch.randn(9, dtype=torch.float64, requires_grad=True)
    x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(toeplitz_product, (values, x))
    assert torch.autograd.gradgradcheck(toeplitz_product, (values, x))
    jacobian = torch.func.jacrev(toeplitz_product, argnums=1)(values, x)
    expected = torch.func.jacrev(matrix_product, argnums=1)(values, x)
    torch.testing.assert_close(jacobian, expected, **EXACT)


@pytest.mark.parametrize("causal", [False, True])
def test_a_long_input_takes_the_fft_and_gives_the_same(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    length = FFT_FROM + 3
    mixer = built(max_len=length + 6, causal=causal)
    x = tokens(length, 2)
    x[1, 300:] = 1e3
    mask = every(length, 2)
    mask[1, 300:] = False
    y = mixer(x, mask)
    torch.testing.assert_close(mixer(x[1:, :300], mask[1:, :300])[0], y[1, :300], rtol=1e-9, atol=1e-9)
    monkeypatch.setattr(positions, "FFT_FROM", length + 1)
    torch.testing.assert_close(mixer(x, mask), y, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("always_fft")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_fft_is_in_float32_at_least(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    values, x = torch.randn(199).to(dtype), torch.randn(2, 100, 4).to(dtype)
    y = toeplitz_product(values, x)
    assert y.dtype == dtype
    exact = matrix_product(values.double(), x.double())
    torch.testing.assert_close(y.double(), exact.to(dtype).double(), rtol=torch.finfo(dtype).eps, atol=1e-4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = toeplitz_product(values.float(), x)
    assert mixed.dtype == dtype
    torch.testing.assert_close(mixed, y, rtol=0.0, atol=0.0)


def test_a_gpu_multiplies_by_the_matrix_up_to_4096_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device without numbers stands for it."""
    monkeypatch.delattr(positions, "_FFTProduct")
    values, x = torch.empty(2 * 4095 - 1, device="meta"), torch.empty(2, 4095, 3, device="meta")
    assert toeplitz_product(values, x).shape == x.shape
    with pytest.raises(NameError, match="_FFTProduct"):
        toeplitz_product(torch.empty(2 * 4096 - 1, device="meta"), torch.empty(2, 4096, 3, device="meta"))


def test_the_matrix_is_made_once_in_the_precision_of_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[torch.dtype] = []

    def noting(values: Tensor, rows: int) -> Tensor:
        made.append(values.dtype)
        return toeplitz(values, rows)

    monkeypatch.setattr(positions, "toeplitz", noting)
    values, x = torch.randn(19, requires_grad=True), torch.randn(3, 10, 4)
    with torch.autocast("cpu", torch.bfloat16):
        y = toeplitz_product(values, x)
    assert made == [y.dtype] == [torch.bfloat16]
    (grad,) = torch.autograd.grad(y.sum(), values)
    (exact,) = torch.autograd.grad(matrix_product(values, x).sum(), values)
    torch.testing.assert_close(grad, exact, rtol=0.02, atol=0.02)


def test_a_graph_that_is_exported_has_no_fft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.delattr(positions, "_FFTProduct")
    values, x = torch.randn(2 * FFT_FROM - 1), torch.randn(2, FFT_FROM, 3)
    torch.testing.assert_close(toeplitz_product(values, x), matrix_product(values, x))


def test_flops_of_long_inputs_are_those_that_are_counted() -> None:
    for weights, length in itertools.product(["toeplitz", "dense"], [FFT_FROM - 1, FFT_FROM]):
        mixer = built(max_len=FFT_FROM, weights=weights, tiny_attention_dim=2)
        with FlopCounterMode(display=False) as counter:
            mixer(tokens(length), every(length))
        assert mixer.flops(1, length) == counter.get_total_flops()
