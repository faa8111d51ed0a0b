"""Optimisers and learning-rate schedules.

Adafactor (Shazeer & Stern 2018, arXiv:1804.04235, algorithms 4 and 5) is torch's, which keeps of a matrix's squared
gradients the means of rows and columns only. A step is rho_t * max(1e-3, RMS(parameter)) * U, where U is the gradient
over the root of its estimated square, of RMS 1 at most: rates are relative to the size of the parameters, T5's 1e-3
and 1e-2 are such rates. What differs from the paper:

- rho_t = min(lr, 1 / sqrt(t)) for step t, with `schedule`'s rate for lr; the paper has 1e-2 there.
- Decoupled weight decay of lr * weight_decay, as AdamW's; the paper has none.
- The paper adds 1e-30 to squared gradients; torch keeps divisors from falling below a number instead. Its own choice,
  1e-7 for the mean square of a gradient, is too large: where gradients are clipped to a norm of 1, those of a model of
  ten million weights are smaller, and the averages lose their meaning. Here it is 1e-15, whose square is 1e-30.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import nn

from mixling.config import Config

_LEAST_DIVISOR, _LEAST_RMS = 1e-15, 1e-3  # Adafactor's epsilon 1 and 2, the first as torch uses it


class OptimConfig(Config):
    """AdamW or Adafactor with warm-up and schedule; defaults chosen, for AdamW, on the validation splits of CLINC150
    and MTOP.

    T5 (section 3.1.2) pretrains with Adafactor at 1 / sqrt(max(t, 10^4)): `lr` 0.01, `schedule` "constant", `warmup` 0,
    since Adafactor's rate is 1 / sqrt(t) at most. It fine-tunes likewise with `lr` 0.001. Neither has decay.
    What starts at zero, as the Remixer's H and alpha do, has steps of lr / 1000 at first, and for the first thousand:
    at 0.001 it takes about 8,000 to reach an RMS of 1. In a short training the block stays a mean then; use AdamW.
    """

    name: Literal["adamw", "adafactor"] = "adamw"
    lr: float = Field(2e-3, gt=0, le=1)
    embedding_lr: float | None = Field(
        None,
        ge=0,
        le=10,
        description="rate of the subwords' table as a share of lr, 0: it stays; None: by what it begins with",
    )
    beta1: float = Field(0.9, ge=0, lt=1, description="of AdamW; Adafactor has no momentum")
    beta2: float = Field(0.999, ge=0, lt=1, description="of AdamW; Adafactor's is 1 - t^-0.8 at step t")
    eps: float = Field(1e-8, gt=0, description="of AdamW; Adafactor has its own")
    weight_decay: float = Field(0.1, ge=0, description="on matrices only: not on biases and norms")
    clip_norm: float | None = Field(1.0, gt=0, description="largest norm of the gradient; None: no limit")
    schedule: Literal["cosine", "linear", "constant", "inverse_sqrt"] = Field(
        "cosine", description="of the rate after the warm-up; inverse_sqrt: lr * sqrt(last step of the warm-up / step)"
    )
    warmup: float = Field(0.05, ge=0, le=1, description="share of the steps in which the rate rises to lr")
    final_lr: float = Field(
        0.0, ge=0, le=1, description="the rate that cosine and linear reach at the last step, as a share of lr"
    )

    @model_validator(mode="after")
    def _values_have_a_use(self) -> OptimConfig:
        # Not eps: recipes set it for AdamW, and who names another optimiser only need not take it back.
        for name in ("beta1", "beta2"):
            if self.name != "adamw" and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} = {getattr(self, name)} is of AdamW; leave it out, or set name = 'adamw'")
        if self.final_lr and self.schedule in ("constant", "inverse_sqrt"):
            raise ValueError(
                f"final_lr = {self.final_lr} has no use with schedule = {self.schedule!r}; leave one of them out"
            )
        return self


def build_optimizer(model: nn.Module, config: OptimConfig) -> torch.optim.Optimizer:
    """Build the optimiser, with three groups of parameters: embedding tables, other matrices, all else.

    Weight decay is for the first two. A group's `fraction` is the factor of its rate to that of the schedule.

    Args:
        model: its attribute `embedding_tables`, if it has one, names the parameters that `embedding_lr` is for.
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
        # One parameter after another: on a CPU `foreach` won a tenth at 0.2M weights and lost a third from 2M on.
        return torch.optim.Adafactor(
            groups, lr=config.lr, eps=(_LEAST_DIVISOR, _LEAST_RMS), weight_decay=config.weight_decay, foreach=False
        )
    return torch.optim.AdamW(
        groups,
        lr=config.lr,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        weight_decay=config.weight_decay,
        fused=True,
    )


def learning_rate(config: OptimConfig, step: int, total_steps: int) -> float:
    """Return the rate of step `step` (from 0) of `total_steps`: linear warm-up, then the schedule."""
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
