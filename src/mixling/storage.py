"""Write files atomically: a reader finds the complete old or new content, never a part."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

from mixling.errors import ModelFileError, StorageError
from mixling.folders import LOCKED, folder_of, open_no_link, refuse_linked_folders, remove
from mixling.opening import open_regular, read_regular

MAX_JSON = 64 << 20  # bytes, mostly labels
_MAX_VALUES = 4_000_000  # of lists and objects in them; Python takes up to 240 bytes for each
JSON_FORMAT = 2  # of JSON files with a checksum; format 1 has none
# of a folder that a process writes to, and that process
LOCK_FILE = ".lock"
OWNER_FILE = ".lock.json"
_SEAL = re.compile(rb',\n  "sha256": "([0-9a-f]{64})"\n}\n\Z')
_SUFFIX = ".part"  # of temporary files that `remove_leftovers` may remove


@contextlib.contextmanager
def atomic_file(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name when the block ends without an error, or never.

    Writes a temporary file in the same folder, calls fsync, renames it, and calls fsync on the folder. A symbolic link
    is replaced, and what it points to is unchanged: whoever sends a folder could point to any file. Pipes and devices
    such as /dev/stdout are written directly, but replaced within a folder that is locked.

    Raises:
        StorageError: the file cannot be written (disk full, no permission, ...), or a folder on the way to it, within
            one that is locked, is a symbolic link; an existing file is unchanged,
            unless the error says that the new content is in place.
    """
    if _is_stream(path):
        with _stream(path) as file:
            yield file
        return
    unchanged = "; the file of that name is unchanged" if os.path.lexists(path) else ""
    part = f".{Path(path).name}.{os.urandom(4).hex()}{_SUFFIX}"
    try:
        with folder_of(path, make=True) as (name, folder):
            temporary = os.path.join(os.path.dirname(name), part)
            try:
                with open(
                    Path(path).with_name(part),
                    "x+b",
                    opener=lambda _, flags: os.open(temporary, flags, 0o666, dir_fd=folder),
                ) as file:
                    yield cast(BinaryIO, file)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            unchanged = "; its new content is in place, but a loss of power may undo it"
            if folder is not None:
                os.fsync(folder)
    except OSError as error:
        raise StorageError(f"{path}: could not be written: {error.strerror or error}{unchanged}") from error


def _is_stream(path: str | Path) -> bool:
    """Whether the path is a pipe, a device or the like, which a file must not replace."""
    if any(Path(path).is_relative_to(folder) for folder in LOCKED):  # whoever sent the folder planted it
        return False
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    # The target of /dev/stdout and the like is already open, and may be a regular file.
    is_open = os.path.abspath(path).startswith(("/dev/std", "/dev/fd/", "/proc/self/fd/"))
    return is_open or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextlib.contextmanager
def _stream(path: str | Path) -> Iterator[BinaryIO]:
    try:
        if stat.S_ISBLK(os.stat(path).st_mode):
            raise StorageError(f"{path}: is a disk; allowed: a file, a pipe or a character device")
        with open(path, "ab") as file:
            yield file
    except OSError as error:
        raise StorageError(f"{path}: could not be written: {error.strerror or error}") from error


def write_atomic(path: str | Path, data: bytes | str) -> None:
    """Write a file atomically; raise a StorageError as `atomic_file` does."""
    content = data.encode() if isinstance(data, str) else data
    with atomic_file(path) as file:
        file.write(content)


