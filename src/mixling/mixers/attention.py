"""Softmax attention with several heads: the mixer that the others are compared with."""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.layers.dropout import dropout
from mixling.layers.heads import init_xavier, split_heads
from mixling.layers.masks import real, visible
from mixling.layers.mixer import DEFAULT_MAX_LEN, Mixer, State, appended
from mixling.layers.positions import RelativeBias, RelativePositions, shared_positions
from mixling.networks.mixer import MixerConfig

# Keys up to which a CPU computes the gradients of the explicit form faster in bfloat16, in half the time at this number
# and in a tenth at 12. Its memory grows with the square of the keys.
EXPLICIT_KEYS = 128


class Attention(Mixer):
    """Y = concat_h(softmax(Q_h K_h^T / sqrt(E) + B_h) V_h) W_o, with Q = X W_q, K = C W_k, V = C W_v.

    W_q, W_k, W_v (D, H E), W_o (H E, D), H heads of width E; C (M, D) is the context, or X itself. B_h[i, j] depends
    on j - i only, or is absent. Cost is O(N * M * H * E + (N + M) * D * H * E): quadratic in the number of tokens.
    Source: Transformer, section 3.2; biases: T5, section 2.1; one bias for each distance: gMLP, section 4 (its BERT).
    Decided beyond the papers: a hidden score is half of the lowest number of its precision, which no bias turns into
    infinity, so that a text of padding only stays finite. Without the scale, W_q starts smaller by sqrt(E), so that
    both forms start alike, as in T5. The bias of W_k, where there is one, moves all scores of a query alike and never
    changes Y; it is kept for the parameter counts. Positions are refused in cross mixing, which has no distances.
    Steps keep keys and values, so their memory grows with the text.

    Args:
        dim: D, the width of the tokens.
        max_len: tokens of the longest input, which count where each distance has a bias of its own.
        num_heads: H.
        head_dim: E, the width of a head; None: D / H.
        bias: whether the four projections have biases.
        scale: divide scores by sqrt(E).
        dropout: rate on the probabilities, in training.
        positions: biases by distance; None: none.
        causal: queries see no later keys.
    """

    reads_context = True

    def __init__(
        self,
        *,
        dim: int,
        max_len: int = DEFAULT_MAX_LEN,
        num_heads: int = 4,
        head_dim: int | None = None,
        bias: bool = True,
        scale: bool = True,
        dropout: float = 0.0,
        positions: RelativePositions | None = None,
        causal: bool = False,
    ) -> None:
        super().__init__()
        head_dim = head_dim or dim // num_heads
        self.dim = dim
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.dropout = dropout
        self.causal = causal
        self.scale = head_dim**-0.5 if scale else 1.0
        inner = num_heads * head_dim
        self.query = nn.Linear(dim, inner, bias=bias)
        self.key = nn.Linear(dim, inner, bias=bias)
        self.value = nn.Linear(dim, inner, bias=bias)
        self.out = nn.Linear(inner, dim, bias=bias)
        init_xavier(self.query, self.key, self.value, self.out)
        if not scale:
            with torch.no_grad():
                self.query.weight *= head_dim**-0.5
        self.relative = None
        if positions is not None:
            self.relative = RelativeBias(positions, num_heads=num_heads, max_len=max_len, causal=causal)
            self.max_len = max_len if positions.num_buckets is None else None

    def mix(
        self,
        x: Float[Tensor, "B N D"],
        mask: Bool[Tensor, "B N"],
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Bool[Tensor, "B M"] | None = None,
    ) -> Float[Tensor, "B N D"]:
        return self._merged(self._attend(*self._read(x, mask, context, context_mask)))

    def mixing_weights(
        self,
        x: Float[Tensor, "B N D"],
        mask: Bool[Tensor, "B N"],
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Bool[Tensor, "B M"] | None = None,
    ) -> dict[str, Float[Tensor, "B H N M"]]:
        query, keys, _, added = self._read(x, mask, context, context_mask)
        return {"attention": (query @ keys.mT * self.scale + added).softmax(-1)}

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        keys = length if context_length is None else context_length
        inner = self.num_heads * self.head_dim
        projections = 2 * batch * self.dim * inner * (2 * length + 2 * keys)
        return projections + 2 * (2 * batch * length * keys * inner)

    def initial_state(
        self,
        like: Float[Tensor, "B D"],
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Bool[Tensor, "B M"] | None = None,
    ) -> State:
        if context is None or context_mask is None:
            empty = like.new_zeros(like.shape[0], self.num_heads, 0, self.head_dim)
            return dict.fromkeys(("keys", "values", "new_keys", "new_values"), empty)
        assert self.relative is None, "cross mixing knows no distances"
        keys, values = self._keys_and_values(real(context, context_mask))
        return {"keys": keys, "values": values, "added": _hidden(context_mask[:, None, None], keys.new_zeros(()))}

    def step(self, x: Float[Tensor, "B D"], state: State) -> tuple[Float[Tensor, "B D"], State]:
        query = self._head(self.query(x))
        if "added" in state:
            mixed = self._attend(query, state["keys"], state["values"], state["added"])
            return self.out(mixed.flatten(1)), state
        position = state["keys"].shape[2] + state["new_keys"].shape[2]
        self.check_length(position + 1)
        keys, new_keys = appended(state["keys"], state["new_keys"], self._head(self.key(x)), 2)
        values, new_values = appended(state["values"], state["new_values"], self._head(self.value(x)), 2)
        state = {"keys": keys, "values": values, "new_keys": new_keys, "new_values": new_values}
        added = query.new_zeros(())
        if self.relative is not None:
            added = self.relative(1, position + 1, start=position)[None].to(query.dtype)
        if keys.shape[2]:
            scores = torch.cat([query @ keys.mT, query @ new_keys.mT], -1) * self.scale + added
            weights = scores.softmax(-1).split([keys.shape[2], new_keys.shape[2]], -1)
            mixed = weights[0] @ values + weights[1] @ new_values
        else:
            mixed = self._attend(query, new_keys, new_values, added if added.ndim else None)
        return self.out(mixed.flatten(1)), state

    def _read(
        self,
        x: Float[Tensor, "B N D"],
        mask: Bool[Tensor, "B N"],
        context: Float[Tensor, "B M D"] | None,
        context_mask: Bool[Tensor, "B M"] | None,
    ) -> tuple[
        Float[Tensor, "B H N E"], Float[Tensor, "B H M E"], Float[Tensor, "B H M E"], Float[Tensor, "#B #H #N M"]
    ]:
        """Return queries, keys and values, and the bias of their scores."""
        length = x.shape[1]
        self.check_length(length)
        x = real(x, mask)
        query = split_heads(self.query(x), self.num_heads)
        if context is not None:
            state = self.initial_state(x[:, 0], context, context_mask)
            return query, state["keys"], state["values"], state["added"]
        bias = query.new_zeros(()) if self.relative is None else self.relative(length, length)[None].to(query.dtype)
        return query, *self._keys_and_values(x), _hidden(visible(mask, causal=self.causal)[:, None], bias)

    def _head(self, x: Float[Tensor, "B I"]) -> Float[Tensor, "B H 1 E"]:
        """Split the heads of one position."""
        return x.view(len(x), self.num_heads, 1, self.head_dim)

    def _keys_and_values(self, x: Float[Tensor, "B M D"]) -> tuple[Float[Tensor, "B H M E"], Float[Tensor, "B H M E"]]:
        return split_heads(self.key(x), self.num_heads), split_heads(self.value(x), self.num_heads)

    def _attend(
        self,
        query: Float[Tensor, "B H N E"],
        keys: Float[Tensor, "B H M E"],
        values: Float[Tensor, "B H M E"],
        added: Float[Tensor, "#B #H #N M"] | None,
    ) -> Float[Tensor, "B H N E"]:
        if self.training and self._explicit(query, keys):
            scores = query @ keys.mT * self.scale
            scores = scores if added is None else scores + added
            return dropout(scores.softmax(-1), self.dropout).to(values.dtype) @ values
        rate = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(query, keys, values, attn_mask=added, dropout_p=rate, scale=self.scale)

    def _explicit(self, query: Float[Tensor, "B H N E"], keys: Float[Tensor, "B H M E"]) -> bool:
        """Return whether to train without torch's kernels.

        On a CPU they have no dropout, and in bfloat16 their gradients of few keys take ten times as long. On a GPU,
        the gradients are NaN where all scores of a position are below -88 (PyTorch issues 119320 and 196678).
        """
        if query.device.type == "cpu":
            slow = query.dtype == torch.bfloat16 and keys.shape[2] <= EXPLICIT_KEYS and torch.is_grad_enabled()
            return self.dropout > 0 or slow
        return torch.is_grad_enabled()

    def _merged(self, mixed: Float[Tensor, "B H N E"]) -> Float[Tensor, "B N D"]:
        # Kernels differ in the layout of their result; the copy keeps an exported graph from relying on one.
        output: Tensor = self.out(mixed.transpose(1, 2).clone(memory_format=torch.contiguous_format).flatten(2))
        return output


