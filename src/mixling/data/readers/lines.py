"""Decode the bytes of a file to lines, with the line of every error."""

from __future__ import annotations

import codecs
import csv
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO, cast

from mixling.data.readers.encodings import conversion
from mixling.data.readers.files import damage_or, describe_error
from mixling.errors import DataError

_UNMARKED = {  # how two ASCII characters begin a file in UTF-16 without a byte order mark
    "utf-16le": re.compile(rb"([\t\n\r -~]\0){2}"),
    "utf-16be": re.compile(rb"(\0[\t\n\r -~]){2}"),
}
MAX_LINE = 1 << 24  # bytes of a line, characters of a CSV field; in longer ones a quote or line end is missing
Texts = Iterable[tuple[int, str]]  # of whole lines, each with the number of its first line
MAX_ROW = 32 << 20  # characters of a row that is on several lines, and _OF_LINE for each of them
_OF_LINE = 64  # bytes of memory
_HEAD = 200  # lines that are looked at before the first row is read
_CHUNK = 1 << 18  # bytes that are read at a time


def read_lines(data: BinaryIO, path: str) -> Iterator[str]:
    """Yield the lines of `read_line_blocks`, with their ends."""
    return lines_of(read_line_blocks(data, path))


def read_document(data: BinaryIO, path: str) -> list[str]:
    """Return the lines of a file that is one text.

    Raises:
        DataError: as of `read_line_blocks`; or the file has more than 16 MiB.
    """
    lines = []
    size = 0
    for line in read_lines(data, path):
        lines.append(line)
        size += len(line)
        if size > MAX_LINE:
            raise DataError(f"is a text of more than {MAX_LINE >> 20} MiB; divide it", path=path)
    return lines


def lines_of(texts: Texts) -> Iterator[str]:
    """Yield the lines of texts, with their ends."""
    for _, text in texts:
        *lines, last = text.split("\n")
        for line in lines:
            yield f"{line}\n"
        if last:
            yield last


def read_line_blocks(
    data: BinaryIO, path: str, first_line: int = 1, *, max_line: int = MAX_LINE
) -> Iterator[tuple[int, str]]:
    """Yield consecutive texts of whole lines, decoded strictly, each with the number of its first line.

    Lines end at line feeds, as in editors and `sed -n 17p`. A text is the part available, so that the lines of a pipe
    are yielded as they arrive.

    Args:
        first_line: the number of the first one.
        max_line: bytes of a line.

    Raises:
        DataError: the file is damaged, or not UTF-8, or a line is too long; with the line.
    """
    number = first_line  # of the line that is not complete
    parts = list[bytes]()
    size = 0
    try:
        decoder = _decoder(cast(io.BufferedReader, data).peek(4)[:4], path, first_line)
        while raw := data.read1(_CHUNK):  # type: ignore[attr-defined]  # of all that `open_file` returns
            raw = raw if decoder is None else utf8_of(decoder.decode(raw))
            lines, end, rest = raw.rpartition(b"\n")
            if end:
                text = b"".join([*parts, lines, end])
                yield from _decoded(text, path, number, first_line, max_line, wide=decoder is not None)
                number += text.count(b"\n")
                parts = []
                size = 0
            parts.append(rest)
            size += len(rest)
            if size > max_line:
                break
        if decoder is not None and size <= max_line:
            parts.append(utf8_of(decoder.decode(b"", final=True)))
        if text := b"".join(parts):
            yield from _decoded(text, path, number, first_line, max_line, wide=decoder is not None)
        return
    except DataError as error:
        raise damage_or(error) from None
    except UnicodeDecodeError:  # only from UTF-16
        message = "the file ends inside a UTF-16 character; copy it again"
    except (EOFError, OSError, zlib.error) as error:
        message = describe_error(error)
    raise DataError(message, path=path, line=number)


def _decoder(head: bytes, path: str, line: int) -> codecs.IncrementalDecoder | None:
    """Return what decodes UTF-16; None for UTF-8."""
    if head in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
        raise DataError("is UTF-32; convert it: iconv -f utf-32 -t utf-8 OLD > NEW", path=path, line=line)
    if name := _unmarked_utf16(head):
        message = f"is UTF-16 without a byte order mark; convert it: iconv -f {name} -t utf-8 OLD > NEW"
        raise DataError(message, path=path, line=line)
    # A lone surrogate is accepted here and rejected in `_decoded`, where its line is known.
    return codecs.getincrementaldecoder("utf-16")("surrogatepass") if is_utf16(head) else None


