"""Decompress bzip2, xz and zip as streams, in bounded memory."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

from mixling.errors import DataError, command_line

MAX_DICTIONARY = 1 << 28  # bytes of memory that xz may take; `xz -9` takes 65 MiB
_CHUNK = 1 << 16
_MEMBER = 1 << 12  # bytes of a zip archive that are read at a time
_WORKBOOK = "[Content_Types].xml"


class DamagedError(zlib.error):
    """What is wrong with a compressed file, as a sentence."""


class Unpacked(io.RawIOBase):
    """Bytes that a function decompresses; whatever error its library raises becomes a `DamagedError`.

    Args:
        read: returns up to the given number of bytes; none at the end.
        kind: of the file, for messages.
    """

    def __init__(self, read: Callable[[int], bytes], kind: str) -> None:
        self._read = read
        self._kind = kind
        self._error: DamagedError | None = None  # bytes read after it would be wrong

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._read(len(buffer)) if self._error is None else b""
        except EOFError:
            self._error = DamagedError(f"the {self._kind} file is truncated")
        except Exception as error:  # of several libraries
            self._error = DamagedError(f"the {self._kind} file is damaged ({error})")
        if self._error is not None:
            raise self._error from None
        buffer[: len(data)] = data
        return len(data)


def decompressed(file: Any, magic: bytes, path: Path | str, stack: ExitStack) -> BinaryIO | None:
    """Return the decompressed bytes of a file that begins with `magic`; None if it is none of these.

    Raises:
        DataError: a zip archive does not have exactly one file, or cannot be read.
    """
    if magic.startswith(b"BZh"):
        import bz2

        return _buffered(stack.enter_context(bz2.BZ2File(file)).read1, "bzip2")
    if magic.startswith(b"\xfd7zXZ\x00"):
        return _buffered(_Xz(file).read, "xz")
    return _from_zip(file, path, stack) if magic.startswith(b"PK\x03\x04") else None


def _buffered(read: Callable[[int], bytes], kind: str) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(Unpacked(read, kind)))


class _Xz:
    """Reads one xz stream after another, with a limit of memory, which `lzma.LZMAFile` does not have."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._begin()

    def _begin(self) -> None:
        import lzma

        self._decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_DICTIONARY)

    def read(self, size: int) -> bytes:
        raw = b""
        while True:
            if self._decoder.eof:
                raw = (self._decoder.unused_data or self._file.read(_CHUNK)).lstrip(b"\0")  # padding between streams
                if not raw:
                    return b""
                self._begin()
            elif self._decoder.needs_input and not (raw := self._file.read(_CHUNK)):
                raise EOFError
            if data := self._decoder.decompress(raw, size):
                return data
            raw = b""


def _from_zip(file: BinaryIO, path: Path | str, stack: ExitStack) -> BinaryIO:
    import zipfile

    if not file.seekable():
        raise DataError("is a zip archive, which is read from its end, and no pipe can go back; name a file", path=path)
    try:
        archive = stack.enter_context(zipfile.ZipFile(file))
        infos = [info for info in archive.infolist() if not info.is_dir()]
        if any(info.filename == _WORKBOOK for info in infos):
            message = "is a workbook (.xlsx); save the sheet as CSV in UTF-8, in the program that made it"
            raise DataError(message, path=path)
        infos = [info for info in infos if not info.filename.startswith("__MACOSX/")]  # what macOS adds
        if len(infos) != 1:
            names = ", ".join(info.filename for info in infos[:3]) + (", ..." if len(infos) > 3 else "")
            remedy = f"{command_line('unzip', path)}, and name the files"
            raise DataError(f"is a zip archive of {len(infos)} files ({names}); one is allowed: {remedy}", path=path)
        member: Any = stack.enter_context(archive.open(infos[0]))
        # At its end, a member gives all that was read: up to a thousand times as much.
        return _buffered(lambda size: member.read1(min(size, _MEMBER)), "zip")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:  # damaged, odd or encrypted
        raise DataError(f"is a zip archive that cannot be read ({error}); unpack it: unzip FILE", path=path) from None


def name_in_zip(path: Path) -> str:
    """Return the name of the first file in a zip archive; "" if there is none."""
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            names = (info.filename for info in archive.infolist() if not info.is_dir())
            return next((name for name in names if not name.startswith("__MACOSX/")), "")
    except (zipfile.BadZipFile, OSError):
        return ""
