"""Training steps written by hand against the same layers as torch differentiates them, which is in evaluation mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mixling import ModelConfig, TextConfig, build_model, model_config
from mixling.layers import TagScores, fused, plain_operations, sequence_losses
from mixling.mixers import HyperMixingConfig, TokenMLPConfig, hypermixing
from mixling.models import Block, PoolingHead, ProjectionEmbedding
from mixling.networks import BlockConfig, EmbeddingConfig, FeedForwardConfig, HeadConfig
from mixling.text import MinHash

MASK = torch.tensor([[True] * 5, [True, True, False, False, False], [False] * 5, [True, False, True, False, False]])
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 0.03}


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=[4, 8, 16, fused._TILE])
def registers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each set of instructions that the processor has."""
    if request.param == fused._TILE and not fused._steps.has_matrix_unit():
        pytest.skip("this processor has no matrix unit (AMX), or the system does not permit its use")
    monkeypatch.setattr(fused, "_REGISTERS", request.param)


def gradients(module: nn.Module, call: Callable[..., Tensor], *inputs: Tensor, training: bool) -> dict[str, Tensor]:
    """The output of a call and all gradients of a random weighting of it."""
    module.train(training)
    module.zero_grad()
    leaves = [item.detach().clone().requires_grad_(item.is_floating_point()) for item in inputs]
    out = call(*leaves).float()
    (out * torch.randn(out.shape, generator=torch.Generator().manual_seed(1))).sum().backward()
    found = {name: item.grad for name, item in module.named_parameters()}
    found |= {str(i): item.grad for i, item in enumerate(leaves) if item.is_floating_point()}
    return {"out": out} | {name: grad for name, grad in found.items() if grad is not None}


def used_functions(out: Tensor) -> str:
    """The names of all nodes of a graph."""
    names, nodes = "", [out.grad_fn]
    while nodes:
        node = nodes.pop()
        names += f"{type(node).__name__} "
        nodes += [following for following, _ in node.next_functions if following is not None]
    return names


def assert_same(
    monkeypatch: pytest.MonkeyPatch,
    function: type[torch.autograd.Function],
    module: nn.Module,
    call: Callable[..., Tensor],
    *inputs: Tensor,
    precision: torch.dtype = torch.float32,
) -> None:
    used: list[Any] = []
    forward = function.forward
    monkeypatch.setattr(function, "forward", lambda *args: (used.append(args), forward(*args))[1])

    def cast(*args: Tensor) -> Tensor:
        with torch.autocast("cpu", precision, enabled=precision is not torch.float32):
            return call(*args)

    expected = gradients(module, cast, *inputs, training=False)
    assert not used
    got = gradients(module, cast, *inputs, training=True)
    assert used
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        error, size = (got[name] - value).abs().max(), value.abs().max().clamp_min(1e-3)
        assert error <= TOLERANCE[precision] * size, name


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("dim", "inner", "length"), [(16, 48, 5), (80, 16, 64), (64, 144, 33)])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.usefixtures("registers")
def test_a_feed_forward_sublayer(
    monkeypatch: pytest.MonkeyPatch,
    precision: torch.dtype,
    bias: bool,
    dim: int,
    inner: int,
    length: int,
    threads: int,
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(fused, "_WORK_OF_THREAD", 1_000)
    block = Block(BlockConfig(feed_forward=FeedForwardConfig(ffn_dim=inner, bias=bias)), dim=dim, max_len=length)
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=2 * dim**-0.5)
    x = torch.randn(3, length, dim)
    mask = torch.ones(3, length, dtype=torch.bool)
    assert_same(monkeypatch, fused.FeedForwardSublayer, block, lambda x: block(x, mask), x, precision=precision)


