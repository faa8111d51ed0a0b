"""Linear attention against its equation in loops; its causal form in chunks, its memory and its precision."""

from __future__ import annotations

import io
import logging
import math
import warnings

import jaxtyping
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from mixling import ConfigError
from mixling.mixers import LinearAttention, LinearAttentionConfig
from mixling.mixers.linear_attention import MIN_CHUNK

DIM, HEADS, EPS = 6, 2, 1e-3


def built(causal: bool = False, dim: int = DIM, num_heads: int = HEADS) -> LinearAttention:
    torch.manual_seed(0)
    mixer = LinearAttention(dim=dim, num_heads=num_heads, bias=True, eps=EPS, causal=causal).double()
    for parameter in mixer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return mixer


def phi(value: float) -> float:
    return value + 1.0 if value > 0 else math.exp(value)


def affine(linear: nn.Linear, x: list[float]) -> list[float]:
    weight, bias = linear.weight.tolist(), linear.bias.tolist()
    return [sum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in zip(weight, bias, strict=True)]


def by_loops(mixer: LinearAttention, x: list[list[float]], context: list[list[float]]) -> list[list[float]]:
    """Row i: a weighted mean of the values of each head, with weights phi(q_i) . phi(k_j); `causal` stops at j = i."""
    keys = [[phi(v) for v in affine(mixer.key, row)] for row in context]
    values = [affine(mixer.value, row) for row in context]
    y = []
    for i, row in enumerate(x):
        query = [phi(v) for v in affine(mixer.query, row)]
        seen = range(i + 1) if mixer.causal else range(len(context))
        mixed = []
        for h in range(mixer.num_heads):
            channels = range(h * mixer.head_dim, (h + 1) * mixer.head_dim)
            weights = [sum(query[c] * keys[j][c] for c in channels) for j in seen]
            total = sum(weights) + EPS
            mixed += [sum(w * values[j][c] for w, j in zip(weights, seen, strict=True)) / total for c in channels]
        y.append(affine(mixer.out, mixed))
    return y


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, MIN_CHUNK - 1, MIN_CHUNK, MIN_CHUNK + 1, 2 * MIN_CHUNK + 3])
def test_it_is_the_equation(causal: bool, length: int) -> None:
    mixer, x = built(causal), torch.randn(2, length, DIM, dtype=torch.float64)
    y = mixer(x, torch.ones(2, length, dtype=torch.bool))
    expected = torch.tensor([by_loops(mixer, text.tolist(), text.tolist()) for text in x], dtype=torch.float64)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)


def test_cross_mixing_is_the_equation() -> None:
    mixer = built()
    x, context = torch.randn(1, 3, DIM, dtype=torch.float64), torch.randn(1, 5, DIM, dtype=torch.float64)
    expected = torch.tensor([by_loops(mixer, x[0].tolist(), context[0, :4].tolist())], dtype=torch.float64)
    mask = torch.arange(5)[None] < 4
    y = mixer(x, torch.ones(1, 3, dtype=torch.bool), context, mask)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(mixer(x, torch.ones(1, 3, dtype=torch.bool), context[:, :4]), y, rtol=0, atol=1e-12)


def test_the_last_causal_position_is_that_of_the_full_form() -> None:
    x, mask = torch.randn(2, 75, DIM, dtype=torch.float64), torch.ones(2, 75, dtype=torch.bool)
    torch.testing.assert_close(built(True)(x, mask)[:, -1], built()(x, mask)[:, -1], rtol=0, atol=1e-12)


def test_steps_over_several_chunks_give_what_the_causal_form_gives_in_a_state_that_does_not_grow() -> None:
    mixer, x = built(True), torch.randn(2, 75, DIM, dtype=torch.float64)
    expected, state = mixer(x, torch.ones(2, 75, dtype=torch.bool)), mixer.start(x[:, 0])
    for now in range(75):
        y, state = mixer.step(x[:, now], state)
        torch.testing.assert_close(y, expected[:, now], rtol=0, atol=1e-12)
        assert {key: tuple(value.shape) for key, value in state.items()} == {"own": (2, HEADS, 3, 4)}


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that is made."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        self.elements = max(self.elements, *(item.numel() for item in (out,) if isinstance(item, Tensor)), 0)
        return out


