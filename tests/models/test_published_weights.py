"""Weights of the authors' HyperMixing and of timm's image models: loaded, and with the same answers as there."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mixling import ConfigError
from mixling.mixers import HyperMixing, mixer_config
from mixling.models.published_weights import load_hypermixing

DIM, HIDDEN, HEADS, LENGTH = 8, 12, 2, 7


def built(**values: Any) -> HyperMixing:
    config = {"type": "hypermixing", "hidden_dim": HIDDEN, "tied": False, "num_heads": HEADS, **values}
    mixer = mixer_config(config).build(DIM, 16).double()
    assert isinstance(mixer, HyperMixing)
    return mixer


def authors_weights(*, bias: bool) -> dict[str, Tensor]:
    """A state as the authors' module has it: weights of each head, (K, out, in)."""
    made = torch.Generator().manual_seed(0)
    inner, units = DIM // HEADS, HIDDEN // HEADS
    shapes: dict[str, tuple[int, ...]] = {"layer_norm.weight": (DIM,), "layer_norm.bias": (DIM,)}
    for name in ("w1_gen", "w2_gen"):
        shapes[f"hyper.{name}.fc1_weights"] = (HEADS, inner, inner)
        shapes[f"hyper.{name}.fc2_weights"] = (HEADS, units, inner)
        if bias:
            shapes |= {f"hyper.{name}.fc1_biases": (HEADS, inner), f"hyper.{name}.fc2_biases": (HEADS, units)}
    return {name: torch.randn(shape, generator=made, dtype=torch.float64) for name, shape in shapes.items()} | {
        "token_information.pe": torch.zeros(1, 3, DIM)
    }


def idiap(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    """The published layer for one text, token by token: HyperMixing of idiap/hypermixing at commit d35415c."""
    placed = x.clone()
    for token in range(len(x)):
        for i in range(0, DIM, 2):
            placed[token, i] = x[token, i] * DIM**0.5 + math.sin((token + 1) / 10_000 ** (2 * i / DIM))
            placed[token, i + 1] = x[token, i + 1] * DIM**0.5 + math.cos((token + 1) / 10_000 ** (2 * (i + 1) / DIM))
    inner, out = DIM // HEADS, torch.zeros_like(x)
    for head in range(HEADS):
        mine = slice(head * inner, (head + 1) * inner)
        w1, w2 = (
            torch.stack(
                [
                    weights[f"hyper.{name}.fc2_weights"][head]
                    @ nn.functional.gelu(weights[f"hyper.{name}.fc1_weights"][head] @ token)
                    for token in placed[:, mine]
                ]
            )
            for name in ("w1_gen", "w2_gen")
        )
        for channel in range(head * inner, (head + 1) * inner):
            out[:, channel] = w2 @ nn.functional.gelu(w1.T @ x[:, channel])
    return nn.functional.layer_norm(out, (DIM,), weights["layer_norm.weight"], weights["layer_norm.bias"])


def test_it_is_the_published_layer() -> None:
    weights = authors_weights(bias=False)
    mixer = built(positions="idiap", bias=False)
    load_hypermixing(mixer, weights)
    x = torch.randn(2, LENGTH, DIM, dtype=torch.float64)
    # Positions are in single precision.
    torch.testing.assert_close(mixer(x)[1], idiap(weights, x[1]), rtol=0, atol=1e-5)
    padded = torch.cat([x, torch.full((2, 2, DIM), 9.0, dtype=torch.float64)], 1)
    mask = torch.arange(LENGTH + 2) < LENGTH
    torch.testing.assert_close(mixer(padded, mask.expand(2, -1))[:, :LENGTH], mixer(x))


@pytest.fixture
def speechbrain(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module alone: the package imports what is not installed here, and its positions are Vaswani's."""
    found = importlib.util.find_spec("speechbrain")
    if found is None or found.submodule_search_locations is None:
        pytest.skip("speechbrain is not installed (pip install --no-deps speechbrain)")
    (folder,) = found.submodule_search_locations

    class PositionalEncoding(nn.Module):
        def __init__(self, input_size: int, max_len: int) -> None:
            super().__init__()
            angles = torch.arange(max_len).double()[:, None] / 10_000 ** (torch.arange(0, input_size, 2) / input_size)
            self.register_buffer("pe", torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[None])

        def forward(self, x: Tensor) -> Tensor:
            return self.pe[:, : x.shape[1]]

    names = ["speechbrain", "speechbrain.lobes", "speechbrain.lobes.models", "speechbrain.lobes.models.transformer"]
    for name in [*names, f"{names[-1]}.Transformer"]:
        module = ModuleType(name)
        module.PositionalEncoding = PositionalEncoding  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
    spec = importlib.util.spec_from_file_location("published", Path(folder) / "nnet" / "hypermixing.py")
    assert spec is not None
    assert spec.loader is not None
    published = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(published)
    return published


@pytest.mark.parametrize("tied", [False, True])
def test_it_is_the_port_in_speechbrain_with_gradients(speechbrain: ModuleType, tied: bool) -> None:
    theirs = speechbrain.HyperMixing(DIM, HIDDEN, num_heads=HEADS, tied=tied, max_length=50).double()
    ours = built(tied=tied)
    load_hypermixing(ours, theirs.state_dict())
    x = torch.randn(2, LENGTH, DIM, dtype=torch.float64)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    outputs = [ours(inputs[0]), theirs(inputs[1], inputs[1], inputs[1])[0]]
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-6)
    for output in outputs:
        (output * torch.arange(output.numel()).view_as(output)).sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=1e-5, atol=1e-5)


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"weights without hyper.w1_gen.fc1_biases"):
        load_hypermixing(built(), authors_weights(bias=False))
    with pytest.raises(ConfigError, match=r"a mixer without hyper.w1_gen.fc1_biases"):
        load_hypermixing(built(bias=False), authors_weights(bias=True))
    with pytest.raises(ConfigError, match=r"fc2_weights has \(2, 6, 4\), which does not fit \(16, 4\) here"):
        load_hypermixing(built(bias=False, hidden_dim=16), authors_weights(bias=False))
