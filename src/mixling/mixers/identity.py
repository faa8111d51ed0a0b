"""No token mixing: the ablation that every mixer is compared with."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from mixling.layers.mixer import Mixer, State


class Identity(Mixer):
    """Y = X. Cost is nothing. Source: the "None" row of HyperMixer's Figure 5.

    Args:
        dim: D, the width of the tokens.
    """

    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def mix(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        return x

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        return 0

    def initial_state(self, like: Float[Tensor, "B D"]) -> State:
        return {}

    def step(self, x: Float[Tensor, "B D"], state: State) -> tuple[Float[Tensor, "B D"], State]:
        return x, state
