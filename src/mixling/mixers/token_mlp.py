"""The token-mixing MLP of MLP-Mixer, for texts of any length up to `max_len`."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.layers.fused import TokenMixing, can_fuse
from mixling.layers.masks import real
from mixling.layers.mixer import Mixer, State, position_of
from mixling.layers.positions import Size


class TokenMLP(Mixer):
    """Y = W2 gelu(W1 X + b1) + b2 over the token axis, shared by all channels; W1 (H, max_len), W2 (max_len, H).

    Cost is O(N * D * H). Source: MLP-Mixer; pNLP-Mixer, section 3.2.
    Decided beyond the papers, which mix padding in: padded tokens are zero before W1, and the columns of W1 and rows of
    W2 beyond the length of the batch are never read. This is exact: a text gets the same output at every padded length.

    The causal form is mixling's: Remixer's Mixer decoder has a window w that the paper does not define. Hidden unit k
    is at position p(k) = floor(k * max_len / H). W1[k, j] counts where 0 <= p(k) - j < w and W2[i, k] where
    0 <= i - p(k) < w, so an output sees the present and the past only, at any H: the 2w - 1 latest positions, or all
    with w = max_len. The other entries have no part in it and no gradient. H should be at least max_len: with fewer
    units a token between two of them is first read at the second (if w reaches so far), and one after the last never.
    Units after the end of the input are left out, so the cost is O(N * D * H * N / max_len).

    Args:
        dim: D, the width of the tokens.
        max_len: tokens of the longest input.
        hidden_dim: H.
        causal: tokens see no later ones.
        window: w, of the causal form; None: max_len.
    """

    max_len: int

    def __init__(
        self, *, dim: int, max_len: int, hidden_dim: int = 256, causal: bool = False, window: int | None = None
    ) -> None:
        super().__init__()
        self.dim = dim
        self.max_len = max_len
        self.hidden_dim = hidden_dim
        self.causal = causal
        self.window = max_len if window is None else window
        self.expand = nn.Linear(max_len, hidden_dim)
        self.contract = nn.Linear(hidden_dim, max_len)

    def mix(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        length = x.shape[1]
        self.check_length(length)
        if not self.causal and can_fuse(x, self.training, self.dim):
            linears = (self.expand, self.contract)
            mixed: Tensor = TokenMixing.apply(
                x, mask, *(item for linear in linears for item in (linear.weight, linear.bias))
            )
            return mixed
        by_channel = real(x, mask).mT  # (B, D, N)
        if self.causal:
            return self._banded(by_channel).mT
        hidden = F.gelu(F.linear(by_channel, self.expand.weight[:, :length], self.expand.bias))
        return F.linear(hidden, self.contract.weight[:length], self.contract.bias[:length]).mT

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        units = self._units_before(length) if self.causal else self.hidden_dim
        return 2 * (2 * batch * self.dim * length * units)

    def initial_state(self, like: Float[Tensor, "B D"]) -> State:
        nothing = like.new_zeros(*like.shape, 0)
        return {
            "position": torch.zeros(like.shape[0], dtype=torch.int64, device=like.device),
            "tokens": nothing,  # (B, D, up to w): the tokens in the window
            "hidden": nothing,  # (B, D, up to w * H / max_len): the units in the window
        }

    def step(self, x: Float[Tensor, "B D"], state: State) -> tuple[Float[Tensor, "B D"], State]:
        now = position_of(state)
        self.check_length(now + 1)
        first = max(0, now + 1 - self.window)
        # Units at this position are computed now; those from `oldest` on are read.
        oldest, new, end = (self._units_before(position) for position in (first, now, now + 1))
        tokens = torch.cat([state["tokens"], x[..., None]], dim=-1)[..., -self.window :]
        made = F.linear(tokens, self.expand.weight[new:end, first : now + 1], self.expand.bias[new:end])
        hidden = torch.cat([state["hidden"], F.gelu(made)], dim=-1)
        hidden = hidden[..., hidden.shape[-1] - (end - oldest) :]
        y = F.linear(hidden, self.contract.weight[now : now + 1, oldest:end], self.contract.bias[now : now + 1])
        return y[..., 0], {"position": state["position"] + 1, "tokens": tokens, "hidden": hidden}

    def _units_before(self, position: Size) -> Size:
        """Return how many hidden units are before a position: the smallest k with p(k) >= position."""
        return -(-position * self.hidden_dim // self.max_len)

    def _banded(self, by_channel: Float[Tensor, "B D N"]) -> Float[Tensor, "B D N"]:
        """Mix causally: by the units before the end of the input, with weights that are zero outside the bands."""
        length = by_channel.shape[-1]
        units = self._units_before(length)
        positions = torch.arange(units, device=by_channel.device) * self.max_len // self.hidden_dim
        ahead = positions[:, None] - torch.arange(length, device=by_channel.device)  # p(k) - j, (K, N)
        w1 = self.expand.weight[:units, :length].masked_fill((ahead < 0) | (ahead >= self.window), 0.0)
        w2 = self.contract.weight[:length, :units].masked_fill(((ahead > 0) | (ahead <= -self.window)).mT, 0.0)
        hidden = F.gelu(F.linear(by_channel, w1, self.expand.bias[:units]))
        return F.linear(hidden, w2, self.contract.bias[:length])
