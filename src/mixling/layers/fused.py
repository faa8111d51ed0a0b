"""Layers of text models in C, forward and backward, for training steps and evaluations on CPUs.

A small model's step is mostly the overhead of its hundreds of operations. Here a layer is one node of the autograd
graph, and its hidden layers are computed for a few tokens at a time, within the processor's caches. Under
autocast to bfloat16, the products of feed-forwards are in it where the processor has it, and products of windows and of
MLPs over tokens where it has a matrix unit, too; all else is in float32.

Each function returns the same as the operations it replaces, up to rounding; the modules that call them use those
operations elsewhere: on other devices, and for export.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from mixling.layers.transforms import needs_plain_operations
from mixling.native import _steps

# The widest registers to use, in floats, or a tile of a matrix unit; tests try narrower ones.
_TILE = 256
_REGISTERS = _TILE
# Multiplications and additions that are worth a thread: half a millisecond.
_WORK_OF_THREAD = 25_000_000


def can_fuse(x: Tensor, training: bool, *widths: int) -> bool:
    """Return whether the functions of this file can be used on x, in layers of these widths.

    They can in training steps and where no gradient is wanted; gradients of a model that is not trained may be wanted
    twice, or forward. In training, `plain_operations` is for those.
    """
    supported = x.dtype == torch.float32 and x.device.type == "cpu"
    fits = all(width % 16 == 0 for width in widths)
    return supported and fits and training == torch.is_grad_enabled() and not needs_plain_operations()


def multiplies_in_tiles() -> bool:
    """Return whether products are computed in a matrix unit under autocast to bfloat16."""
    return _REGISTERS == _TILE and _steps.has_matrix_unit()


def _arrays(*tensors: Tensor | None) -> list[Any]:
    """Return tensors as contiguous arrays, which share their memory if they are contiguous."""
    return [None if item is None else item.detach().contiguous().numpy() for item in tensors]


def _casts_to_bfloat16() -> bool:
    return torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") is torch.bfloat16


@cache
def _pool() -> ThreadPoolExecutor:
    """Return the threads of this process."""
    return ThreadPoolExecutor(os.cpu_count(), "mixling-step")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # the child has none of the parent's threads


def _in_parts(call: Callable[[slice], Any], tokens: int, work: int) -> list[Any]:
    """Call a function that works without the interpreter's lock on parts of the tokens, in torch's number of threads.

    Args:
        work: multiplications and additions for a token.
    """
    parts = max(1, min(torch.get_num_threads(), tokens * work // _WORK_OF_THREAD))
    if parts == 1:
        return [call(slice(0, tokens))]
    edges = [tokens * i // parts for i in range(parts + 1)]
    return list(_pool().map(call, map(slice, edges[:-1], edges[1:])))


def _sum(parts: list[list[Tensor | None]]) -> list[Tensor | None]:
    """Add up, in the first one, what was found for parts of the tokens."""
    first, *others = parts
    for found in others:
        for total, part in zip(first, found, strict=True):
            if total is not None and part is not None:
                total += part
    return first


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
        rows = x.reshape(-1, x.shape[-1])
        dim = rows.shape[1]
        inner = len(expand)
        half = _casts_to_bfloat16()
        # A matrix unit computes hidden layers again in less time than memory takes to keep a whole batch's.
        again = half and multiplies_in_tiles()
        hidden = None if again else rows.new_empty(len(rows), inner)
        out = torch.empty_like(rows)
        read, *given = _arrays(rows, norm_weight, norm_bias, expand, contract)
        made = _arrays(hidden, out)
        biases = _arrays(expand_bias, contract_bias)

        def compute(at: slice) -> None:
            tokens = at.stop - at.start
            written = (item if item is None else item[at] for item in made)
            _steps.feed_forward(_REGISTERS, tokens, dim, inner, half, eps, read[at], *given, *written, *biases)

        _in_parts(compute, len(rows), 2 * dim * inner)
        ctx.save_for_backward(rows, norm_weight, norm_bias, expand, contract, hidden, expand_bias)
        ctx.half = half
        ctx.eps = eps
        ctx.biases = (expand_bias is not None, contract_bias is not None)
        return out.view(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "*B D"]) -> tuple[Any, ...]:
        rows, norm_weight, _, expand, contract, *_ = ctx.saved_tensors
        dim = rows.shape[1]
        inner = len(expand)
        out = torch.empty_like(rows)
        read, *given, hidden, expand_bias = _arrays(*ctx.saved_tensors)
        of_out, written = _arrays(grad.float().reshape(rows.shape), out)

        def compute(at: slice) -> list[Tensor | None]:
            of_expand_bias, of_contract_bias = (
                weight.new_zeros(len(weight)) if has else None
                for weight, has in zip((expand, contract), ctx.biases, strict=True)
            )
            of_norm = [torch.zeros_like(norm_weight) for _ in range(2)]
            found = [*of_norm, torch.zeros_like(expand), of_expand_bias, torch.empty_like(contract), of_contract_bias]
            sizes = at.stop - at.start, dim, inner, ctx.half, ctx.eps
            kept = None if hidden is None else hidden[at]
            gradients = kept, written[at], expand_bias, of_out[at], *_arrays(*found)
            _steps.feed_forward_backward(_REGISTERS, *sizes, read[at], *given, *gradients)
            return found

        of_weights = _sum(_in_parts(compute, len(rows), 4 * dim * inner))
        return out.view(grad.shape), *of_weights[:2], None, *of_weights[2:]


class TokenMixing(torch.autograd.Function):
    """W2 gelu(W1 x + b1) + b2 over the real tokens x (n, D) of each text; 0 behind the last one.

    W1 (H, max_len) and W2 (max_len, H) are read up to n. Tokens in between that are not real count as zeros.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "B N D"],
        mask: Bool[Tensor, "B N"],
        expand: Float[Tensor, "H max_len"],
        expand_bias: Float[Tensor, " H"],
        contract: Float[Tensor, "max_len H"],
        contract_bias: Float[Tensor, " max_len"],
    ) -> Float[Tensor, "B N D"]:
        sizes = (*x.shape[1:], *expand.shape)
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        read, real, *weights, written, last = _arrays(x, mask, expand, expand_bias, contract, out, contract_bias)
        half = _casts_to_bfloat16()

        def compute(at: slice) -> None:
            arrays = read[at], real[at], *weights, written[at], last
            _steps.token_mlp(_REGISTERS, half, at.stop - at.start, *sizes, *arrays)

        _in_parts(compute, len(x), 2 * x.shape[1] * x.shape[2] * len(expand))
        ctx.save_for_backward(x, mask, expand, expand_bias, contract)
        ctx.half = half
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "B N D"]) -> tuple[Any, ...]:
        x, _, expand, _, contract = ctx.saved_tensors
        sizes = (*x.shape[1:], *expand.shape)
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        read, real, *weights = _arrays(*ctx.saved_tensors)
        written, of_out = _arrays(out, grad.float())

        def compute(at: slice) -> list[Tensor]:
            found = [
                torch.zeros_like(expand), expand.new_zeros(len(expand)),
                torch.zeros_like(contract), expand.new_zeros(len(contract)),
            ]  # fmt: skip
            arrays = read[at], real[at], *weights, written[at], of_out[at], *_arrays(*found)
            _steps.token_mlp_backward(_REGISTERS, ctx.half, at.stop - at.start, *sizes, *arrays)
            return found

        return out, None, *_sum(_in_parts(compute, len(x), 6 * x.shape[1] * x.shape[2] * len(expand)))


