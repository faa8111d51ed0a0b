"""Sums of a matrix's rows, with a gradient that needs no sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


def sum_bags(
    features: Int[Tensor, "U P"], weight: Float[Tensor, "m S"], factors: Float[Tensor, "U P"] | None
) -> Float[Tensor, "U S"]:
    """Return for each bag the sum of the rows of `weight` at its feature indices, times the factors; None: all are 1.

    On a CPU torch sorts all indices to add up the gradients of equal rows. Here they are added in the order of the
    bags by a product with a sparse matrix, which takes a tenth of the time for 300 bags of 33 rows of width 64.
    """
    trained = torch.is_grad_enabled() and weight.requires_grad and not torch.compiler.is_compiling()
    if trained and weight.device.type == "cpu" and weight.dtype == torch.float32:
        return _SumBags.apply(features, weight, factors)
    return F.embedding_bag(features, weight, mode="sum", per_sample_weights=factors)


class _SumBags(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Int[Tensor, "U P"], weight: Float[Tensor, "m S"], factors: Float[Tensor, "U P"] | None
    ) -> Float[Tensor, "U S"]:
        ctx.save_for_backward(features, factors)
        ctx.rows = len(weight)
        return F.embedding_bag(features, weight, mode="sum", per_sample_weights=factors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "U S"]) -> tuple[None, Float[Tensor, "m S"], None]:
        features, factors = ctx.saved_tensors
        return None, add_rows(features, grad, ctx.rows, factors), None


def add_rows(
    features: Int[Tensor, "U P"], grad: Float[Tensor, "U S"], size: int, factors: Float[Tensor, "U P"] | None = None
) -> Float[Tensor, "size S"]:
    """Return the gradient of a matrix of `size` rows, of which bag u adds up `features[u]`, on a CPU."""
    from scipy.sparse import csc_array

    bags, parts = features.shape
    indices = features.numpy().reshape(-1)
    values = np.ones(len(indices), np.float32) if factors is None else factors.numpy().reshape(-1)
    ends = np.arange(0, len(indices) + 1, parts, dtype=indices.dtype)
    counted = csc_array((values, indices, ends), shape=(size, bags))
    return torch.from_numpy(counted @ grad.float().numpy())
