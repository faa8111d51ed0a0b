"""The device of a training."""

from __future__ import annotations

import math
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
# Multiplied weights from which on `train.compile = "auto"` compiles a model on a GPU. None are enough until a card has
# measured it: `python benchmarks/gpu.py` prints the value under "borders".
COMPILE_WEIGHTS = math.inf
_SAMPLE = 8  # examples whose tokens are counted


def device_of(model: nn.Module, data: TrainingData, config: TrainConfig, log: Log) -> torch.device:
    """Return the device of a training; by default the operations of a step choose, and the log is told.

    Args:
        model: see `multiplied_weights`.
        data: a few of its examples tell how many tokens a step has.
    """
    if config.device != "auto" or not torch.cuda.is_available():
        return torch.device("cpu" if config.device == "auto" else config.device)
    sample = np.arange(min(_SAMPLE, len(data)))
    inputs, *_ = data.batch(sample, sample, seed=0, step=0)
    weights = multiplied_weights(model)
    operations = 6 * weights * inputs.num_tokens / len(sample) * config.batch_size  # forward, and twice for gradients
    kind, other = ("cuda", "cpu") if operations >= GPU_OPERATIONS else ("cpu", "cuda")
    log(
        f"device: {kind}, as a step has about {operations / 1e9:.3g} billion operations and a GPU is used from "
        f"{GPU_OPERATIONS / 1e9:.0f} on; for the other: --set train.device={other}"
    )
    return torch.device(kind)


def compiles(model: nn.Module, config: TrainConfig, device: torch.device) -> bool:
    """Return whether torch.compile compiles a model; see COMPILE_WEIGHTS."""
    if config.compile != "auto":
        return config.compile == "on"
    return device.type == "cuda" and multiplied_weights(model) >= COMPILE_WEIGHTS


def multiplied_weights(model: nn.Module) -> int:
    """Count the parameters without those that are read only, which the attribute `embedding_tables` names, if any."""
    tables: tuple[str, ...] = getattr(model, "embedding_tables", ())
    return sum(item.numel() for name, item in model.named_parameters() if name not in tables)
