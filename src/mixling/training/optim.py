"""Optimiser and learning-rate schedule."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field
from torch import nn

from mixling.config import Config

_TABLE = "frontend.weight"


class OptimConfig(Config):
    """AdamW with warm-up and decay; defaults chosen on the dev splits of CLINC150 and MTOP (English)."""

    lr: float = Field(2e-3, gt=0, le=1)
    table_lr: float | None = Field(
        None, ge=0, le=10, description="rate of the front end's table as a share of lr; None: by what it begins with"
    )
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.999, ge=0, lt=1)
    eps: float = Field(1e-8, gt=0)
    weight_decay: float = Field(0.1, ge=0, description="on matrices only: not on biases and norms")
    clip_norm: float | None = Field(1.0, gt=0, description="largest norm of the gradient; None: no limit")
    schedule: Literal["cosine", "linear"] = Field("cosine", description="of the rate after the warm-up")
    warmup: float = Field(0.05, ge=0, le=1, description="share of the steps in which the rate rises to lr")
    final_lr: float = Field(0.0, ge=0, le=1, description="the rate at the last step, as a share of lr")


def build_optimizer(model: nn.Module, config: OptimConfig) -> torch.optim.AdamW:
    """AdamW with groups of parameters: the front end's table, the other matrices, which are decayed too, the rest.

    A group's `share` is that of its rate in the schedule's.
    """
    table_lr = 1.0 if config.table_lr is None else config.table_lr
    trained = [(name, item) for name, item in model.named_parameters() if item.requires_grad]
    groups = [
        {"params": [p for name, p in trained if name == _TABLE], "share": table_lr},
        {"params": [p for name, p in trained if name != _TABLE and p.ndim >= 2], "share": 1.0},
        {"params": [p for _, p in trained if p.ndim < 2], "share": 1.0, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups,
        lr=config.lr,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        weight_decay=config.weight_decay,
        fused=True,
    )


def learning_rate(config: OptimConfig, step: int, total_steps: int) -> float:
    """The rate of step `step` (from 0) of `total_steps`: linear warm-up, then half a cosine, or a line."""
    warmup = max(1, round(config.warmup * total_steps))
    if step < warmup:
        return config.lr * (step + 1) / warmup
    progress = (step - warmup) / max(1, total_steps - warmup)
    left = 1 - progress if config.schedule == "linear" else (1 + math.cos(math.pi * progress)) / 2
    return config.lr * (config.final_lr + (1 - config.final_lr) * left)
