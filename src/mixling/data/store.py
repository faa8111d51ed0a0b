"""Examples by index in bounded memory: texts go to a temporary file when they are too many, targets stay as numbers."""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import json
import os
import tempfile
import weakref
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from mixling.data.examples import Example, Target
from mixling.errors import StorageError
from mixling.text.answers import Answers
from mixling.text.encoder import Text

_OVERHEAD = 64  # bytes that a Python object costs beside its text
_UNLABELLED = -1


class ExampleStore:
    """A sequence of examples, or a view of some of them that shares their storage.

    Memory beside the texts is 28 bytes an example; with tuples of labels 32, and 4 for each of their items.
    Beyond `memory_limit` the texts lie in an unnamed temporary file, gone with the last view or the process.
    """

    def __init__(self, storage: _Storage, indices: npt.NDArray[np.int64] | None = None) -> None:
        self._storage, self._indices = storage, indices

    @classmethod
    def from_examples(
        cls, examples: Iterable[Example], *, spool_dir: Path | None = None, memory_limit: int = 256 << 20
    ) -> ExampleStore:
        """Take in all examples.

        Args:
            spool_dir: the folder of the temporary file; by default the system's.
            memory_limit: bytes that the texts may take up before they go to the file.

        Raises:
            StorageError: the temporary file cannot be written.
        """
        storage = _Storage(spool_dir, memory_limit)
        for example in examples:
            storage.add(example)
        storage.finish()
        return cls(storage)

    def __len__(self) -> int:
        return len(self._storage.lines) if self._indices is None else len(self._indices)

    @property
    def spooled(self) -> bool:
        """Whether the texts lie in a file."""
        return self._storage.file is not None

    @property
    def has_groups(self) -> bool:
        """Whether the examples have names of groups."""
        return self._storage.groups is not None

    @property
    def has_questions(self) -> bool:
        """Whether the examples have answers instead of targets."""
        return self._storage.questions

    def text(self, index: int) -> Text:
        """The text, as it was given."""
        value = self._storage.value(self._position(index))
        return (value["pair"][0], value["pair"][1]) if isinstance(value, dict) else value

    def target(self, index: int) -> Target:
        """The label, the tuple of labels or slots, or None."""
        return self._storage.target(self._position(index))

    def answers(self, index: int) -> Answers:
        """The answers to a question."""
        value = self._storage.value(self._position(index))
        return Answers(tuple(value["texts"]), tuple(value["starts"]))

    def where(self, index: int) -> tuple[str, int]:
        """File (or hub name) and 1-based line (or row)."""
        return self._storage.where(self._position(index))

    def label_counts(self) -> dict[str, int]:
        """How often each label or slot stands here, in the order of first appearance in the whole storage."""
        storage = self._storage
        times = np.bincount(self.indices(), minlength=len(storage.lines))
        if storage.ends is not None:
            times = np.repeat(times, np.diff(storage.ends, prepend=0))
        counts = np.bincount(storage.ids + 1, weights=times, minlength=len(storage.names) + 1)[1:]  # without unlabelled
        return {name: int(count) for name, count in zip(storage.names, counts, strict=True) if count}

    def class_ids(self) -> npt.NDArray[np.int32] | None:
        """(len,) numbers of the labels, -1 without one; None where the targets are tuples."""
        if self._storage.ends is not None:
            return None
        return self._storage.ids if self._indices is None else self._storage.ids[self._indices]

    def text_hashes(self) -> npt.NDArray[np.uint64]:
        """(len,) stable 64-bit hashes: equal for equal texts, whatever their targets."""
        return self._storage.hashes if self._indices is None else self._storage.hashes[self._indices]

    def group_hashes(self) -> npt.NDArray[np.uint64]:
        """(len,) hashes, equal for examples that belong on one side of a split: of one group where there are groups,
        else of equal texts, or of one context."""
        groups = self._storage.groups
        if groups is not None:
            return groups if self._indices is None else groups[self._indices]
        if not self.has_questions:
            return self.text_hashes()
        return np.array([_hash(self.text(i)[1].encode("utf-8", "surrogatepass")) for i in range(len(self))], np.uint64)

    def text_bytes(self) -> npt.NDArray[np.int64]:
        """(len,) the size of each text as it is stored, with what stands beside it."""
        return np.diff(self._storage.offsets)[self.indices()]

    def indices(self) -> npt.NDArray[np.int64]:
        """(len,) positions in the whole storage."""
        return np.arange(len(self)) if self._indices is None else self._indices

    def subset(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> ExampleStore:
        """A view of the examples at these indices of this store, in this order."""
        chosen = np.asarray(indices, dtype=np.int64)
        return ExampleStore(self._storage, chosen if self._indices is None else self._indices[chosen])

    def sample_texts(self, limit_bytes: int, seed: int) -> list[str]:
        """Texts of about `limit_bytes` in all, drawn without replacement, in order; all of them where they fit.

        A pair gives two texts, tokens are joined by spaces. At least one example is drawn.
        """
        sizes = self.text_bytes()
        chosen = np.arange(len(self))
        if sizes.sum() > limit_bytes:
            drawn = np.random.default_rng(seed).permutation(len(self))
            fitting = int(np.searchsorted(np.cumsum(sizes[drawn]), limit_bytes, side="right"))
            chosen = np.sort(drawn[: max(fitting, 1)])
        texts: list[str] = []
        for index in chosen:
            text = self.text(int(index))
            texts.extend([text] if isinstance(text, str) else text if isinstance(text, tuple) else [" ".join(text)])
        return texts

    def close(self) -> None:
        """Delete the temporary file; this store and its views give no text afterwards."""
        if self._storage.file is not None:
            self._storage.file.close()

    def _position(self, index: int) -> int:
        if not 0 <= index < len(self):
            raise IndexError(f"example {index} of {len(self)}")
        return index if self._indices is None else int(self._indices[index])


class _Storage:
    """Columns that grow by `add` and are NumPy arrays after `finish`; a record is the text as JSON in UTF-8."""

    lines: npt.NDArray[np.int64]
    hashes: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.int64]  # (len + 1,) where the records begin and end, in the file or laid end to end
    ids: npt.NDArray[np.int32]  # number of the label; with tuples all their items, laid end to end
    groups: npt.NDArray[np.uint64] | None = None  # (len,) hashes of their names; None without groups
    ends: npt.NDArray[np.int64] | None = None  # (len,) ends of the tuples in `ids`; None without tuples

    def __init__(self, spool_dir: Path | None, memory_limit: int) -> None:
        self.names: list[str] = []
        self.file: IO[bytes] | None = None
        self._folder, self._limit = Path(spool_dir or tempfile.gettempdir()), memory_limit
        self._numbers: dict[str, int] = {}
        self._records: list[bytes] = []
        self._paths: list[str] = []
        self._path_starts: list[int] = []
        self._lines, self._hashes, self._offsets = array("q"), array("Q"), array("q", [0])
        self._ids, self._ends, self._groups = array("i"), array("q"), array("Q")
        self._tuples = False
        self.questions = False

    def add(self, example: Example) -> None:
        if not self._paths or self._paths[-1] != example.path:
            self._paths.append(example.path)
            self._path_starts.append(len(self._lines))
        self._lines.append(example.line)
        self._add_target(example.target)
        text: object = {"pair": example.text} if isinstance(example.text, tuple) else example.text
        record = json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass")
        self._hashes.append(_hash(record))
        if example.group is not None:  # as all examples have, or none
            self._groups.append(_hash(example.group.encode("utf-8", "surrogatepass")))
        if example.answers is not None:  # beside the text: unlike labels they are as many as the examples
            self.questions = True
            with_answers = {"pair": example.text, "texts": example.answers.texts, "starts": example.answers.starts}
            record = json.dumps(with_answers, ensure_ascii=False).encode("utf-8", "surrogatepass")
        self._offsets.append(self._offsets[-1] + len(record))
        self._records.append(record)
        if self.file is None and self._offsets[-1] + _OVERHEAD * len(self._records) > self._limit:
            self._open()
        if self.file is not None:
            self._write(flush=False)

    def _add_target(self, target: Target) -> None:
        if isinstance(target, tuple) and not self._tuples:
            self._tuples = True
            self._ends.extend(range(1, len(self._lines)))  # all before were unlabelled: one number each
        if target is None:
            self._ids.append(_UNLABELLED)
        else:
            assert isinstance(target, tuple) or not self._tuples, "labels and tuples of labels in one store"
            labels = target if isinstance(target, tuple) else (target,)
            self._ids.extend(self._numbers.setdefault(label, len(self._numbers)) for label in labels)
        if self._tuples:
            self._ends.append(len(self._ids))

    def _open(self) -> None:
        try:
            self.file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 (it lives as long as the storage)
        except OSError as error:
            raise self._storage_error(error) from None
        weakref.finalize(self, self.file.close)

    def _write(self, *, flush: bool) -> None:
        assert self.file is not None
        try:
            self.file.writelines(self._records)
            self._records.clear()
            if flush:
                self.file.flush()
        except OSError as error:
            with contextlib.suppress(OSError):  # what is still in the buffer cannot be written either
                self.file.close()
            raise self._storage_error(error) from None

    def _storage_error(self, error: OSError) -> StorageError:
        reason = error.strerror or error
        return StorageError(
            f"{self._folder}: the texts cannot be spooled: {reason}; free space or choose another folder"
        )

    def finish(self) -> None:
        self.names = list(self._numbers)
        self.lines, self.hashes = np.asarray(self._lines), np.asarray(self._hashes)
        self.offsets, self.ids = np.asarray(self._offsets), np.asarray(self._ids)
        self.ends = np.asarray(self._ends) if self._tuples else None
        self.groups = np.asarray(self._groups) if self._groups else None
        if self.file is not None:
            self._write(flush=True)

    def record(self, position: int) -> bytes:
        if self.file is None:
            return self._records[position]
        start, end = int(self.offsets[position]), int(self.offsets[position + 1])
        return os.pread(self.file.fileno(), end - start, start)

    def value(self, position: int) -> Any:
        return json.loads(self.record(position).decode("utf-8", "surrogatepass"))

    def target(self, position: int) -> Target:
        if self.ends is None:
            number = int(self.ids[position])
            return None if number == _UNLABELLED else self.names[number]
        start = int(self.ends[position - 1]) if position else 0
        numbers = self.ids[start : self.ends[position]].tolist()
        return None if numbers == [_UNLABELLED] else tuple(self.names[number] for number in numbers)

    def where(self, position: int) -> tuple[str, int]:
        return self._paths[bisect.bisect_right(self._path_starts, position) - 1], int(self.lines[position])


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
