"""What decoders and T5 add to the block: RMSNorm, the gated feed-forward, the slot that reads a context, steps."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.config import parse
from mixling.layers.dropout import dropout
from mixling.layers.norms import RMSNorm, build_norm
from mixling.layers.transforms import plain_operations
from mixling.mixers import AttentionConfig, HyperMixingConfig
from mixling.models import Block, DeepBlockConfig, Encoder, FeedForward
from mixling.networks import BlockConfig, FeedForwardConfig
from mixling.networks.blocks import NormType

from ..research.seq2seq.small_models import drawn

DIM = 6
EXACT = {"rtol": 0.0, "atol": 1e-12}


def test_the_gated_feed_forward_is_its_equation() -> None:
    for bias in (False, True):
        ffn = FeedForward(dim=3, ffn_dim=4, gated=True, bias=bias).double()
        drawn(ffn)
        x = torch.randn(2, 3, dtype=torch.float64)
        w1, w2, v = (linear.weight.tolist() for linear in (ffn.expand, ffn.contract, ffn.value))
        b1, b2, c = (linear.bias.tolist() if bias else [0.0] * 4 for linear in (ffn.expand, ffn.contract, ffn.value))
        for i in range(2):
            hidden = []
            for h in range(4):
                a = b1[h] + sum(w1[h][k] * float(x[i, k]) for k in range(3))
                gelu = 0.5 * a * (1 + math.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))
                hidden.append(gelu * (c[h] + sum(v[h][k] * float(x[i, k]) for k in range(3))))
            expected = [b2[k] + sum(w2[k][h] * hidden[h] for h in range(4)) for k in range(3)]
            torch.testing.assert_close(ffn(x)[i].tolist(), expected, **EXACT)


def test_gated_weights_start_as_t5s() -> None:
    torch.manual_seed(0)
    ffn = FeedForward(dim=300, ffn_dim=500, gated=True, bias=False)
    for linear, fan_in in ((ffn.expand, 300), (ffn.value, 300), (ffn.contract, 500)):
        assert abs(float(linear.weight.detach().std()) * fan_in**0.5 - 1) < 0.02


def test_dropout_of_the_feed_forward_is_on_its_hidden_layer() -> None:
    for gated in (False, True):
        ffn = FeedForward(dim=4, ffn_dim=4000, gated=gated, dropout=0.5).eval()
        with torch.no_grad():
            ffn.contract.weight.fill_(1.0)
            ffn.contract.bias.zero_()
        x = torch.randn(1, 4)
        still = F.gelu(ffn.expand(x), approximate="tanh") * ffn.value(x) if gated else F.gelu(ffn.expand(x))
        torch.testing.assert_close(ffn(x), still.sum(1, keepdim=True).expand(1, 4), rtol=1e-4, atol=1e-3)
        ffn.train()
        torch.manual_seed(0)
        kept = dropout(still, 0.5)
        torch.manual_seed(0)
        torch.testing.assert_close(ffn(x), kept.sum(1, keepdim=True).expand(1, 4), rtol=1e-4, atol=1e-2)


@torch.no_grad()
def test_rms_norm_is_its_equation() -> None:
    norm = build_norm("rms", DIM).double()
    drawn(norm)
    assert list(norm.state_dict()) == ["weight"]
    x = torch.randn(2, DIM, dtype=torch.float64)
    for i in range(2):
        size = math.sqrt(sum(float(value) ** 2 for value in x[i]) / DIM + 1e-6)
        expected = [float(x[i, k]) / size * float(norm.weight[k]) for k in range(DIM)]
        torch.testing.assert_close(norm(x)[i].tolist(), expected, **EXACT)
    assert norm(torch.zeros(1, DIM, dtype=torch.float64)).isfinite().all()


@pytest.mark.parametrize("shape", [(DIM,), (3, DIM), (2, 5, DIM)])
def test_gradients_of_rms_norm_are_those_of_torchs(shape: tuple[int, ...]) -> None:
    ours, theirs = build_norm("rms", DIM).double(), nn.RMSNorm(DIM, eps=1e-6).double()
    drawn(ours)
    theirs.load_state_dict(ours.state_dict())
    x, grad = torch.randn(2, *shape, dtype=torch.float64)
    x.requires_grad_()
    found = torch.autograd.grad(ours(x), (x, ours.weight), grad)
    torch.testing.assert_close(found, torch.autograd.grad(theirs(x), (x, theirs.weight), grad), **EXACT)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x), **EXACT)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_rms_norm_has_derivatives_forward_and_twice() -> None:
    norm = build_norm("rms", DIM).double()
    drawn(norm)
    x, direction = torch.randn(2, 3, DIM, dtype=torch.float64)
    _, ahead = torch.func.jvp(norm, (x,), (direction,))
    with plain_operations():
        tokens, weights = x.clone().requires_grad_(), torch.ones_like(x, requires_grad=True)
        (once,) = torch.autograd.grad((norm(tokens) * weights).sum(), tokens, create_graph=True)
        (twice,) = torch.autograd.grad((once * direction).sum(), weights)  # the derivative along the direction
    torch.testing.assert_close(ahead, twice, **EXACT)
    each = torch.func.vmap(torch.func.grad(lambda token: norm(token).sum()))(x)
    torch.testing.assert_close(each, once.detach(), **EXACT)


def test_rms_norm_holds_what_float16_squared_does_not() -> None:
    x = torch.full((1, DIM), 1000.0, dtype=torch.float16)
    torch.testing.assert_close(build_norm("rms", DIM).half()(x), torch.ones_like(x))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", ["mlp", "gated"])
def test_flops_and_biases_of_the_feed_forward(kind: str, bias: bool) -> None:
    given = FeedForwardConfig(type=kind, ffn_dim=5, bias=bias)
    block = Block(BlockConfig(feed_forward=given), dim=DIM, max_len=4)
    ffn = block.feed_forward
    layers = 3 if kind == "gated" else 2
    assert sum(p.numel() for p in ffn.parameters()) == layers * 5 * DIM + bias * ((layers - 1) * 5 + DIM)
    assert block.flops(2, 3) == 2 * layers * 2 * 3 * 5 * DIM


SELF, OTHER = AttentionConfig(num_heads=2), HyperMixingConfig(hidden_dim=4)


def block_of(values: dict, *, causal: bool = False) -> Block:
    config = parse(DeepBlockConfig, {"mixers": [SELF, OTHER], "cross": SELF, **values}, where="x")
    block = Block(config, dim=DIM, max_len=9, causal=causal, context_len=9).double().eval()
    drawn(block)
    return block


def given() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, context = (torch.randn(2, length, DIM, dtype=torch.float64, generator=generator) for length in (5, 7))
    return x, torch.ones(2, 5, dtype=torch.bool), context, torch.arange(7) < torch.tensor([[7], [3]])


@pytest.mark.parametrize("norm_type", ["layer", "rms"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("cross_after", [None, 0, 1, 2])
def test_the_context_is_read_after_the_right_mixer(cross_after: int | None, norm: str, norm_type: NormType) -> None:
    values = {"cross_after": cross_after, "norm": norm, "norm_type": norm_type, "feed_forward": {"ffn_dim": 5}}
    block = block_of(values)
    x, mask, context, context_mask = given()
    norms = [*block.mixer_norms]
    assert {type(module) for module in norms} == {RMSNorm if norm_type == "rms" else nn.LayerNorm}
    sublayers = [lambda z, mixer=mixer: mixer(z, mask) for mixer in block.mixers]
    location = 2 if cross_after is None else cross_after
    sublayers.insert(location, lambda z: block.cross(z, mask, context, context_mask))
    norms.insert(location, block.cross_norm)
    expected = x
    for f, n in zip([*sublayers, block.feed_forward], [*norms, block.feed_forward_norm], strict=True):
        expected = expected + f(n(expected)) if norm == "pre" else n(expected + f(expected))
    torch.testing.assert_close(block(x, mask, context, context_mask), expected, **EXACT)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("cross_after", [0, 1])
def test_steps_of_a_block_are_its_causal_form(cross_after: int, norm: str) -> None:
    values = {"cross_after": cross_after, "norm": norm, "feed_forward": {"type": "gated", "ffn_dim": 5}}
    block = block_of(values, causal=True)
    x, mask, context, context_mask = given()
    expected = block(x, mask, context, context_mask)
    state = block.start(x[:, 0], context, context_mask)
    for now in range(x.shape[1]):
        y, state = block.step(x[:, now], state)
        torch.testing.assert_close(y, expected[:, now], **EXACT)


@pytest.mark.parametrize("norm_type", ["layer", "rms"])
def test_the_norm_after_a_stack_is_of_its_last_blocks_kind(norm_type: NormType) -> None:
    layers = [BlockConfig(mixers=(SELF,)), BlockConfig(mixers=(SELF,), norm_type=norm_type)]
    stack = Encoder(layers, dim=DIM, max_len=9, final_norm=True)
    assert type(stack.norm) is type(stack.layers[1].mixer_norms[0]) is type(build_norm(norm_type, DIM))
    assert isinstance(Encoder([], dim=DIM, max_len=9, final_norm=True).norm, nn.LayerNorm)


def test_drop_path_in_training_is_of_whole_texts_in_steps_too() -> None:
    block = block_of({"mixers": [SELF], "cross": None, "drop_path": 0.5, "norm_type": "rms"}, causal=True).train()
    x = torch.randn(64, DIM, dtype=torch.float64)
    y, _ = block.step(x, block.start(x))
    kept = (y != x).any(1)
    assert 10 < int(kept.sum()) < 54
    assert (y != x)[kept].all()
