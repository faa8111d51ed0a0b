"""Linear recurrences, elementwise: by steps, by chunks, and without a step for each token."""

from __future__ import annotations

from itertools import accumulate

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

CHUNK = 64  # tokens of the QRNN's recurrence in sequence: shorter chunks cost products, longer ones steps


def recur(keep: Float[Tensor, "B N H"], new: Float[Tensor, "B N H"], *, longest: int) -> Float[Tensor, "B N H"]:
    """Compute c_t = keep_t c_{t-1} + new_t in O(N) work; for long texts all chunks at once, then chunk after chunk.

    Args:
        longest: steps of the longest input of a graph whose length is open.
    """
    if torch.compiler.is_compiling():
        return _recur_by_doubling(keep, new, longest)
    length = keep.shape[1]
    if length <= 2 * CHUNK:
        return _steps(keep, new)
    padding = (0, 0, 0, -length % CHUNK)
    keep, new = (F.pad(item, padding).unflatten(1, (-1, CHUNK)) for item in (keep, new))
    within = _steps(keep, new, axis=2)  # each chunk as if it were the first
    carried = torch.stack(list(accumulate(keep.unbind(2), torch.mul)), 2)  # the factor of the c before the chunk
    before = F.pad(_steps(carried[:, :-1, -1], within[:, :-1, -1]), (0, 0, 1, 0))
    return torch.addcmul(within, carried, before[:, :, None]).flatten(1, 2)[:, :length]


def _steps(keep: Float[Tensor, "B *N H"], new: Float[Tensor, "B *N H"], axis: int = 1) -> Float[Tensor, "B *N H"]:
    keeps = keep.unbind(axis)
    news = new.unbind(axis)
    c = [news[0]]
    for one_keep, one_new in zip(keeps[1:], news[1:], strict=True):
        c.append(torch.addcmul(one_new, one_keep, c[-1]))
    return torch.stack(c, axis)


def _recur_by_doubling(
    keep: Float[Tensor, "B N H"], new: Float[Tensor, "B N H"], longest: int
) -> Float[Tensor, "B N H"]:
    """Compute the same without a step for each token, for a graph of open length: step k reaches 2^k tokens."""
    length = keep.shape[1]
    shift = 1
    while shift < longest:
        new = new + keep * F.pad(new, (0, 0, shift, 0))[:, :length]
        keep = keep * F.pad(keep, (0, 0, shift, 0))[:, :length]
        shift *= 2
    return new
