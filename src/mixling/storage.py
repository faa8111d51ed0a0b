"""Writing files so that a reader finds the old content or the new one, never a part."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

from mixling.errors import ModelFileError, StorageError

MAX_JSON = 64 << 20  # bytes; labels are the most of it
JSON_FORMAT = 2  # of sealed JSON files; those of format 1 have no checksum
LOCK_FILE, OWNER_FILE = ".lock", ".lock.json"  # of a folder that a process writes to, and who that is
_SEAL = re.compile(rb',\n  "sha256": "([0-9a-f]{64})"\n}\n\Z')
_SUFFIX = ".part"  # what `remove_leftovers` may take for its own


@contextlib.contextmanager
def atomic_file(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write to that appears under its name, complete, when the block ends without an error, or never.

    A temporary file beside it, fsync, rename, fsync of the folder. Of a symbolic link the file that it names is
    replaced. A pipe or a device such as /dev/stdout is written straight into.

    Raises:
        StorageError: with the path and the reason (disk full, no permission, ...); what stood there still stands.
    """
    if _is_stream(path):
        with _stream(path) as file:
            yield file
        return
    given, path = path, Path(os.path.realpath(path))
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
        sync_folder(path.parent)
    except OSError as error:
        raise StorageError(
            f"{given}: could not be written: {error.strerror or error}; what was there before is unchanged"
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _is_stream(path: str | Path) -> bool:
    """Whether there is a pipe, a device or the like, which a file must not replace."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    # What /dev/stdout and the like name is open already, and may well be a file.
    is_open = os.path.abspath(path).startswith(("/dev/std", "/dev/fd/", "/proc/self/fd/"))
    return is_open or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextlib.contextmanager
def _stream(path: str | Path) -> Iterator[BinaryIO]:
    try:
        if stat.S_ISBLK(os.stat(path).st_mode):
            raise StorageError(f"{path}: is a disk; a file, a pipe or a device of characters is allowed")
        with open(path, "ab") as file:
            yield file
    except OSError as error:
        raise StorageError(f"{path}: could not be written: {error.strerror or error}") from error


def write_atomic(path: str | Path, data: bytes | str) -> None:
    """Write a file as `atomic_file` does, and raise as it does."""
    content = data.encode() if isinstance(data, str) else data
    with atomic_file(path) as file:
        file.write(content)


def write_json(path: str | Path, value: Any) -> None:
    """Write JSON for others to read, indented, in UTF-8, atomically."""
    write_atomic(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_sealed(path: str | Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object for `read_json`: its format first, and last the SHA-256 of all that comes before."""
    rest = json.dumps({"format_version": JSON_FORMAT, **value}, indent=2, ensure_ascii=False, allow_nan=False)
    rest = rest.removesuffix("\n}")
    write_atomic(path, f'{rest},\n  "sha256": "{hashlib.sha256(rest.encode()).hexdigest()}"\n}}\n')


def read_json(path: str | Path) -> dict[str, Any]:
    """Return the object of a JSON file that `write_sealed` wrote, without its checksum.

    Raises:
        FileNotFoundError: there is no such file.
        ModelFileError: it is no regular file, too large, not UTF-8, not JSON, nested too deeply, or not an object; or
            it is of another format, or its content does not match its checksum.
    """
    path = Path(path)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ModelFileError(f"{path}: is not a regular file")
        if (size := os.stat(path).st_size) > MAX_JSON:
            raise ModelFileError(f"{path}: has {size:,} bytes; allowed: up to {MAX_JSON:,}")
        content = path.read_bytes()
        value = json.loads(content)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(str(path)) from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise ModelFileError(f"{path}: is damaged: its values are nested too deeply") from None
    except ValueError as error:  # also of bytes that are not UTF-8, and of integers with thousands of digits
        raise ModelFileError(f"{path}: is damaged: {error}") from None
    if not isinstance(value, dict):
        raise ModelFileError(f"{path}: is damaged: it holds no JSON object")
    version = value.get("format_version", 1)
    if version not in (1, JSON_FORMAT):
        raise ModelFileError(f"{path}: format {str(version)[:40]!r}; this version reads {JSON_FORMAT}")
    if version == JSON_FORMAT or "sha256" in value:
        seal = _SEAL.search(content, max(0, len(content) - 100))
        if seal is None or hashlib.sha256(content[: seal.start()]).hexdigest() != seal[1].decode():
            raise ModelFileError(f"{path}: does not match its checksum: it is damaged, or was edited; restore it")
        del value["sha256"]
    return value


def sha256_of(path: str | Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_sha256(path: str | Path, wanted: object) -> None:
    """Refuse a file whose content is not what was recorded of it.

    Args:
        wanted: the recorded SHA-256; None where format 1 recorded none.

    Raises:
        ModelFileError: the content is another, or the file is missing or no regular one.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ModelFileError(f"{path}: is not a regular file")
        if wanted is None or sha256_of(path) == wanted:
            return
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    raise ModelFileError(f"{path}: does not match its checksum: it is damaged, or of another model; restore it")


def append(path: str | Path, text: str) -> None:
    """Write text at the end of a file; a kill may leave a part of it.

    Raises:
        StorageError: with the path and the reason.
    """
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise StorageError(f"{path}: could not be written: {error.strerror or error}") from error


def remove(path: str | Path) -> None:
    """Remove a file, if it is there.

    Raises:
        StorageError: with the path and the reason.
    """
    try:
        Path(path).unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{path}: could not be removed: {error.strerror or error}") from error


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for this thread alone, and make it if it is missing; a thread may hold it more than once.

    The kernel releases the lock when the process ends, however it ends. A folder that is made here and is still empty
    at the end is removed.

    Raises:
        StorageError: another process or thread holds it, or it cannot be written to.
    """
    from filelock import FileLock, Timeout  # of the extra [train]; who only reads needs no lock

    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK_FILE, is_singleton=True)
        outermost = not lock.is_locked
        lock.acquire(blocking=False)
    except Timeout:
        raise StorageError(f"{folder}: {_owner(folder)}; wait for it, stop it, or give another folder") from None
    except OSError as error:
        raise StorageError(f"{folder}: could not be written: {error.strerror or error}") from error
    try:
        if outermost:
            owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S %z")}
            with contextlib.suppress(OSError):  # on a full disk the lock holds all the same
                (folder / OWNER_FILE).write_text(json.dumps(owner), "utf-8")
        yield
    finally:
        if outermost:  # before the release: afterwards they may be another's
            for name in (OWNER_FILE, LOCK_FILE):
                with contextlib.suppress(OSError):
                    (folder / name).unlink()
        lock.release()
        with contextlib.suppress(OSError):  # one that is not empty stays
            for path in missing:
                path.rmdir()


def _owner(folder: Path) -> str:
    """Return who holds a folder, as a message states it."""
    try:
        owner = json.loads((folder / OWNER_FILE).read_bytes())
        return f"process {owner['pid']} on {owner['host']} has been writing to this folder since {owner['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # it has just begun, or ends just now
        return "another process is writing to this folder"


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files that a killed process left behind; only under the folder's lock, as others have theirs."""
    for path in folder.glob(f".*.????????{_SUFFIX}"):
        if path.is_file():
            remove(path)


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder are on the disk."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
