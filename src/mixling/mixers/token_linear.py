"""ResMLP's token mixing: one linear layer over the token axis."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.layers.masks import real
from mixling.layers.mixer import Mixer
from mixling.networks.mixer import MixerConfig


class TokenLinear(Mixer):
    """Y = W X + b over the token axis, shared by all channels; W (max_len, max_len), b (max_len).

    Cost is O(N^2 * D). Source: ResMLP (arXiv:2105.03404), section 2, cross-patch sublayer.
    Decided beyond the paper, which has images of one size: padded tokens are zero before W, and shorter texts read the
    leading N x N corner of W, so that a text has the same output at every padded length.

    Args:
        dim: D, the width of the tokens.
        max_len: tokens of the longest input.
    """

    max_len: int

    def __init__(self, *, dim: int, max_len: int) -> None:
        super().__init__()
        self.dim = dim
        self.max_len = max_len
        self.linear = nn.Linear(max_len, max_len)

    def mix(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        length = x.shape[1]
        self.check_length(length)
        weight = self.linear.weight[:length, :length]
        bias = self.linear.bias[:length]
        return F.linear(real(x, mask).mT, weight, bias).mT

    def filters(self, length: int | None = None) -> dict[str, Float[Tensor, "1 N N"]]:
        length = self.max_len if length is None else length
        self.check_length(length)
        return {"token weights": self.linear.weight[None, :length, :length]}

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        return 2 * batch * self.dim * length * length


class TokenLinearConfig(MixerConfig):
    """The mixer of ResMLP, which needs no options."""

    type: Literal["token_linear"] = "token_linear"

    def _build(self, dim: int, max_len: int, causal: bool) -> TokenLinear:
        return TokenLinear(dim=dim, max_len=max_len)
