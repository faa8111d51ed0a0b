"""The one block: token mixers, then a feed-forward over the channels, each a residual sublayer."""

from __future__ import annotations

from typing import Any, Literal, cast

import torch
from jaxtyping import Bool, Float
from pydantic import Field, SerializeAsAny, field_validator
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.config import Config
from mixling.errors import ConfigError
from mixling.mixers.base import Mixer, MixerConfig, mixer_config


class FeedForwardConfig(Config):
    """W2 gelu(W1 x): the channel MLP."""

    type: Literal["mlp"] = "mlp"
    ffn_dim: int = Field(256, ge=1)


class BlockConfig(Config):
    """Mixers in order, then an optional feed-forward."""

    mixers: tuple[SerializeAsAny[MixerConfig], ...] = ()
    feed_forward: FeedForwardConfig | None = None
    norm: Literal["pre", "post"] = "pre"
    dropout: float = Field(0.0, ge=0, lt=1, description="on each sublayer's output, before it is added")
    survival: float = Field(1.0, gt=0, le=1, description="stochastic depth: share of texts that keep a sublayer")

    @field_validator("mixers", mode="before")
    @classmethod
    def _read_mixers(cls, values: Any) -> Any:
        if not isinstance(values, list | tuple):
            return values
        out = []
        for place, item in enumerate(values):
            try:
                out.append(mixer_config(item))
            except ConfigError as error:  # the outer error says which layer
                raise ValueError("\n".join(f"{place}: {line}" for line in str(error).splitlines())) from None
        return tuple(out)


class FeedForward(nn.Module):
    """Y = W2 gelu(W1 X + b1) + b2 over the channels."""

    def __init__(self, *, dim: int, ffn_dim: int) -> None:
        super().__init__()
        self.expand = nn.Linear(dim, ffn_dim)
        self.contract = nn.Linear(ffn_dim, dim)

    def forward(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        return self.contract(F.gelu(self.expand(x)))

    def flops(self, batch: int, length: int) -> int:
        """As `Mixer.flops`."""
        return 2 * (2 * batch * length * self.expand.in_features * self.expand.out_features)


class Block(nn.Module):
    """Pre-norm: x + f(LN(x)) for each sublayer f; post-norm: LN(x + f(x))."""

    def __init__(self, config: BlockConfig, *, dim: int, max_len: int) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.dropout, self.survival = config.dropout, config.survival
        self.mixers = nn.ModuleList()
        for place, mixer in enumerate(config.mixers):
            try:
                self.mixers.append(mixer.build(dim, max_len))
            except ConfigError as error:
                raise ConfigError(f"mixers.{place}: {error}") from None
        self.mixer_norms = nn.ModuleList(nn.LayerNorm(dim) for _ in config.mixers)
        ffn = config.feed_forward
        self.feed_forward = None if ffn is None else FeedForward(dim=dim, ffn_dim=ffn.ffn_dim)
        self.feed_forward_norm = None if ffn is None else nn.LayerNorm(dim)

    def forward(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        for mixer, norm in zip(self.mixers, self.mixer_norms, strict=True):
            x = self._join(x, mixer(norm(x), mask)) if self.pre else norm(self._join(x, mixer(x, mask)))
        if self.feed_forward is not None and self.feed_forward_norm is not None:
            ffn, norm = self.feed_forward, self.feed_forward_norm
            x = self._join(x, ffn(norm(x))) if self.pre else norm(self._join(x, ffn(x)))
        return x

    def flops(self, batch: int, length: int) -> int:
        """As `Mixer.flops`."""
        mixing = sum(cast(Mixer, mixer).flops(batch, length) for mixer in self.mixers)
        return mixing + (self.feed_forward.flops(batch, length) if self.feed_forward is not None else 0)

    def _join(self, x: Tensor, update: Tensor) -> Tensor:
        update = F.dropout(update, self.dropout, self.training)
        if self.training and self.survival < 1:
            # Per text, rescaled so that the expectation is that of all sublayers (gMLP, Table 1).
            kept = torch.rand(len(x), 1, 1, device=x.device) < self.survival
            update = update * kept / self.survival
        return x + update
