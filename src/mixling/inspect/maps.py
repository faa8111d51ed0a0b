"""Which input tokens each output token depends on, of anything that mixes tokens."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

_NUMBERS = 1 << 20  # of the copies of the input that go through the function at a time


def pseudo_attention(
    function: Callable[[Float[Tensor, "B N D"]], Float[Tensor, "B M E"]], x: Float[Tensor, "1 N D"]
) -> Float[Tensor, "M N"]:
    """A[i, j] = |d y_i / d x_j| at the one input `x`, for y = function(x): a mixer, an encoder or a whole model.

    Where tokens are vectors, the Jacobian of a pair of them is an (E, D) matrix, and |.| is its Frobenius norm: it does
    not change when channels of input or output are rotated. Rows do not sum to one.
    Cost is M backward passes of a batch of E inputs, a channel of the output for each; large ones go in parts.
    Source: HyperMixer, section 4.7, where tokens are single numbers.

    Args:
        function: of a batch, whose inputs do not depend on each other.
    """
    assert x.ndim == 3, f"x must be (1, N, D), got {tuple(x.shape)}"
    assert len(x) == 1, f"a map is of one input, got {len(x)}"
    with torch.inference_mode(False), torch.enable_grad():  # whatever is set around it
        x = x.detach().clone()
        with torch.no_grad():
            _, tokens, channels = function(x).shape
        squares = x.new_zeros(tokens, x.shape[1])
        size = max(1, min(channels, _NUMBERS // max(x.numel(), 1)))
        for part in torch.arange(channels, device=x.device).split(size):
            copies = x.repeat(len(part), 1, 1).requires_grad_()
            y = function(copies)[torch.arange(len(part), device=x.device), :, part]  # of each copy another channel
            for token, row in zip(y.unbind(1), squares, strict=True):
                (gradients,) = torch.autograd.grad(token.sum(), copies, retain_graph=True)
                row += gradients.square().sum((0, 2))
    return squares.sqrt()
