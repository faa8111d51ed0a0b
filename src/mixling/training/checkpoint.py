"""Checkpoints: a safetensors file with tensors, JSON state and a checksum, replaced atomically; no pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from mixling.errors import ModelFileError
from mixling.storage import write_atomic

CHECKPOINT_FORMAT = 1


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Write tensors and JSON state.

    Raises:
        StorageError: the file cannot be written; an older checkpoint is unchanged.
    """
    flat = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(state, allow_nan=False)
    metadata = {"format_version": str(CHECKPOINT_FORMAT), "state": text, "sha256": _digest(flat, text)}
    write_atomic(path, save(flat, metadata))


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and state that `save_checkpoint` wrote.

    Raises:
        ModelFileError: the file is missing, damaged or has another format.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except FileNotFoundError:
        raise ModelFileError(f"{path}: there is no checkpoint to resume from") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelFileError(f"{path}: is damaged: {error}") from None
    if metadata.get("format_version") != str(CHECKPOINT_FORMAT):
        raise ModelFileError(
            f"{path}: checkpoint format {metadata.get('format_version')!r}; this version reads format "
            f"{CHECKPOINT_FORMAT}"
        )
    text = metadata.get("state", "")
    if metadata.get("sha256") != _digest(tensors, text):
        raise ModelFileError(
            f"{path}: is damaged: its content does not match its checksum; start over without --resume"
        )
    return tensors, json.loads(text)


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    out = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        out.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        out.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return out.hexdigest()
