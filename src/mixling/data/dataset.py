"""A data set: examples by index that know what they have in common, in memory or, where they are too many, on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

from mixling.data.columns import Columns, Rows, Schema, hash_of, utf8
from mixling.data.examples import Example, Target
from mixling.text.answers import Answers
from mixling.text.encoder import Text

T = TypeVar("T")


class Dataset(Sequence[Example]):
    """A sequence of examples that knows its schema; or a view of some of them, which shares their storage.

    Iterate over it or index it for whole examples, or read one column: `texts`, `targets` or `answers`. A slice is a
    view. Labels are kept as numbers and texts as they are, until they take up more than `memory_limit` bytes; then
    they lie in an unnamed temporary file, which is gone with the last view or the process. The names of questions and
    of groups are not kept.

    Example:
        >>> from mixling.data.examples import Example
        >>> data = Dataset.from_examples([Example("good", "yes", "a.csv", 2), Example("bad", "no", "a.csv", 3)])
        >>> data.schema.targets, data[1].line, [example.text for example in data], data.targets[0]
        ('label', 3, ['good', 'bad'], 'yes')
    """

    def __init__(self, columns: Columns, rows: Rows | None = None) -> None:
        self._columns, self._rows = columns, range(len(columns)) if rows is None else rows

    @classmethod
    def from_examples(
        cls,
        examples: Iterable[Example],
        *,
        pairs: bool | None = None,
        spool_dir: Path | None = None,
        memory_limit: int = 256 << 20,
    ) -> Dataset:
        """Read all examples.

        Args:
            examples: of one schema, such as `read_examples` streams.
            pairs: whether the texts have to be pairs; by default whether the first one is.
            spool_dir: the folder of the temporary file; by default the system's.
            memory_limit: bytes that the texts may take up before they go to the file.

        Raises:
            DataError: an example has another schema than those before it.
            StorageError: the temporary file cannot be written.
        """
        columns = Columns(pairs, spool_dir, memory_limit)
        for example in examples:
            columns.add(example)
        columns.freeze()
        return cls(columns)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> Dataset: ...
    def __getitem__(self, index: int | slice) -> Example | Dataset:
        if isinstance(index, slice):
            return Dataset(self._columns, self._rows[index])
        return self._columns.example(self._rows[index])

    def __iter__(self) -> Iterator[Example]:
        return map(self._columns.example, self._rows)

    @property
    def schema(self) -> Schema:
        """What all examples have in common."""
        return self._columns.schema

    @property
    def spooled(self) -> bool:
        """Whether the texts lie in a file."""
        return self._columns.file is not None

    @property
    def texts(self) -> Column[Text]:
        """The texts, as they were given."""
        return Column(self._columns.text, self._rows)

    @property
    def targets(self) -> Column[Target]:
        """A label, a tuple of labels or slots, a number, or None, for each example."""
        return Column(self._columns.target, self._rows)

    @property
    def answers(self) -> Column[Answers]:
        """The answers to the question, for each example of a data set of questions."""
        return Column(self._columns.answers, self._rows)

    def where(self, index: int) -> tuple[str, int]:
        """File (or hub name) and 1-based line (or row) of an example."""
        return self._columns.where(self._rows[index])

    def label_counts(self) -> dict[str, int]:
        """How often each label or slot occurs here, in the order of first appearance in the whole storage."""
        columns = self._columns
        times = np.bincount(self.indices(), minlength=len(columns))
        if columns.ends is not None:
            times = np.repeat(times, np.diff(np.asarray(columns.ends), prepend=0))
        counts = np.bincount(np.asarray(columns.ids) + 1, weights=times, minlength=len(columns.names) + 1)[
            1:
        ]  # of the labeled
        return {name: int(count) for name, count in zip(columns.names, counts, strict=True) if count}

    def class_ids(self) -> npt.NDArray[np.int32] | None:
        """(len,) numbers of the labels, -1 without one; None where the targets are tuples or numbers."""
        if self.schema.targets in ("labels", "number"):
            return None
        return np.asarray(self._columns.ids)[self.indices()]

    def text_hashes(self) -> npt.NDArray[np.uint64]:
        """(len,) stable 64-bit hashes: equal for equal texts, whatever their targets."""
        return np.asarray(self._columns.hashes)[self.indices()]

    def group_hashes(self) -> npt.NDArray[np.uint64]:
        """(len,) hashes, equal for examples that belong on one side of a split: of one group where there are groups,
        else of equal texts, or of one context."""
        if self.schema.grouped:
            return np.asarray(self._columns.groups)[self.indices()]
        if self.schema.targets != "answers":
            return self.text_hashes()
        return np.array([hash_of(utf8(text[1])) for text in self.texts], np.uint64)

    def text_bytes(self) -> npt.NDArray[np.int64]:
        """(len,) the size of each text, with its answers, as JSON in UTF-8."""
        return self._columns.sizes(self._rows)

    def indices(self) -> npt.NDArray[np.int64]:
        """(len,) indices in the whole storage."""
        return np.asarray(self._rows, np.int64)

    def subset(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> Dataset:
        """Return a view of the examples at these indices of this data set, in this order."""
        return Dataset(self._columns, self.indices()[np.asarray(indices, np.int64)])

    def sample_texts(self, limit_bytes: int, seed: int) -> list[str]:
        """Draw texts of about `limit_bytes` in all without replacement, in order; all of them where they fit.

        A pair gives two texts, words are joined by spaces. At least one example is drawn.
        """
        sizes = self.text_bytes()
        chosen = np.arange(len(self))
        if sizes.sum() > limit_bytes:
            drawn = np.random.default_rng(seed).permutation(len(self))
            fitting = int(np.searchsorted(np.cumsum(sizes[drawn]), limit_bytes, side="right"))
            chosen = np.sort(drawn[: max(fitting, 1)])
        texts: list[str] = []
        for text in self.subset(chosen).texts:
            texts.extend([text] if isinstance(text, str) else text if isinstance(text, tuple) else [" ".join(text)])
        return texts

    def close(self) -> None:
        """Delete the temporary file; this data set and its views give no text afterwards."""
        if self._columns.file is not None:
            self._columns.file.close()


class Column(Sequence[T], Generic[T]):
    """One value of each example, read when it is asked for; a slice is a list."""

    def __init__(self, read: Callable[[int], T], rows: Rows) -> None:
        self._read, self._rows = read, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        return list(map(self._read, self._rows[index])) if isinstance(index, slice) else self._read(self._rows[index])

    def __iter__(self) -> Iterator[T]:
        return map(self._read, self._rows)