def _hidden(seen: Bool[Tensor, "B 1 #N M"], bias: Float[Tensor, "*S"]) -> Float[Tensor, "#B #H #N M"]:
    """Return the addition to the scores: the bias where the key is seen, else half of the lowest number."""
    return torch.where(seen, bias, torch.finfo(bias.dtype).min / 2)


class AttentionConfig(MixerConfig):
    """Multi-head softmax attention; absolute positions are the embedding layer's."""

    type: Literal["attention"] = "attention"
    num_heads: int = Field(default=4, ge=1, description="must divide the width, unless head_dim is set")
    head_dim: int | None = Field(
        default=None, ge=1, description="width of a head; None: the width divided by num_heads"
    )
    bias: bool = Field(default=True, description="whether the four projections have biases")
    scale: bool = Field(default=True, description="divide scores by sqrt(head_dim), which T5 does not")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="on the attention probabilities, in training")
    positions: RelativePositions | None = Field(default=None, description="biases by distance; None: none")

    supports_causal = True

    @property
    def supports_cross(self) -> bool:  # type: ignore[override]
        return self.positions is None

    @property
    def shared_positions(self) -> dict[str, Any] | None:
        return shared_positions(self.positions, self.num_heads)

    def _build(self, dim: int, max_len: int, causal: bool) -> Attention:
        if self.head_dim is None:
            self._check_heads(self.num_heads, advice="change one of them, or set head_dim", width=dim)
        values = self.model_dump(exclude={"type", "positions"})
        return Attention(dim=dim, max_len=max_len, positions=self.positions, causal=causal, **values)
