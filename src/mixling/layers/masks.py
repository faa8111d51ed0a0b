"""Masks as callers give them, what models check of their inputs, and what masks are used for."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from mixling.errors import ConfigError
from mixling.layers.positions import Size
from mixling.layers.transforms import is_transformed


def as_mask(
    mask: Shaped[Tensor, "B N"] | None, tokens: Shaped[Tensor, "B N ..."], *, name: str = "mask"
) -> Bool[Tensor, "B N"]:
    """Return a mask as booleans, True at real tokens; without a mask all tokens are real.

    Args:
        mask: (B, N), boolean, or integers or floats that are 1 at real tokens and 0 in padding.
        tokens: (B, N, ...), the tokens that the mask belongs to.
        name: what an error calls the mask.

    Raises:
        ConfigError: the mask is no tensor, or has another shape, other values, or complex ones.
    """
    if mask is None:
        return all_true(tokens.shape[:2], tokens.device)
    allowed = (
        f"allowed: None (all tokens are real), or {tuple(tokens.shape[:2])}, 1 or True at real tokens, 0 in padding"
    )
    if not isinstance(mask, Tensor):
        raise ConfigError(f"{name}: got {type(mask).__name__}, not a tensor; {allowed}")
    if mask.dtype != torch.bool and not torch.compiler.is_compiling() and not ((mask == 0) | (mask == 1)).all():
        other = mask[(mask != 0) & (mask != 1)][0].item()
        raise ConfigError(f"{name}: got the value {other:g}; {allowed}")
    if not torch.compiler.is_compiling() and mask.shape != tokens.shape[:2]:  # it would fix the sizes of a graph
        raise ConfigError(f"{name}: got the shape {tuple(mask.shape)}; {allowed}")
    return mask if mask.dtype == torch.bool else mask != 0


def check_tokens(tokens: Tensor, dim: int | None, *, name: str = "x") -> None:
    """Refuse anything but a batch of token vectors of width `dim`; None allows any width.

    Raises:
        ConfigError: no tensor of floats, or another number of axes or width.
    """
    if torch.compiler.is_compiling():
        return
    allowed = f"(batch, tokens, {'width' if dim is None else dim}) of floats"
    if not isinstance(tokens, Tensor):
        raise ConfigError(f"{name}: got {type(tokens).__name__}, not a tensor; allowed: {allowed}")
    if tokens.ndim != 3 or tokens.shape[2] != (dim or tokens.shape[2]) or not tokens.is_floating_point():
        raise ConfigError(f"{name}: got {tuple(tokens.shape)} of {tokens.dtype}; allowed: {allowed}")


def all_true(shape: Sequence[Size], device: torch.device) -> Bool[Tensor, "B N"]:
    """Return the mask of tokens that all are real; `all_real` knows it on any device."""
    if device.type == "cpu" and not torch.compiler.is_compiling():
        return torch.ones(tuple(shape), dtype=torch.bool)
    return torch.ones((), dtype=torch.bool, device=device).expand(*shape)


def all_real(mask: Bool[Tensor, "B N"]) -> bool:
    """Return whether all tokens are known to be real, without waiting for a GPU.

    On a CPU the mask is read. Elsewhere, and where a graph is traced, one value that stands for all tokens says it.
    """
    if mask.device.type == "cpu" and not torch.compiler.is_compiling() and not is_transformed():
        return bool(mask.all())
    return mask.stride(1) == 0 and mask.stride(0) == 0


def real(x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
    """Return x with zeros in padding, whatever is there: a product with zeros would keep values that are not finite.

    A batch that is known to have no padding is x itself.
    """
    return x if all_real(mask) else x.masked_fill(~mask[..., None], 0.0)


def visible(mask: Bool[Tensor, "B N"], *, causal: bool) -> Bool[Tensor, "#B #N N"]:
    """Return which positions each query sees: the real ones, of these in the causal form those up to itself."""
    seen = mask[:, None]
    length = mask.shape[1]
    return seen & torch.ones(length, length, dtype=torch.bool, device=mask.device).tril() if causal else seen
