"""Attention against its equation in loops, torch.nn.MultiheadAttention and transformers' T5."""

from __future__ import annotations

import copy
import itertools
import math
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import pytest
import torch
from safetensors.torch import load_model, save_model
from torch import Tensor, nn

from mixling import ConfigError
from mixling.layers import RelativePositions, lengths
from mixling.layers import mixer as base
from mixling.layers.positions import RelativeBias
from mixling.mixers import Attention, AttentionConfig, attention, mixer_config

DIM, MAX_LEN, HEADS = 6, 9, 2
T5_POSITIONS = RelativePositions(num_buckets=8, max_distance=6)
EVERY_DISTANCE = RelativePositions(num_buckets=None)
EXACT = {"rtol": 0.0, "atol": 1e-12}


def built(dim: int = DIM, *, causal: bool = False, **options: Any) -> Attention:
    """With parameters that are all drawn, so that none hides at zero."""
    torch.manual_seed(0)
    mixer = AttentionConfig(**{"num_heads": HEADS, **options}).build(dim, MAX_LEN, causal=causal).double().eval()
    for parameter in mixer.parameters():
        nn.init.normal_(parameter, std=0.5)
    assert isinstance(mixer, Attention)
    return mixer


def drawn(sizes: list[int], dim: int = DIM, seed: int = 1) -> tuple[Tensor, Tensor]:
    x = torch.randn(len(sizes), max(sizes), dim, dtype=torch.float64, generator=torch.manual_seed(seed))
    return x, torch.arange(max(sizes)) < torch.tensor(sizes)[:, None]


def project(linear: nn.Linear, row: list[float]) -> list[float]:
    weight = linear.weight.tolist()
    bias = [0.0] * len(weight) if linear.bias is None else linear.bias.tolist()
    return [bias[o] + sum(weight[o][i] * row[i] for i in range(len(row))) for o in range(len(weight))]


def by_loops(mixer: Attention, x: list[list[float]], context: list[list[float]], *, scale: float) -> list[list[float]]:
    """Y[i] = W_o concat_h sum_j p[h, i, j] v[h, j], p[h, i] = softmax_j(scale q[h, i] . k[h, j] + b[h, j - i])."""
    width = mixer.head_dim
    queries = [project(mixer.query, row) for row in x]
    keys, values = [project(mixer.key, row) for row in context], [project(mixer.value, row) for row in context]
    table = None if mixer.relative is None else mixer.relative.weight.tolist()
    out = []
    for i, query in enumerate(queries):
        joined: list[float] = []
        for h in range(mixer.num_heads):
            head = range(h * width, (h + 1) * width)
            seen = range(i + 1) if mixer.causal else range(len(keys))
            scores = [scale * sum(query[c] * keys[j][c] for c in head) for j in seen]
            if table is not None:
                scores = [score + table[MAX_LEN - 1 + j - i][h] for score, j in zip(scores, seen, strict=True)]
            total = sum(math.exp(score) for score in scores)
            weights = [math.exp(score) / total for score in scores]
            joined += [sum(weight * values[j][c] for weight, j in zip(weights, seen, strict=True)) for c in head]
        out.append(project(mixer.out, joined))
    return out


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("options", "scale"),
    [
        ({}, 3**-0.5),
        ({"num_heads": 3, "head_dim": 4, "bias": False}, 0.5),
        ({"scale": False, "positions": EVERY_DISTANCE}, 1.0),
        ({"head_dim": 1, "positions": EVERY_DISTANCE, "dropout": 0.5}, 1.0),
    ],
)
def test_it_is_the_equation(options: dict[str, Any], scale: float, causal: bool) -> None:
    mixer = built(causal=causal, **options)
    lengths = [MAX_LEN, 1, 4]
    x, mask = drawn(lengths)
    y = mixer(x, mask)
    for i, length in enumerate(lengths):
        real = x[i, :length].tolist()
        expected = torch.tensor(by_loops(mixer, real, real, scale=scale), dtype=torch.float64)
        torch.testing.assert_close(y[i, :length], expected, **EXACT)


