"""The token-mixing MLP of MLP-Mixer, for texts of any length up to `max_len`."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.mixers.base import Mixer, MixerConfig


class TokenMLP(Mixer):
    """Y = W2 gelu(W1 X + b1) + b2 over the token axis, shared by all channels; W1 (H, max_len), W2 (max_len, H).

    Cost is O(N * D * H). Source: MLP-Mixer; pNLP-Mixer, section 3.2.
    Decided beyond the papers, which mix padding in: padded tokens are zero before W1, so that the columns of W1 and
    the rows of W2 beyond the batch's length contribute nothing and are never read. It is exact: a text gives the same
    answer at every padded length.
    """

    def __init__(self, *, dim: int, max_len: int, hidden_dim: int) -> None:
        super().__init__()
        self.dim, self.max_len, self.hidden_dim = dim, max_len, hidden_dim
        self.expand = nn.Linear(max_len, hidden_dim)
        self.contract = nn.Linear(hidden_dim, max_len)

    def forward(
        self,
        x: Float[Tensor, "B N D"],
        mask: Bool[Tensor, "B N"],
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Bool[Tensor, "B M"] | None = None,
    ) -> Float[Tensor, "B N D"]:
        length = x.shape[1]
        self.check_length(length)
        by_channel = (x * mask[..., None]).mT  # (B, D, N)
        hidden = F.gelu(F.linear(by_channel, self.expand.weight[:, :length], self.expand.bias))
        return F.linear(hidden, self.contract.weight[:length], self.contract.bias[:length]).mT

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        return 2 * (2 * batch * self.dim * length * self.hidden_dim)


class TokenMLPConfig(MixerConfig):
    """The mixer of MLP-Mixer and pNLP-Mixer."""

    type: Literal["token_mlp"] = "token_mlp"
    hidden_dim: int = Field(256, ge=1)

    def _build(self, dim: int, max_len: int, causal: bool) -> TokenMLP:
        return TokenMLP(dim=dim, max_len=max_len, hidden_dim=self.hidden_dim)