def test_a_sublayer_is_finite_far_from_zero() -> None:
    block = Block(BlockConfig(feed_forward=FeedForwardConfig(ffn_dim=16)), dim=16, max_len=1).train()
    nn.init.constant_(block.feed_forward.expand.weight, 0.0)
    block.feed_forward.expand.bias.data = torch.tensor([-1e30, -200, -15, -6, 6, 15, 200, 1e30] * 2)
    x = torch.randn(1, 1, 16, requires_grad=True)
    block(x).sum().backward()
    slopes = block.feed_forward.expand.bias.grad / block.feed_forward.contract.weight.sum(0)
    expected = torch.tensor([0.0, 0, 0, 0, 1, 1, 1, 1] * 2)
    torch.testing.assert_close(slopes, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("dim", "hidden", "length", "max_len"), [(16, 5, 5, 5), (80, 56, 66, 66), (64, 144, 33, 40)])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.usefixtures("registers")
def test_an_mlp_over_tokens(
    monkeypatch: pytest.MonkeyPatch,
    dim: int,
    hidden: int,
    length: int,
    max_len: int,
    threads: int,
    precision: torch.dtype,
) -> None:
    """Of texts with padding, of one without a token, and of one with a hole; what is in padding has no part in it."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(fused, "_WORK_OF_THREAD", 1_000)
    mixer = TokenMLPConfig(hidden_dim=hidden).build(dim=dim, max_len=max_len)
    for parameter in mixer.parameters():
        nn.init.normal_(parameter)
    mask = torch.ones(4, length, dtype=torch.bool)
    mask[1, 2:], mask[2], mask[3, 1] = False, False, False
    x = torch.randn(4, length, dim)
    real = mask[..., None]

    def mixed(x: Tensor) -> Tensor:
        return torch.where(real, mixer(x, mask), 0)

    assert_same(monkeypatch, fused.TokenMixing, mixer, mixed, x, precision=precision)
    monkeypatch.undo()
    found = mixer(x, mask)
    x[~mask] = torch.nan
    assert torch.equal(mixer(x, mask), found)
    assert found[~mask][-1].isfinite().all()


@pytest.mark.parametrize(("dim", "hidden", "heads"), [(16, 5, 1), (80, 70, 1), (128, 144, 2)])
@pytest.mark.parametrize(("length", "context"), [(1, 7), (13, 0), (32, 1), (66, 0), (9, 80)])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.usefixtures("registers")
def test_mixing_with_generated_weights(
    monkeypatch: pytest.MonkeyPatch,
    dim: int,
    hidden: int,
    heads: int,
    length: int,
    context: int,
    tied: bool,
    threads: int,
    precision: torch.dtype,
) -> None:
    """Of the tokens themselves, and of a context."""
    monkeypatch.setattr(hypermixing, "FUSED_TOKENS", 80)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(fused, "_WORK_OF_THREAD", 1_000)
    mixer = HyperMixingConfig(hidden_dim=hidden, num_heads=heads, tied=tied, norm=False).build(dim, 80)
    monkeypatch.setattr(mixer, "_factored", lambda rows, uses: False)
    given = [torch.randn(4, length, dim), torch.arange(length) < torch.tensor([[length], [1], [0], [length // 2 + 1]])]
    if context:
        given += [torch.randn(4, context, dim), torch.arange(context) < torch.tensor([[1], [context], [context], [0]])]
    assert_same(monkeypatch, fused.GeneratedMixing, mixer, mixer, *given, precision=precision)


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.usefixtures("registers")
def test_generated_weights_in_bfloat16_are_mixed_in_the_faster_way(more: int) -> None:
    length, is_fused = hypermixing.FUSED_TOKENS + more, not more or fused.multiplies_in_tiles()
    mixer = HyperMixingConfig(hidden_dim=64, norm=False).build(64, 80)
    x, mask = torch.randn(2, length, 64), torch.ones(2, length, dtype=torch.bool)
    outs = {}
    for training in (True, False):
        with torch.autocast("cpu", torch.bfloat16):
            outs[training] = mixer.train(training)(x, mask)
    assert ("GeneratedMixing" in used_functions(outs[True])) == is_fused
    assert "GeneratedMixing" not in used_functions(outs[False])
    error = (outs[True] - outs[False]).abs().max() / outs[False].abs().max()
    assert error <= TOLERANCE[torch.bfloat16]


@pytest.mark.usefixtures("registers")
def test_gradients_far_from_zero_are_no_subnormal_numbers() -> None:
    """With which processors compute a hundred times as slowly."""
    x, w1 = torch.full((1, 1, 16), 13.25), torch.tensor([[[-1.0, 1.0]]])
    leaves = [item.requires_grad_() for item in (x, w1, torch.full((1, 1, 2), 1e-3))]
    fused.GeneratedMixing.apply(*leaves).sum().backward()
    for leaf in leaves:
        assert ((leaf.grad == 0) | (leaf.grad.abs() > torch.finfo(torch.float32).tiny)).all()
    assert leaves[1].grad[0, 0, 0].abs() < 1e-6 < leaves[1].grad[0, 0, 1]


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("window", "kind"), [(0, "full"), (1, "full"), (1, "factorized"), (4, "factorized")])
@pytest.mark.usefixtures("registers")
def test_windows(monkeypatch: pytest.MonkeyPatch, precision: torch.dtype, window: int, kind: Any) -> None:
    config = EmbeddingConfig(window=window, window_type=kind)
    layer = ProjectionEmbedding(config, num_features=7, dim=48, max_len=9)
    positions, index = torch.randint(0, 7, (67, 3), dtype=torch.int32), torch.randint(0, 68, (4, 5))
    for weights in (None, torch.randn(67, 3)):
        index[1, 2:] = 0
        assert_same(
            monkeypatch,
            fused.Windows,
            layer,
            lambda weights=weights: layer.embed(positions, weights, index, MASK),
            precision=precision,
        )
        monkeypatch.undo()


@pytest.mark.usefixtures("registers")
def test_three_pools_of_texts_with_and_without_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    head = PoolingHead(HeadConfig(pooling="all"), dim=16, num_outputs=3)
    x = torch.randn(4, 5, 16)
    x[0, 1] = x[0, 0]  # where tokens share the maximum, they share its gradient
    assert_same(monkeypatch, fused.Pools, head, lambda x: head(x, MASK), x)


def test_padding_that_is_not_finite_has_no_effect_on_pools() -> None:
    head = PoolingHead(HeadConfig(pooling="all"), dim=16, num_outputs=3).train()
    x = torch.randn(4, 5, 16)
    expected = head(x, MASK)
    x[~MASK] = torch.inf
    torch.testing.assert_close(head(x, MASK), expected)


WIDTH = 80  # five registers of the widest


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("bags", "size"), [(5, 4), (1, 1), (0, 3)])
@pytest.mark.usefixtures("registers")
def test_sums_and_gradients_equal_loops(bags: int, size: int, weighted: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(7, WIDTH, generator=generator, requires_grad=True)
    features = torch.randint(0, 6, (bags, size), generator=generator, dtype=torch.int32)  # some rows several times
    factors = torch.randn(bags, size, generator=generator) if weighted else None
    grad = torch.randn(bags, WIDTH, generator=generator)
    expected, expected_grad = np.zeros((bags, WIDTH)), np.zeros((7, WIDTH))
    for bag, row in enumerate(features.tolist()):
        for number, feature in enumerate(row):
            factor = 1.0 if factors is None else float(factors[bag, number])
            expected[bag] += factor * weight[feature].detach().numpy()
            expected_grad[feature] += factor * grad[bag].numpy()
    sums = fused.sum_bags(features, weight, factors)
    sums.backward(grad)
    np.testing.assert_allclose(sums.detach().numpy(), expected, atol=1e-5)
    assert weight.grad is not None
    np.testing.assert_allclose(weight.grad.numpy(), expected_grad, atol=1e-5)


def test_without_gradients_and_in_other_precisions_the_sums_are_the_same() -> None:
    weight = torch.randn(7, WIDTH, generator=torch.Generator().manual_seed(0))
    features = torch.tensor([[0, 1, 1], [6, 6, 2]], dtype=torch.int32)
    sums = fused.sum_bags(features, weight, None)
    double = fused.sum_bags(features, weight.double().requires_grad_(), None)
    np.testing.assert_allclose(sums.numpy(), weight[features.long()].sum(1).numpy(), atol=1e-6)
    np.testing.assert_allclose(sums.numpy(), double.detach().numpy(), atol=1e-6)


@pytest.mark.parametrize(("texts", "length", "tags"), [(5, 7, 3), (3, 4, 16), (9, 12, 67), (2, 1, 5)])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.usefixtures("registers")
def test_losses_of_sequences(texts: int, length: int, tags: int, training: bool) -> None:
    """Beside the form in torch, which float64 has; of texts with padding, with a hole, and without a target."""
    generator = torch.Generator().manual_seed(tags)
    logits = 4 * torch.randn(texts, length, tags, generator=generator)
    transitions = 4 * torch.randn(tags, tags, generator=generator)
    targets = torch.randint(0, tags, (texts, length), generator=generator)
    targets[0, length // 2 :], targets[1, length // 3], targets[-1] = -100, -100, -100
    weights = torch.rand(texts, generator=generator)
    found = []
    for precision in (torch.float32, torch.float64):
        leaves = [item.detach().to(precision).requires_grad_(training) for item in (logits, transitions)]
        scores = TagScores(leaves[0].mT.contiguous().mT, leaves[1].mT.contiguous().mT)  # in another order in memory
        losses, words = sequence_losses(scores, targets, ignored=-100)
        if training:
            assert ("SequenceLosses" in type(losses.grad_fn).__name__) == (precision is torch.float32)
            (losses * weights).sum().backward()
        found.append([losses.detach(), words, *((item.grad for item in leaves) if training else ())])
    for got, expected in zip(*found, strict=True):
        torch.testing.assert_close(got, expected.to(got), atol=1e-4, rtol=1e-4)


def test_arrays_that_do_not_fit_are_refused() -> None:
    native = fused._steps
    features, rows, sums = np.zeros((2, 3), np.int32), np.zeros((4, 16), np.float32), np.zeros((2, 16), np.float32)
    native.sum_bags(16, 2, 3, 16, 4, features, None, rows, sums)
    with pytest.raises(ValueError, match="argument 7 has another size"):
        native.sum_bags(16, 2, 3, 16, 5, features, None, rows, sums)
    with pytest.raises(ValueError, match="no multiple of 16"):
        native.sum_bags(16, 2, 3, 8, 8, features, None, rows, sums)
    with pytest.raises(ValueError, match="too large"):
        native.sum_bags(16, 2, 3, 1 << 20, 8, features, None, rows, sums)
    with pytest.raises(ValueError, match="an array is None"):
        native.sum_bags(16, 2, 3, 16, 4, features, None, None, sums)
    with pytest.raises(IndexError):
        native.sum_bags(16, 2, 3, 16, 4, features)
    with pytest.raises(TypeError):
        native.sum_bags(16, 2, 3, 16, 4, "features", None, rows, sums)
    for outside in (-1, 4):
        with pytest.raises(ValueError, match="feature index is out of range"):
            native.sum_bags(16, 2, 3, 16, 4, np.full_like(features, outside), None, rows, sums)
    words, tokens = np.zeros((1, 16), np.float32), np.zeros((1, 2, 16), np.float32)
    weights, real = np.zeros((3, 4), np.float32), np.ones((1, 2), bool)
    mlp = tokens, real, weights, weights[:, 0].copy(), weights, tokens.copy(), weights[0]
    native.token_mlp(16, False, 1, 2, 16, 3, 4, *mlp)
    with pytest.raises(ValueError, match="more tokens than weights"):
        native.token_mlp(16, False, 1, 2, 16, 3, 1, *mlp)
    with pytest.raises(ValueError, match="an array is None"):
        native.token_mlp(16, False, 1, 2, 16, 3, 4, *mlp[:-1], None)
    with pytest.raises(ValueError, match="argument 8 has another size"):
        native.token_mlp(16, False, 1, 2, 16, 3, 4, tokens, real[:, :1].copy(), *mlp[2:])
    of_text = tokens, weights[None, :2].copy(), weights[None, :1].copy()
    native.generated(16, False, 1, 2, 1, 16, 4, *of_text, tokens[:, :1].copy())
    with pytest.raises(ValueError, match="argument 8 has another size"):
        native.generated(16, False, 1, 2, 1, 16, 5, *of_text, tokens[:, :1].copy())
    with pytest.raises(ValueError, match="different numbers of tokens"):
        native.generated(16, False, 1, 2, 1, 16, 4, *of_text[:2], None, tokens[:, :1].copy())
    with pytest.raises(ValueError, match="an array is None"):
        native.generated_backward(
            16, False, 1, 2, 1, 16, 4, *of_text, tokens[:, :1].copy(), tokens, weights[:2].copy(), None
        )
    scores, losses = (np.zeros((1, 2, 3), np.float32), np.zeros((3, 3), np.float32)), np.zeros(1, np.float32)
    native.sequence_losses(16, 1, 2, 3, -1, *scores, np.array([2, -1]), None, None, losses)
    with pytest.raises(ValueError, match="target is out of range"):
        native.sequence_losses(16, 1, 2, 3, -1, *scores, np.array([2, 3]), None, None, losses)
    with pytest.raises(ValueError, match="an array is None"):
        native.sequence_losses_backward(16, 1, 2, 3, -1, *scores, np.array([2, -1]), None, None, losses, *scores)
    native.windows(16, False, 1, 16, 16, 0, 1, 2, words, None, np.array([0, 1]), None, tokens)
    for outside in (-1, 2):
        with pytest.raises(ValueError, match="index of a word is out of range"):
            native.windows(16, False, 1, 16, 16, 0, 1, 2, words, None, np.array([0, outside]), None, tokens)


def test_operations_of_torch_compute_the_same() -> None:
    block = Block(BlockConfig(feed_forward=FeedForwardConfig(ffn_dim=48)), dim=16, max_len=5)
    x = torch.randn(4, 5, 16)
    expected = gradients(block, lambda x: block(x, MASK), x, training=True)
    with plain_operations():
        computed = gradients(block, lambda x: block(x, MASK), x, training=True)
    for name, value in computed.items():
        torch.testing.assert_close(value, expected[name], atol=1e-5, rtol=1e-4)


def test_evaluation_without_gradients_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ModelConfig(
        text=TextConfig(projection=MinHash(num_features=7, num_hashes=3), max_len=9),
        embedding=EmbeddingConfig(window=1, window_type="factorized"),
        dim=16,
        layers=(BlockConfig(feed_forward=FeedForwardConfig(ffn_dim=32)),),
        head=HeadConfig(pooling="all"),
    )
    model = build_model(config, 3, seed=0).eval()
    inputs = torch.randint(0, 7, (6, 3), dtype=torch.int32), None, torch.randint(0, 7, (4, 5), dtype=torch.int32), MASK
    used: list[str] = []
    for function in (fused.SumBags, fused.Windows, fused.FeedForwardSublayer, fused.Pools):
        forward = function.forward
        name = function.__name__
        monkeypatch.setattr(
            function, "forward", lambda *args, forward=forward, name=name: (used.append(name), forward(*args))[1]
        )
    with plain_operations():
        expected = model(*inputs)
    assert not used
    for without in (torch.no_grad, torch.inference_mode):
        with without():
            torch.testing.assert_close(model(*inputs), expected.detach(), atol=1e-5, rtol=1e-4)
    assert used == 2 * ["SumBags", "Windows", "FeedForwardSublayer", "Pools"]


@pytest.mark.parametrize(("texts", "tokens", "words"), [(0, 5, 2), (2, 0, 2), (2, 3, 0)])
@pytest.mark.parametrize("training", [True, False])
def test_models_read_no_texts_tokens_or_words(texts: int, tokens: int, words: int, training: bool) -> None:
    model = build_model(model_config("mixling-small"), 3, seed=0).train(training)
    features, index = torch.zeros(words, 64, dtype=torch.int32), torch.zeros(texts, tokens, dtype=torch.long)
    logits = model(features, None, index, index != 0)
    logits.sum().backward()
    assert torch.equal(logits, model.head.output.bias.expand(texts, 3))
    with torch.no_grad():
        assert torch.equal(model(features, None, index, index != 0), logits)