def test_cross_mixing_is_the_equation() -> None:
    mixer = built()
    (x, mask), (context, context_mask) = drawn([3, 3]), drawn([5, 2], seed=2)
    y = mixer(x, mask, context, context_mask)
    for i, length in enumerate([5, 2]):
        expected = by_loops(mixer, x[i].tolist(), context[i, :length].tolist(), scale=3**-0.5)
        torch.testing.assert_close(y[i], torch.tensor(expected, dtype=torch.float64), **EXACT)
    everything = torch.ones(2, 5, dtype=torch.bool)
    torch.testing.assert_close(mixer(x, mask, context), mixer(x, mask, context, everything), **EXACT)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_torch_gives_the_same(causal: bool, bias: bool) -> None:
    mixer = built(dim=12, num_heads=3, causal=causal, bias=bias)
    other = nn.MultiheadAttention(12, 3, bias=bias, batch_first=True, dtype=torch.float64)
    parts = (mixer.query, mixer.key, mixer.value)
    with torch.no_grad():
        other.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        other.out_proj.weight.copy_(mixer.out.weight)
        if bias:
            other.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
            other.out_proj.bias.copy_(mixer.out.bias)
    x, mask = drawn([7, 1, 4], 12)
    future = torch.ones(7, 7, dtype=torch.bool).triu(1) if causal else None
    expected, _ = other(x, x, x, key_padding_mask=~mask, attn_mask=future, need_weights=False)
    torch.testing.assert_close(mixer(x, mask)[mask], expected[mask], **EXACT)
    if not causal:
        context, context_mask = drawn([2, 9, 5], 12, seed=2)
        expected, _ = other(x, context, context, key_padding_mask=~context_mask, need_weights=False)
        torch.testing.assert_close(mixer(x, mask, context, context_mask)[mask], expected[mask], **EXACT)


@pytest.fixture(scope="module")
def t5() -> Any:
    from transformers.models.t5 import modeling_t5  # takes seconds

    return modeling_t5


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("num_buckets", "max_distance"), [(32, 128), (8, 6), (4, 3), (16, 1000), (30, 50)])
def test_buckets_are_those_of_t5(t5: Any, num_buckets: int, max_distance: int, causal: bool) -> None:
    positions = RelativePositions(num_buckets=num_buckets, max_distance=max_distance)
    bias = RelativeBias(positions, num_heads=1, max_len=MAX_LEN, causal=causal)
    with torch.no_grad():
        bias.weight.copy_(torch.arange(num_buckets)[:, None])
    far = 3 * max_distance
    distances = torch.arange(-far, far + 1)
    expected = t5.T5Attention._relative_position_bucket(
        distances, bidirectional=not causal, num_buckets=num_buckets, max_distance=max_distance
    )
    assert torch.equal(bias(1, 2 * far + 1, start=far)[0, 0].long(), expected)
    assert len(expected.unique()) >= num_buckets - 1, "T5 leaves one unused"


@pytest.mark.parametrize("causal", [False, True])
def test_t5_gives_the_same(t5: Any, causal: bool) -> None:
    mixer = built(dim=12, num_heads=3, head_dim=5, bias=False, scale=False, positions=T5_POSITIONS, causal=causal)
    config = t5.T5Config(
        d_model=12,
        d_kv=5,
        num_heads=3,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=6,
        is_decoder=causal,
    )
    other = t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double().eval()
    names = {"query": "q", "key": "k", "value": "v", "out": "o", "relative": "relative_attention_bias"}
    weights = {f"{names[key.split('.')[0]]}.weight": value for key, value in mixer.state_dict().items()}
    other.load_state_dict(weights)
    x, mask = drawn([40, 1, 17], 12)
    seen = mask[:, None, None].expand(-1, 1, 40, -1)
    seen = seen.tril() if causal else seen
    added = torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, torch.finfo(torch.float64).min)
    torch.testing.assert_close(mixer(x, mask)[mask], other(x, mask=added)[0][mask], **EXACT)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("num_buckets", [None, 8])
