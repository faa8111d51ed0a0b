"""The configuration of a training."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mixling.config import Config
from mixling.tasks.base import LossConfig
from mixling.training.optim import OptimConfig


class TrainConfig(Config):
    """How a model is trained; pNLP-Mixer's own recipe is 80 epochs, batch size 256, lr 5e-4 and no regularisation."""

    epochs: int | None = Field(None, ge=1, description="None: from the size of the data (see `planned_epochs`)")
    batch_size: int = Field(64, ge=1, description="examples per step, over all processes")
    time_budget: float | None = Field(None, gt=0, description="seconds for the training steps; fewer epochs if needed")
    patience: int | None = Field(None, ge=1, description="evaluations without a better one after which to stop")
    seed: int = Field(0, ge=0, lt=2**32)
    word_dropout: float = Field(0.2, ge=0, lt=1, description="share of words that are replaced by zero vectors")
    loss: LossConfig = LossConfig()
    optim: OptimConfig = OptimConfig()
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="auto: bfloat16 where the device computes in it"
    )
    device: Literal["auto", "cpu", "cuda"] = "auto"
    checkpoint_seconds: float = Field(15.0, gt=0, description="least time between two checkpoints")

    def planned_epochs(self, num_examples: int) -> int:
        """`epochs`, or as many as make about 400,000 examples seen: at least 3, at most 40."""
        return self.epochs or min(max(round(400_000 / max(num_examples, 1)), 3), 40)
