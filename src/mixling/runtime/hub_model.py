"""Fetch the one file of a model on the hub that predicts."""

from __future__ import annotations

from pathlib import Path

from mixling.errors import ModelFileError
from mixling.hub import discard, fetch_file
from mixling.runtime.onnx.file import is_intact
from mixling.runtime.quick import ONNX_FILE


def fetch_model(
    name: str, *, revision: str | None = None, token: str | None = None, local_files_only: bool = False
) -> Path:
    """Return the local copy of the `model.onnx` of a model on the hub; arguments as for `fetch_file`.

    Raises:
        ModelFileError: it was damaged on the way, or is damaged on the hub.
        UserError: see `fetch_file`.
    """
    path = fetch_file(name, ONNX_FILE, revision=revision, token=token, local_files_only=local_files_only)
    check_copy(path, name)
    return path


def check_copy(path: Path, name: str) -> None:
    """Check a downloaded `model.onnx` against its own checksum, and remove it from the cache if it is damaged.

    Raises:
        ModelFileError: it is damaged.
    """
    try:
        intact = is_intact(path.read_bytes())
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not intact:
        discard(path)
        raise ModelFileError(
            f"{name}: {ONNX_FILE} is damaged: its checksum does not match its content. It was removed from the cache: "
            "the next attempt downloads it again"
        )