def is_utf16(head: bytes) -> bool:
    """Return whether the first four bytes of a file are UTF-16, with a byte order mark or without one."""
    return head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or _unmarked_utf16(head) is not None


def _unmarked_utf16(head: bytes) -> str | None:
    return next((name for name, pattern in _UNMARKED.items() if pattern.fullmatch(head)), None)


def utf8_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(
    raw: bytes, path: str, number: int, first_line: int, max_line: int, *, wide: bool
) -> Iterator[tuple[int, str]]:
    """Yield a text of whole lines; or, if one of them is bad, the text before it, and raise its error.

    Args:
        wide: the file is UTF-16.
    """
    while number == first_line and raw.startswith(codecs.BOM_UTF8):  # some programs write two
        raw = raw.removeprefix(codecs.BOM_UTF8)
    message = ""
    if len(raw) > max_line and (long := next((line for line in raw.split(b"\n") if len(line) > max_line), None)):
        raw = raw[: raw.index(long)]
        message = f"the line is longer than {max_line >> 20} MiB; write one row per line, ended by a line feed"
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        start = raw.rfind(b"\n", 0, error.start) + 1
        got = f"byte 0x{raw[error.start]:02x} (byte {error.start - start + 1} of the line) is not UTF-8"
        message = f"{got}; save it as UTF-8 (in a spreadsheet: CSV UTF-8), or {conversion(raw, path, error.start)}"
        if wide:
            character = len(raw[start : error.start].decode("utf-8")) + 1
            message = f"character {character} is a lone UTF-16 surrogate; write the file again as UTF-8"
        text = raw[:start].decode("utf-8")
    if text:
        yield number, text
    if message:
        raise DataError(message, path=path, line=number + text.count("\n"))


class RowLines:
    """Lines for the csv module; lines that a broken row consumed can be given back.

    Attributes:
        number: of lines that were read.
        row: the lines of the current row.
        nul: whether any line so far has a NUL.
    """

    def __init__(self, texts: Texts) -> None:
        self._texts = iter(texts)
        self._lines: list[str] = []
        self._next = 0  # of these lines
        self.number = 0
        self.row: list[str] = []
        self.nul = False

    def __iter__(self) -> Iterator[str]:
        row = self.row  # of the lines after the row's first one
        size = 0
        while self._next < len(self._lines) or self._fill():
            line = self._lines[self._next]
            if row:
                size += len(line) + _OF_LINE
                if size > MAX_ROW:
                    raise csv.Error("row larger than its limit")
            else:
                size = 0
                if line[0] == "\ufeff":  # of a file that was appended to another one
                    line = line.lstrip("\ufeff")
            self._next += 1
            self.number += 1
            row.append(line)
            yield line

    @property
    def at_hand(self) -> bool:
        """Whether there are more lines for which nobody has to wait."""
        return self._next < len(self._lines)

    def _fill(self) -> bool:
        """Take the next text; return whether there is one."""
        if (found := next(self._texts, None)) is None:
            return False
        *lines, last = found[1].split("\n")
        self._lines = [f"{line}\n" for line in lines]
        self._next = 0
        if last:
            self._lines.append(last)
        self.nul = self.nul or "\0" in found[1]
        return True

    def head(self, *, wait: bool) -> list[str]:
        """Return the next lines; blank ones before them are skipped.

        Args:
            wait: read on until there are enough; otherwise the lines are those for which nobody has to wait.
        """
        while self._next < len(self._lines) or self._fill():
            if self._lines[self._next].strip("\ufeff \t\r\n"):
                while wait and len(self._lines) - self._next < _HEAD:
                    before = self._lines[self._next :]
                    if not self._fill():
                        break
                    self._lines = before + self._lines
                return self._lines[self._next : self._next + _HEAD]
            self.skip()
        return []

    def skip(self) -> None:
        """Skip a line."""
        self._next += 1
        self.number += 1

    def give_back(self, kept: int) -> None:
        """Keep the first `kept` lines of the row, so that reading continues after them."""
        rest = self.row[kept:]
        self.number -= len(rest)
        self._next -= len(rest)
        if self._next < 0:  # the row began in an earlier text
            self._lines = [*rest, *self._lines[self._next + len(rest) :]]
            self._next = 0
