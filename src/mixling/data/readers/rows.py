"""Shared parts of the readers: rows, the handling of bad rows, and decoding of bytes to lines."""

from __future__ import annotations

import codecs
import contextlib
import difflib
import gzip
import io
import itertools
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from mixling.errors import ConfigError, DataError, near_miss, shown

_PACKED = "is compressed with {0}; unpack it ({1}), or compress it with gzip"
_OTHER_FORMATS = {  # by their first bytes, whatever the file is called
    b"BZh": _PACKED.format("bzip2", "bunzip2 FILE"),
    b"\xfd7zXZ\x00": _PACKED.format("xz", "unxz FILE"),
    b"\x28\xb5\x2f\xfd": _PACKED.format("zstd", "unzstd FILE"),
    b"7z\xbc\xaf\x27\x1c": _PACKED.format("7-Zip", "7z x FILE"),
    b"PK\x03\x04": "is a zip archive or an Excel workbook (.xlsx); unpack it, or save the sheet as CSV in UTF-8",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "is an old Office document (.xls); save the sheet as CSV in UTF-8",
    b"%PDF-": "is a PDF; rows of text are required",
    b"\x89PNG\r\n\x1a\n": "is an image (PNG); rows of text are required",
    b"\xff\xd8\xff": "is an image (JPEG); rows of text are required",
    b"SQLite format 3\x00": "is an SQLite database; export the table as CSV",
}
_UNMARKED = {  # how two ASCII characters begin a file in UTF-16 without a byte order mark
    "utf-16le": re.compile(rb"([\t\n\r -~]\0){2}"),
    "utf-16be": re.compile(rb"(\0[\t\n\r -~]){2}"),
}
_PIPES: set[tuple[int, int]] = set()  # opened pipes, by device and inode
SKIP = "or pass --on-bad-row skip"  # the end of messages about bad rows
CONVERT = "convert it from its encoding, such as cp1252: iconv -f cp1252 -t utf-8 OLD > NEW"
_SHOWN = 3  # messages of skipped rows that a command prints
MAX_LINE = 1 << 24  # bytes of a line, characters of a CSV field; in longer ones a quote or line end is missing


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file or hub data set.

    Args:
        values: column -> value; strings from CSV and TSV, other types from JSON, Arrow and the hub.
        path: the file or hub name as the user wrote it.
        line: 1-based line on which the row starts; for Parquet and the hub the 1-based number of the row.
        own_columns: other rows of the file may have other columns, as in JSONL.
    """

    values: dict[str, Any]
    path: str
    line: int
    own_columns: bool = False


@dataclass(slots=True)
class OnBadRow:
    """Handles bad rows: raises their errors, or counts them and keeps the first `keep` messages.

    Attributes:
        notes: what readers decided by themselves, a sentence each; see `note`.
    """

    mode: Literal["error", "skip"] = "error"
    keep: int = 5
    skipped: int = 0
    messages: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.mode not in ("error", "skip"):
            raise ConfigError(f"on-bad-row: got {self.mode!r}; {near_miss(self.mode, ('error', 'skip'))}")

    def __call__(self, error: DataError) -> None:
        if self.mode == "error":
            raise damage_or(error) from None
        self.skipped += 1
        if len(self.messages) < self.keep:
            self.messages.append(str(error).removesuffix(SKIP).rstrip(" ,"))  # it is done

    def note(self, message: str) -> None:
        """Keep a line that the user should see once the rows are read, such as which of two columns was taken."""
        if message not in self.notes:
            self.notes.append(message)

    def lines(self, what: str = "bad rows") -> list[str]:
        """Return the lines for the user once the rows are read: the notes, and how many rows were skipped."""
        skipped = f"{self.skipped} {what} were skipped, among them: " + "; ".join(self.messages[:_SHOWN])
        return [*self.notes, *([skipped] if self.skipped else [])]


def open_file(path: Path, stack: ExitStack) -> BinaryIO:
    """Open a file, or a pipe (once); gzip is recognized by its first two bytes and decompressed.

    Raises:
        DataError: the file does not exist, cannot be read, or has an unsupported format.
    """
    try:
        file = stack.enter_context(open(path, "rb"))  # noqa: SIM115 (the stack closes it)
        _read_once(file, path)
        magic = file.peek(16)[:16]
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
        raise DataError(f"is a folder; name the files in it, or write hf:{path}", path=path) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise DataError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path=path) from None
    if magic.startswith(b"\x1f\x8b"):
        return cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=file)))
    for begin, remedy in _OTHER_FORMATS.items():
        if magic.startswith(begin):
            raise DataError(remedy, path=path)
    if path.suffix.lower() == ".gz" and magic:
        raise DataError("ends in .gz but is not gzip; remove .gz from its name, or compress it", path=path)
    return file


def _read_once(file: BinaryIO, path: Path) -> None:
    """Reject a pipe that was opened before, because what was read then would be missing."""
    status = os.fstat(file.fileno())
    if not stat.S_ISFIFO(status.st_mode):
        return
    if (pipe := (status.st_dev, status.st_ino)) in _PIPES:
        raise DataError("is a pipe, which can be read only once; save it to a file first", path=path)
    _PIPES.add(pipe)


def read_lines(data: BinaryIO, path: str, *, first_line: int = 1) -> Iterator[str]:
    """Yield lines with their ends, decoded strictly; lines end at line feeds, as in editors and `sed -n 17p`.

    Args:
        first_line: the number of the first one.
    """
    number = 0
    try:
        head = cast(io.BufferedReader, data).peek(4)[:4]
        if head in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
            raise DataError("is UTF-32; convert it: iconv -f utf-32 -t utf-8 OLD > NEW", path=path, line=first_line)
        if name := _unmarked_utf16(head):
            message = f"is UTF-16 without a byte order mark; convert it: iconv -f {name} -t utf-8 OLD > NEW"
            raise DataError(message, path=path, line=first_line)
        if is_utf16(head):
            # A lone surrogate is accepted here and rejected in `_checked`, where its line is known.
            with io.TextIOWrapper(data, encoding="utf-16", errors="surrogatepass", newline="\n") as text:
                for number in itertools.count(first_line):
                    line = text.readline(MAX_LINE + 1)
                    if not line:
                        return
                    yield _checked(line, len(line), path, number)
        for number in itertools.count(first_line):
            raw = data.readline(MAX_LINE + 1)
            if not raw:
                return
            while number == first_line and raw.startswith(codecs.BOM_UTF8):  # some programs write two
                raw = raw.removeprefix(codecs.BOM_UTF8)
            yield _checked(raw, len(raw), path, number)
    except DataError as error:
        raise damage_or(error) from None
    except UnicodeDecodeError:  # only from UTF-16
        message = "the file ends inside a UTF-16 character; copy it again"
    except (EOFError, OSError, zlib.error) as error:
        message = describe_error(error)
    raise DataError(message, path=path, line=number or None)


def is_utf16(head: bytes) -> bool:
    """Return whether the first four bytes of a file are UTF-16, with a byte order mark or without one."""
    return head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or _unmarked_utf16(head) is not None


def _unmarked_utf16(head: bytes) -> str | None:
    return next((name for name, pattern in _UNMARKED.items() if pattern.fullmatch(head)), None)


def damage_or(error: DataError) -> DataError:
    """Return the error of the damaged gzip file that `error` is about; if it is intact, `error`.

    A damaged byte may decompress to a row that looks merely bad; only the checksum at the end of the file reveals it.
    """
    path = Path(error.path or "")
    if not path.is_file():
        return error
    try:
        with ExitStack() as stack:
            data = open_file(path, stack)
            while isinstance(data, gzip.GzipFile) and data.read(1 << 20):
                pass
    except (EOFError, OSError, zlib.error) as problem:
        return DataError(describe_error(problem), path=error.path)
    return error


def refuse_constant(name: str) -> None:
    """Reject NaN and infinities, which Python's JSON parser accepts."""
    raise ValueError(f"{name} is not JSON")


