"""Optimizers and learning-rate schedules.

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
import math
from typing import Literal, TypeVar

import torch
from pydantic import Field, model_validator
from torch import nn

from mixling.config import Config

_O = TypeVar("_O", bound=torch.optim.Optimizer)
# Adafactor's epsilon 1 and 2, the first as torch uses it
_LEAST_DIVISOR = 1e-15
_LEAST_RMS = 1e-3


class OptimConfig(Config):
    """AdamW or Adafactor, with warm-up and learning-rate schedule.

    Defaults are for AdamW, chosen on the validation splits of CLINC150 and MTOP. T5 (section 3.1.2) pretrains with
    Adafactor at 1 / sqrt(max(t, 10^4)): `lr` 0.01, `schedule` "constant", `warmup` 0, because Adafactor's rate is at
    most 1 / sqrt(t). It fine-tunes with `lr` 0.001; neither has weight decay. With Adafactor, parameters that are
    initialized with zero, such as the Remixer's H and alpha, change by lr / 1000 per step at first: with lr 0.001 it
    takes about 8,000 steps to reach an RMS of 1. Prefer AdamW for short training of such models.
    """

    name: Literal["adamw", "adafactor"] = Field("adamw", description="the optimizer")
    lr: float = Field(2e-3, gt=0, le=1, description="peak learning rate")
    embedding_lr: float | None = Field(
        None,
        ge=0,
        le=10,
        description="learning rate of the embedding table relative to lr, 0: frozen; by default by its initialization",
    )
    beta1: float = Field(0.9, ge=0, lt=1, description="AdamW only; Adafactor has no momentum")
    beta2: float = Field(0.999, ge=0, lt=1, description="AdamW only; Adafactor uses 1 - t^-0.8 at step t")
    eps: float = Field(1e-8, gt=0, description="AdamW only; Adafactor has its own")
    weight_decay: float = Field(0.1, ge=0, description="applied to matrices only, not to biases and norms")
    clip_norm: float | None = Field(1.0, gt=0, description="maximum norm of the gradient; none: no limit")
    schedule: Literal["cosine", "linear", "constant", "inverse_sqrt"] = Field(
        "cosine", description="learning rate after the warm-up; inverse_sqrt: lr * sqrt(warm-up steps / step)"
    )
    warmup: float = Field(0.05, ge=0, le=1, description="fraction of the steps in which the rate rises to lr")
    final_lr: float = Field(
        0.0, ge=0, le=1, description="learning rate of cosine and linear at the last step, relative to lr"
    )

    @model_validator(mode="after")
    def _values_have_a_use(self) -> OptimConfig:
        # Not eps: defaults set it for AdamW, and a user who names another optimizer should not have to reset it.
        for name in ("beta1", "beta2"):
            if self.name != "adamw" and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} = {getattr(self, name)} needs AdamW; leave it out, or set name = 'adamw'")
        if self.final_lr and self.schedule in ("constant", "inverse_sqrt"):
            raise ValueError(
                f"final_lr = {self.final_lr} has no effect with schedule = {self.schedule!r}; leave one of them out"
            )
        return self


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


def learning_rate(config: OptimConfig, step: int, total_steps: int) -> float:
    """Return the learning rate of step `step` (from 0) of `total_steps`: linear warm-up, then the schedule."""
    warmup = max(1, round(config.warmup * total_steps))
    if step < warmup:
        return config.lr * (step + 1) / warmup
    progress = (step - warmup) / max(1, total_steps - warmup)
    match config.schedule:
        case "constant":
            return config.lr
        case "inverse_sqrt":
            return config.lr * math.sqrt(warmup / (step + 1))
        case "linear":
            left = 1 - progress
        case "cosine":
            left = (1 + math.cos(math.pi * progress)) / 2
    return config.lr * (config.final_lr + (1 - config.final_lr) * left)
