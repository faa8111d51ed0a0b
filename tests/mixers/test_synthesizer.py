"""Position scores only: against the equation in loops, and against attention that is blind to content."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mixling import ConfigError
from mixling.mixers import AttentionConfig, Synthesizer, SynthesizerConfig, mixer_config

DIM, MAX_LEN, HEADS = 6, 9, 2
EXACT = {"rtol": 0.0, "atol": 1e-12}


def built(*, causal: bool = False, **options: Any) -> Synthesizer:
    """With parameters that are all drawn, so that none hides at zero."""
    torch.manual_seed(0)
    mixer = SynthesizerConfig(**{"num_heads": HEADS, **options}).build(DIM, MAX_LEN, causal=causal).double().eval()
    for parameter in mixer.parameters():
        nn.init.normal_(parameter, std=0.5)
    assert isinstance(mixer, Synthesizer)
    return mixer


def drawn(lengths: list[int]) -> tuple[Tensor, Tensor]:
    x = torch.randn(len(lengths), max(lengths), DIM, dtype=torch.float64, generator=torch.manual_seed(1))
    return x, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def project(linear: nn.Linear, row: list[float]) -> list[float]:
    weight, bias = linear.weight.tolist(), linear.bias.tolist()
    return [bias[o] + sum(weight[o][i] * row[i] for i in range(len(row))) for o in range(len(weight))]


def by_loops(mixer: Synthesizer, x: list[list[float]]) -> list[list[float]]:
    """Y[i] = W_o concat_h sum_j p[h, i, j] v[h, j], p[h, i] = softmax_j(b[h, j - i])."""
    width, table = DIM // mixer.num_heads, mixer.relative.weight.tolist()
    values = [project(mixer.value, row) for row in x]
    out = []
    for i in range(len(x)):
        joined: list[float] = []
        for h in range(mixer.num_heads):
            seen = range(i + 1) if mixer.causal else range(len(x))
            powers = [math.exp(table[MAX_LEN - 1 + j - i][h]) for j in seen]
            for c in range(h * width, (h + 1) * width):
                mixed = sum(power * values[j][c] for power, j in zip(powers, seen, strict=True))
                joined.append(mixed / sum(powers))
        out.append(project(mixer.out, joined))
    return out


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("num_heads", [1, 3])
def test_it_is_the_equation(num_heads: int, causal: bool) -> None:
    mixer, lengths = built(num_heads=num_heads, causal=causal), [MAX_LEN, 1, 4]
    x, mask = drawn(lengths)
    y = mixer(x, mask)
    for i, length in enumerate(lengths):
        expected = torch.tensor(by_loops(mixer, x[i, :length].tolist()), dtype=torch.float64)
        torch.testing.assert_close(y[i, :length], expected, **EXACT)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("num_buckets", [None, 8])
def test_it_is_attention_whose_queries_are_zero(num_buckets: int | None, causal: bool) -> None:
    positions = {"num_buckets": num_buckets, "max_distance": num_buckets and 6}
    mixer = built(causal=causal, positions=positions)
    attention = mixer_config({"type": "attention", "num_heads": HEADS, "positions": positions})
    assert isinstance(attention, AttentionConfig)
    other = attention.build(DIM, MAX_LEN, causal=causal).double()
    missing, unexpected = other.load_state_dict(mixer.state_dict(), strict=False)
    assert not unexpected
    assert {key.split(".")[0] for key in missing} == {"query", "key"}
    nn.init.zeros_(other.get_submodule("query").weight)
    x, mask = drawn([7, 3])
    torch.testing.assert_close(mixer(x, mask)[mask], other(x, mask)[mask], **EXACT)


def test_it_does_not_look_at_content() -> None:
    mixer, (x, mask) = built(), drawn([5, 3])
    weights = torch.func.jacrev(lambda x: mixer(x, mask)[0])(x)
    elsewhere = torch.func.jacrev(lambda x: mixer(x, mask)[0])(10 * x.flip(1) + 1)
    torch.testing.assert_close(weights, elsewhere, **EXACT)


@pytest.mark.parametrize("causal", [False, True])
def test_it_starts_as_the_mean(causal: bool) -> None:
    torch.manual_seed(0)
    mixer = SynthesizerConfig().build(64, MAX_LEN, causal=causal)
    assert isinstance(mixer, Synthesizer)
    x, mask = torch.randn(1, 5, 64), torch.tensor([[True, True, True, True, False]])
    means = [x[0, : i + 1 if causal else 4].mean(0) for i in range(4)]
    expected = mixer.out(mixer.value(torch.stack(means)))
    torch.testing.assert_close(mixer(x, mask)[0, :4], expected)
    for linear in (mixer.value, mixer.out):
        assert not linear.bias.any()
        assert float(linear.weight.detach().abs().max()) == pytest.approx(
            math.sqrt(6 / 128), rel=1e-2
        )  # Xavier, uniform


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [False, True])
def test_padding_stays_finite_in_every_precision(dtype: torch.dtype, causal: bool) -> None:
    mixer, (x, mask) = built(causal=causal).to(dtype), drawn([5, 3, 5])
    mask[2] = False  # a text of padding only
    expected = mixer(x.to(dtype), mask)
    y = mixer(x.masked_fill(~mask[..., None], math.inf).to(dtype), mask)
    assert y.isfinite().all()
    assert torch.equal(y[mask], expected[mask])


def test_biases_may_be_far_apart() -> None:
    """A bias on padding that is greater than all others by more than an exponential holds does not swallow them."""
    mixer, (x, mask) = built(num_heads=1), drawn([2, 5])
    with torch.no_grad():
        mixer.relative.weight[MAX_LEN + 1 :] = 1e4
    torch.testing.assert_close(mixer(x, mask)[0, :2], mixer(x[:1, :2], mask[:1, :2])[0], **EXACT)


@pytest.mark.parametrize("causal", [False, True])
def test_autocast_mixes_precisions(causal: bool) -> None:
    mixer, (x, mask) = built(causal=causal).float(), drawn([5, 5])
    x, exact = x.float(), mixer(x.float(), mask).detach()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(mixer(x, mask).float(), exact, rtol=0.0, atol=0.05 * float(exact.abs().max()))
        if causal:
            state = mixer.start(x[:, 0])
            for now in range(5):
                y, state = mixer.step(x[:, now], state)
            torch.testing.assert_close(y.float(), exact[:, -1], rtol=0.0, atol=0.05 * float(exact.abs().max()))


def test_dropout_is_on_probabilities_in_training_only() -> None:
    mixer, (x, mask) = built(dropout=0.5), drawn([4])
    assert torch.equal(mixer(x, mask), built().train()(x, mask))
    mixer.train()
    with torch.no_grad():
        mixer.value.weight.zero_()
        mixer.value.bias.fill_(1.0)
        mixer.out.weight.copy_(torch.eye(DIM))
        mixer.out.bias.zero_()
    mean = mixer(x.expand(4000, -1, -1), mask.expand(4000, -1)).detach().mean()
    assert float(mean) == pytest.approx(1.0, abs=0.03)  # probabilities sum to one, in the mean
    assert not torch.allclose(mixer(x, mask), torch.ones(1, 4, DIM, dtype=torch.float64))


@pytest.mark.parametrize(("num_buckets", "biases"), [(None, 12 * 255), (32, 12 * 32)])
def test_parameters_of_base_size(num_buckets: int | None, biases: int) -> None:
    with torch.device("meta"):
        mixer = SynthesizerConfig(num_heads=12, positions={"num_buckets": num_buckets}).build(768, 128)
    assert sum(parameter.numel() for parameter in mixer.parameters()) == 2 * (768**2 + 768) + biases
    assert mixer.max_len == (128 if num_buckets is None else None)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="width 6 is not a multiple of num_heads 4"):
        SynthesizerConfig(num_heads=4).build(6, MAX_LEN)
    with pytest.raises(ConfigError, match="num_buckets: got 7"):
        mixer_config({"type": "synthesizer", "positions": {"num_buckets": 7}})
    with pytest.raises(AssertionError, match="causal"):
        built().start(torch.zeros(1, DIM))