def describe_error(error: EOFError | OSError | zlib.error) -> str:
    """Return the message about a file whose bytes cannot be read."""
    if isinstance(error, EOFError):
        return "the gzip file is truncated; copy or download it again"
    if isinstance(error, gzip.BadGzipFile | zlib.error):
        return f"the gzip file is damaged ({error}); copy or download it again"
    return f"cannot be read: {error.strerror or error}"


def _checked(line: str | bytes, size: int, path: str, number: int) -> str:
    if size > MAX_LINE:
        message = f"the line is longer than {MAX_LINE >> 20} MiB; write one row per line, ended by a line feed"
        raise DataError(message, path=path, line=number)
    try:
        if isinstance(line, bytes):
            return line.decode("utf-8")
        line.encode("utf-8")
        return line
    except UnicodeDecodeError as error:
        got = f"byte 0x{error.object[error.start]:02x} (byte {error.start + 1} of the line) is not UTF-8"
        message = f"{got}; save it as UTF-8 (in a spreadsheet: CSV UTF-8), or {CONVERT}"
    except UnicodeEncodeError as error:
        message = f"character {error.start + 1} is a lone UTF-16 surrogate; write the file again as UTF-8"
    raise DataError(message, path=path, line=number)


def nul_error(path: str, line: int) -> DataError:
    """Return the error of a row with a NUL byte."""
    message = "contains a NUL byte; remove it: tr -d '\\000' (or convert UTF-16 text: iconv -f utf-16le -t utf-8)"
    return DataError(message, path=path, line=line)


def check_header(header: list[str], path: str, line: int | None) -> list[str]:
    """Return the header.

    Raises:
        DataError: a column has no name, or the same name as another.
    """
    seen: set[str] = set()
    for number, name in enumerate(header, 1):
        if not name:
            message = f"column {number} of the header has no name; name it, or write the file without an index column"
            raise DataError(message, path=path, line=line)
        if name in seen:
            raise DataError(f"column {shown(name)} occurs twice in the header; rename one", path=path, line=line)
        seen.add(name)
    return header
