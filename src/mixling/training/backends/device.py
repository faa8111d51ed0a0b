"""The device of a training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

if TYPE_CHECKING:
    from mixling.training.callbacks import Log
    from mixling.training.config import TrainConfig
    from mixling.training.dataset_adapter import TrainingData

# Operations of a step from which on a GPU is used. Steps of 60 billion took an H200 25 ms, as did larger ones (torch
# 2.11, commit 10892229), and the processor beside it needs that for about 10 billion. No card has measured the border.
GPU_OPERATIONS = 10_000_000_000
_SAMPLE = 8  # examples whose tokens are counted


def device_of(model: nn.Module, data: TrainingData, config: TrainConfig, log: Log) -> torch.device:
    """Return the device of a training; by default the operations of a step choose, and the log is told.

    Args:
        model: its attribute `embedding_tables`, if present, names parameters that are read and not multiplied.
        data: a few of its examples tell how many tokens a step has.
    """
    if config.device != "auto" or not torch.cuda.is_available():
        return torch.device("cpu" if config.device == "auto" else config.device)
    tables: tuple[str, ...] = getattr(model, "embedding_tables", ())
    weights = sum(item.numel() for name, item in model.named_parameters() if name not in tables)
    sample = np.arange(min(_SAMPLE, len(data)))
    inputs, *_ = data.batch(sample, sample, seed=0, step=0)
    operations = 6 * weights * inputs.num_tokens / len(sample) * config.batch_size  # forward, and twice for gradients
    kind, other = ("cuda", "cpu") if operations >= GPU_OPERATIONS else ("cpu", "cuda")
    log(
        f"device: {kind}, as a step has about {operations / 1e9:.3g} billion operations and a GPU is used from "
        f"{GPU_OPERATIONS / 1e9:.0f} on; for the other: --set train.device={other}"
    )
    return torch.device(kind)
