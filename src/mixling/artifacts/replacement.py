"""Atomic replacement of a finished run by a new one.

The new run writes to `DIR/.next`. A marker file, written last, commits it: from then on `read_folder` reads all files
from there while they are moved into place one by one. A kill before the marker leaves the old model unchanged and a run
to resume; after a kill behind the marker, the new model is used and the next command that writes completes the move.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from mixling.artifacts.files import (
    COMPLETE,
    CORPUS_FOLDER,
    NEXT,
    RUN_FILE,
    TEACHER_FOLDER,
    WEIGHTS_FILE,
    WRITTEN,
    is_complete,
)
from mixling.errors import StorageError
from mixling.folders import move, remove, remove_folder, sync_folder
from mixling.runtime.quick import ONNX_FILE
from mixling.storage import link, write_atomic
from mixling.training.files import CHECKPOINT, TENSORBOARD_FOLDER, TRACKING_FILE

_DONE = ".replaced"  # the new name of NEXT when all its files are in place
_LINK = ".link"  # temporary file in NEXT
_OWN = {COMPLETE, CHECKPOINT, _LINK}  # files of NEXT that are not moved


def holds_model(folder: Path) -> bool:
    """Return whether a folder holds a model, which a new run must keep until it is finished."""
    return any((folder / name).exists() for name in (ONNX_FILE, WEIGHTS_FILE))


def commit(folder: Path) -> None:
    """Replace the run in the folder by the finished one in `folder/.next`.

    Raises:
        StorageError: a file cannot be written. If the marker was written, the next call of `complete` does the rest.
    """
    try:
        for path in _files(folder / NEXT):
            with path.open("rb+" if os.name == "nt" else "rb") as file:
                os.fsync(file.fileno())
    except OSError as error:
        raise StorageError(f"{folder / NEXT}: could not be written: {error.strerror or error}") from error
    write_atomic(folder / NEXT / COMPLETE, "")
    complete(folder)


def complete(folder: Path) -> None:
    """Move the files of a committed run into place, and remove leftovers.

    Raises:
        StorageError: a file cannot be written.
    """
    new = folder / NEXT
    done = folder / _DONE
    try:
        remove_folder(done)
        if not is_complete(folder):
            if new.exists() and not (new / RUN_FILE).exists():  # killed before it began
                remove_folder(new)
            return
        files = _files(new)
        for path in files:
            _put(path, folder / path.relative_to(new), by=new / _LINK)
        wanted = {path.relative_to(new) for path in files}
        for path in _replaced(folder, new):
            if path.relative_to(folder) not in wanted:
                remove(path)
        with contextlib.suppress(OSError):  # not empty: the new run has a corpus
            (folder / CORPUS_FOLDER).rmdir()
        for location in {folder, *((folder / path).parent for path in wanted)}:
            sync_folder(location)
        move(new, done)
        sync_folder(folder)
        remove_folder(done)
    except (OSError, StorageError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StorageError(
            f"{folder}: could not be written: {reason}; the new model is complete, in {new}: the next run or --resume "
            "puts it in place"
        ) from error


def link_folder(source: Path, target: Path) -> None:
    """Copy a folder of the replaced run to the new one, by hard links where the file system has them.

    Later writes replace files and therefore do not change the source.

    Raises:
        StorageError: a file cannot be written.
    """
    if target.exists() or not source.is_dir():
        return
    part = target.with_name(f".{target.name}.part")
    remove_folder(part)
    try:
        shutil.copytree(source, part, symlinks=True, copy_function=link)
        move(part, target)
    except OSError as error:
        raise StorageError(f"{target}: could not be written: {error.strerror or error}") from error


def _files(new: Path) -> list[Path]:
    """Return the files to move into place; model.onnx and run.json come last."""
    last = {ONNX_FILE: 1, RUN_FILE: 2}
    files = [path for path in new.rglob("*") if path.is_file() and path.relative_to(new).parts[0] not in _OWN]
    return sorted(files, key=lambda path: (last.get(str(path.relative_to(new)), 0), path))


def _replaced(folder: Path, new: Path) -> list[Path]:
    """Return the files of the old run."""
    files = [folder / name for name in (*WRITTEN, TRACKING_FILE)]
    files += (folder / TENSORBOARD_FOLDER).glob("events.out.tfevents.*")
    trees = [CORPUS_FOLDER] + [TEACHER_FOLDER] * (new / TEACHER_FOLDER).exists()
    return files + [path for name in trees for path in (folder / name).rglob("*") if path.is_file()]


def _put(source: Path, target: Path, *, by: Path) -> None:
    if target.exists() and source.samefile(target):  # moved by a call that was killed
        return
    remove(by)
    link(source, by)
    move(by, target)
