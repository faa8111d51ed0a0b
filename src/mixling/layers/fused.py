"""Layers of text models whose training steps are written by hand, forward and backward, for CPUs.

A small model's step is mostly the overhead of its hundreds of operations. Here a layer is one node of the autograd
graph with few operations. Matrix products are in the precision of autocast. In bfloat16, oneDNN compiles a product for
each new shape, which takes longer than a small product itself; rows are padded to a few sizes, so that it compiles few.

Each function returns the same as the operations it replaces, up to rounding; the modules that call them use those
operations elsewhere: on other devices, without gradients, and for export.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from mixling.layers.bags import add_rows


def can_fuse(x: Tensor, training: bool) -> bool:
    """Return whether the functions of this file can be used for a training step on x."""
    supported = x.dtype == torch.float32 and x.device.type == "cpu"
    return training and supported and torch.is_grad_enabled() and not torch.compiler.is_compiling()


def _precision(x: Tensor) -> torch.dtype:
    """Return the precision of matrix products with x."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype


def _padded_size(rows: int) -> int:
    """Return the number of rows to compute: one of eight sizes between powers of two."""
    step = max(64, 1 << max(rows.bit_length() - 4, 0))
    return -(-rows // step) * step


def _operand(x: Float[Tensor, "T D"], precision: torch.dtype, before: int = 0) -> Float[Tensor, "P D"]:
    """Return x as an operand of matrix products, `before` rows of zeros before it; in half precision padded."""
    size = before + len(x)
    if precision.itemsize > 2:
        return F.pad(x.to(precision), (0, 0, before, 0)) if before else x.to(precision)
    out = torch.empty(_padded_size(size), x.shape[1], dtype=precision)
    out[:before] = 0
    out[before:size] = x
    out[size:] = 0
    return out


class FeedForwardSublayer(torch.autograd.Function):
    """x + W2 gelu(W1 LN(x) + b1) + b2 for tokens x (*B, D), with LN's weight, bias and epsilon."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "*B D"],
        norm_weight: Float[Tensor, " D"],
        norm_bias: Float[Tensor, " D"],
        eps: float,
        expand: Float[Tensor, "F D"],
        expand_bias: Float[Tensor, " F"] | None,
        contract: Float[Tensor, "D F"],
        contract_bias: Float[Tensor, " D"] | None,
    ) -> Float[Tensor, "*B D"]:
        precision, rows = _precision(x), x.reshape(-1, x.shape[-1])
        normed, mean, rstd = torch.native_layer_norm(rows, rows.shape[-1:], norm_weight, norm_bias, eps)
        inputs, w1, w2 = _operand(normed, precision), expand.to(precision), contract.to(precision)
        hidden = _affine(inputs, w1, expand_bias)
        active = F.gelu(hidden)
        out = rows + _affine(active, w2, contract_bias)[: len(rows)]
        ctx.save_for_backward(rows, norm_weight, norm_bias, mean, rstd, inputs, w1, w2, hidden, active)
        ctx.biases = expand_bias is not None, contract_bias is not None
        return out.view(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "*B D"]) -> tuple[Any, ...]:
        rows, norm_weight, norm_bias, mean, rstd, inputs, w1, w2, hidden, active = ctx.saved_tensors
        flat = grad.reshape(rows.shape)
        of_out = _operand(flat, w2.dtype)
        of_hidden = torch.ops.aten.gelu_backward(of_out @ w2, hidden)
        of_normed = (of_hidden @ w1)[: len(rows)].to(rows.dtype)
        of_rows, of_norm_weight, of_norm_bias = torch.ops.aten.native_layer_norm_backward(
            of_normed, rows, rows.shape[-1:], mean, rstd, norm_weight, norm_bias, [True, True, True]
        )
        full = norm_weight.dtype
        return (
            of_rows.add_(flat).view(grad.shape),
            of_norm_weight,
            of_norm_bias,
            None,
            (of_hidden.mT @ inputs).to(full),
            of_hidden.sum(0, dtype=full) if ctx.biases[0] else None,
            (of_out.mT @ active).to(full),
            flat.sum(0, dtype=full) if ctx.biases[1] else None,
        )


def _affine(x: Float[Tensor, "T I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None) -> Tensor:
    return x @ weight.mT if bias is None else torch.addmm(bias.to(x.dtype), x, weight.mT)


class Windows(torch.autograd.Function):
    """Tokens x_i = sum over o = -w..w of A_o s_{i+o}, from one vector s (U, S) per distinct word.

    `spread` (S, (2w+1) D) has the matrices A_o side by side; without it, so has s the products. `index` (B, N) is 1 +
    the number of each token's word, 0 for none, and beyond the ends there are none, too.
    """

    @staticmethod
    def forward(
        ctx: Any,
        sums: Float[Tensor, "U S"],
        spread: Float[Tensor, "S R"] | None,
        index: Int[Tensor, "B N"],
        window: int,
    ) -> Float[Tensor, "B N D"]:
        parts, padding = 2 * window + 1, (window, window)
        inputs = _operand(sums, sums.dtype if spread is None else _precision(sums), 1)
        matrix = None if spread is None else spread.to(inputs.dtype)
        rows = inputs if matrix is None else inputs @ matrix
        rows = rows.view(len(rows) * parts, -1)  # one row for each word and offset
        read = F.pad(index.int(), padding).unfold(1, parts, 1) * parts + torch.arange(parts, dtype=torch.int32)
        read = read.reshape(-1, parts)
        ctx.save_for_backward(inputs, matrix, read)
        ctx.sizes = len(sums), len(rows), sums.dtype
        return F.embedding_bag(read, rows, mode="sum").view(*index.shape, -1).to(sums.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "B N D"]) -> tuple[Any, ...]:
        inputs, matrix, read = ctx.saved_tensors
        words, size, full = ctx.sizes
        of_rows = add_rows(read, grad.flatten(0, 1), size).view(len(inputs), -1)
        if matrix is None:
            return of_rows[1 : 1 + words].to(full), None, None, None
        of_rows = of_rows.to(matrix.dtype)
        of_sums = (of_rows @ matrix.mT)[1 : 1 + words]
        return of_sums.to(full), (inputs.mT @ of_rows).to(full), None, None


class Pools(torch.autograd.Function):
    """Attention, mean and maximum over the tokens x (B, N, D) that are real, side by side; 0 without any.

    Attention is the sum of softmax(X a + c)_i x_i with `score` a (1, D) and `score_bias` c (1,).
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "B N D"],
        mask: Bool[Tensor, "B N"],
        score: Float[Tensor, "1 D"],
        score_bias: Float[Tensor, " 1"],
    ) -> Float[Tensor, "B 3*D"]:
        padding, least = ~mask, torch.finfo(x.dtype).min
        with torch.autocast("cpu", enabled=False):
            scores = (x @ score[0] + score_bias).masked_fill_(padding, least)
            kept = mask.to(x.dtype)
            means = kept / kept.sum(1, keepdim=True).clamp_(min=1)
            # The two weighted sums in one product; a text without real tokens has the softmax of equal scores.
            weights = torch.stack([scores.softmax(1) * kept, means], 1)
            clean = x.masked_fill(padding[..., None], 0)
            sums = weights @ clean
        candidates = x.masked_fill(padding[..., None], least)
        highest = candidates.amax(1).masked_fill_(~mask.any(1, keepdim=True), 0)
        ctx.save_for_backward(clean, weights, sums, candidates, highest, score)
        return torch.cat([sums.flatten(1), highest], 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "B 3*D"]) -> tuple[Any, ...]:
        clean, weights, sums, candidates, highest, score = ctx.saved_tensors
        of_sums, of_highest = grad.to(clean.dtype).unflatten(1, (3, -1)).split([2, 1], 1)
        of_attention, attended = of_sums[:, 0], weights[:, 0]
        along = torch.bmm(clean, of_attention[..., None])[..., 0] - (of_attention * sums[:, 0]).sum(1, keepdim=True)
        of_scores = attended * along
        out = torch.bmm(weights.mT, of_sums)
        out += of_scores[..., None] * score
        reached = (candidates == highest[:, None]).to(clean.dtype)
        out.addcmul_(reached, of_highest / reached.sum(1, keepdim=True).clamp_(min=1))
        flat = of_scores.flatten()
        # Scores that are all higher by the same have the same softmax.
        return out, None, (flat @ clean.flatten(0, 1))[None], torch.zeros_like(score[0, :1])
