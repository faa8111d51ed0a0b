"""Training steps written by hand against the same layers as torch differentiates them, which is in evaluation mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mixling.layers import fused
from mixling.models import (
    Block,
    BlockConfig,
    EmbeddingConfig,
    FeedForwardConfig,
    HeadConfig,
    PoolingHead,
    ProjectionEmbedding,
)

MASK = torch.tensor([[True] * 5, [True, True, False, False, False], [False] * 5, [True, False, True, False, False]])
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 0.03}


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


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
def test_a_feed_forward_sublayer(monkeypatch: pytest.MonkeyPatch, precision: torch.dtype, bias: bool) -> None:
    block = Block(BlockConfig(feed_forward=FeedForwardConfig(ffn_dim=12, bias=bias)), dim=6, max_len=9)
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.5)
    x = torch.randn(4, 5, 6)
    assert_same(monkeypatch, fused.FeedForwardSublayer, block, lambda x: block(x, MASK), x, precision=precision)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("window", "kind"), [(0, "full"), (1, "full"), (1, "factorized"), (4, "factorized")])
def test_windows(monkeypatch: pytest.MonkeyPatch, precision: torch.dtype, window: int, kind: Any) -> None:
    config = EmbeddingConfig(window=window, window_type=kind)
    layer = ProjectionEmbedding(config, num_features=7, dim=4, max_len=9)
    positions, index = torch.randint(0, 7, (6, 3), dtype=torch.int32), torch.randint(0, 7, (4, 5))
    for weights in (None, torch.randn(6, 3)):
        index[1, 2:] = 0
        assert_same(
            monkeypatch,
            fused.Windows,
            layer,
            lambda weights=weights: layer.embed(positions, weights, index, MASK),
            precision=precision,
        )
        monkeypatch.undo()


def test_three_pools_of_texts_with_and_without_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    head = PoolingHead(HeadConfig(pooling="all"), dim=6, num_outputs=3)
    x = torch.randn(4, 5, 6)
    x[0, 1] = x[0, 0]  # where tokens share the maximum, they share its gradient
    assert_same(monkeypatch, fused.Pools, head, lambda x: head(x, MASK), x)


def test_padding_that_is_not_finite_has_no_effect_on_pools() -> None:
    head = PoolingHead(HeadConfig(pooling="all"), dim=6, num_outputs=3).train()
    x = torch.randn(4, 5, 6)
    expected = head(x, MASK)
    x[~MASK] = torch.inf
    torch.testing.assert_close(head(x, MASK), expected)


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 640, 2049, 100_000])
def test_operands_are_padded_to_few_sizes(rows: int) -> None:
    size = fused._padded_size(rows)
    assert rows <= size < rows + max(64, rows / 8)
    assert len({fused._padded_size(number) for number in range(1, rows + 1)}) <= 8 * rows.bit_length()
