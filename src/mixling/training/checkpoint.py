"""Checkpoints: a safetensors file with arrays, JSON state and a checksum, replaced atomically; no pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from mixling.errors import ModelFileError
from mixling.opening import open_regular
from mixling.storage import parse_json, write_atomic

CHECKPOINT_FORMAT = 2


def save_checkpoint(path: Path, arrays: Mapping[str, npt.NDArray[Any]], state: Mapping[str, Any]) -> None:
    """Write arrays and JSON state.

    Raises:
        StorageError: the file cannot be written; an older checkpoint is unchanged.
    """
    flat = {name: np.ascontiguousarray(value).reshape(value.shape) for name, value in arrays.items()}
    text = json.dumps(state, allow_nan=False)
    metadata = {"format_version": str(CHECKPOINT_FORMAT), "state": text, "sha256": _digest(flat, text)}
    write_atomic(path, save(flat, metadata))


def load_checkpoint(path: Path) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Return the arrays and state that `save_checkpoint` wrote.

    Raises:
        ModelFileError: the file is missing, damaged or has another format.
    """
    try:
        open_regular(path).close()
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
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
    if metadata.get("sha256") != _digest(arrays, text):
        raise ModelFileError(
            f"{path}: is damaged: its content does not match its checksum; start over without --resume"
        )
    try:
        return arrays, parse_json(text)
    except ValueError as error:
        raise ModelFileError(f"{path}: is damaged: {error}") from None


def _digest(arrays: Mapping[str, npt.NDArray[Any]], text: str) -> str:
    out = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        value = arrays[name]
        out.update(f"{name} {value.dtype} {value.shape}".encode())
        out.update(value.tobytes())
    return out.hexdigest()