class GeneratedMixing(torch.autograd.Function):
    """W2 gelu(W1^T X) of each text, whose weights are its own: W1 is of the tokens that are read, W2 of those written.

    The hidden layer (H, D) is not kept for the gradients, which compute it again.

    Args of apply:
        x: (*B, M, D).
        w1: (*B, M, H).
        w2: (*B, N, H); None: w1.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Float[Tensor, "*B M D"], w1: Float[Tensor, "*B M H"], w2: Float[Tensor, "*B N H"] | None
    ) -> Float[Tensor, "*B N D"]:
        w1 = w1.float()
        w2 = None if w2 is None else w2.float()
        out = x.new_empty(*x.shape[:-2], (w1 if w2 is None else w2).shape[-2], x.shape[-1])
        ctx.half = _casts_to_bfloat16()
        ctx.sizes = (x.shape[-2], out.shape[-2], x.shape[-1], w1.shape[-1])
        arrays = _arrays(*_texts(x, w1, w2, out))

        def compute(at: slice) -> None:
            parts = (item if item is None else item[at] for item in arrays)
            _steps.generated(_REGISTERS, ctx.half, at.stop - at.start, *ctx.sizes, *parts)

        _in_parts(compute, len(arrays[0]), _work(*ctx.sizes))
        ctx.save_for_backward(x, w1, w2)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "*B N D"]) -> tuple[Tensor | None, ...]:
        x, w1, w2 = ctx.saved_tensors
        found = [None if item is None else item.new_empty(item.shape) for item in (x, w1, w2)]
        arrays = _arrays(*_texts(x, w1, w2, grad.float(), *found))

        def compute(at: slice) -> None:
            parts = (item if item is None else item[at] for item in arrays)
            _steps.generated_backward(_REGISTERS, ctx.half, at.stop - at.start, *ctx.sizes, *parts)

        _in_parts(compute, len(arrays[0]), 3 * _work(*ctx.sizes))
        return tuple(found)


def _texts(*tensors: Tensor | None) -> list[Tensor | None]:
    """Return tensors (*B, N, D) as (B, N, D)."""
    return [None if item is None else item.flatten(0, -3) for item in tensors]


def _work(read: int, written: int, dim: int, hidden: int) -> int:
    return (read + written) * dim * hidden


class Windows(torch.autograd.Function):
    """Tokens x_i = b + sum over o = -w..w of A_o s_{i+o}, from one vector s (U, S) per distinct word.

    `spread` (S, (2w+1) D) has the matrices A_o side by side; without it, so has s the products. `index` (B, N) is 1 +
    the number of each token's word, 0 for none, and beyond the ends there are none, too.
    """

    @staticmethod
    def forward(
        ctx: Any,
        sums: Float[Tensor, "U S"],
        spread: Float[Tensor, "S R"] | None,
        bias: Float[Tensor, " D"] | None,
        index: Int[Tensor, "B N"],
        window: int,
    ) -> Float[Tensor, "B N D"]:
        dim = (sums if spread is None else spread).shape[1] // (2 * window + 1)
        out = sums.new_empty(*index.shape, dim)
        ctx.sizes = _casts_to_bfloat16(), *sums.shape, dim, window, *index.shape
        _steps.windows(_REGISTERS, *ctx.sizes, *_arrays(sums, spread, index.long(), bias, out))
        ctx.save_for_backward(sums, spread, index.long())
        ctx.has_bias = bias is not None
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "B N D"]) -> tuple[Any, ...]:
        sums, spread, index = ctx.saved_tensors
        of_sums = torch.zeros_like(sums)
        of_spread = None if spread is None else torch.zeros_like(spread)
        of_bias = sums.new_zeros(grad.shape[-1]) if ctx.has_bias else None
        given = _arrays(sums, spread, index, grad.float())
        _steps.windows_backward(_REGISTERS, *ctx.sizes, *given, *_arrays(of_sums, of_spread, of_bias))
        return of_sums, of_spread, of_bias, None, None


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
        weights = x.new_empty(mask.shape)
        out = x.new_empty(len(x), 3 * x.shape[2])
        _steps.pools(_REGISTERS, *x.shape, *_arrays(x, mask, score, weights), score_bias.item(), *_arrays(out))
        ctx.save_for_backward(x, mask, score, weights, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "B 3*D"]) -> tuple[Any, ...]:
        x, _, score, _, _ = ctx.saved_tensors
        of_x = torch.zeros_like(x)
        of_score = torch.zeros_like(score)
        given = _arrays(*ctx.saved_tensors, grad.float())
        _steps.pools_backward(_REGISTERS, *x.shape, *given, *_arrays(of_x, of_score))
        # Scores that are all higher by the same have the same softmax.
        return of_x, None, of_score, torch.zeros_like(score[0, :1])


def sum_bags(
    features: Int[Tensor, "U P"], weight: Float[Tensor, "m S"], factors: Float[Tensor, "U P"] | None
) -> Float[Tensor, "U S"]:
    """Return for each bag the sum of the rows of `weight` at its feature indices, times the factors; None: all are 1.

    On a CPU torch sorts all indices to add up gradients of equal rows; here they are added in the order of the bags.
    """
    if can_fuse(weight, torch.is_grad_enabled() and weight.requires_grad, weight.shape[1]):
        sums: Tensor = SumBags.apply(features.int(), weight, factors)
        return sums
    return F.embedding_bag(features, weight, mode="sum", per_sample_weights=factors)


class SumBags(torch.autograd.Function):
    """`sum_bags`."""

    @staticmethod
    def forward(
        ctx: Any, features: Int[Tensor, "U P"], weight: Float[Tensor, "m S"], factors: Float[Tensor, "U P"] | None
    ) -> Float[Tensor, "U S"]:
        out = weight.new_empty(len(features), weight.shape[1])
        ctx.sizes = *features.shape, weight.shape[1], len(weight)
        _steps.sum_bags(_REGISTERS, *ctx.sizes, *_arrays(features, factors, weight, out))
        ctx.save_for_backward(features, factors)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "U S"]) -> tuple[None, Float[Tensor, "m S"], None]:
        features, factors = ctx.saved_tensors
        out = grad.new_zeros(ctx.sizes[3], ctx.sizes[2], dtype=torch.float32)
        _steps.add_bags(_REGISTERS, *ctx.sizes, *_arrays(features, factors, out, grad.float()))
        return None, out, None


class SequenceLosses(torch.autograd.Function):
    """-log of the share that each sequence of tags `targets` (B, N) has of all, for `logits` (B, N, C) of the words.

    A sequence's score is the sum of its logits and of `transitions` (C, C) between its tags. Words whose target is
    `ignored` count as if they were not there.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Float[Tensor, "B N C"],
        transitions: Float[Tensor, "C C"],
        targets: Int[Tensor, "B N"],
        ignored: int,
    ) -> Float[Tensor, " B"]:
        texts, length, tags = logits.shape
        losses = logits.new_empty(texts)
        forward = None
        sums = None
        if any(ctx.needs_input_grad):
            forward = logits.new_empty(length, texts, -(-tags // 16) * 16)
            sums = logits.new_empty(length, texts)
        given = *logits.shape, ignored, *_arrays(logits, transitions, targets, forward, sums)
        _steps.sequence_losses(_REGISTERS, *given, *_arrays(losses))
        ctx.save_for_backward(logits, transitions, targets, forward, sums)
        ctx.ignored = ignored
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, " B"]) -> tuple[Any, ...]:
        logits, transitions, *_ = ctx.saved_tensors
        of_logits = logits.new_empty(logits.shape)
        of_transitions = transitions.new_zeros(transitions.shape)
        given = *logits.shape, ctx.ignored, *_arrays(*ctx.saved_tensors)
        _steps.sequence_losses_backward(_REGISTERS, *given, *_arrays(grad.float(), of_logits, of_transitions))
        return of_logits, of_transitions, None, None
