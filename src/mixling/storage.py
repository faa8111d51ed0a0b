"""Writing files so that a reader finds the old content or the new one, never a part."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from mixling.errors import StorageError

_SUFFIX = ".part"  # what `remove_leftovers` may take for its own


@contextlib.contextmanager
def atomic_file(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write to that appears under its name, complete, when the block ends without an error, or never.

    A temporary file beside it, fsync, rename, fsync of the folder.

    Raises:
        StorageError: with the path and the reason (disk full, no permission, ...); what stood there still stands.
    """
    path = Path(path)
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name}.", suffix=_SUFFIX, delete=False
        ) as file:
            temporary = file.name
            yield cast(BinaryIO, file)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
        temporary = None
        _sync_folder(path.parent)
    except OSError as error:
        raise StorageError(
            f"{path}: could not be written: {error.strerror or error}; nothing was saved there"
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def write_atomic(path: str | Path, data: bytes | str) -> None:
    """Write a file as `atomic_file` does, and raise as it does."""
    content = data.encode() if isinstance(data, str) else data
    with atomic_file(path) as file:
        file.write(content)


def write_json(path: str | Path, value: Any) -> None:
    """Write JSON, indented, in UTF-8, atomically."""
    write_atomic(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files that a killed process left behind."""
    for path in folder.glob(f".*.????????{_SUFFIX}"):
        if path.is_file():
            path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
