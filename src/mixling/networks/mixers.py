"""The configurations of the mixers that native steps know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from mixling.errors import ConfigError
from mixling.networks.mixer import MixerConfig, class_in_file

if TYPE_CHECKING:
    from mixling.layers.mixer import Mixer


class TokenMLPConfig(MixerConfig):
    """The mixer of MLP-Mixer and pNLP-Mixer."""

    type: Literal["token_mlp"] = "token_mlp"
    supports_causal = True
    hidden_dim: int = Field(default=256, ge=1, description="H; in the causal form at least max_len")
    window: int | None = Field(
        default=None,
        ge=1,
        description="how far back each of the two layers looks, in the causal form; None: all the way",
    )

    def _build(self, dim: int, max_len: int, causal: bool) -> Mixer:
        if self.window is not None and not causal:
            raise ConfigError(
                f"mixer 'token_mlp': window = {self.window} is for the causal form, which decoders have; leave it out"
            )
        mixer: Mixer = class_in_file("TokenMLP", "token_mlp")(
            dim=dim, max_len=max_len, hidden_dim=self.hidden_dim, causal=causal, window=self.window
        )
        return mixer


class IdentityConfig(MixerConfig):
    """No options."""

    type: Literal["identity"] = "identity"
    supports_causal = True

    def _build(self, dim: int, max_len: int, causal: bool) -> Mixer:
        mixer: Mixer = class_in_file("Identity", "identity")(dim=dim)
        return mixer
