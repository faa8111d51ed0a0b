"""How strongly output tokens depend on input tokens, for any function that mixes tokens."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

_NUMBERS = 1 << 20  # maximum size of the copies of the input that are passed to the function at a time


def pseudo_attention(
    function: Callable[[Float[Tensor, "B N D"]], Float[Tensor, "B M E"]], x: Float[Tensor, "1 N D"]
) -> Float[Tensor, "M N"]:
    """Return A[i, j] = |d y_i / d x_j| for y = function(x), where function is a mixer, an encoder or a whole model.

    |.| is the Frobenius norm of the (E, D) Jacobian of a pair of tokens, which is invariant to rotations of input or
    output channels. Rows do not sum to one. The cost is M backward passes with a batch of E inputs, one for each
    channel of the output; large batches are split.
    Source: HyperMixer, section 4.7, where tokens are scalars.

    Args:
        function: takes a batch, whose inputs must not influence each other.
        x: a single input.
    """
    assert x.ndim == 3, f"x must be (1, N, D), got {tuple(x.shape)}"
    assert len(x) == 1, f"x must be a single input, got {len(x)}"
    with torch.inference_mode(False), torch.enable_grad():  # independent of the caller's context
        x = x.detach().clone()
        with torch.no_grad():
            _, tokens, channels = function(x).shape
        squares = x.new_zeros(tokens, x.shape[1])
        size = max(1, min(channels, _NUMBERS // max(x.numel(), 1)))
        for part in torch.arange(channels, device=x.device).split(size):
            copies = x.repeat(len(part), 1, 1).requires_grad_()
            y = function(copies)[torch.arange(len(part), device=x.device), :, part]  # another channel of each copy
            for token, row in zip(y.unbind(1), squares, strict=True):
                (gradients,) = torch.autograd.grad(token.sum(), copies, retain_graph=True)
                row += gradients.square().sum((0, 2))
    return squares.sqrt()
