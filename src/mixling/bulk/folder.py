"""The folder that the outputs are written to by fsspec, local or of an object store."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from fsspec.core import url_to_fs

from mixling.bulk.files import is_remote, transfers
from mixling.errors import DataError, StorageError
from mixling.folders import remove
from mixling.opening import read_regular
from mixling.storage import MAX_JSON, atomic_file, parse_json, write_atomic


@dataclass(frozen=True)
class Folder:
    """A folder to write to; files in it are complete or absent.

    Local files are renamed when they are complete. Stores get one upload, which they make visible at its end.

    Args:
        url: a local path or a URL.
    """

    url: str

    @property
    def local(self) -> Path | None:
        """The local path; None for a store."""
        return None if is_remote(self.url) else Path(url_to_fs(self.url)[1])

    def at(self, name: str) -> str:
        """Return the URL of a file."""
        return f"{self.url.rstrip('/')}/{name}"

    def sizes(self) -> dict[str, int]:
        """Return the names of all files, also in folders of this one, with their sizes in bytes."""
        with transfers(self.url, StorageError):
            fs, path = url_to_fs(self.url.rstrip("/") or "/")
            fs.invalidate_cache()
            if not fs.exists(path):
                return {}
            base = path.rstrip("/") + "/"
            found = fs.find(path, detail=True)
            return {name.removeprefix(base): info["size"] for name, info in found.items()}

    def read_json(self, name: str) -> Any:
        """Return the value of a JSON file.

        Raises:
            DataError: it is missing or damaged.
        """
        (content,) = self._contents([name])
        try:
            return parse_json(content)
        except ValueError as error:
            raise DataError(f"is damaged ({error}); choose another folder", path=self.at(name)) from None

    def read_records(self, names: Sequence[str]) -> list[Any]:
        """Return the values of JSON files, several at a time; damaged files are left out."""
        if not names:
            return []
        values = []
        for content in self._contents(names):
            with contextlib.suppress(ValueError):
                values.append(parse_json(content))
        return values

    def _contents(self, names: Sequence[str]) -> list[bytes]:
        with transfers(self.url if len(names) > 1 else self.at(names[0]), DataError):
            if (local := self.local) is not None:
                return [read_regular(local / name, MAX_JSON) for name in names]
            fs, _ = url_to_fs(self.url)
            paths = [url_to_fs(self.at(name))[1] for name in names]
            found: list[bytes] = fs.cat_ranges(paths, 0, MAX_JSON, on_error="raise")
            return found

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file.

        Raises:
            StorageError: it cannot be written.
        """
        content = (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
        if (local := self.local) is not None:
            write_atomic(local / name, content)
            return
        with transfers(self.at(name), StorageError):
            fs, path = url_to_fs(self.at(name))
            fs.pipe_file(path, content)

    def write(self, name: str, fill: Callable[[BinaryIO], None]) -> tuple[int, str]:
        """Write a file, whose content may exceed the memory, by a function that writes it to an open file.

        Returns:
            Its size in bytes and its SHA-256 in hexadecimal digits.

        Raises:
            StorageError: it cannot be written.
        """
        if (local := self.local) is not None:
            with atomic_file(local / name) as file:
                fill(file)
                return _size_and_sha256(file)
        with tempfile.TemporaryDirectory(prefix="mixling-") as folder:
            complete = Path(folder, "part")
            with complete.open("w+b") as file:
                fill(file)
                found = _size_and_sha256(file)
            with transfers(self.at(name), StorageError):  # Windows opens no file a second time
                fs, path = url_to_fs(self.at(name))
                fs.put_file(str(complete), path)
        return found

    def remove(self, name: str) -> None:
        """Remove a file, if it exists.

        Raises:
            StorageError: it cannot be removed.
        """
        if (local := self.local) is not None:
            remove(local / name)
            return
        with transfers(self.at(name), StorageError):
            fs, path = url_to_fs(self.at(name))
            with contextlib.suppress(FileNotFoundError):
                fs.rm_file(path)

    def remove_folder(self, name: str) -> None:
        """Remove a folder in this one with all that it holds.

        Raises:
            StorageError: it cannot be removed.
        """
        with transfers(self.at(name), StorageError):
            fs, path = url_to_fs(self.at(name))
            with contextlib.suppress(FileNotFoundError):
                fs.rm(path, recursive=True)


def _size_and_sha256(file: BinaryIO) -> tuple[int, str]:
    file.flush()
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    return size, hashlib.file_digest(cast(io.BufferedReader, file), "sha256").hexdigest()
