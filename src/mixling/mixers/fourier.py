"""The Fourier transform of FNet, of each text over its own length."""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor

from mixling.layers.masks import all_real, all_true, real
from mixling.layers.mixer import Mixer, wide
from mixling.networks.mixer import MixerConfig


class Fourier(Mixer):
    """Y = Re(FFT_tokens(FFT_channels(X))): Y[a, c] = sum_jd X[j, d] cos(2 pi (a j / N + c d / D)). No parameters.

    Cost is O(N * D * log(N D)): the two FFTs take about 5 N D log2(N D) operations, none of them in a matrix
    product, so that `flops` is 0 and `fft_flops` has them. Not normalized: outputs are about sqrt(N D) times the
    inputs. Source: FNet, section 3.2. Decided beyond the paper, whose transform takes padding in: N is each text's
    own number of real tokens, numbered without gaps, so that padding changes nothing. Texts of one length are
    transformed together; where a graph is captured, lengths stay open and cosines and sines are matrices instead:
    O(N^2 D), the same numbers. `per_length` False is the paper's form. Half precision is transformed in float32.
    There is no causal form: a shorter text has other frequencies.

    Args:
        dim: D, the width of the tokens.
        per_length: transform each text over its own length; False: padding included.
    """

    def __init__(self, *, dim: int, per_length: bool = True) -> None:
        super().__init__()
        self.dim = dim
        self.per_length = per_length

    def mix(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        if not self.per_length:
            mask = all_true(mask.shape, mask.device)
        by = _by_matrices if torch.compiler.is_compiling() else _by_fft
        return by(wide(x), mask).to(x.dtype)

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        return 0

    def fft_flops(self, batch: int, length: int) -> int:
        return round(5 * batch * length * self.dim * math.log2(length * self.dim))


def _by_fft(x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
    if all_real(mask):
        transformed: Tensor = torch.fft.fft2(x).real
        return transformed
    lengths = mask.sum(1)
    y = torch.zeros_like(x)
    for length in lengths.unique().tolist():
        if length:
            real = mask & (lengths == length)[:, None]
            y[real] = torch.fft.fft2(x[real].unflatten(0, (-1, length))).real.flatten(0, 1)
    return y


def _by_matrices(x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
    """Transform by cos(a + b) = cos a cos b - sin a sin b, over tokens and over channels."""
    cos, sin = _waves(torch.arange(x.shape[2], device=x.device), torch.tensor(x.shape[2], device=x.device), x.dtype)
    token_cos, token_sin = _waves(mask.cumsum(1) - 1, mask.sum(1), x.dtype)
    x = real(x, mask)
    return token_cos @ (x @ cos) - token_sin @ (x @ sin)


def _waves(
    positions: Int[Tensor, "*B N"], length: Int[Tensor, "*B"], dtype: torch.dtype
) -> tuple[Float[Tensor, "*B N N"], Float[Tensor, "*B N N"]]:
    """Return cos and sin of 2 pi i j / length."""
    length = length.clamp(min=1)[..., None, None]
    whole = positions[..., :, None] * positions[..., None, :] % length  # in integers: a large angle would be inexact
    angles = whole.to(dtype) / length * (2 * math.pi)
    return angles.cos(), angles.sin()


class FourierConfig(MixerConfig):
    """The mixer of FNet."""

    type: Literal["fourier"] = "fourier"
    per_length: bool = Field(
        default=True, description="each text over its own length; False: padding included, as the paper"
    )

    def _build(self, dim: int, max_len: int, causal: bool) -> Fourier:
        return Fourier(dim=dim, per_length=self.per_length)
