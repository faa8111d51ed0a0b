"""Input files by fsspec: local paths and URLs of object stores alike, with errors that state the remedy."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from fsspec.core import url_to_fs

from mixling.data.readers.dialects import Dialect
from mixling.errors import ConfigError, DataError, StorageError, UserError

_MAGIC = "*?["
# What stores call the version of a file's content.
_VERSIONS = ("ETag", "etag", "md5Hash", "content_md5", "mtime", "LastModified", "last_modified", "created")


class TransferError(StorageError):
    """A file of a store that could not be read or written now; a second attempt may succeed."""


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """A file to predict for.

    Attributes:
        path: a local path or URL, as the user would write it.
        name: its path below the part of the pattern before the first wildcard, or below its folder.
        version: changes with the content: size, and time of modification or the store's tag.
    """

    path: str
    name: str
    size: int
    version: str


@dataclass(frozen=True, kw_only=True)
class FilePart:
    """A part of a file.

    Attributes:
        path: of the file.
        name: of the output, without its extension; names sort like the parts of a file.
        start, stop: rows of Parquet from 0, otherwise bytes; of JSONL those between which its lines begin.
        size: of the file in bytes.
        packed: it is the whole file, which is compressed with gzip or is UTF-16.
        header: the lines of a CSV's header.
        line: the number of the first line of CSV.
        dialect: of CSV, how it is written.
    """

    path: str
    name: str
    file_format: str
    start: int
    stop: int
    size: int
    packed: bool = False
    header: tuple[str, ...] = ()
    line: int = 0
    dialect: Dialect | None = None


def is_remote(path: str) -> bool:
    """Return whether a path is a URL, such as s3://bucket/folder."""
    return "://" in path and not path.startswith(("file://", "local://"))


def has_wildcard(path: str) -> bool:
    """Return whether a path has `*`, `?` or `[`."""
    return any(sign in path for sign in _MAGIC)


def find_files(pattern: str) -> list[InputFile]:
    """Return the file of a path, or the files of a pattern, sorted by name; hidden ones (`_` or `.`) are left out.

    Raises:
        DataError: there is no such file, or it is a folder.
        ConfigError: the URL has an unknown scheme, or its package is not installed.
        TransferError: the store cannot be read.
    """
    if not is_remote(pattern):
        pattern = pattern.replace(os.sep, "/")  # as fsspec writes it, so that names begin after the same sign
    with transfers(pattern, DataError):
        fs, path = url_to_fs(pattern)
        fs.invalidate_cache()
        if not has_wildcard(path) or fs.exists(path):
            if fs.isdir(path):
                raise DataError(f"is a folder; name its files: {pattern.rstrip('/')}/*.parquet", path=pattern)
            if not fs.exists(path):
                raise DataError("no such file", path=pattern)
            return [_file(pattern, pattern.rpartition("/")[2], fs.info(path))]
        given, base = (text[: text.rfind("/", 0, _first_magic(text)) + 1] for text in (pattern, path))
        found = {name.removeprefix(base): info for name, info in fs.glob(path, detail=True).items()}
    names = [
        name
        for name, info in sorted(found.items())
        if info["type"] == "file" and not any(part.startswith(("_", ".")) for part in name.split("/"))
    ]
    if not names:
        hint = " (in a shell, quote the pattern)" if not is_remote(pattern) else ""
        raise DataError(f"no file has a name like this; check the folder and the extension{hint}", path=pattern)
    return [_file(given + name, name, found[name]) for name in names]


def _first_magic(text: str) -> int:
    return min(text.index(sign) for sign in _MAGIC if sign in text)


def _file(path: str, name: str, info: dict[str, Any]) -> InputFile:
    version = next((str(info[key]) for key in _VERSIONS if info.get(key) is not None), "")
    return InputFile(path=path, name=name, size=int(info["size"]), version=version.strip('"'))


@contextlib.contextmanager
def transfers(path: str, kind: type[UserError]) -> Iterator[None]:
    """Translate the errors of a block that calls fsspec, whose stores raise errors of their own libraries.

    Args:
        kind: of errors about local files.

    Raises:
        UserError: with the path, the reason and a remedy.
    """
    try:
        yield
    except UserError:
        raise
    except ImportError as error:  # fsspec names the package
        raise ConfigError(f"{path}: {error}") from None
    except FileNotFoundError as error:
        raise DataError(f"no such file or folder ({error.filename or error})", path=path) from None
    except Exception as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__
        if "Protocol not known" in reason:
            raise ConfigError(f"{path}: {reason}; allowed: a path, or a URL such as s3://, gs:// or az://") from None
        if is_remote(path):
            name = type(error).__name__
            access = isinstance(error, PermissionError) or "Credential" in name or "Auth" in name
            remedy = "set credentials that may use it, as the store's own tools read them" if access else "try again"
            raise TransferError(f"{path}: could not be read or written: {name}: {reason}; {remedy}") from None
        if isinstance(error, OSError | ValueError):  # ValueError: a NUL in the name
            raise kind(f"{path}: cannot be read or written: {reason}") from None
        raise


class _Slice(io.RawIOBase):
    """The bytes `start` to `stop` of a file, with the errors of `transfers`."""

    def __init__(self, file: BinaryIO, path: str, start: int, stop: int) -> None:
        self._file = file
        self._path = path
        self._start = start
        self._stop = stop
        self._at = start
        self.seek(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = (self._start, self._at, self._stop)[whence]
        with transfers(self._path, DataError):
            self._at = self._file.seek(max(base + offset, self._start))
        return self._at - self._start

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), max(self._stop - self._at, 0))
        with transfers(self._path, DataError):
            data = self._file.read(wanted) if wanted else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def open_slice(path: str, start: int, stop: int) -> io.BufferedReader:
    """Open the bytes `start` to `stop` of a file for reading.

    Raises:
        DataError: a local file cannot be read.
        TransferError: a store cannot be read.
    """
    with transfers(path, DataError):
        fs, name = url_to_fs(path)
        file = fs.open(name, "rb") if is_remote(path) else open(name, "rb")  # noqa: SIM115 (closed with the slice)
    return io.BufferedReader(_Slice(cast(BinaryIO, file), path, start, stop), 1 << 18)


def line_start(path: str, position: int, size: int) -> int:
    """Return where the first line begins that does so at `position` or later; the file's `size` if none does.

    A line that ends at `position` is followed by one that begins there.
    """
    if position == 0 or position >= size:
        return min(position, size)
    with open_slice(path, position - 1, size) as data:
        found = position - 1
        while chunk := data.read(1 << 16):
            if (end := chunk.find(b"\n")) >= 0:
                return found + end + 1
            found += len(chunk)
    return size


def count_lines(path: str, stop: int) -> int:
    """Return the number of line feeds in the first `stop` bytes of a file."""
    with open_slice(path, 0, stop) as data:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: data.read(1 << 20), b""))
