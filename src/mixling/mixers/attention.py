"""Softmax attention with several heads: the mixer that the others are compared with."""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from mixling.layers.dropout import dropout
from mixling.layers.heads import init_xavier, split_heads
from mixling.layers.lengths import attention_by_lengths, real_first, takes_lengths
from mixling.layers.masks import all_real, all_true, real
from mixling.layers.mixer import DEFAULT_MAX_LEN, Mixer, State, appended
from mixling.layers.positions import RelativeBias, RelativePositions, shared_positions
from mixling.networks.mixer import MixerConfig

# Keys up to which a CPU computes the gradients of the explicit form faster in bfloat16, in half the time at this number
# and in a tenth at 12. Its memory grows with the square of the keys.
EXPLICIT_KEYS = 128
# Biases, or a causal mask beside one of padding, that are made at once: 2^28 numbers are half a gigabyte in bfloat16.
MOST_BIASES = 1 << 28
# Devices whose kernels' gradients are NaN where all scores of a query are below -88, since they take the exponential of
# 0 minus the logarithm of its sum for keys beyond the last (PyTorch issues 119320 and 196678).
NAN_BELOW = ("cuda",)
_LOWEST = -60.0  # the least best score that such a device's kernel gets


class Attention(Mixer):
    """Y = concat_h(softmax(Q_h K_h^T / sqrt(E) + B_h) V_h) W_o, with Q = X W_q, K = C W_k, V = C W_v.

    W_q, W_k, W_v (D, H E), W_o (H E, D), H heads of width E; C (M, D) is the context, or X itself. B_h[i, j] depends
    on j - i only, or is absent. Cost is O(N * M * H * E + (N + M) * D * H * E): quadratic in the number of tokens.
    Source: Transformer, section 3.2; biases: T5, section 2.1; one bias for each distance: gMLP, section 4 (its BERT).
    Decided beyond the papers: a hidden score is half of the lowest number of its precision, which no bias turns into
    infinity, so that a text of padding only stays finite. Without biases real tokens are moved to the front: then the
    causal form needs no mask, and a GPU's kernel is given lengths in place of one. Biases of long texts are made for
    some queries at a time, again for the gradients, so that memory grows with N only. On a GPU the scores of a query
    may all be moved by one number, which changes no probability: see NAN_BELOW. Without the scale, W_q starts smaller
    by sqrt(E), so that both forms start alike, as in T5. The bias of W_k, where there is one, moves all scores of a
    query alike and never changes Y; it is kept for the parameter counts. Positions are refused in cross mixing, which
    has no distances. Steps keep keys and values, so their memory grows with the text.

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
        causal = self.causal and context is None
        on_gpu = x.device.type in NAN_BELOW
        order = None
        if self.relative is None and causal and not all_real(mask) and (on_gpu or not torch.compiler.is_compiling()):
            order = real_first(mask)
            x = real(x, mask).take_along_dim(order[..., None], 1)
            mask = all_true(mask.shape, mask.device)  # of the others no real query sees one
        elif self.relative is None and on_gpu and not causal:
            source, known = (x, mask) if context is None or context_mask is None else (context, context_mask)
            if not all_real(known):
                first = real_first(known)
                context = real(source, known).take_along_dim(first[..., None], 1)
                context_mask = known.gather(1, first)
        mixed = self._mixed(*self._read(x, mask, context, context_mask), causal=causal)
        # Kernels differ in the layout of their result; the copy keeps an exported graph from relying on one.
        y: Tensor = self.out(mixed.transpose(1, 2).clone(memory_format=torch.contiguous_format).flatten(2))
        return y if order is None else y.take_along_dim(order.argsort(1)[..., None], 1)

    def _mixed(
        self,
        query: Float[Tensor, "B H N E"],
        keys: Float[Tensor, "B H M E"],
        values: Float[Tensor, "B H M E"],
        seen: Bool[Tensor, "B 1 1 M"] | None,
        *,
        causal: bool,
    ) -> Float[Tensor, "B H N E"]:
        """Return the mixed values; on a GPU the keys that are seen come first, unless there are biases."""
        if self.training and self._explicit(query, keys):
            scores = query @ keys.mT * self.scale + self._added(query, keys, seen, causal=causal)
            return dropout(scores.softmax(-1), self.dropout).to(values.dtype) @ values
        if self.relative is None and (seen is None or not causal):
            if _needs_high_scores(query):
                keys = keys - keys[:, :, :1]  # the first key, which all queries see, has a score of 0
            if seen is not None and not (self.training and self.dropout) and takes_lengths(query, keys, values):
                return attention_by_lengths(query, keys, values, seen.flatten(1).sum(1), self.scale)
            added = None if seen is None else self._added(query, keys, seen, causal=False)
            return self._kernel(query, keys, values, added, causal=causal)
        batch, _, length, _ = query.shape
        number = (1 if self.relative is None else self.num_heads) * length * (1 if seen is None else batch)
        if torch.compiler.is_compiling() or number * length <= MOST_BIASES:
            return self._biased(query, keys, values, seen)
        rows = max(1, MOST_BIASES // number)
        parts = []
        for at in range(0, length, rows):
            part = query[:, :, at : at + rows]
            parts.append(checkpoint(self._biased, part, keys, values, seen, at, use_reentrant=False))
        return torch.cat(parts, 2)

    def mixing_weights(
        self,
        x: Float[Tensor, "B N D"],
        mask: Bool[Tensor, "B N"],
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Bool[Tensor, "B M"] | None = None,
    ) -> dict[str, Float[Tensor, "B H N M"]]:
        query, keys, _, seen = self._read(x, mask, context, context_mask)
        added = self._added(query, keys, seen, causal=self.causal and context is None)
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
            mixed = self._kernel(query, state["keys"], state["values"], state["added"])
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
            mixed = self._kernel(query, new_keys, new_values, added if added.ndim else None)
        return self.out(mixed.flatten(1)), state

    def _read(
        self,
        x: Float[Tensor, "B N D"],
        mask: Bool[Tensor, "B N"],
        context: Float[Tensor, "B M D"] | None,
        context_mask: Bool[Tensor, "B M"] | None,
    ) -> tuple[
        Float[Tensor, "B H N E"], Float[Tensor, "B H M E"], Float[Tensor, "B H M E"], Bool[Tensor, "B 1 1 M"] | None
    ]:
        """Return queries, keys and values, and which keys are real; None: all."""
        self.check_length(x.shape[1])
        x = real(x, mask)
        source = x
        if context is not None and context_mask is not None:
            assert self.relative is None, "cross mixing knows no distances"
            mask = context_mask
            source = real(context, context_mask)
        query = split_heads(self.query(x), self.num_heads)
        keys, values = self._keys_and_values(source)
        if query.device.type in NAN_BELOW and not all_real(mask):
            mask = mask | ~mask.any(1, keepdim=True)  # a text of padding only sees all of it
        return query, keys, values, None if all_real(mask) else mask[:, None, None]

    def _head(self, x: Float[Tensor, "B I"]) -> Float[Tensor, "B H 1 E"]:
        """Split the heads of one position."""
        return x.view(len(x), self.num_heads, 1, self.head_dim)

    def _keys_and_values(self, x: Float[Tensor, "B M D"]) -> tuple[Float[Tensor, "B H M E"], Float[Tensor, "B H M E"]]:
        return split_heads(self.key(x), self.num_heads), split_heads(self.value(x), self.num_heads)

    def _added(
        self,
        query: Float[Tensor, "B H N E"],
        keys: Float[Tensor, "B H M E"],
        seen: Bool[Tensor, "B 1 1 M"] | None,
        *,
        causal: bool,
        start: int = 0,
    ) -> Float[Tensor, "*S"]:
        """Return the addition to the scores of queries from position `start` on: biases, and what hides keys."""
        shape = query.shape[2], keys.shape[2]
        added = query.new_zeros(())
        if self.relative is not None:
            added = self.relative(*shape, start=start)[None].to(query.dtype)
        if causal or (added.ndim and seen is not None):  # a query in padding sees itself, if nothing else
            ones = torch.ones(shape, dtype=torch.bool, device=query.device)
            past = ones.tril(start) if causal else ones
            seen = past if seen is None else (past & seen) | ones.tril(start).triu(start)
        return added if seen is None else _hidden(seen, added)

    def _biased(
        self,
        query: Float[Tensor, "B H R E"],
        keys: Float[Tensor, "B H N E"],
        values: Float[Tensor, "B H N E"],
        seen: Bool[Tensor, "B 1 1 N"] | None,
        start: int = 0,
    ) -> Float[Tensor, "B H R E"]:
        """Return the mixed values of queries from position `start` on, with biases by distance."""
        added = self._added(query, keys, seen, causal=self.causal, start=start)
        if _needs_high_scores(query):
            with torch.no_grad():  # the probabilities do not depend on it
                first = query @ keys[:, :, :1].mT * self.scale + added[..., :1]
                same = (query * keys[:, :, start : start + query.shape[2]]).sum(-1) * self.scale
                best = torch.maximum(first, (same + added.diagonal(start, -2, -1))[..., None])
                lacking = (_LOWEST - best).relu().amax(0, keepdim=True)
            added = added + lacking
        return self._kernel(query, keys, values, added)

    def _kernel(
        self,
        query: Float[Tensor, "B H N E"],
        keys: Float[Tensor, "B H M E"],
        values: Float[Tensor, "B H M E"],
        added: Float[Tensor, "#B #H #N M"] | None,
        *,
        causal: bool = False,
    ) -> Float[Tensor, "B H N E"]:
        rate = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(
            query, keys, values, attn_mask=added, dropout_p=rate, is_causal=causal, scale=self.scale
        )

    def _explicit(self, query: Float[Tensor, "B H N E"], keys: Float[Tensor, "B H M E"]) -> bool:
        """Return whether to train without torch's kernels.

        On a CPU they have no dropout, and in bfloat16 their gradients of few keys take ten times as long.
        """
        if query.device.type != "cpu":
            return False
        slow = query.dtype == torch.bfloat16 and keys.shape[2] <= EXPLICIT_KEYS and torch.is_grad_enabled()
        return self.dropout > 0 or slow


def _needs_high_scores(query: Tensor) -> bool:
    """Return whether the kernel's gradients need a score that is not very low for each query; see NAN_BELOW."""
    return query.device.type in NAN_BELOW and torch.is_grad_enabled()


def _hidden(seen: Bool[Tensor, "*T"], bias: Float[Tensor, "*S"]) -> Float[Tensor, "*U"]:
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
