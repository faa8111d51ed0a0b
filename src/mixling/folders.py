"""Folders that files are written to: by their descriptors, so that no link takes their place meanwhile."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from mixling.errors import StorageError

LOCKED: list[Path] = []  # the folders that this process writes to
_DESCRIPTORS = {os.open, os.rename, os.unlink, os.mkdir} <= os.supports_dir_fd
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)


@contextlib.contextmanager
def folder_of(path: str | Path, *, make: bool = False) -> Iterator[tuple[str, int | None]]:
    """Yield a file's name and the descriptor of its folder, which a link that takes the folder's place cannot change.

    Within a folder that is locked, no link is followed. Where the system has no such descriptors (Windows), the path
    and None.

    Args:
        make: whether folders that are missing are made.

    Raises:
        OSError: the folder cannot be opened.
        StorageError: within a folder that is locked, a link stands for it or for one on the way to it.
    """
    path = Path(path)
    start = min((folder for folder in LOCKED if folder in path.parents), default=path.parent)
    if make:
        (start if _DESCRIPTORS else path.parent).mkdir(parents=True, exist_ok=True)
    if not _DESCRIPTORS:
        refuse_linked_folders(path)
        yield str(path), None
        return
    folder = os.open(start, _FOLDER)
    try:
        for part in path.parent.relative_to(start).parts:
            start /= part
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            try:
                inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    refuse_linked_folders(start / "any")
                raise
            os.close(folder)
            folder = inner
        yield path.name, folder
    finally:
        os.close(folder)


def refuse_linked_folders(path: str | Path) -> None:
    """Refuse to write through a symbolic link that stands for a folder within one that is locked.

    Raises:
        StorageError: there is one.
    """
    path = Path(path)
    for folder in LOCKED:
        if path.is_relative_to(folder):
            for parent in path.parents:
                if parent == folder:
                    break
                if parent.is_symlink():
                    raise StorageError(f"{parent}: is a symbolic link, through which nothing is written; remove it")


def open_no_link(path: str, flags: int) -> int:
    """Open a file for writing, as `opener` of `open`; nobody waits for the reader of a pipe in its place.

    Raises:
        StorageError: it is a symbolic link.
    """
    try:
        with folder_of(path) as (name, folder):
            flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            return os.open(name, flags, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise StorageError(f"{path}: is a symbolic link, through which nothing is written; remove it") from None


def remove(path: str | Path) -> None:
    """Remove a file, if it exists.

    Raises:
        StorageError: the file cannot be removed; with the reason, such as a link in place of a folder.
    """
    try:
        with folder_of(path) as (name, folder):
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"{path}: could not be removed: {error.strerror or error}") from error


def remove_folder(path: Path) -> None:
    """Remove a folder with all that it holds, as far as possible; of links what they are, not what they point to."""
    with contextlib.suppress(OSError), folder_of(path) as (name, folder):
        shutil.rmtree(name, ignore_errors=True, dir_fd=folder)


def move(source: Path, target: Path) -> None:
    """Give a file or folder another name, which replaces a file or link there.

    Raises:
        OSError: it cannot be renamed.
        StorageError: within a folder that is locked, a link stands for the folder of either.
    """
    with folder_of(source) as (name, folder), folder_of(target, make=True) as (other, into):
        os.replace(name, other, src_dir_fd=folder, dst_dir_fd=into)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
