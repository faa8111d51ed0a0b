"""Logits of many texts, in their order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from mixling.data.batches import TextSet, collate, length_batches
from mixling.data.windows import WindowSet
from mixling.models.model import Model
from mixling.tasks.base import Task
from mixling.text.labels import Targets
from mixling.training.memory import release


@torch.inference_mode()
def predict_logits(model: Model, texts: TextSet | WindowSet, *, batch_size: int = 512) -> list[npt.NDArray[np.float32]]:
    """The logits of each text, (C,) or (N, C), as float32; the model is left in evaluation mode."""
    model.eval()
    device = next(model.parameters()).device
    out: list[npt.NDArray[np.float32]] = [np.empty(0, np.float32)] * len(texts)
    for indices in length_batches(texts.lengths, batch_size):
        words, starts = texts.words(indices), texts.starts(indices) if model.of_tokens else None
        batch = collate(words, texts.encoder, starts).to(device)
        logits = model(*batch.arguments).float().cpu().numpy()
        for row, index, item in zip(logits, indices, starts or words, strict=True):
            out[index] = row if row.ndim == 1 else row[: len(item)]
    release()
    return out


def mean_loss(task: Task, logits: list[npt.NDArray[np.float32]], targets: Targets) -> float:
    """The mean loss of the task over texts, without the weights of examples."""
    total, weight = 0.0, 0.0
    for first in range(0, len(logits), 4096):
        part = logits[first : first + 4096]
        width = max(len(row) for row in part)
        scores = torch.zeros(len(part), *((width,) if part[0].ndim == 2 else ()), part[0].shape[-1])
        for row, item in zip(scores, part, strict=True):
            row[: len(item)] = torch.from_numpy(item)
        gold = task.stack(targets[first : first + 4096], width)  # type: ignore[arg-type]
        losses, weights = task.loss(scores, gold, None)
        total, weight = total + float(losses), weight + float(weights)
    return total / max(weight, 1e-12)