def test_biases_are_of_distances(num_buckets: int | None, causal: bool) -> None:
    positions = RelativePositions(num_buckets=num_buckets, max_distance=num_buckets and 6)
    bias = RelativeBias(positions, num_heads=2, max_len=MAX_LEN, causal=causal)
    assert not bias.weight.any(), "they start at zero"
    nn.init.normal_(bias.weight)
    square = bias(MAX_LEN, MAX_LEN)
    for i, j in itertools.product(range(MAX_LEN - 1), repeat=2):
        assert torch.equal(square[:, i, j], square[:, i + 1, j + 1])
    for queries, start in [(1, 0), (1, MAX_LEN - 1), (3, 4)]:
        assert torch.equal(bias(queries, start + queries, start), square[:, start : start + queries, : start + queries])
    if num_buckets is None:
        rows = torch.cat([square[:, :, 0].flip(1), square[:, 0, 1:]], dim=1).mT  # by distance
        assert torch.equal(rows[:MAX_LEN], bias.weight[:MAX_LEN])
        assert causal or torch.equal(rows, bias.weight)


class Stack(nn.Module):
    def __init__(self, config: AttentionConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(config.build(DIM, MAX_LEN) for _ in range(2))
        self.layers[1].tie_positions(self.layers[0])

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x, mask)
        return x


def shared_stack(seed: int = 0) -> Stack:
    config = AttentionConfig(num_heads=HEADS, positions=RelativePositions(num_buckets=8, max_distance=6, shared=True))
    assert config.shared_positions is not None
    assert AttentionConfig(positions=T5_POSITIONS).shared_positions is None
    assert AttentionConfig().shared_positions is None
    torch.manual_seed(seed)
    stack = Stack(config).double().eval()
    for parameter in stack.parameters():
        nn.init.normal_(parameter, std=0.5)
    return stack


def test_shared_positions_are_stored_and_counted_once() -> None:
    stack = shared_stack()
    assert [key for key in stack.state_dict() if "relative" in key] == ["layers.0.relative.weight"]
    assert sum(p.numel() for p in stack.parameters()) == 2 * 4 * (DIM**2 + DIM) + 8 * HEADS
    x, mask = drawn([5, 3])
    before = stack.layers[1](x, mask)
    with torch.no_grad():
        stack.layers[0].relative.weight.normal_()
    assert not torch.equal(stack.layers[1](x, mask), before), "the second layer uses the table of the first"
    stack(x, mask)[mask].sum().backward()
    together = stack.layers[0].relative.weight.grad.clone()
    apart = copy.deepcopy(stack)
    apart.zero_grad()
    apart.layers[1].relative = copy.deepcopy(stack.layers[0].relative)
    apart.layers[1].relative.zero_grad()
    apart(x, mask)[mask].sum().backward()
    torch.testing.assert_close(
        together, apart.layers[0].relative.weight.grad + apart.layers[1].relative.weight.grad, **EXACT
    )


def test_shared_positions_survive_copies_precisions_and_files(tmp_path: Path) -> None:
    stack, (x, mask) = shared_stack(), drawn([5, 3])
    twin = copy.deepcopy(stack)
    assert twin.layers[1].relative is twin.layers[0].relative
    assert twin.layers[1].relative is not stack.layers[1].relative
    with torch.no_grad():
        twin.layers[0].relative.weight.zero_()
    assert stack.layers[1].relative.weight.all(), "a copy has a table of its own"

    single = copy.deepcopy(stack).to(torch.float32)
    assert single.layers[1].relative.weight.dtype == torch.float32
    torch.testing.assert_close(single(x.float(), mask).double(), stack(x, mask), rtol=1e-4, atol=1e-4)

    other = shared_stack(seed=1)
    assert not torch.allclose(other(x, mask), stack(x, mask))
    save_model(stack, str(tmp_path / "stack.safetensors"))
    load_model(other, tmp_path / "stack.safetensors")
    assert torch.equal(other(x, mask), stack(x, mask))


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked_shapes")
def test_shared_positions_survive_export() -> None:
    stack, (x, mask) = shared_stack(), drawn([6, 4])
    shapes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    program = torch.export.export(stack, (x, mask), dynamic_shapes=(shapes, shapes))
    for sizes in ([1], [20, 3]):  # beyond max_len too: buckets set no limit
        x, mask = drawn(sizes)
        torch.testing.assert_close(program.module()(x, mask)[mask], stack(x, mask)[mask], **EXACT)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("positions", [None, EVERY_DISTANCE])
