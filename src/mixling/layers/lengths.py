"""Texts of several lengths without a mask: real tokens first, and torch's attention that is given lengths."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.backends.cuda import SDPAParams, can_use_flash_attention
from torch.nn import functional as F

from mixling.layers.transforms import is_transformed


def real_first(mask: Bool[Tensor, "B N"]) -> Int[Tensor, "B N"]:
    """Return the positions of each row's real tokens in their order, then the others."""
    return torch.argsort((~mask).byte(), dim=1, stable=True)


@cache
def varlen_kernel() -> Callable[..., Any] | None:
    """Return torch's attention of sequences of several lengths, which versions from 2.10 on have."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn


def takes_lengths(
    query: Float[Tensor, "B H N E"], keys: Float[Tensor, "B H M E"], values: Float[Tensor, "B H M E"]
) -> bool:
    """Return whether `attention_by_lengths` can be used: on some GPUs, in half precision, outside of graphs."""
    if query.shape[3] % 8 or torch.compiler.is_compiling() or is_transformed() or varlen_kernel() is None:
        return False
    return bool(can_use_flash_attention(SDPAParams(query, keys, values, None, 0.0, False, False)))


def attention_by_lengths(
    query: Float[Tensor, "B H N E"],
    keys: Float[Tensor, "B H M E"],
    values: Float[Tensor, "B H M E"],
    lengths: Int[Tensor, " B"],
    scale: float,
) -> Float[Tensor, "B H N E"]:
    """Return softmax(scale Q K^T) V of each text's first keys, without waiting for the GPU.

    The kernel takes sequences in one row. A text is two: all its queries with the keys that they see, and no query with
    the other keys. So nothing is moved, and nobody asks how many there are.
    """
    kernel = varlen_kernel()
    assert kernel is not None, "see takes_lengths"
    (batch, _, length, width), number = query.shape, keys.shape[2]
    texts = torch.arange(batch, dtype=torch.int32, device=query.device)[:, None]
    ends = torch.cat([texts * number + lengths[:, None], (texts + 1) * number], 1)
    query_ends = ((texts + 1) * length).expand(-1, 2)
    bounds = [F.pad(item.flatten().int(), (1, 0)) for item in (query_ends, ends)]
    # The argument for the scale is younger than the kernel, whose own scale is 1 / sqrt(E).
    scaled = query if scale == width**-0.5 else query * (scale * width**0.5)
    mixed: Tensor = kernel(
        *(item.transpose(1, 2).flatten(0, 1) for item in (scaled, keys, values)), *bounds, length, number
    )
    texts_of_heads: Tensor = mixed.unflatten(0, (batch, length)).transpose(1, 2)
    return texts_of_heads
