"""Tables in memory: of pandas, Polars, Arrow and Hugging Face, dictionaries of columns, rows that are dictionaries.

These libraries are never imported here: an object that comes from one of them has imported it.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixling.errors import DataError, near_miss, shown
from mixling.features.cells import cells_in, with_cells
from mixling.text.config import check_together, default_names

Names = str | Sequence[str]
"""The column of the text, or several of texts that belong together."""

_TABLES = {
    ("pandas", "DataFrame"): "pandas",
    ("polars", "DataFrame"): "polars",
    ("pyarrow", "Table"): "pyarrow",
    ("pyarrow", "RecordBatch"): "pyarrow",
    ("datasets", "Dataset"): "datasets",
}
_NOT_READ = {
    ("polars", "LazyFrame"): "read it: .collect()",
    ("datasets", "DatasetDict"): "choose a split, such as ds['train']",
    ("datasets", "IterableDatasetDict"): "choose a split, such as ds['train']",
    ("pyspark", "DataFrame"): "read it: .toPandas()",
    ("dask", "DataFrame"): "read it: .compute()",
}
_NO_ROWS = (str, bytes, Mapping, list, tuple, set, frozenset, np.ndarray)


@dataclass(frozen=True)
class Frame:
    """A table in memory.

    Attributes:
        library: "pandas", "polars", "pyarrow", "datasets"; "dict": columns by name; "rows": dictionaries.
        table: the caller's object; rows as a list.
        names: of the columns.
    """

    library: str
    table: Any
    names: tuple[Any, ...]

    @classmethod
    def of(cls, table: Any) -> Frame | None:
        """Return a table that can be read; None for anything else.

        Raises:
            DataError: it has to be read, or a split to be chosen, first.
        """
        for base in type(table).__mro__:
            kind = (base.__module__.partition(".")[0], base.__name__)
            if kind in _NOT_READ:
                raise DataError(f"got a {kind[1]} of {kind[0]}, which is no table in memory; {_NOT_READ[kind]}")
            if kind in _TABLES:
                names = table.column_names if kind[0] in ("pyarrow", "datasets") else table.columns
                return cls(_TABLES[kind], table, tuple(names))
        if isinstance(table, Mapping):
            columns = list(table.values())
            if not columns or not all(isinstance(column, Iterable) and _is_many(column) for column in columns):
                return None
            columns = [column_values(column) for column in columns]
            if len(sizes := set(map(len, columns))) > 1:
                lengths = ", ".join(f"{name!r} has {len(column)}" for name, column in zip(table, columns, strict=True))
                raise DataError(f"got columns of {len(sizes)} lengths ({lengths}); columns of one length are needed")
            return cls("dict", dict(zip(table, columns, strict=True)), tuple(table))
        if isinstance(table, list | tuple) and table and isinstance(table[0], Mapping):
            for row, values in enumerate(table):
                if not isinstance(values, Mapping):
                    raise DataError(f"row {row} is of type {type(values).__name__}, but row 0 is a dictionary")
            return cls("rows", list(table), tuple(dict.fromkeys(name for row in table for name in row)))
        return None

    def __len__(self) -> int:
        if self.library == "dict":
            return len(next(iter(self.table.values())))
        return int(self.table.num_rows) if self.library == "pyarrow" else len(self.table)

    def column(self, name: Any, where: str) -> list[Any]:
        """Return the values of a column.

        Raises:
            DataError: there is no such column, or there are two.
        """
        if (count := self.names.count(name)) != 1:
            if count:
                raise DataError(f"{count} columns are called {shown(name)}; rename one", path=where)
            choices = f"; {near_miss(str(name), map(str, self.names))}" if self.names else "; it has no columns"
            raise DataError(f"the table has no column {shown(name)}{choices}", path=where)
        if self.library == "rows":
            return [row.get(name) for row in self.table]
        return column_values(self.table[name])

    def texts(
        self,
        names: Names | None,
        where: str,
        *,
        taken: Sequence[Any] = (),
        known: Sequence[str] | None = None,
        first: int = 0,
        beside: Sequence[str] = (),
    ) -> list[Any]:
        """Return the texts of the rows, or several of each, or lists of words.

        Args:
            names, taken, known: see `text_columns`.
            first: the number of the first row, for messages.
            beside: columns beside the text, whose values the texts carry.

        Raises:
            DataError: there are no such columns, or a text is missing or is none.
        """
        chosen = self.text_columns(names, where, taken=(*taken, *beside), known=known)
        index = self.table.index if self.library == "pandas" else None
        columns = [_texts(self.column(name, where), f"column {shown(name)}", where, first, index) for name in chosen]
        texts = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        return self._with_cells(texts, beside, where, first) if beside else texts

    def _with_cells(self, texts: list[Any], beside: Sequence[str], where: str, first: int) -> list[Any]:
        if self.library == "rows":
            rows: Iterable[Mapping[str, Any]] = self.table
        else:
            columns = [self.column(name, where) for name in beside]
            rows = (dict(zip(beside, values, strict=True)) for values in zip(*columns, strict=True))
        found = []
        for row, (text, values) in enumerate(zip(texts, rows, strict=True), first):
            try:
                found.append(with_cells(text, cells_in(values, beside)))
            except DataError as error:
                raise DataError(str(error), path=where, line=row) from None
        return found

    def text_columns(
        self, names: Names | None, where: str, *, taken: Sequence[Any] = (), known: Sequence[str] | None = None
    ) -> tuple[Any, ...]:
        """Return the column of the text, or all of several.

        Args:
            names: None: the only columns that can be meant, or "text" and "text_pair".
            taken: columns that are no text.
            known: the names of as many texts as are meant; None: one, or two where there are two columns.

        Raises:
            DataError: it is not known which columns they are.
            ConfigError: see `check_together`.
        """
        if names is not None:
            is_name = isinstance(names, str) or names in self.names or not isinstance(names, Sequence)
            chosen = (names,) if is_name else tuple(names)
            check_together(chosen)
            return chosen
        free = tuple(name for name in self.names if name not in taken)
        numbers = (1, 2) if known is None else (len(known),)
        if known is not None and len(known) > 1 and {*known} & {*free}:
            return tuple(known)
        if len(free) in numbers:
            return free
        default = tuple(name for name in default_names(max(numbers)) if name in free)
        if len(default) in numbers:
            return default
        example = "text='review'" if max(numbers) == 1 or known is None else "text=('question', 'answer')"
        listed = ", ".join(map(str, free)) or "no other"
        raise DataError(f"which column is the text? name it, {example}; the table has {listed}", path=where)

    def like(self, columns: Mapping[str, Any]) -> Any:
        """Return columns, a value for each row, as a table of the same library, with the same index."""
        return new_table(self.library, columns, like=self.table)


def new_table(library: str, columns: Mapping[str, Any], *, like: Any = None) -> Any:
    """Return columns as a table of a library that has been imported, or as a dictionary of lists.

    Args:
        like: a table whose index, or class, the new one has.
    """
    if library == "pandas":
        return sys.modules["pandas"].DataFrame(dict(columns), index=getattr(like, "index", None))
    lists = {name: column_values(column) for name, column in columns.items()}
    if library == "polars":
        return sys.modules["polars"].DataFrame(lists, strict=False)
    if library == "pyarrow":
        return sys.modules["pyarrow"].table(lists)
    return type(like).from_dict(lists) if library == "datasets" else lists


def texts_of(
    items: Any,
    names: Names | None = None,
    where: str = "<predict>",
    *,
    known: Sequence[str] | None = None,
    beside: Sequence[str] = (),
) -> Any:
    """Return texts of whatever has them: a table, a column, an array of one or more columns, an iterable.

    Iterables other than lists are read when the result is, row by row if their items are dictionaries.

    Args:
        names, known: see `Frame.text_columns`.
        beside: see `Frame.texts`.

    Raises:
        DataError: it is a table, and not known which columns they are, or a text is missing.
    """
    if (
        isinstance(items, np.ndarray)
        and items.ndim == 2
        and items.shape[1] in (1, 2, len(known or ()))
        and items.dtype.kind in "OUT"
    ):
        columns = range(items.shape[1])
        frame: Frame | None = Frame("dict", {number: items[:, number] for number in columns}, tuple(columns))
    else:
        frame = Frame.of(items)
    if frame is not None:
        return frame.texts(names, where, known=known, beside=beside)
    is_iterable = isinstance(items, Iterable) and not isinstance(items, _NO_ROWS) and getattr(items, "ndim", 1) == 1
    if is_iterable and not _is_column(items):
        left = iter(items)
        first = list(itertools.islice(left, 1))
        rows = itertools.chain(first, left)
        return _texts_of_rows(rows, names, where, known, beside) if first and isinstance(first[0], Mapping) else rows
    if names is not None:
        got = f"{shown(names)} names a column, but got one {type(items).__name__}"
        raise DataError(f"text: {got}; give a table, or leave text= out", path=where)
    if not _is_column(items):
        return items
    index = getattr(items, "index", None)  # of pandas; of others a method
    return _texts(column_values(items), "the text", where, index=None if callable(index) else index)


def is_stream(items: Any) -> bool:
    """Return whether rows come one after the other: from an iterator, or a data set of Hugging Face on a disk."""
    return isinstance(items, Iterator) or (hasattr(items, "column_names") and not hasattr(items, "__len__"))


def _is_column(items: Any) -> bool:
    """Return whether it is a column of a library, or an array, of one dimension."""
    is_any = isinstance(items, np.ndarray) or hasattr(items, "to_list") or hasattr(items, "to_pylist")
    return is_any and getattr(items, "ndim", 1) == 1 and not is_stream(items)


def _texts_of_rows(
    rows: Iterator[Any], names: Names | None, where: str, known: Sequence[str] | None, beside: Sequence[str]
) -> Iterator[Any]:
    for number, row in enumerate(rows):
        if (frame := Frame.of([row])) is None:
            raise DataError(f"got a {type(row).__name__} among dictionaries", path=where, line=number)
        names = frame.text_columns(names, where, taken=beside, known=known)
        yield frame.texts(names, where, first=number, beside=beside)[0]


def is_missing(value: object) -> bool:
    """Return whether a value stands for a missing one: None, NaN, pandas' NA and NaT."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _texts(values: list[Any], what: str, where: str, first: int = 0, index: Any = None) -> list[Any]:
    """Return values as strings, or as lists of words; errors name rows and, in pandas, labels of the index."""
    for row, value in enumerate(values):
        if type(value) is str:
            continue
        if isinstance(value, str):
            values[row] = str(value)
        elif isinstance(value, list | tuple | np.ndarray) and all(isinstance(word, str) for word in value):
            values[row] = value if isinstance(value, tuple) else list(map(str, value))
        else:
            label = row if index is None else index[row]
            same = isinstance(label, int | np.integer) and label == row
            at = what if same else f"{what} (index {shown(label)})"
            got = f"is {shown(value)}, of type {type(value).__name__}; a string is needed"
            if is_missing(value):
                got = f"is missing ({value}); drop such rows, or give them a text, which may be ''"
            raise DataError(f"{at} {got}", path=where, line=first + row)
    return values


def _is_many(column: Any) -> bool:
    return (
        not isinstance(column, str | bytes | Mapping) and getattr(column, "ndim", 1) == 1 and hasattr(column, "__len__")
    )


def column_values(column: Any) -> list[Any]:
    """Return a column, of any library, as a list of Python's values."""
    for name in ("to_list", "to_pylist", "tolist"):
        if hasattr(column, name):
            values: list[Any] = getattr(column, name)()
            return values
    return list(column)
