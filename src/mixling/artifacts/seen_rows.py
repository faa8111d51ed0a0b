"""The rows that a model was fitted on, as hashes of their texts, so that an evaluation can count those it has seen.

The hashes are in the run folder, never in an exported file: who has a text can find out with them whether it is one of
the rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mixling.artifacts.files import MAX_WEIGHTS, SEEN_FILE
from mixling.data.columns import text_hash
from mixling.data.dataset import Dataset
from mixling.data.examples import Example
from mixling.errors import ModelFileError
from mixling.opening import read_regular
from mixling.storage import write_atomic

_MAGIC = b"MIXROWS1"
_DIGEST = hashlib.sha256().digest_size


def write_seen(folder: Path, hashes: Iterable[npt.NDArray[np.uint64]]) -> None:
    """Write the hashes of rows into a run folder, each once.

    Raises:
        StorageError: the file cannot be written.
    """
    content = _MAGIC + np.unique(np.concatenate([*hashes])).astype("<u8").tobytes()
    write_atomic(folder / SEEN_FILE, content + hashlib.sha256(content).digest())


def read_seen(model: str | Path) -> npt.NDArray[np.uint64] | None:
    """Return the sorted hashes of the rows that a model was fitted on; None: it has no record of them.

    Args:
        model: a run folder; a model.onnx alone has no record.

    Raises:
        ModelFileError: the record is damaged.
    """
    path = Path(model) / SEEN_FILE
    try:
        content = read_regular(path, MAX_WEIGHTS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    body = content[:-_DIGEST]
    digest = content[-_DIGEST:]
    if body[: len(_MAGIC)] != _MAGIC or len(body) % 8 or hashlib.sha256(body).digest() != digest:
        raise ModelFileError(
            f"{path}: is damaged; delete it, and evaluations no longer tell which rows were trained on"
        )
    return np.frombuffer(body, "<u8", offset=len(_MAGIC)).astype(np.uint64)


def count_seen(hashes: npt.NDArray[np.uint64], examples: Dataset) -> int:
    """Return the number of examples whose text has one of the hashes."""
    return int(np.isin(examples.text_hashes(), hashes).sum())


@dataclass
class SeenCounter:
    """Counts the examples that pass, and those whose text a model was fitted on.

    Args:
        hashes: sorted, as `read_seen` returns them.
    """

    hashes: npt.NDArray[np.uint64]
    rows: int = 0
    seen: int = 0

    def watch(self, examples: Iterable[Example]) -> Iterator[Example]:
        """Yield the examples as they are."""
        for example in examples:
            value = np.uint64(text_hash(example.text))
            at = int(self.hashes.searchsorted(value))
            self.rows += 1
            self.seen += int(at < len(self.hashes) and self.hashes[at] == value)
            yield example

    def line(self) -> str:
        """Return a sentence about the rows that were trained on; "" if there are none."""
        return describe_seen(self.seen, self.rows)


def describe_seen(seen: int, rows: int, *, what: str = "rows", by: str = "", whose: str = "the metrics") -> str:
    """Return a sentence about rows that a model was trained on; "" if there are none.

    Args:
        by: the folder of an earlier model that was trained on them.
        whose: the metrics that are too good.
    """
    if not seen:
        return ""
    were = "was" if seen == 1 else "were"
    who = f" by {by}, where this model began" if by else ""
    return f"{seen:,} of these {rows:,} {what} {were} trained on{who}: {whose} are too good for new text"
