"""Open files of anyone; this imports little, as predictions start with it."""

from __future__ import annotations

import errno
import os
import stat

from mixling.lazy import TYPE_CHECKING

if TYPE_CHECKING:
    from io import BufferedReader


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file to read; at its place may be a pipe by now, and nobody waits for its writer.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    file = open(path, "rb", opener=_at_once)  # noqa: SIM115 (the caller closes it)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "is not a regular file", os.fspath(path))
    return file


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: it cannot be read, is no regular file, or has more bytes than `most`.
    """
    with open_regular(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > most:
            raise OSError(errno.EFBIG, f"has {size:,} bytes; allowed: up to {most:,}", os.fspath(path))
        return file.read(size)  # takes so much memory at once; a file that grows is another one


def read_limited(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a file or pipe.

    Raises:
        OSError: it cannot be read, or has more bytes than `most`.
    """
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"has more than {most:,} bytes", os.fspath(path))
    return content


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