@pytest.mark.parametrize("causal", [False, True])
def test_padding_stays_finite_in_every_precision(
    positions: RelativePositions | None, dtype: torch.dtype, causal: bool
) -> None:
    mixer = built(positions=positions, causal=causal).to(dtype)
    x, mask = drawn([5, 3, 5])
    mask[2] = False  # a text of padding only
    expected = built(positions=positions, causal=causal).to(dtype)(x.to(dtype), mask)
    x = x.masked_fill(~mask[..., None], math.inf).to(dtype)
    y = mixer(x, mask)
    assert y.isfinite().all()
    assert torch.equal(y[mask], expected[mask])
    y[mask].sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in mixer.parameters())


def test_padding_may_stand_on_the_left() -> None:
    mixer = built(causal=True)
    x, mask = drawn([5, 5])
    mask[0, :2] = False
    torch.testing.assert_close(mixer(x, mask)[0, 2:], mixer(x[:1, 2:], mask[:1, 2:])[0], **EXACT)


@pytest.mark.parametrize("causal", [False, True])
def test_autocast_mixes_precisions(causal: bool) -> None:
    mixer = built(positions=EVERY_DISTANCE, causal=causal).float()
    x, mask = drawn([5, 5])
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
    assert torch.equal(mixer(x, mask), mixer(x, mask))
    assert torch.equal(mixer(x, mask), built(dropout=0.0).train()(x, mask))
    mixer.train()
    with torch.no_grad():
        mixer.value.weight.zero_()
        mixer.value.bias.fill_(1.0)
        mixer.out.weight.copy_(torch.eye(DIM))
        mixer.out.bias.zero_()
    mean = mixer(x.expand(4000, -1, -1), mask.expand(4000, -1)).detach().mean()
    assert float(mean) == pytest.approx(1.0, abs=0.02)  # probabilities sum to one, in the mean
    assert not torch.allclose(mixer(x, mask), torch.ones(1, 4, DIM, dtype=torch.float64))


FORMS: list[dict[str, Any]] = [
    {"causal": causal, "positions": positions}
    for causal in (False, True)
    for positions in (None, T5_POSITIONS, RelativePositions(init="alibi"))
]


