"""A data set: indexed examples with a common schema, in memory or, if there are too many, on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

from mixling.answers.questions import Answers
from mixling.data.columns import ExampleColumns, RowIndices, Schema, hash_of, utf8
from mixling.data.examples import Example, ExampleBlock, Target
from mixling.features.cells import Cells, cells_of
from mixling.text.encoder import Text

_T = TypeVar("_T")


class Dataset(Sequence[Example]):
    """A sequence of examples with a schema, or a view of some of them that shares their storage.

    Iterate over it or index it for complete examples, or read one column: `texts`, `targets` or `answers`. A slice is a
    view. Labels are stored as ids. Texts are kept in memory up to `memory_limit` bytes, and beyond that in an unnamed
    temporary file, which is deleted with the last view or at the end of the process. The ids of questions and the names
    of groups are not stored.

    Example:
        >>> from mixling.data.examples import Example
        >>> data = Dataset.from_examples([Example("good", "yes", "a.csv", 2), Example("bad", "no", "a.csv", 3)])
        >>> data.schema.targets, data[1].line, [example.text for example in data], data.targets[0]
        ('label', 3, ['good', 'bad'], 'yes')
    """

    def __init__(self, columns: ExampleColumns, rows: RowIndices | None = None) -> None:
        self._columns = columns
        self._rows = range(len(columns)) if rows is None else rows

    @classmethod
    def from_examples(
        cls,
        examples: Iterable[Example | ExampleBlock],
        *,
        texts: int | None = None,
        spool_dir: Path | None = None,
        memory_limit: int = 256 << 20,
        label_types: Mapping[str, str] | None = None,
        label_columns: Sequence[str] = (),
    ) -> Dataset:
        """Read all examples.

        Args:
            examples: examples of one schema, such as `read_examples` or `read_blocks` streams.
            texts: how many must belong together; by default, as many as in the first example.
            spool_dir: the folder of the temporary file; by default the system's.
            memory_limit: bytes that the texts may occupy before they are moved to the file.
            label_types, label_columns: as `types` and `columns` of `LabelSet`.

        Raises:
            DataError: an example has another schema than earlier ones.
            StorageError: the temporary file cannot be written.
        """
        columns = ExampleColumns(texts, spool_dir, memory_limit)
        columns.label_types = dict(label_types or {})
        columns.label_columns = tuple(label_columns)
        for item in examples:
            if isinstance(item, Example):
                columns.add(item)
            else:
                columns.add_block(item)
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
        """The properties that all examples share."""
        return self._columns.schema

    @property
    def label_types(self) -> Mapping[str, str]:
        """What labels are in Python, if they are no strings."""
        return self._columns.label_types

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The names of the columns of the indicator matrix that the targets were."""
        return self._columns.label_columns

    @property
    def spooled(self) -> bool:
        """Whether the texts are in a temporary file."""
        return self._columns.file is not None

    @property
    def texts(self) -> Column[Text]:
        """The texts, unchanged."""
        return Column(self._columns.text, self._rows)

    @property
    def targets(self) -> Column[Target]:
        """The label, tuple of labels or slots, number, or None of each example."""
        return Column(self._columns.target, self._rows)

    @property
    def has_cells(self) -> bool:
        """Whether texts have columns beside them."""
        return bool(len(self)) and cells_of(self.texts[0]) is not None

    @property
    def cells(self) -> list[Cells]:
        """The columns beside each text."""
        return [cells_of(text) or () for text in self.texts]

    @property
    def answers(self) -> Column[Answers]:
        """The answers of each example, in a data set of questions."""
        return Column(self._columns.answers, self._rows)

    def where(self, index: int) -> tuple[str, int]:
        """Return the file (or hub name) and 1-based line (or row) of an example."""
        return self._columns.where(self._rows[index])

    def label_counts(self) -> dict[str, int]:
        """Count each label or slot, in the order of first appearance in the storage."""
        columns = self._columns
        times = np.bincount(self.indices(), minlength=len(columns))
        if columns.ends is not None:
            times = np.repeat(times, np.diff(np.asarray(columns.ends), prepend=0))
        counts = np.bincount(np.asarray(columns.ids) + 1, weights=times, minlength=len(columns.names) + 1)
        return {name: int(count) for name, count in zip(columns.names, counts[1:], strict=True) if count}

    def class_ids(self) -> npt.NDArray[np.int32] | None:
        """Return the ids of the labels (len,), -1 for unlabeled examples; None if targets are tuples or numbers."""
        if self.schema.targets in ("labels", "number"):
            return None
        return np.asarray(self._columns.ids)[self.indices()]

    def text_hashes(self) -> npt.NDArray[np.uint64]:
        """Return stable 64-bit hashes of the texts (len,)."""
        return np.asarray(self._columns.hashes)[self.indices()]

    def group_hashes(self) -> npt.NDArray[np.uint64]:
        """Return hashes (len,) of what a split keeps together: the group if there are groups, otherwise the text, or
        the context of questions."""
        if self.schema.grouped:
            return np.asarray(self._columns.groups)[self.indices()]
        if self.schema.targets != "answers":
            return self.text_hashes()
        return np.array([hash_of(utf8(text[1])) for text in self.texts], np.uint64)

    def content(self) -> Iterator[bytes]:
        """Yield bytes that differ where texts, answers or targets do, to recognize the data of an unfinished run."""
        yield self.text_hashes().tobytes()
        yield json.dumps(list(self.label_counts().items())).encode()
        ids = self.class_ids()
        if ids is not None:
            yield np.ascontiguousarray(ids).tobytes()
        values = self.answers if self.schema.targets == "answers" else self.targets if ids is None else ()
        yield from (repr(value).encode("utf-8", "surrogatepass") for value in values)
        if self.has_cells:
            yield from (repr(cells).encode("utf-8", "surrogatepass") for cells in self.cells)

    def text_bytes(self) -> npt.NDArray[np.int64]:
        """Return the size of each text (len,), with its answers, as JSON in UTF-8."""
        return self._columns.sizes(self._rows)

    def indices(self) -> npt.NDArray[np.int64]:
        """Return the indices (len,) of the examples in the storage."""
        rows = self._rows
        return np.arange(rows.start, rows.stop, rows.step) if isinstance(rows, range) else np.asarray(rows, np.int64)

    def subset(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> Dataset:
        """Return a view of the examples at `indices` of this data set, in this order."""
        return Dataset(self._columns, self.indices()[np.asarray(indices, np.int64)])

    def sample_texts(self, limit_bytes: int, seed: int) -> list[str]:
        """Sample texts of about `limit_bytes` in total, in their order; all of them if they fit.

        Texts that belong together are yielded one by one, words are joined by spaces. At least one example is drawn.
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
        """Delete the temporary file; the texts of this data set and its views cannot be read afterwards."""
        if self._columns.file is not None:
            self._columns.file.close()


class Column(Sequence[_T], Generic[_T]):
    """One value of each example, read on access; a slice is a list."""

    def __init__(self, read: Callable[[int], _T], rows: RowIndices) -> None:
        self._read = read
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> list[_T]: ...
    def __getitem__(self, index: int | slice) -> _T | list[_T]:
        return list(map(self._read, self._rows[index])) if isinstance(index, slice) else self._read(self._rows[index])

    def __iter__(self) -> Iterator[_T]:
        return map(self._read, self._rows)
