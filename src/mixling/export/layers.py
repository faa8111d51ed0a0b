"""The layers of a network as arrays, for the writers of the graph and of the plan.

Mixers that need PyTorch remain its modules; all other layers are described once, whichever engine trained them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from mixling.arrays import Float32
from mixling.networks.blocks import BlockConfig, NormType
from mixling.networks.mixers import IdentityConfig, TokenMLPConfig
from mixling.networks.network import TRANSITION_SCORES, NamedWeights, TextNetwork

LAYER_NORM_EPS = 1e-5
_RMS_NORM_EPS = 1e-6


class Unknown(Exception):
    """A layer has no description as arrays."""


@dataclass(frozen=True, eq=False)
class LinearLayer:
    """y = W x + b, W (outputs, inputs)."""

    weight: Float32
    bias: Float32 | None


@dataclass(frozen=True, eq=False)
class Norm:
    """A layer norm, or with "rms" an RMSNorm without a bias."""

    kind: NormType
    weight: Float32
    bias: Float32 | None
    eps: float


@dataclass(frozen=True, eq=False)
class FeedForwardLayer:
    """See `mixling.models.block.FeedForward`; gated where there is `value`."""

    expand: LinearLayer
    contract: LinearLayer
    value: LinearLayer | None


@dataclass(frozen=True, eq=False)
class TokenMixingLayer:
    """See `mixling.mixers.token_mlp.TokenMLP`."""

    expand: LinearLayer
    contract: LinearLayer


@dataclass(frozen=True, eq=False)
class IdentityLayer:
    """No mixing."""


@dataclass(frozen=True, eq=False)
class Sublayer:
    """A mixer or a feed-forward with its norm, before it or after the residual connection."""

    layer: Any
    norm: Norm
    pre: bool


@dataclass(frozen=True, eq=False)
class Layers:
    """A network.

    Attributes:
        names: of arrays and of PyTorch's tensors, by `id`.
        positions: a module of PyTorch, or None.
        sublayers: of all blocks, in order.
        pooling: None: logits are of tokens.
        score: of attention pooling.
        output: the last layer.
    """

    names: Mapping[int, str]
    dim: int
    window: int
    spread: Float32 | None
    bias: Float32 | None
    positions: Any
    token_norm: Norm | None
    sublayers: tuple[Sublayer, ...]
    final_norm: Norm | None
    pooling: str | None
    score: LinearLayer | None
    output: LinearLayer
    transitions: Float32 | None


def layers_of(network: TextNetwork, weights: NamedWeights, module: Any) -> Layers:
    """Return the layers of a network.

    Args:
        weights: of the network.
        module: `TextNetwork.module` of it, whose mixers are described by themselves.

    Raises:
        Unknown: the writers know no such layer.
    """
    config = network.config
    if config.head.pooling == "class" and not network.of_tokens:
        raise Unknown
    names = {id(value): name for name, value in weights.items()}
    if module is not None:
        names |= {id(value): name for name, value in (*module.named_parameters(), *module.named_buffers())}
    read = _Reader(weights)
    sublayers: list[Sublayer] = []
    for number, block in enumerate(config.blocks):
        sublayers += _sublayers(read, block, f"encoder.layers.{number}", module and module.encoder.layers[number])
    options = config.embedding
    norm_type = config.blocks[-1].norm_type if config.blocks else "layer"
    pooled = not network.of_tokens
    return Layers(
        names=names,
        dim=config.dim,
        window=options.window,
        spread=weights.get("embedding.spread"),
        bias=weights.get("embedding.bias"),
        positions=None if options.positions == "none" or module is None else module.embedding.positions,
        token_norm=read.norm("embedding.norm", "layer") if options.norm else None,
        sublayers=tuple(sublayers),
        final_norm=read.norm("encoder.norm", norm_type) if config.final_norm else None,
        pooling=config.head.pooling if pooled else None,
        score=read.linear("head.score") if pooled and config.head.pooling in ("attention", "all") else None,
        output=read.linear("head.output"),
        transitions=weights.get(TRANSITION_SCORES),
    )


def table_of(weights: Mapping[str, Float32]) -> Float32:
    """Return the matrix whose rows are summed."""
    table = weights["embedding.weight"]
    return weights["embedding.embeddings"] @ table if "embedding.embeddings" in weights else table


class _Reader:
    """Reads layers from weights by name."""

    def __init__(self, weights: Mapping[str, npt.NDArray[Any]]) -> None:
        self.weights = weights

    def linear(self, name: str) -> LinearLayer:
        return LinearLayer(self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))

    def norm(self, name: str, kind: NormType) -> Norm:
        if kind == "affine":
            raise Unknown
        eps = LAYER_NORM_EPS if kind == "layer" else _RMS_NORM_EPS
        return Norm(kind, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"), eps)


def _sublayers(read: _Reader, block: BlockConfig, name: str, module: Any) -> list[Sublayer]:
    pre = block.norm == "pre"
    found = []
    for number, mixer in enumerate(block.mixers):
        at = f"{name}.mixers.{number}"
        layer: Any
        if type(mixer) is TokenMLPConfig:
            layer = TokenMixingLayer(read.linear(f"{at}.expand"), read.linear(f"{at}.contract"))
        elif type(mixer) is IdentityConfig:
            layer = IdentityLayer()
        else:
            layer = module.mixers[number]
        found.append(Sublayer(layer, read.norm(f"{name}.mixer_norms.{number}", block.norm_type), pre))
    if block.feed_forward is not None:
        at = f"{name}.feed_forward"
        value = read.linear(f"{at}.value") if block.feed_forward.type == "gated" else None
        layer = FeedForwardLayer(read.linear(f"{at}.expand"), read.linear(f"{at}.contract"), value)
        found.append(Sublayer(layer, read.norm(f"{name}.feed_forward_norm", block.norm_type), pre))
    return found
