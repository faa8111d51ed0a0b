"""HyperMixing against its equation in loops; both ways to multiply; causal form, long documents, known errors."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from mixling import ConfigError
from mixling.layers.hypernetwork import Hypernetwork
from mixling.mixers import HyperMixing, hypermixing, mixer_config

DIM, HIDDEN, MAX_LEN = 4, 6, 12
EXACT = {"rtol": 0.0, "atol": 1e-12}
# Of one head, short inputs multiply the generated matrices out; long ones of any number of heads keep the factors.
SHORT, LONG = 3, 11

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "untied": {"tied": False},
    "heads": {"num_heads": 2, "tied": False},
    "tied-heads": {"num_heads": 2},
    "learned": {"positions": "learned"},
    "plain": {"positions": "none", "bias": False, "norm": False},
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def built(*, causal: bool = False, dim: int = DIM, max_len: int = MAX_LEN, **values: Any) -> HyperMixing:
    torch.manual_seed(0)
    mixer = mixer_config({"type": "hypermixing", "hidden_dim": HIDDEN, **values}).build(dim, max_len, causal=causal)
    assert isinstance(mixer, HyperMixing)
    for parameter in mixer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return mixer.double()


def tokens(length: int, *, size: int = 2, dim: int = DIM) -> tuple[Tensor, Tensor]:
    return torch.randn(size, length, dim, dtype=torch.float64), torch.ones(size, length, dtype=torch.bool)


def gelu(value: float) -> float:
    return 0.5 * value * (1 + math.erf(value / math.sqrt(2)))


def affine(vector: list[float], weight: list[list[float]], bias: list[float]) -> list[float]:
    return [b + sum(w * v for w, v in zip(row, vector, strict=True)) for row, b in zip(weight, bias, strict=True)]


def generated(network: Hypernetwork, head: int, heads: int, z: list[float]) -> list[float]:
    """B gelu(A z + a) + b with the rows of one head."""

    def layer(part: Any) -> tuple[list[list[float]], list[float]]:
        rows = part.weight.shape[0] // heads
        mine = slice(head * rows, (head + 1) * rows)
        return part.weight[mine].tolist(), [0.0] * rows if part.bias is None else part.bias[mine].tolist()

    hidden = [gelu(value) for value in affine(z, *layer(network.first))]
    return affine(hidden, *layer(network.second))


def by_loops(mixer: HyperMixing, x: Tensor, context: Tensor | None = None, *, causal: bool = False) -> Tensor:
    """The equation for one text: its generated matrices row by row, its products sum by sum."""
    heads, dim = mixer.num_heads, x.shape[1] // mixer.num_heads
    source = x if context is None else context
    placed = {name: mixer.positions(part[None])[0] for name, part in (("x", x), ("source", source))}
    y = [[0.0] * x.shape[1] for _ in x]
    for head in range(heads):
        mine = slice(head * dim, (head + 1) * dim)
        w1 = [generated(mixer.keys, head, heads, z) for z in placed["source"][:, mine].tolist()]
        w2 = [generated(mixer.queries or mixer.keys, head, heads, z) for z in placed["x"][:, mine].tolist()]
        values = source[:, mine].tolist()
        for i, row in enumerate(w2):
            seen = i + 1 if causal else len(values)
            for c in range(dim):
                for h, weight in enumerate(row):
                    y[i][head * dim + c] += weight * gelu(sum(w1[j][h] * values[j][c] for j in range(seen)))
    out = torch.tensor(y, dtype=torch.float64)
    if mixer.norm is None:
        return out
    mean, variance = out.mean(1, keepdim=True), out.var(1, keepdim=True, correction=0)
    return (out - mean) / (variance + 1e-5).sqrt() * mixer.norm.weight + mixer.norm.bias


def keeps_factors(mixer: HyperMixing, length: int) -> bool:
    return mixer._factored(length, 2 if mixer.queries is None else 1)


@every_variant
@pytest.mark.parametrize("length", [1, SHORT, LONG])
def test_it_is_the_equation(variant: str, length: int) -> None:
    mixer = built(**VARIANTS[variant])
    assert [keeps_factors(mixer, wide) for wide in (1, LONG)] == [False, True]
    x, mask = tokens(length)
    expected = torch.stack([by_loops(mixer, text) for text in x])
    torch.testing.assert_close(mixer(x, mask), expected, **EXACT)
    with torch.no_grad():  # works in place
        torch.testing.assert_close(mixer(x, mask), expected, **EXACT)


@every_variant
@pytest.mark.parametrize(("length", "other"), [(SHORT, LONG), (LONG, SHORT), (1, 1)])
def test_cross_mixing_is_the_equation(variant: str, length: int, other: int) -> None:
    mixer = built(**VARIANTS[variant])
    (x, mask), (context, context_mask) = tokens(length), tokens(other)
    y = mixer(x, mask, context, context_mask)
    expected = torch.stack([by_loops(mixer, *pair) for pair in zip(x, context, strict=True)])
    torch.testing.assert_close(y, expected, **EXACT)


@every_variant
@pytest.mark.parametrize("length", [1, SHORT, LONG])
def test_the_causal_form_is_the_equation_with_sums_up_to_now(variant: str, length: int) -> None:
    mixer = built(causal=True, **VARIANTS[variant])
    x, mask = tokens(length)
    expected = torch.stack([by_loops(mixer, text, causal=True) for text in x])
    torch.testing.assert_close(mixer(x, mask), expected, **EXACT)


@every_variant
def test_the_last_causal_position_is_that_of_the_full_form(variant: str) -> None:
    x, mask = tokens(LONG)
    causal, full = built(causal=True, **VARIANTS[variant]), built(**VARIANTS[variant])
    torch.testing.assert_close(causal(x, mask)[:, -1], full(x, mask)[:, -1], **EXACT)


def test_a_causal_mixer_reads_all_of_a_context() -> None:
    (x, mask), context = tokens(SHORT), tokens(LONG)
    causal, full = built(causal=True), built()
    torch.testing.assert_close(causal(x, mask, *context), full(x, mask, *context), **EXACT)
    state = causal.start(x[:, 0], *context)
    for now in range(SHORT):
        y, state = causal.step(x[:, now], state)
        torch.testing.assert_close(y, full(x, mask, *context)[:, now], **EXACT)


@pytest.mark.parametrize("parts", [1, 2, 9])
def test_the_causal_form_in_parts_is_that_at_once(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mixer = built(causal=True, tied=False)
    x, mask = tokens(5 * hypermixing.CAUSAL_STEPS + 3)

    def outputs() -> list[Tensor]:
        y = mixer(x, mask)
        return [y, *torch.autograd.grad(y.pow(2).sum(), list(mixer.parameters()))]

    monkeypatch.setattr(hypermixing, "CAUSAL_SUMS", parts * hypermixing.CAUSAL_STEPS)
    found = outputs()
    monkeypatch.setattr(hypermixing, "checkpoint", lambda call, *given, **_: call(*given))
    monkeypatch.setattr(hypermixing, "CAUSAL_STEPS", x.shape[1])
    monkeypatch.setattr(hypermixing, "CAUSAL_SUMS", x.shape[1])
    for got, expected in zip(found, outputs(), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("positions", ["none", "sinusoidal"])
def test_steps_go_on_beyond_max_len(positions: str) -> None:
    mixer = built(causal=True, positions=positions)
    x, mask = tokens(MAX_LEN + 9)
    expected, state = mixer(x, mask), mixer.start(x[:, 0])
    for now in range(x.shape[1]):
        y, state = mixer.step(x[:, now], state)
        torch.testing.assert_close(y, expected[:, now], **EXACT)


@pytest.mark.parametrize("variant", ["default", "untied", "heads", "plain"])
@pytest.mark.parametrize("sizes", [[50], [1, 2, 47], [7] * 7 + [1], [1] * 50])
def test_two_passes_over_a_document_of_any_length_are_the_full_form(variant: str, sizes: list[int]) -> None:
    mixer = built(**VARIANTS[variant])
    x, mask = tokens(50, size=3)
    mask[1, 31:] = False
    mask[2, 5:] = False
    expected = mixer(x, mask)
    state = None
    for part, seen in zip(x.split(sizes, 1), mask.split(sizes, 1), strict=True):
        state = mixer.accumulate(part, seen, state)
    assert state is not None
    assert {name: value.numel() for name, value in state.items()} == {
        "sum": 3 * HIDDEN * DIM // mixer.num_heads,
        "position": 3,
    }
    start = 0
    for part, seen in zip(x.split(sizes, 1), mask.split(sizes, 1), strict=True):
        y = mixer.read(part, seen, state, start)
        torch.testing.assert_close(y[seen], expected[:, start : start + part.shape[1]][seen], **EXACT)
        start += part.shape[1]


def test_learned_positions_end_at_max_len() -> None:
    mixer = built(positions="learned", causal=True)
    (x, mask), (long, long_mask) = tokens(SHORT), tokens(MAX_LEN + 1)
    state = mixer.accumulate(*tokens(MAX_LEN))
    message = f"got {MAX_LEN + 1} tokens, built for at most {MAX_LEN}"
    for call in (
        lambda: mixer.accumulate(x[:, :1], mask[:, :1], state),
        lambda: mixer.read(x[:, :2], mask[:, :2], state, start=MAX_LEN - 1),
        lambda: mixer(x, mask, long, long_mask),
        lambda: mixer.start(x[:, 0], long, long_mask),
    ):
        with pytest.raises(ConfigError, match=message):
            call()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [1, 2])
def test_a_batch_in_parts_is_the_whole_batch(monkeypatch: pytest.MonkeyPatch, causal: bool, heads: int) -> None:
    mixer = built(causal=causal, num_heads=heads)
    (x, mask), (context, context_mask) = tokens(2, size=5), tokens(1, size=5)
    mask[3, 1:] = False
    crossing = x[:, :1], mask[:, :1], context, context_mask
    whole, cross = mixer(x, mask), mixer(*crossing)
    sizes: list[int] = []

    def noting(mix: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *given: sizes.append(given[0].shape[1]) or mix(*given)

    for name in ("_mix", "_mix_causally"):
        monkeypatch.setattr(hypermixing, name, noting(getattr(hypermixing, name)))
    monkeypatch.setattr(hypermixing, "HIDDEN_BYTES", 2 * (HIDDEN * DIM // heads) * 8)
    torch.testing.assert_close(mixer(x, mask), whole, **EXACT)
    torch.testing.assert_close(mixer(*crossing), cross, **EXACT)
    assert sizes == [2, 2, 1] * 2


@pytest.mark.slow
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("dim", "hidden", "heads"), [(8, 4, 1), (8, 32, 1), (8, 32, 4), (6, 6, 2)])
def test_flops_are_those_that_are_counted(tied: bool, dim: int, hidden: int, heads: int) -> None:
    for bias in (True, False):
        values = {"tied": tied, "hidden_dim": hidden, "num_heads": heads, "bias": bias}
        full, causal = built(dim=dim, **values), built(dim=dim, causal=True, **values)
        ways = set()
        for length in (1, 2, 5, 8, 13, 40):
            ways.add(keeps_factors(full, length))
            given = tokens(length, dim=dim)
            for mixer in (full, causal):
                with FlopCounterMode(display=False) as counter:
                    mixer(*given)
                assert mixer.flops(2, length) == counter.get_total_flops()
            for other in (1, 40):
                for mixer in (full, causal):
                    with FlopCounterMode(display=False) as counter:
                        mixer(*given, *tokens(other, dim=dim))
                    assert mixer.flops(2, length, other) == counter.get_total_flops()
        assert ways == ({False} if hidden < dim else {False, True})


def test_factors_take_fewer_operations_for_long_inputs_and_are_linear_in_them() -> None:
    mixer = built(dim=256, hidden_dim=512)
    assert [keeps_factors(mixer, length) for length in (32, 256, 257, 8192)] == [False, False, True, True]
    per_token = {length: mixer.flops(1, length) / length for length in (256, 512, 8192, 80_000)}
    assert per_token[256] == 2 * 256 * (256 + 512 + 2 * 512)
    assert per_token[8192] < 0.7 * per_token[512] < 0.6 * per_token[256]
    assert per_token[80_000] == pytest.approx(2 * 3 * 256**2, rel=0.02)


@pytest.mark.parametrize("width", [8, 256])
def test_the_papers_budget_is_that_of_attention(width: int) -> None:
    def parameters(module: nn.Module) -> int:
        return sum(parameter.numel() for parameter in module.parameters())

    attention = parameters(nn.MultiheadAttention(width, 1))
    assert attention == 4 * (width**2 + width)
    for tied, hidden in ((True, 3 * width), (False, width)):
        for heads in (1, 2):
            values = {"type": "hypermixing", "tied": tied, "hidden_dim": hidden}
            normed = parameters(mixer_config(values).build(width, 5))
            plain = parameters(mixer_config({**values, "norm": False}).build(width, 5))
            assert (normed, plain) == (attention + 2 * width, attention)
            assert heads == 1 or parameters(mixer_config({**values, "num_heads": heads}).build(width, 5)) < normed
    assert width != 256 or attention == 263_168


@pytest.mark.parametrize("heads", [1, 8])
def test_each_heads_own_matrix_starts_as_xaviers(heads: int) -> None:
    torch.manual_seed(0)
    mixer = mixer_config({"type": "hypermixing", "hidden_dim": 512, "num_heads": heads}).build(256, 5)
    assert isinstance(mixer, HyperMixing)
    for layer, outputs in ((mixer.keys.first, 256 // heads), (mixer.keys.second, 512 // heads)):
        bound = math.sqrt(6 / (256 // heads + outputs))
        assert layer.bias is not None
        assert not layer.bias.any()
        for head in layer.weight.detach().chunk(heads):
            assert bound * 0.98 < float(head.abs().max()) <= bound
            assert float(head.std()) == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_building_does_not_loop_over_positions() -> None:
    config = mixer_config({"type": "hypermixing"})
    spent = []
    for _ in range(3):
        begin = time.thread_time()
        config.build(512, 3000)
        spent.append(time.thread_time() - begin)
    assert min(spent) < 0.2  # a loop takes seconds; benchmarks/hypermixing.py has the time itself


@pytest.mark.parametrize("tied", [True, False])
def test_it_trains(tied: bool) -> None:
    mixer = built(tied=tied).float()
    x, mask = tokens(SHORT)
    optimizer = torch.optim.SGD(mixer.parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        loss = mixer(x.float(), mask).sub(1.0).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)


@every_variant
@pytest.mark.parametrize("length", [SHORT, LONG])
def test_mixed_precision_with_texts_of_nothing_but_padding(variant: str, length: int) -> None:
    x, mask = tokens(length, size=3)
    mask[1, 1:] = False
    mask[2] = False
    for causal in (False, True):
        exact = built(causal=causal, **VARIANTS[variant])
        mixer = built(causal=causal, **VARIANTS[variant]).float()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = mixer(x.float(), mask)
            state = mixer.accumulate(x.float(), mask)
            read = mixer.read(x.float(), mask, state)
        assert y.isfinite().all()
        expected = exact(x, mask)
        scale = float(expected[mask].detach().abs().max())
        torch.testing.assert_close(y[mask].double(), expected[mask], rtol=0.0, atol=0.1 * scale)
        full = built(**VARIANTS[variant])(x, mask)
        torch.testing.assert_close(read[mask].double(), full[mask], rtol=0.0, atol=0.1 * scale)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_running_sum_is_in_single_precision(dtype: torch.dtype) -> None:
    mixer = built(causal=True).to(dtype)
    x = tokens(1)[0][:, 0].to(dtype)
    y, state = mixer.step(x, mixer.start(x))
    assert y.dtype == dtype
    assert state["sum"].dtype == torch.float32


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked_shapes")
def test_an_exported_graph_has_no_longest_input() -> None:
    mixer = built()
    length = torch.export.Dim("length")
    program = torch.export.export(mixer, tokens(6), dynamic_shapes=({1: length}, {1: length}))
    for wide in (2, SHORT, LONG, 5 * MAX_LEN):
        given = tokens(wide)
        torch.testing.assert_close(program.module()(*given), mixer(*given), **EXACT)


@pytest.mark.parametrize("position", [0, 1, MAX_LEN - 1, MAX_LEN, 5000, 1_000_000])
def test_sinusoidal_positions_are_the_formula_in_the_table_and_beyond(position: int) -> None:
    positions = built().positions
    rates = [10_000 ** (-2 * k / DIM) for k in range(DIM // 2)]
    expected = [f(position * rate) for rate in rates for f in (math.sin, math.cos)]
    got = positions(torch.zeros(1, 1, DIM, dtype=torch.float64), position)[0, 0]
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64), rtol=0.0, atol=1e-6)


def test_an_odd_width_has_positions_too() -> None:
    x, mask = tokens(SHORT, dim=5)
    mixer = built(dim=5)
    torch.testing.assert_close(mixer(x, mask)[0], by_loops(mixer, x[0]), **EXACT)


def test_heads_must_divide_width_and_hidden_subwords() -> None:
    with pytest.raises(ConfigError, match="width 4 is not a multiple of num_heads 3; change one of them"):
        built(num_heads=3)
    with pytest.raises(ConfigError, match="hidden_dim 6 is not a multiple of num_heads 4; change one of them"):
        built(num_heads=4)
    for wrong in ({"hidden_dim": 0}, {"num_heads": 0}, {"positions": "rotary"}):
        with pytest.raises(ConfigError, match=f"mixer 'hypermixing': {next(iter(wrong))}"):
            mixer_config({"type": "hypermixing", **wrong})
