"""The block: token mixers, then a feed-forward over the channels, each a residual sublayer."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float, Shaped
from pydantic import Field, SerializeAsAny, field_validator, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.errors import ConfigError
from mixling.layers.dropout import dropout
from mixling.layers.fused import FeedForwardSublayer, can_fuse
from mixling.layers.masks import as_mask
from mixling.layers.mixer import Mixer, State
from mixling.layers.norms import build_norm
from mixling.networks.blocks import BlockConfig, StackConfig
from mixling.networks.mixer import MixerConfig, mixer_config


class DeepBlockConfig(BlockConfig):
    """A block of an encoder-decoder or of an image model: one of its mixers may read a context."""

    cross: SerializeAsAny[MixerConfig] | None = Field(default=None, description="reads the source, in decoders")
    cross_after: int | None = Field(
        default=None, ge=0, description="how many of the mixers come before `cross`; default: all"
    )
    layer_scale: float | None = Field(
        default=None,
        gt=0,
        description="initial value of a factor for each channel of each sublayer's output; None: no factors",
    )
    drop_path: float = Field(
        default=0.0, ge=0, lt=1, description="stochastic depth: probability that a text skips a sublayer"
    )

    @field_validator("cross", mode="before")
    @classmethod
    def _read_cross(cls, value: Any) -> Any:
        try:
            return None if value is None else mixer_config(value)
        except ConfigError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _check_cross(self) -> DeepBlockConfig:
        if self.cross_after is None:
            return self
        if self.cross is None:
            raise ValueError(f"cross_after = {self.cross_after} has no use without `cross`; leave it out")
        if self.cross_after > len(self.mixers):
            raise ValueError(f"cross_after: got {self.cross_after}; there are {len(self.mixers)} mixers")
        return self


class DeepStackConfig(StackConfig):
    """Blocks of an encoder-decoder or of an image model, one after another."""

    layers: tuple[DeepBlockConfig, ...] = Field(default=(), max_length=1_000)


class BlockState(NamedTuple):
    """The state of a block's mixers between steps; `cross` holds the source and the position."""

    mixers: tuple[State, ...]
    cross: State


