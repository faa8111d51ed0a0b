"""The optimizer of a training, and its learning rates."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, model_validator

from mixling.config import Config


class OptimConfig(Config):
    """AdamW or Adafactor, with warm-up and learning-rate schedule.

    Defaults are for AdamW, chosen on the validation splits of CLINC150 and MTOP. T5 (section 3.1.2) pretrains with
    Adafactor at 1 / sqrt(max(t, 10^4)): `lr` 0.01, `schedule` "constant", `warmup` 0, because Adafactor's rate is at
    most 1 / sqrt(t). It fine-tunes with `lr` 0.001; neither has weight decay. With Adafactor, parameters that are
    initialized with zero, such as the Remixer's H and alpha, change by lr / 1000 per step at first: with lr 0.001 it
    takes about 8,000 steps to reach an RMS of 1. Prefer AdamW for short training of such models.
    """

    name: Literal["adamw", "adafactor"] = Field(default="adamw", description="the optimizer")
    lr: float = Field(default=2e-3, gt=0, le=1, description="peak learning rate")
    embedding_lr: float | None = Field(
        default=None,
        ge=0,
        le=10,
        description="learning rate of the embedding table relative to lr, 0: frozen; by default by its initialization",
    )
    beta1: float = Field(default=0.9, ge=0, lt=1, description="AdamW only; Adafactor has no momentum")
    beta2: float = Field(default=0.999, ge=0, lt=1, description="AdamW only; Adafactor uses 1 - t^-0.8 at step t")
    eps: float = Field(default=1e-8, gt=0, description="AdamW only; Adafactor has its own")
    weight_decay: float = Field(default=0.1, ge=0, description="applied to matrices only, not to biases and norms")
    clip_norm: float | None = Field(default=1.0, gt=0, description="maximum norm of the gradient; none: no limit")
    schedule: Literal["cosine", "linear", "constant", "inverse_sqrt"] = Field(
        default="cosine",
        description="learning rate after the warm-up; cosine and linear end at 0; inverse_sqrt: lr * sqrt(warm-up "
        "steps / step)",
    )
    warmup: float = Field(default=0.05, ge=0, le=1, description="fraction of the steps in which the rate rises to lr")

    @model_validator(mode="after")
    def _values_have_a_use(self) -> OptimConfig:
        # Not eps: defaults set it for AdamW, and a user who names another optimizer should not have to reset it.
        for name in ("beta1", "beta2"):
            if self.name != "adamw" and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} = {getattr(self, name)} needs AdamW; leave it out, or set name = 'adamw'")
        return self


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
            return config.lr * (1 - progress)
        case "cosine":
            return config.lr * (1 + math.cos(math.pi * progress)) / 2
