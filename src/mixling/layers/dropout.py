"""Dropout, faster on CPUs than torch's."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

_STEPS = 1 << 16


def dropout(x: Float[Tensor, "*S"], fraction: float, training: bool = True) -> Float[Tensor, "*S"]:
    """Set a random `fraction` of the entries to zero and divide the others by 1 - fraction; return x itself if
    not training.

    On a CPU torch draws a random number for each entry, a good part of a small Transformer's step; here a 64-bit number
    serves four entries, with the rate in steps of 1/65,536.
    """
    if not training or fraction == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, fraction)
    dropped = min(round(fraction * _STEPS), _STEPS - 1)  # 16 bits cannot express a rate of 1
    bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    kept = torch.empty_like(x, requires_grad=False)
    torch.ge(bits[: x.numel()].view(x.shape), dropped - _STEPS // 2, out=kept)
    return x * kept.mul_(_STEPS / (_STEPS - dropped))