class FeedForward(nn.Module):
    """Y = W2 gelu(W1 X + b1) + b2 over the channels; gated, Y = W2 (gelu(W1 X + b1) * (V X + c)) + b2.

    W1, V (ffn_dim, D), W2 (D, ffn_dim). Cost is O(N * D * ffn_dim). Source of the gated form: T5.1.1, after GLU
    Variants (Shazeer 2020); as there, gelu is the tanh approximation, and weights are initialized from N(0, 1/fan-in).

    Args:
        dim: D, the width of the tokens.
        ffn_dim: the width of the hidden layer.
        gated: use the gated form.
        bias: give the linear layers biases.
        dropout: rate on the hidden layer.
    """

    def __init__(self, *, dim: int, ffn_dim: int, gated: bool = False, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.expand = nn.Linear(dim, ffn_dim, bias=bias)
        self.contract = nn.Linear(ffn_dim, dim, bias=bias)
        self.value = nn.Linear(dim, ffn_dim, bias=bias) if gated else None
        if self.value is not None:
            for linear in (self.expand, self.contract, self.value):
                nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
                if bias:
                    nn.init.zeros_(linear.bias)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        if self.value is None:
            hidden = F.gelu(self.expand(x))
        else:
            hidden = F.gelu(self.expand(x), approximate="tanh") * self.value(x)
        output: Tensor = self.contract(dropout(hidden, self.dropout, self.training))
        return output

    def flops(self, batch: int, length: int) -> int:
        """Count operations as `Mixer.flops` does."""
        layers = 2 if self.value is None else 3
        return 2 * (layers * batch * length * self.expand.in_features * self.expand.out_features)


class Block(nn.Module):
    """Pre-norm: x + f(LN(x)) for each sublayer f; post-norm: LN(x + f(x)). LN is LayerNorm, RMSNorm or affine.

    With layer scale, s * f(x) is added, where s (D) is learned (CaiT, arXiv:2103.17239, section 2; ResMLP).

    Args:
        config: the mixers, the feed-forward and the norms.
        dim: D, the width of the tokens.
        max_len: length of the longest input, in tokens.
        causal: mixers see no later position, which allows `step`.
        context_len: length of the longest context of `cross`, in tokens; None: there is none.

    Raises:
        ConfigError: a mixer cannot be built with these values; the message names it.
    """

    def __init__(
        self, config: BlockConfig, *, dim: int, max_len: int, causal: bool = False, context_len: int | None = None
    ) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.dropout = config.dropout
        deep = config if isinstance(config, DeepBlockConfig) else DeepBlockConfig()
        self.drop_path = deep.drop_path
        self.mixers = nn.ModuleList()
        for number, mixer in enumerate(config.mixers):
            try:
                self.mixers.append(mixer.build(dim, max_len, causal=causal))
            except ConfigError as error:
                raise ConfigError(f"mixers.{number}: {error}") from None
        self.mixer_norms = nn.ModuleList(build_norm(config.norm_type, dim) for _ in config.mixers)
        self.cross = self.cross_norm = None
        self.cross_after = len(config.mixers) if deep.cross_after is None else deep.cross_after
        if deep.cross is not None:
            if context_len is None:
                raise ConfigError(f"cross: got {deep.cross.type!r}, where no context is given; leave it out")
            try:
                self.cross = deep.cross.build(dim, max(max_len, context_len), cross=True)
            except ConfigError as error:
                raise ConfigError(f"cross: {error}") from None
            self.cross_norm = build_norm(config.norm_type, dim)
        ffn = config.feed_forward
        self.feed_forward = self.feed_forward_norm = None
        if ffn is not None:
            self.feed_forward = FeedForward(
                dim=dim, ffn_dim=ffn.ffn_dim, gated=ffn.type == "gated", bias=ffn.bias, dropout=ffn.dropout
            )
            self.feed_forward_norm = build_norm(config.norm_type, dim)
        self.scales: nn.ParameterList | None = None
        if deep.layer_scale is not None:
            sublayers = len(self._mixing()) + (ffn is not None)
            self.scales = nn.ParameterList(torch.full((dim,), deep.layer_scale) for _ in range(sublayers))

    def forward(
        self,
        x: Float[Tensor, "B N D"],
        mask: Shaped[Tensor, "B N"] | None = None,
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Shaped[Tensor, "B M"] | None = None,
    ) -> Float[Tensor, "B N D"]:
        mask = as_mask(mask, x)
        for number, (mixer, norm) in enumerate(self._mixing()):
            given = (context, context_mask) if mixer is self.cross else ()
            y = self._scaled(mixer(norm(x) if self.pre else x, mask, *given), number)
            x = self._join(x, y) if self.pre else norm(self._join(x, y))
        return self._feed(x)

    def start(
        self,
        like: Float[Tensor, "B D"],
        context: Float[Tensor, "B M D"] | None = None,
        context_mask: Shaped[Tensor, "B M"] | None = None,
    ) -> BlockState:
        """Return the states of the block's mixers before the first token; see `Mixer.start`."""
        own = tuple(cast(Mixer, mixer).start(like) for mixer in self.mixers)
        return BlockState(own, {} if self.cross is None else self.cross.start(like, context, context_mask))

    def step(self, x: Float[Tensor, "B D"], state: BlockState) -> tuple[Float[Tensor, "B D"], BlockState]:
        """Return the output at the next position and the states after it; see `Mixer.step`."""
        before = iter(state.mixers)
        after = []
        cross = state.cross
        for number, (mixer, norm) in enumerate(self._mixing()):
            z = norm(x) if self.pre else x
            if mixer is self.cross:
                y, cross = mixer.step(z, cross)
            else:
                y, new = mixer.step(z, next(before))
                after.append(new)
            y = self._scaled(y, number)
            x = self._join(x, y) if self.pre else norm(self._join(x, y))
        return self._feed(x), BlockState(tuple(after), cross)

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        """Count operations as `Mixer.flops` does."""
        total = 0 if self.feed_forward is None else self.feed_forward.flops(batch, length)
        for mixer, _ in self._mixing():
            total += mixer.flops(batch, length, context_length if mixer is self.cross else None)
        return total

    def _mixing(self) -> list[tuple[Mixer, nn.Module]]:
        """Return the mixers, including `cross`, and their norms in order."""
        pairs = list(zip(self.mixers, self.mixer_norms, strict=True))
        if self.cross is not None and self.cross_norm is not None:
            pairs.insert(self.cross_after, (self.cross, self.cross_norm))
        return cast(list[tuple[Mixer, nn.Module]], pairs)

    def _feed(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        if self.feed_forward is None or self.feed_forward_norm is None:
            return x
        ffn = self.feed_forward
        norm = self.feed_forward_norm
        plain = ffn.value is None and not (ffn.dropout or self.dropout or self.drop_path or self.scales)
        if (
            self.pre
            and plain
            and isinstance(norm, nn.LayerNorm)
            and can_fuse(x, self.training, *ffn.expand.weight.shape)
        ):
            (w1, b1), (w2, b2) = ((linear.weight, linear.bias) for linear in (ffn.expand, ffn.contract))
            output: Tensor = FeedForwardSublayer.apply(x, norm.weight, norm.bias, norm.eps, w1, b1, w2, b2)
            return output
        y = self._scaled(ffn(norm(x) if self.pre else x), -1)
        return self._join(x, y) if self.pre else norm(self._join(x, y))

    def _scaled(self, y: Tensor, number: int) -> Tensor:
        """Return the output of a sublayer times its layer scale."""
        return y if self.scales is None else y * self.scales[number]

    def _join(self, x: Tensor, update: Tensor) -> Tensor:
        if not self.training:
            return x + update
        update = dropout(update, self.dropout)
        if self.drop_path > 0:
            # Per text, rescaled so that the expectation is unchanged (gMLP, Table 1).
            kept = torch.rand(len(x), *[1] * (x.ndim - 1), device=x.device) >= self.drop_path
            update = update * kept / (1 - self.drop_path)
        return x + update
