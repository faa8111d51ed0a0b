"""Which input tokens each output token depends on, of anything that mixes tokens."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor


def pseudo_attention(
    function: Callable[[Float[Tensor, "1 N D"]], Float[Tensor, "1 M E"]], x: Float[Tensor, "1 N D"]
) -> Float[Tensor, "M N"]:
    """A[i, j] = |d y_i / d x_j| at the one input `x`, for y = function(x): a mixer, an encoder or a whole model.

    Where tokens are vectors, the Jacobian of a pair of them is an (E, D) matrix, and |.| is its Frobenius norm: it does
    not change when channels of input or output are rotated. Rows do not sum to one.
    Cost is M E backward passes, one row's gradients in memory at a time.
    Source: HyperMixer, section 4.7, where tokens are single numbers.
    """
    assert x.ndim == 3, f"x must be (1, N, D), got {tuple(x.shape)}"
    assert len(x) == 1, f"a map is of one input, got {len(x)}"
    with torch.inference_mode(False), torch.enable_grad():  # whatever is set around it
        x = x.detach().clone().requires_grad_()
        rows = []
        for token in function(x)[0]:
            gradients = [torch.autograd.grad(channel, x, retain_graph=True)[0][0] for channel in token]
            rows.append(torch.linalg.vector_norm(torch.stack(gradients), dim=(0, 2)))
    return torch.stack(rows)