def test_the_causal_form_never_holds_a_state_for_each_token() -> None:
    length, dim = 512, 64
    mixer, x = built(True, dim, 1), torch.randn(1, length, dim, dtype=torch.float64)
    with Largest() as largest:
        mixer(x, torch.ones(1, length, dtype=torch.bool))
    assert length * dim <= largest.elements <= 2 * length * dim  # with a state for each token: 65 * length * dim


@pytest.mark.parametrize("length", [1, 31, 32, 33, 100])
@pytest.mark.parametrize(("dim", "num_heads"), [(6, 2), (40, 1)])
def test_flops_of_the_causal_form_are_those_that_are_counted(length: int, dim: int, num_heads: int) -> None:
    mixer, x = built(True, dim, num_heads), torch.randn(3, length, dim, dtype=torch.float64)
    with FlopCounterMode(display=False) as counter:
        mixer(x, torch.ones(3, length, dtype=torch.bool))
    assert mixer.flops(3, length) == counter.get_total_flops()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("autocast", [False, True])
def test_sums_above_float16s_largest_number_stay_exact(causal: bool, autocast: bool) -> None:
    length = 3000
    mixer = built(causal)
    with torch.no_grad():
        mixer.key.bias.fill_(40.0)  # phi(k) is about 41, its sum about 123,000
    x, mask = torch.randn(1, length, DIM).half(), torch.ones(1, length, dtype=torch.bool)
    exact = mixer(x.double(), mask).detach()
    with torch.autocast("cpu", torch.float16, enabled=autocast):
        y = mixer.float()(x.float(), mask) if autocast else mixer.half()(x, mask)
    assert y.dtype == torch.float16
    torch.testing.assert_close(y.double(), exact, rtol=0, atol=0.01 * float(exact.abs().max()))


def test_a_text_of_padding_only_reads_nothing() -> None:
    mixer, x = built(), torch.randn(1, 3, DIM, dtype=torch.float64)
    y = mixer(x, torch.zeros(1, 3, dtype=torch.bool))
    torch.testing.assert_close(y, mixer.out.bias.expand(1, 3, DIM), rtol=0, atol=1e-12)


def test_weights_start_as_those_of_attention() -> None:
    torch.manual_seed(0)
    mixer = LinearAttentionConfig().build(256, 8)
    for linear in (mixer.query, mixer.key, mixer.value, mixer.out):
        assert linear.weight.std().item() == pytest.approx(math.sqrt(2 / 512), rel=0.02)
        assert not linear.bias.any()


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ConfigError, match="width 10 is not a multiple of num_heads 4; change one of them"):
        LinearAttentionConfig().build(10, 8)


@pytest.mark.slow
def test_the_causal_form_exports_with_any_length() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    mixer = built(True).float().eval()
    x, mask = torch.randn(2, 6, DIM), torch.ones(2, 6, dtype=torch.bool)
    file = io.BytesIO()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    checked = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)  # it would fix the sizes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        program = torch.onnx.export(
            mixer,
            (x, mask),
            dynamo=True,
            verbose=False,
            input_names=["x", "mask"],
            dynamic_shapes={"x": {0: "batch", 1: "length"}, "mask": {0: "batch", 1: "length"}},
        )
    jaxtyping.config.update("jaxtyping_disable", checked)
    assert program is not None
    program.save(file)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    for length in (1, 32, 33, 70):
        x, mask = torch.randn(3, length, DIM), torch.ones(3, length, dtype=torch.bool)
        (y,) = session.run(None, {"x": x.numpy(), "mask": mask.numpy()})
        np.testing.assert_allclose(y, mixer(x, mask).detach().numpy(), rtol=1e-4, atol=1e-4)