def write_json(path: str | Path, value: Any) -> None:
    """Write indented JSON in UTF-8, atomically."""
    write_atomic(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_sealed(path: str | Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object for `read_json`, with its format version first and the SHA-256 of the rest last."""
    content = json.dumps({"format_version": JSON_FORMAT, **value}, indent=2, ensure_ascii=False, allow_nan=False)
    content = content.removesuffix("\n}")
    write_atomic(path, f'{content},\n  "sha256": "{hashlib.sha256(content.encode()).hexdigest()}"\n}}\n')


def parse_json(content: bytes | str) -> Any:
    """Return the value of JSON that may come from anyone, without a copy of it in an error.

    Raises:
        ValueError: it is not JSON or not UTF-8, is nested too deeply, or has very many values.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    if (count := data.count(b",") + data.count(b"[") + data.count(b"{")) > _MAX_VALUES:
        raise ValueError(f"has some {count:,} values; allowed: up to {_MAX_VALUES:,}")
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def read_json(path: str | Path) -> dict[str, Any]:
    """Return the object of a JSON file that `write_sealed` wrote, without its checksum.

    Raises:
        FileNotFoundError: there is no such file.
        ModelFileError: it is not a regular file, too large, not UTF-8, not JSON, nested too deeply, or not an object;
            or it has another format version, or does not match its checksum.
    """
    path = Path(path)
    try:
        content = read_regular(path, MAX_JSON)
        value = parse_json(content)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(str(path)) from None
    except OSError as error:
        raise ModelFileError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ModelFileError(f"{path}: is damaged: {error}") from None
    if not isinstance(value, dict):
        raise ModelFileError(f"{path}: is damaged: it is not a JSON object")
    version = value.get("format_version", 1)
    if version not in (1, JSON_FORMAT):
        raise ModelFileError(f"{path}: has format {str(version)[:40]!r}; this version of mixling reads {JSON_FORMAT}")
    if version == JSON_FORMAT or "sha256" in value:
        seal = _SEAL.search(content, max(0, len(content) - 100))
        if seal is None or hashlib.sha256(content[: seal.start()]).hexdigest() != seal[1].decode():
            raise ModelFileError(f"{path}: does not match its checksum: it is damaged or was edited; restore it")
        del value["sha256"]
    return value


def sha256_of(path: str | Path) -> str:
    """Return the SHA-256 of a regular file's content, in hexadecimal digits."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_hashes(folder: str | Path) -> list[str]:
    """Return the names of a folder's files, each with the SHA-256 of its content."""
    return [f"{path.name} {sha256_of(path)}" for path in sorted(Path(folder).iterdir()) if path.is_file()]


def check_sha256(path: str | Path, wanted: object) -> None:
    """Check the content of a file against a recorded checksum.

    Args:
        wanted: the recorded SHA-256; None if there is none, as in format 1.

    Raises:
        ModelFileError: the content differs, or the file is missing or not a regular file.
    """
    try:
        if wanted is None:
            open_regular(path).close()
            return
        if sha256_of(path) == wanted:
            return
    except OSError as error:
        raise ModelFileError(f"{path}: {error.strerror or error}") from None
    raise ModelFileError(f"{path}: does not match its checksum: it is damaged or of another model; restore it")


def append(path: str | Path, text: str) -> None:
    """Append text to a file; if the process is killed, only a part may be written.

    Raises:
        StorageError: the file cannot be written; with the reason.
    """
    try:
        with open(path, "a", encoding="utf-8", opener=open_no_link) as file:
            file.write(text)
    except OSError as error:
        raise StorageError(f"{path}: could not be written: {error.strerror or error}") from error


def link(source: str | Path, target: str | Path) -> None:
    """Give a file, or a symbolic link itself, a second name; where the file system has no such links, copy it.

    Raises:
        StorageError: the file cannot be written, or within a folder that is locked a link stands for its folder.
    """
    try:
        with folder_of(source) as (name, folder), folder_of(target) as (other, into):
            follow = os.link not in os.supports_follow_symlinks  # or lines added later would go where a link leads
            os.link(name, other, src_dir_fd=folder, dst_dir_fd=into, follow_symlinks=follow)
    except OSError:
        with open_regular(source) as given, atomic_file(target) as file:
            shutil.copyfileobj(given, file)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder for this thread, and create it if it is missing; the lock is reentrant.

    The kernel releases the lock when the process ends, in whatever way. A folder that is created here and is still
    empty at the end is removed.

    Raises:
        StorageError: another process or thread holds the lock, or the folder cannot be written.
    """
    from filelock import FileLock, Timeout

    refuse_linked_folders(folder / LOCK_FILE)
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK_FILE, is_singleton=True)
        outermost = not lock.is_locked
        lock.acquire(blocking=False)
    except Timeout:
        raise StorageError(f"{folder}: {_owner(folder)}; wait for it, stop it, or choose another folder") from None
    except OSError as error:
        raise StorageError(f"{folder}: could not be written: {error.strerror or error}") from error
    try:
        if outermost:
            owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S %z")}
            LOCKED.append(folder)
            with contextlib.suppress(StorageError):  # on a full disk, the lock works nevertheless
                write_atomic(folder / OWNER_FILE, json.dumps(owner))
        yield
    finally:
        if folder in LOCKED and outermost:
            LOCKED.remove(folder)
        if outermost:  # before the release; afterwards the files may belong to another process
            for name in (OWNER_FILE, LOCK_FILE):
                with contextlib.suppress(OSError):
                    (folder / name).unlink()
        lock.release()
        with contextlib.suppress(OSError):  # a folder that is not empty is kept
            for path in missing:
                path.rmdir()


def _owner(folder: Path) -> str:
    """Describe the process that holds a folder's lock, for a message."""
    try:
        owner = parse_json(read_regular(folder / OWNER_FILE, MAX_JSON))
        return f"process {owner['pid']} on {owner['host']} has been writing to this folder since {owner['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # it is just starting or ending
        return "another process is writing to this folder"


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of killed processes; call it only with the folder locked, to spare others."""
    for path in folder.glob(f".*.????????{_SUFFIX}"):
        if path.is_file():
            remove(path)
