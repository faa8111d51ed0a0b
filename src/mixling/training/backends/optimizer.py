"""Optimizers of PyTorch.

Adafactor (Shazeer & Stern 2018, arXiv:1804.04235, algorithms 4 and 5) is torch's, which stores only row and column
means of a matrix's squared gradients. A step is rho_t * max(1e-3, RMS(parameter)) * U, where U is the gradient divided
by the root of its estimated square, clipped to RMS 1. Rates, such as T5's 1e-3 and 1e-2, are therefore relative to the
size of the parameters. Differences from the paper:

- rho_t = min(lr, 1 / sqrt(t)) for step t, where lr is the schedule's rate; the paper has 1e-2 instead of lr.
- Decoupled weight decay of lr * weight_decay, as in AdamW; the paper has none.
- The paper adds 1e-30 to squared gradients; torch bounds divisors from below instead. Its default, 1e-7 for the mean
  square of a gradient, is too large: if gradients are clipped to a norm of 1, the gradients of ten million weights
  are smaller than that. Here the bound is 1e-15, whose square is 1e-30.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import nn

if TYPE_CHECKING:
    from mixling.training.optim import OptimConfig

_O = TypeVar("_O", bound=torch.optim.Optimizer)
# Adafactor's epsilon 1 and 2, the first as torch uses it
_LEAST_DIVISOR = 1e-15
_LEAST_RMS = 1e-3


def _without_compiler(optimizer: type[_O]) -> type[_O]:
    """Return the class with methods that do not import torch's compiler, which takes a second at their first call."""
    names = ("add_param_group", "load_state_dict", "state_dict", "step", "zero_grad")
    plain = {name: inspect.unwrap(getattr(optimizer, name)) for name in names}
    return type(optimizer.__name__, (optimizer,), {**plain, "step": torch.no_grad()(plain["step"])})


_AdamW = _without_compiler(torch.optim.AdamW)
_Adafactor = _without_compiler(torch.optim.Adafactor)


def build_optimizer(model: nn.Module, config: OptimConfig) -> torch.optim.Optimizer:
    """Build the optimizer with three groups of parameters: embedding tables, other matrices, and all others.

    The third has no weight decay. The key `fraction` of a group is its learning rate relative to the schedule's.

    Args:
        model: its attribute `embedding_tables`, if present, names the parameters that `embedding_lr` applies to.
    """
    embedding_lr = 1.0 if config.embedding_lr is None else config.embedding_lr
    tables: tuple[str, ...] = getattr(model, "embedding_tables", ())
    trained = [(name, item) for name, item in model.named_parameters() if item.requires_grad]
    groups = [
        {"params": [p for name, p in trained if name in tables], "fraction": embedding_lr},
        {"params": [p for name, p in trained if name not in tables and p.ndim >= 2], "fraction": 1.0},
        {"params": [p for _, p in trained if p.ndim < 2], "fraction": 1.0, "weight_decay": 0.0},
    ]
    if config.name == "adafactor":
        # On a CPU `foreach` is 10% faster with 0.2M weights but a third slower from 2M on.
        return _Adafactor(
            groups, lr=config.lr, eps=(_LEAST_DIVISOR, _LEAST_RMS), weight_decay=config.weight_decay, foreach=False
        )
    return _AdamW(
        groups,
        lr=config.lr,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        weight_decay=config.weight_decay,
        fused=True,
    )
