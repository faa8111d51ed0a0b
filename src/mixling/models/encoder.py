"""A stack of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from mixling.errors import ConfigError
from mixling.layers.masks import as_mask, check_tokens
from mixling.layers.mixer import Mixer
from mixling.layers.norms import build_norm
from mixling.models.block import Block, BlockState
from mixling.networks.blocks import BlockConfig

# The state of a stack between steps, per block.
StackState = tuple[BlockState, ...]


class Encoder(nn.Module):
    """Blocks one after another.

    Mixers configured to share positions use the positions of the first mixer of their type (T5).

    Args:
        layers: the configuration of each block.
        dim: D, the width of the tokens.
        max_len: length of the longest input, in tokens.
        final_norm: add a norm after the last block; the parameter counts of pNLP-Mixer and gMLP rule it out.
        causal: build the causal form of the mixers, which allows `step`.
        context_len: length of the longest context, in tokens; None: there is none.

    Raises:
        ConfigError: a mixer cannot be built for this width or length, or cannot share positions; the message names it.
    """

    def __init__(
        self,
        layers: Sequence[BlockConfig],
        *,
        dim: int,
        max_len: int,
        final_norm: bool = False,
        causal: bool = False,
        context_len: int | None = None,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.layers = nn.ModuleList()
        for number, config in enumerate(layers):
            try:
                self.layers.append(Block(config, dim=dim, max_len=max_len, causal=causal, context_len=context_len))
            except ConfigError as error:
                raise ConfigError(f"layers.{number}.{error}") from None
        self.norm = build_norm(layers[-1].norm_type if layers else "layer", dim) if final_norm else None
        self._tie_positions(layers)

    def forward(
        self,
        x: Float[Tensor, "B N D"],
        mask: Shaped[Tensor, "B N"] | None = None,
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Shaped[Tensor, "B M"] | None = None,
    ) -> Float[Tensor, "B N D"]:
        check_tokens(x, self.dim)
        mask = as_mask(mask, x)
        if context is not None and context_mask is not None:
            context_mask = as_mask(context_mask, context, name="context_mask")
        for layer in self.layers:
            x = layer(x, mask, context, context_mask)
        return x if self.norm is None else self.norm(x)

    def start(
        self,
        like: Float[Tensor, "B D"],
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Shaped[Tensor, "B M"] | None = None,
    ) -> StackState:
        """Return the states of all blocks before the first token; see `Mixer.start`."""
        return tuple(cast(Block, layer).start(like, context, context_mask) for layer in self.layers)

    def step(self, x: Float[Tensor, "B D"], state: StackState) -> tuple[Float[Tensor, "B D"], StackState]:
        """Return the output at the next position and the states after it; see `Mixer.step`."""
        after = []
        for layer, before in zip(self.layers, state, strict=True):
            x, states = cast(Block, layer).step(x, before)
            after.append(states)
        return x if self.norm is None else self.norm(x), tuple(after)

    def _tie_positions(self, layers: Sequence[BlockConfig]) -> None:
        first: dict[str, tuple[Mixer, dict[str, object]]] = {}
        for number, (block, config) in enumerate(zip(self.layers, layers, strict=True)):
            for index, (mixer, given) in enumerate(zip(cast(Block, block).mixers, config.mixers, strict=True)):
                shared = given.shared_positions
                if shared is None:
                    continue
                owner, values = first.setdefault(given.type, (cast(Mixer, mixer), shared))
                if shared != values:
                    raise ConfigError(
                        f"layers.{number}.mixers.{index}: shares the positions of the first {given.type!r}, "
                        f"which has {values}; got {shared}"
                    )
                if owner is not mixer:
                    cast(Mixer, mixer).tie_positions(owner)

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        """Count operations as `Mixer.flops` does."""
        return sum(cast(Block, layer).flops(batch, length, context_length) for layer in self.layers)
