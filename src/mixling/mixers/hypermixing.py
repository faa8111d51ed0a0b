"""HyperMixing: a token-mixing MLP whose weights are generated from the tokens, for texts of any length."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Literal

import torch
from jaxtyping import Bool, Float, Shaped
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from mixling.layers.fused import GeneratedMixing, can_fuse, multiplies_in_tiles
from mixling.layers.hypernetwork import Generated, Hypernetwork, gelu_inplace
from mixling.layers.masks import as_mask, real
from mixling.layers.mixer import DEFAULT_MAX_LEN, Mixer, State, position_of, wide
from mixling.layers.positions import Positions, PublishedPositions, Size
from mixling.networks.blocks import PositionKind
from mixling.networks.mixer import MixerConfig

# Where torch's operations make the hidden layers on a CPU, they do so in parts of limited size, which stay in
# a core's cache; for a whole batch of short texts they are by far the largest tensor (benchmarks/hypermixing.py).
HIDDEN_BYTES = 2**21
# Tokens up to which, without a matrix unit, the fused form in float32 is faster than torch's products in bfloat16.
FUSED_TOKENS = 32
# Positions that the causal form mixes at once: the products of its running sums grow with them, its steps shrink.
CAUSAL_STEPS = 8
# Positions whose sums are held at once, a multiple of CAUSAL_STEPS.
CAUSAL_SUMS = 256


class HyperMixing(Mixer):
    """Y = LayerNorm(W2 gelu(W1^T X)); row j of W1 (N, H) is MLP1(x_j + p_j), row i of W2 (N, H) is MLP2(x_i + p_i).

    Each MLP is z -> B gelu(A z + a) + b with A (D, D) and B (H, D); tied, MLP2 is MLP1. In cross mixing, W1 and X are
    of the context. Each of K heads has its D/K channels of input and output, its own MLPs and its H/K hidden units.
    Cost is O(N D H), linear in the number of tokens. As W1 and W2 have a rank of at most D + 1, long inputs need only
    O(N D^2 + H D^2) for the same result (see Generated); the cheaper way is taken, except while a graph is traced.
    Source: HyperMixer, section 2.3; the heads are HyperConformer's.

    Decided beyond the paper: positions enter the MLPs' input only, never X; tied cross mixing applies the one MLP to
    both inputs; padded tokens are zero in X and so add nothing; each head's matrices start by Xavier on their own. In
    float16 and its autocast X is mixed in float32: similar tokens sum to more than float16's 65,504.
    The causal form is mixling's: y_t = w2_t gelu(sum_{s<=t} w1_s x_s^T), whose N hidden layers cost O(N D H)
    activations. Its steps carry the sum, and its last position equals the full form's. The same sum mixes a document
    of any length in two passes with constant memory: `accumulate` all of its parts, then `read` them.

    Args:
        dim: D, the width of the tokens, a multiple of num_heads.
        max_len: tokens of the longest input, which count where positions are learned.
        hidden_dim: H, generated hidden units of all heads together, a multiple of num_heads.
        tied: one MLP generates both layers.
        positions: those added to the input of the MLPs; "idiap": as in the authors' published code, for its weights.
        bias: whether the MLPs have biases.
        num_heads: K.
        norm: LayerNorm of the output.
        causal: tokens see no later ones.
    """

    reads_context = True

    def __init__(
        self,
        *,
        dim: int,
        max_len: int = DEFAULT_MAX_LEN,
        hidden_dim: int = 512,
        tied: bool = True,
        positions: PositionKind | Literal["idiap"] = "sinusoidal",
        bias: bool = True,
        num_heads: int = 1,
        norm: bool = True,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.causal = causal
        self.head_dim = dim // num_heads
        self.max_len = max_len if positions == "learned" else None
        self.positions: Positions | PublishedPositions
        if positions == "idiap":
            self.positions = PublishedPositions(dim=dim)
        else:
            self.positions = Positions(positions, dim=dim, max_len=max_len)
        self.keys = Hypernetwork(dim=dim, hidden_dim=hidden_dim, num_heads=num_heads, bias=bias)
        self.queries = None if tied else Hypernetwork(dim=dim, hidden_dim=hidden_dim, num_heads=num_heads, bias=bias)
        self.norm = nn.LayerNorm(dim) if norm else None

    def mix(
        self,
        x: Float[Tensor, "B N D"],
        mask: Bool[Tensor, "B N"],
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Bool[Tensor, "B M"] | None = None,
    ) -> Float[Tensor, "B N D"]:
        self.check_length(x.shape[1])
        source = x = real(x, mask)
        if context is not None and context_mask is not None:
            self.check_length(context.shape[1])
            source = real(context, context_mask)
        shared = context is None and self.queries is None
        w1 = self._generate(self.keys, source, uses=2 if shared else 1)
        w2 = w1 if shared else self._generate(self.queries or self.keys, x)
        values = self._split(source)
        with _ranged(w1):
            if w1.matrix is None or w2.matrix is None:  # long inputs, beside which the hidden layers are small
                return self._merge(w2.scatter(gelu_inplace(w1.gather(values))), x.dtype)
            causal = self.causal and context is None
            if not causal and self._fused(x, source, w1.matrix):
                return self._merge(GeneratedMixing.apply(values, w1.matrix, None if shared else w2.matrix), x.dtype)
            mix = _mix_causally if causal else _mix
            if torch.compiler.is_compiling() or x.device.type != "cpu":
                return self._merge(mix(w1.matrix, values.to(w1.matrix.dtype), w2.matrix), x.dtype)
            size = max(1, HIDDEN_BYTES // (self.hidden_dim * self.head_dim * x.element_size()))
            batches = (tensor.split(size, 1) for tensor in (w1.matrix, values.to(w1.matrix.dtype), w2.matrix))
            parts = [mix(*part) for part in zip(*batches, strict=True)]
            return self._merge(parts[0] if len(parts) == 1 else torch.cat(parts, 1), x.dtype)

    def accumulate(
        self, x: Float[Tensor, "B N D"], mask: Shaped[Tensor, "B N"] | None = None, state: State | None = None
    ) -> State:
        """Return the state after the next part of a long input, its first pass; it is as large as one hidden layer."""
        state = self._nothing(x) if state is None else state
        before = position_of(state)
        self.check_length(before + x.shape[1])
        x = real(x, as_mask(mask, x))
        w1 = self._generate(self.keys, x, start=before)
        with _ranged(w1):
            added = w1.gather(self._split(x))
        return {"sum": state["sum"] + added.transpose(0, 1), "position": state["position"] + x.shape[1]}

    def read(
        self, x: Float[Tensor, "B N D"], mask: Shaped[Tensor, "B N"] | None, state: State, start: int = 0
    ) -> Float[Tensor, "B N D"]:
        """Return the output of the part that begins at position `start`, from the state after the first pass."""
        self.check_length(start + x.shape[1])
        hidden = state["hidden"] if "hidden" in state else F.gelu(state["sum"])
        w2 = self._generate(self.queries or self.keys, real(x, as_mask(mask, x)), start=start)
        with _ranged(w2):
            return self._merge(w2.scatter(hidden.to(w2.features.dtype).transpose(0, 1)), x.dtype)

    def initial_state(
        self,
        like: Float[Tensor, "B D"],
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Bool[Tensor, "B M"] | None = None,
    ) -> State:
        state = self._nothing(like)
        if context is None:
            return state
        return {"hidden": F.gelu(self.accumulate(context, context_mask, state)["sum"]), "position": state["position"]}

    def step(self, x: Float[Tensor, "B D"], state: State) -> tuple[Float[Tensor, "B D"], State]:
        token = x[:, None]
        before = state["position"]
        state = {**state, "position": before + 1} if "hidden" in state else self.accumulate(token, None, state)
        return self.read(token, None, state, start=position_of({"position": before}))[:, 0], state

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        """Count the cheaper way for each generated matrix, and the running sums of the causal form."""
        hidden = self.hidden_dim * self.head_dim
        across = self.dim * self.head_dim
        if self.causal and context_length is None:
            networks = 1 if self.queries is None else 2
            whole, rest = divmod(length, CAUSAL_STEPS)
            sums = whole * CAUSAL_STEPS**2 + rest**2 + whole * CAUSAL_STEPS
            return 2 * batch * (networks * length * (across + hidden) + (length + sums) * hidden)
        shared = self.queries is None and context_length is None
        macs = 0
        for rows, uses in [(length, 2)] if shared else [(context_length or length, 1), (length, 1)]:
            macs += rows * across  # of the features
            if self._factored(rows, uses):
                macs += uses * (rows * across + hidden * self.head_dim)
            else:
                macs += (1 + uses) * rows * hidden
        if self._factored(length, 2 if shared else 1) and self.keys.second.bias is not None:
            macs += hidden
        return 2 * batch * macs

    def _factored(self, length: Size, uses: int) -> bool:
        """Return whether a matrix of `length` rows that is used `uses` times costs less as its factors."""
        if self.causal or torch.compiler.is_compiling():  # its sums need the rows; a choice would fix a graph's lengths
            return False
        units = self.hidden_dim // self.num_heads
        return uses * (length + units) * self.head_dim < (1 + uses) * length * units

    def _fused(self, x: Float[Tensor, "B N D"], source: Float[Tensor, "B M D"], matrix: Tensor) -> bool:
        """Return whether the fused form can be used on x, and is the faster one."""
        return can_fuse(x, self.training, self.head_dim) and (
            matrix.dtype == torch.float32 or multiplies_in_tiles() or max(x.shape[1], source.shape[1]) <= FUSED_TOKENS
        )

    def _generate(self, network: Hypernetwork, x: Float[Tensor, "B N D"], start: int = 0, uses: int = 1) -> Generated:
        heads = self._split(self.positions(x, start))
        generated: Generated = network(heads, factored=self._factored(x.shape[1], uses))
        return generated if generated.features.dtype != torch.float16 else generated.float()

    def _nothing(self, like: Float[Tensor, "B ..."]) -> State:
        zeros = like.new_zeros(like.shape[0], self.num_heads, self.hidden_dim // self.num_heads, self.head_dim)
        return {"sum": wide(zeros), "position": torch.zeros(like.shape[0], dtype=torch.int64, device=like.device)}

    def _split(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "K B N E"]:
        heads: Tensor = x.unflatten(2, (self.num_heads, self.head_dim)).permute(2, 0, 1, 3)
        return heads

    def _merge(self, y: Float[Tensor, "K B N E"], dtype: torch.dtype) -> Float[Tensor, "B N D"]:
        y = y.permute(1, 2, 0, 3).flatten(2)
        if self.norm is not None and y.dtype == dtype:
            normed: Tensor = self.norm(y)
            return normed
        if self.norm is not None:
            y = F.layer_norm(y, (self.dim,), self.norm.weight.to(y.dtype), self.norm.bias.to(y.dtype), self.norm.eps)
        return y.to(dtype)


def _mix(
    w1: Float[Tensor, "K B M U"], values: Float[Tensor, "K B M E"], w2: Float[Tensor, "K B N U"]
) -> Float[Tensor, "K B N E"]:
    return w2 @ gelu_inplace(w1.mT @ values)


def _mix_causally(
    w1: Float[Tensor, "K B N U"], values: Float[Tensor, "K B N E"], w2: Float[Tensor, "K B N U"]
) -> Float[Tensor, "K B N E"]:
    outputs: list[Tensor] = []
    total = None
    for keys, read, queries in zip(*(tensor.split(CAUSAL_SUMS, 2) for tensor in (w1, values, w2)), strict=True):
        parts = zip(*(tensor.split(CAUSAL_STEPS, 2) for tensor in (keys, read, queries)), strict=True)
        ends = keys.shape[2] // CAUSAL_STEPS
        terms = (tensor[:, :, : ends * CAUSAL_STEPS].unflatten(2, (ends, CAUSAL_STEPS)) for tensor in (keys, read))
        # In one tensor: small ones between large ones that come and go would keep several times their memory.
        sums = torch.cumsum(wide(next(terms).mT @ next(terms)), 2)
        before = [total, *(sums if total is None else sums.add_(total[:, :, None])).unbind(2)]
        # Kept for the gradients, the hidden layers of all positions would be N times the size of one.
        outputs += [
            checkpoint(_advance, *part, now, use_reentrant=False, preserve_rng_state=False)
            for part, now in zip(parts, before, strict=False)  # the last may be for what follows
        ]
        total = before[-1]
    return torch.cat(outputs, 2)


def _advance(
    w1: Float[Tensor, "K B C U"],
    values: Float[Tensor, "K B C E"],
    w2: Float[Tensor, "K B C U"],
    before: Float[Tensor, "K B U E"] | None,
) -> Float[Tensor, "K B C E"]:
    """Return the outputs of the causal form at C positions, from the sum before them."""
    terms = w1[..., None] * values[..., None, :]
    steps = terms.shape[2]
    sums = wide(terms.new_ones(steps, steps).tril() @ terms.flatten(3)).view(terms.shape)
    if before is not None:
        sums += before[:, :, None]
    return (w2[..., None, :] @ gelu_inplace(sums).to(w2.dtype)).squeeze(3)


def _ranged(made: Generated) -> AbstractContextManager[object]:
    """Keep autocast from casting back to float16 what was made wider for its range."""
    if made.features.dtype == torch.float32 and torch.is_autocast_enabled(made.features.device.type):
        return torch.autocast(made.features.device.type, enabled=False)
    return contextlib.nullcontext()


class HyperMixingConfig(MixerConfig):
    """The mixer of HyperMixer. Tied with hidden_dim = 3 D, or untied with D, it is as large as attention."""

    type: Literal["hypermixing"] = "hypermixing"
    hidden_dim: int = Field(
        default=512, ge=1, description="generated hidden units, of all heads together; a multiple of num_heads"
    )
    tied: bool = Field(default=True, description="one hypernetwork generates both layers")
    positions: PositionKind | Literal["idiap"] = Field(
        default="sinusoidal",
        description="positions added to the input of the hypernetworks; idiap: as the authors' published code has them",
    )
    bias: bool = Field(default=True, description="whether the hypernetworks have biases")
    num_heads: int = Field(default=1, ge=1, description="must divide the width and hidden_dim")
    norm: bool = Field(default=True, description="LayerNorm of the output")

    supports_causal = True
    supports_cross = True

    def _build(self, dim: int, max_len: int, causal: bool) -> HyperMixing:
        self._check_heads(self.num_heads, width=dim, hidden_dim=self.hidden_dim)
        return HyperMixing(dim=dim, max_len=max_len, causal=causal, **self.model_dump(exclude={"type"}))
