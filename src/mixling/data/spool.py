"""Texts of a data set on disk, where there are too many for memory."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import weakref
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from mixling.errors import StorageError


class SpoolFile:
    """Records of texts in an unnamed temporary file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.offsets = array("q", [0])
        try:
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (it lives as long as this object)
        except OSError as error:
            raise self._error(error) from None
        self.close = weakref.finalize(self, self._file.close)

    def write(self, records: Iterable[bytes]) -> None:
        """Append records.

        Raises:
            StorageError: there is no space left.
        """
        try:
            for record in records:
                self._file.write(record)
                self.offsets.append(self.offsets[-1] + len(record))
        except OSError as error:
            self._give_up(error)

    def flush(self) -> None:
        """Write the buffer to the file.

        Raises:
            StorageError: there is no space left.
        """
        try:
            self._file.flush()
        except OSError as error:
            self._give_up(error)

    def read(self, index: int) -> Any:
        """Return the value of a record."""
        start = self.offsets[index]
        end = self.offsets[index + 1]
        return json.loads(os.pread(self._file.fileno(), end - start, start).decode("utf-8", "surrogatepass"))

    def _give_up(self, error: OSError) -> NoReturn:
        with contextlib.suppress(OSError):  # the buffer cannot be written on closing, either
            self._file.close()
        raise self._error(error) from None

    def _error(self, error: OSError) -> StorageError:
        reason = error.strerror or error
        return StorageError(
            f"{self._folder}: the texts cannot be spooled: {reason}; free space or choose another folder"
        )