def noted_kernel(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, Tensor | None, bool]]:
    """The scores, with what is added, the addition and whether it is causal, of each call of torch's kernel."""
    calls = []
    kernel = torch.nn.functional.scaled_dot_product_attention

    def noting(query: Tensor, keys: Tensor, values: Tensor, **options: Any) -> Tensor:
        scores = query @ keys.mT * options["scale"]
        added = options["attn_mask"]
        if options["is_causal"]:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
        calls.append((scores if added is None else scores + added, added, options["is_causal"]))
        return kernel(query, keys, values, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", noting)
    return calls


def with_gradients(mixer: Attention, x: Tensor, mask: Tensor) -> list[Tensor]:
    x = x.clone().requires_grad_()
    y = mixer(x, mask)
    return [y[mask], *torch.autograd.grad(y[mask].square().sum(), [x, *mixer.parameters()])]


@pytest.mark.parametrize("options", FORMS, ids=str)
def test_no_mask_is_made_where_all_tokens_are_real(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    calls = noted_kernel(monkeypatch)
    for mixer in (built(**options), built(**options).train()):
        x, mask = drawn([5, 5])
        mixer(x, mask)
        mixer(x)
    for _, added, causal in calls:
        assert (added is None) == (options["positions"] is None)
        assert causal == (options["causal"] and added is None)
        assert added is None or added.shape == (1, HEADS, 5, 5)  # for all texts


@pytest.mark.parametrize("options", FORMS, ids=str)
@pytest.mark.parametrize("left", [False, True])
def test_on_a_gpu_no_query_has_very_low_scores_only(
    options: dict[str, Any], left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kernels' gradients would be NaN. One text is of padding only, and one is long for its scores' precision."""
    mixer = built(**options).train()
    with torch.no_grad():
        mixer.query.bias.fill_(40.0)
        mixer.key.bias.fill_(-40.0)
    x, mask = drawn([9, 0, 4])
    x, mask = (x.flip(1), mask.flip(1)) if left else (x, mask)
    expected = with_gradients(mixer, x, mask)
    calls = noted_kernel(monkeypatch)
    mixer(x, mask)
    assert float(calls.pop()[0][mask.any(1)].logsumexp(-1).detach().max()) < -88  # of all queries, without care
    monkeypatch.setattr(attention, "NAN_BELOW", ("cpu",))
    found = with_gradients(mixer, x, mask)
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-7)
    assert float(calls.pop()[0].detach().logsumexp(-1).min()) > -88
    with torch.no_grad():
        mixer(x, mask)
    assert not calls[-1][0].isnan().any()


def varlen(query: Tensor, keys: Tensor, values: Tensor, *bounds: Any) -> Tensor:
    """What the documentation of torch.nn.attention.varlen says of its kernel, a sequence at a time."""
    *ends, longest_query, longest = bounds
    sizes, stops = torch.stack(ends, 1).diff(dim=0), torch.stack(ends, 1)[1:]
    assert int(ends[1][-1]) == len(keys) == len(values)
    assert all(item.dtype == torch.int32 for item in ends)
    assert bool((sizes.amax(0) <= torch.tensor([longest_query, longest])).all())
    parts = []
    for (q, k), (q_end, k_end) in zip(sizes.tolist(), stops.tolist(), strict=True):
        some = query[q_end - q : q_end].transpose(0, 1) * query.shape[2] ** -0.5
        own = keys[k_end - k : k_end].transpose(0, 1)
        parts.append(((some @ own.mT).softmax(-1) @ values[k_end - k : k_end].transpose(0, 1)).transpose(0, 1))
    return torch.cat(parts)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_on_a_gpu_lengths_are_given_in_place_of_a_mask(
    scale: bool, cross: bool, left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixer = built(dim=32, scale=scale).train()
    x, mask = drawn([9, 0, 4], dim=32)
    x, mask = (x.flip(1), mask.flip(1)) if left else (x, mask)
    given = [x[:, :5], mask[:, :5] | True, x, mask] if cross else [x, mask]
    wanted = [x, *mixer.parameters()]
    x.requires_grad_()

    def results() -> list[Tensor]:
        y = mixer(*given)[mask.any(1)] if cross else mixer(*given)[mask]
        return [y, *torch.autograd.grad(y.square().sum(), wanted)]

    expected = results()
    monkeypatch.setattr(attention, "NAN_BELOW", ("cpu",))
    monkeypatch.setattr(lengths, "can_use_flash_attention", lambda _: True)
    monkeypatch.setattr(lengths, "varlen_kernel", lambda: varlen)
    calls = noted_kernel(monkeypatch)
    torch.testing.assert_close(results(), expected, rtol=1e-7, atol=1e-7)
    with torch.no_grad():
        assert mixer(*given).isfinite().all()
    assert not calls, "the other kernel, with a mask"
    mixer.dropout = 1e-9  # that kernel has none
    monkeypatch.setattr(Attention, "_explicit", lambda *_: False)
    results()
    assert len(calls) == 1


def test_a_causal_form_needs_no_mask_where_texts_have_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = noted_kernel(monkeypatch)
    x, mask = drawn([5, 2, 0])
    built(causal=True).train()(x, mask)
    assert [(added, causal) for _, added, causal in calls] == [(None, True)]


@pytest.mark.parametrize("options", FORMS, ids=str)
def test_in_bfloat16_moved_scores_give_the_same(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    mixer = built(**options).train()
    x, mask = drawn([9, 6])
    exact = with_gradients(mixer, x, mask)
    monkeypatch.setattr(attention, "NAN_BELOW", ("cpu",))
    monkeypatch.setattr(attention, "EXPLICIT_KEYS", 0)
    with torch.autocast("cpu", torch.bfloat16):
        found = with_gradients(mixer.float(), x.float(), mask)
    largest = max(float(reference.abs().max()) for reference in exact[1:])  # the gradient of the key's bias is zero
    for value, reference in zip(found, exact, strict=True):
        torch.testing.assert_close(value.double(), reference, rtol=0.0, atol=0.02 * largest)


@pytest.mark.parametrize("options", FORMS, ids=str)
@pytest.mark.parametrize("guarded", [False, True])
def test_biases_of_long_texts_are_made_for_some_queries_at_a_time(
    options: dict[str, Any], guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "NAN_BELOW", ("cpu",) if guarded else ())
    mixer = built(**options).train()
    for x, mask in (drawn([9, 6]), drawn([9])):
        expected = with_gradients(mixer, x, mask)
        monkeypatch.setattr(attention, "MOST_BIASES", 40)
        calls = noted_kernel(monkeypatch)
        torch.testing.assert_close(with_gradients(mixer, x, mask), expected, **EXACT)
        monkeypatch.undo()
        monkeypatch.setattr(attention, "NAN_BELOW", ("cpu",) if guarded else ())
        if options["positions"] is not None:
            assert all(added is not None and added.numel() <= 40 for _, added, _ in calls)


@pytest.mark.slow
def test_a_text_of_32768_tokens_needs_memory_that_grows_with_its_length() -> None:
    """Its scores would be 4 GB."""
    mixer = Attention(dim=4, num_heads=1, causal=True).train()
    x = torch.randn(1, 32_768, 4, requires_grad=True)
    mixer(x[:, :64]).sum().backward()
    before = getrusage(RUSAGE_SELF).ru_maxrss
    mixer(x).sum().backward()
    assert getrusage(RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes


def test_the_form_with_dropout_is_the_kernel_s() -> None:
    """A rate that drops nothing takes the explicit form."""
    found = []
    for rate in (0.0, 1e-9):
        mixer, (x, mask) = built(dropout=rate, positions=EVERY_DISTANCE).train(), drawn([5, 3])
        x.requires_grad_()
        y = mixer(x, mask)
        found.append((y, *torch.autograd.grad(y.square().sum(), [x, *mixer.parameters()])))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("length", [5, attention.EXPLICIT_KEYS, attention.EXPLICIT_KEYS + 1])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_few_keys_in_bfloat16_are_trained_without_the_kernel(
    monkeypatch: pytest.MonkeyPatch, length: int, dtype: torch.dtype
) -> None:
    mixer = built(positions=T5_POSITIONS).float().train()
    x, mask = (item.float() if item.is_floating_point() else item for item in drawn([length, 3]))
    used: list[bool] = []
    kernel = torch.nn.functional.scaled_dot_product_attention

    def noting(*given: Any, **options: Any) -> Tensor:
        used.append(torch.is_grad_enabled())
        return kernel(*given, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", noting)

    def mixed() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
            return mixer(x, mask)

    y = mixed()
    assert used == ([] if dtype is torch.bfloat16 and length <= attention.EXPLICIT_KEYS else [True])
    with torch.no_grad():
        other = mixed()
    assert used[-1:] == [False]
    torch.testing.assert_close(y[mask].detach(), other[mask], rtol=0.0, atol=0.02 * float(other[mask].abs().max()))


def test_steps_keep_keys_and_values_and_cross_steps_the_context() -> None:
    mixer = built(causal=True)
    x, _ = drawn([3, 3])
    state = mixer.start(x[:, 0])
    for now in range(3):
        _, state = mixer.step(x[:, now], state)
    held = {"keys": (2, 2, 0, 3), "values": (2, 2, 0, 3), "new_keys": (2, 2, 3, 3), "new_values": (2, 2, 3, 3)}
    assert {key: tuple(value.shape) for key, value in state.items()} == held
    context, _ = drawn([5, 5], seed=2)
    start = built().start(x[:, 0], context)
    _, state = built().step(x[:, 0], start)
    assert state is start
    with pytest.raises(AssertionError, match="causal"):
        built().start(x[:, 0])


def test_cross_mixing_with_positions_is_refused() -> None:
    assert AttentionConfig().supports_cross
    assert not AttentionConfig(positions=T5_POSITIONS).supports_cross
    x, mask = drawn([3])
    with pytest.raises(AssertionError, match="knows no distances"):
        built(positions=T5_POSITIONS)(x, mask, x, mask)


def test_the_bias_of_the_keys_changes_nothing() -> None:
    mixer, (x, mask) = built(), drawn([5, 3])
    before = mixer(x, mask)
    with torch.no_grad():
        mixer.key.bias += 1.0
    torch.testing.assert_close(mixer(x, mask), before, **EXACT)


def test_it_starts_alike_with_and_without_the_scale() -> None:
    torch.manual_seed(0)
    scaled = AttentionConfig().build(64, MAX_LEN)
    torch.manual_seed(0)
    plain = AttentionConfig(scale=False, positions=T5_POSITIONS).build(64, MAX_LEN)
    x = torch.randn(2, 5, 64)
    mask = torch.ones(2, 5, dtype=torch.bool)
    torch.testing.assert_close(plain(x, mask), scaled(x, mask))
    assert isinstance(scaled, Attention)
    for linear in (scaled.query, scaled.key, scaled.value, scaled.out):
        assert not linear.bias.any()
        assert float(linear.weight.detach().abs().max()) == pytest.approx(
            math.sqrt(6 / 128), rel=1e-2
        )  # Xavier, uniform


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 4 * (768**2 + 768)),
        ({"bias": False}, 4 * 768**2),
        ({"head_dim": 10}, 3 * (768 * 120 + 120) + 120 * 768 + 768),
        ({"positions": {"num_buckets": 32}}, 4 * (768**2 + 768) + 32 * 12),
        ({"positions": {}}, 4 * (768**2 + 768) + 3060),
    ],
)
def test_parameters_of_base_size(options: dict[str, Any], expected: int) -> None:
    with torch.device("meta"):
        mixer = mixer_config({"type": "attention", "num_heads": 12, **options}).build(768, 128)
    assert sum(parameter.numel() for parameter in mixer.parameters()) == expected


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="width 6 is not a multiple of num_heads 4; change one of them, or set head_"):
        AttentionConfig(num_heads=4).build(6, MAX_LEN)
    assert AttentionConfig(num_heads=4, head_dim=2).build(6, MAX_LEN).max_len is None
    assert AttentionConfig(num_heads=2, positions=T5_POSITIONS).build(6, MAX_LEN).max_len is None
    assert AttentionConfig(num_heads=2, positions=EVERY_DISTANCE).build(6, MAX_LEN).max_len == MAX_LEN
    with pytest.raises(ConfigError, match="max_distance: got 8; with num_buckets = 32 it must be over 16"):
        mixer_config({"type": "attention", "positions": {"num_buckets": 32, "max_distance": 8}})
    with pytest.raises(ConfigError, match="max_distance = 8 is of buckets; set num_buckets"):
        mixer_config({"type": "attention", "positions": {"max_distance": 8}})
    for wrong in ({"num_buckets": 7}, {"num_buckets": 2}, {"buckets": 32}):
        with pytest.raises(ConfigError, match=r"positions\."):
            mixer_config({"type": "attention", "positions": wrong})


@pytest.mark.parametrize(("num_buckets", "causal"), [(None, False), (None, True), (8, False), (8, True)])
def test_biases_may_begin_with_near_keys(num_buckets: int | None, causal: bool) -> None:
    positions = RelativePositions(num_buckets=num_buckets, max_distance=num_buckets and 16, init="alibi")
    bias = RelativeBias(positions, num_heads=4, max_len=MAX_LEN, causal=causal)
    found = bias(MAX_LEN, MAX_LEN).detach()
    exact = 2 if num_buckets and not causal else 4 if num_buckets else MAX_LEN  # distances with a bucket of their own
    for head in range(4):
        for i in range(MAX_LEN):
            for j in range(i + 1 if causal else MAX_LEN):
                distance, slope = abs(i - j), 2.0 ** (-8 * (head + 1) / 4)
                if distance < exact:
                    assert float(found[head, i, j]) == -slope * distance
                else:
                    assert -slope * distance <= float(found[head, i, j]) <= -slope * exact
        assert torch.isfinite(bias.weight).all()
    with torch.device("meta"):  # counts are made there
        RelativeBias(positions, num_heads=4, max_len=MAX_LEN, causal=causal)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("scale", [False, True])
def test_steps_are_the_parallel_form_however_the_keys_are_held(
    monkeypatch: pytest.MonkeyPatch, relative: bool, scale: bool
) -> None:
    monkeypatch.setattr(base, "_NEW", 3)
    monkeypatch.setattr(base, "_NEW_NUMBERS", 0)
    mixer = built(causal=True, scale=scale, positions=T5_POSITIONS if relative else None)
    x = torch.randn(3, 8, DIM, dtype=torch.float64)
    wanted = mixer(x, torch.ones(3, 8, dtype=torch.bool))
    state, held = mixer.start(x[:, 0]), set()
    for location in range(8):
        y, state = mixer.step(x[:, location], state)
        torch.testing.assert_close(y, wanted[:, location])
        held.add((state["keys"].shape[2], state["new_keys"].shape[2]))
        state = {name: value.index_select(0, torch.arange(3)) for name, value in state.items()}
    assert {(0, 1), (3, 0), (3, 2), (6, 2)} <= held
