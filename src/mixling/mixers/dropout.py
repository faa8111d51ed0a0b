"""Dropout that mixers and models share. Not a mixer."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

_STEPS = 1 << 16


def dropout(x: Float[Tensor, "*S"], share: float, training: bool = True) -> Float[Tensor, "*S"]:
    """x with a random `share` of its entries at zero and the others divided by 1 - share; x itself where not training.

    On a CPU torch draws a number for each entry, a good part of a small Transformer's step; here one of 64 bits does
    for four entries, with the share in steps of 1/65,536.
    """
    if not training or share == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, share)
    dropped = min(round(share * _STEPS), _STEPS - 1)  # all of them is beyond what 16 bits tell
    bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    kept = torch.empty_like(x, requires_grad=False)
    torch.ge(bits[: x.numel()].view(x.shape), dropped - _STEPS // 2, out=kept)
    return x * kept.mul_(_STEPS / (_STEPS - dropped))
