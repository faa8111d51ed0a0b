"""Open files and pipes, decompress them, and describe faulty bytes."""

from __future__ import annotations

import contextlib
import difflib
import gzip
import io
import os
import stat
import sys
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

from mixling.data.readers.packed import DamagedError, Unpacked, decompressed
from mixling.errors import DataError

PACKED = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zip": "zip"}  # by extension
_PACKED = "is compressed with {0}; unpack it ({1}), or compress it with gzip"
_OTHER_FORMATS = {  # by their first bytes, whatever the file is called
    b"\x28\xb5\x2f\xfd": _PACKED.format("zstd", "unzstd FILE"),
    b"7z\xbc\xaf\x27\x1c": _PACKED.format("7-Zip", "7z x FILE"),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "is an old Office document (.xls); save the sheet as CSV in UTF-8",
    b"%PDF-": "is a PDF; rows of text are required",
    b"\x89PNG\r\n\x1a\n": "is an image (PNG); rows of text are required",
    b"\xff\xd8\xff": "is an image (JPEG); rows of text are required",
    b"SQLite format 3\x00": "is an SQLite database; export the table as CSV",
    b"version https://git-lfs": "is a pointer of Git LFS; fetch the file: git lfs pull",
    b"#FORMAT=WebAnno TSV": "is WebAnno's TSV; export CoNLL 2002 or CoNLL-U instead",
}
STDIN = "<stdin>"  # the name of standard input in messages, and where a file is named
_MAX_CHECKED = 256 << 20  # decompressed bytes that `damage_or` reads
_PIPES: set[tuple[int, int]] = set()  # opened pipes, by device and inode


def open_file(path: Path, stack: ExitStack) -> BinaryIO:
    """Open a file, or a pipe (once); gzip, bzip2, xz and zip are recognized by their first bytes and decompressed.

    Raises:
        DataError: the file does not exist, cannot be read, or has an unsupported format.
    """
    try:
        file = stack.enter_context(open(path, "rb"))  # noqa: SIM115 (the stack closes it)
        _read_once(file, path)
        magic = file.peek(40)[:40]
    except FileNotFoundError:
        if path.is_symlink():
            raise DataError(f"is a link to {os.readlink(path)}, which does not exist", path=path) from None
        names: list[str] = []
        with contextlib.suppress(OSError):
            names = [item.name for item in path.parent.iterdir()]
        close = difflib.get_close_matches(path.name, names, n=1)
        hint = f"; did you mean {str(path.with_name(close[0]))!r}?" if close else ""
        raise DataError(f"no such file{hint}", path=path) from None
    except IsADirectoryError:
        raise DataError(f"is a folder; name the files in it, such as {path}/*.csv", path=path) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise DataError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path=path) from None
    if magic.startswith(b"\x1f\x8b"):
        return cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=file)))
    if (data := decompressed(file, magic, path, stack)) is not None:
        return data
    for begin, remedy in _OTHER_FORMATS.items():
        if magic.startswith(begin):
            raise DataError(remedy, path=path)
    if (suffix := path.suffix.lower()) in PACKED and magic:
        raise DataError(
            f"ends in {suffix} but is not {PACKED[suffix]}; remove {suffix} from its name, or compress it", path=path
        )
    return file


def open_stdin(stack: ExitStack) -> BinaryIO:
    """Return the bytes of standard input, decompressed if they are gzip."""
    stream: BinaryIO = sys.stdin.buffer
    data: Any = stream if hasattr(stream, "peek") else io.BufferedReader(cast(io.RawIOBase, stream))
    if data.peek(2)[:2] == b"\x1f\x8b":
        return cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=data)))
    return cast(BinaryIO, data)


def is_packed(data: BinaryIO) -> bool:
    """Return whether bytes of `open_file` are decompressed."""
    return isinstance(data, gzip.GzipFile) or isinstance(getattr(data, "raw", None), Unpacked)


def _read_once(file: BinaryIO, path: Path) -> None:
    """Reject a pipe that was opened before, because what was read then would be missing."""
    status = os.fstat(file.fileno())
    if not stat.S_ISFIFO(status.st_mode):
        return
    if (pipe := (status.st_dev, status.st_ino)) in _PIPES:
        raise DataError("is a pipe, which can be read only once; save it to a file first", path=path)
    _PIPES.add(pipe)


def damage_or(error: DataError) -> DataError:
    """Return the error of the damaged compressed file that `error` is about; if it is intact, `error`.

    A damaged byte may decompress to a row that looks merely bad; only the checksum at the end of the file reveals it.
    """
    path = Path(error.path or "")
    if not path.is_file():
        return error
    try:
        with ExitStack() as stack:
            data = open_file(path, stack)
            for _ in range(_MAX_CHECKED >> 20):
                if not is_packed(data) or not data.read(1 << 20):
                    break
    except (EOFError, OSError, zlib.error) as problem:
        return DataError(describe_error(problem), path=error.path)
    return error


def describe_error(error: EOFError | OSError | zlib.error) -> str:
    """Return the message about a file whose bytes cannot be read."""
    if isinstance(error, DamagedError):
        return f"{error}; copy or download it again"
    if isinstance(error, EOFError):
        return "the gzip file is truncated; copy or download it again"
    if isinstance(error, gzip.BadGzipFile | zlib.error):
        return f"the gzip file is damaged ({error}); copy or download it again"
    return f"cannot be read: {error.strerror or error}"
