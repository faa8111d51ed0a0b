"""Keep columns of the input for the output, beside what a model reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mixling.data.examples import Example, RowReader
from mixling.data.readers.rows import SKIP, Row
from mixling.data.values import row_error
from mixling.errors import DataError, near_miss


class KeptColumns:
    """The values of some columns, by the line of their row, until they are taken.

    Args:
        names: of the columns.
        option: of the command line that named them, for messages.
        required: whether a file must have them.
    """

    def __init__(self, names: Sequence[str], *, option: str = "--columns", required: bool = True) -> None:
        self.names = names
        self._option = option
        self._required = required
        self._rows: dict[int, dict[str, Any]] = {}

    def reader(self, reader: type[RowReader]) -> type[RowReader]:
        """Return a reader that makes the same examples, and has the columns kept.

        Its errors name columns that a file, or a row of its own columns, lacks.
        """
        if not self.names:
            return reader
        kept = self

        class Keeping(reader):  # type: ignore[misc, valid-type]
            further = (*reader.further, *kept.names)

            def check_columns(self, row: Row) -> None:
                kept._add(row)
                super().check_columns(row)
                kept.check(row)

            def example(self, row: Row) -> Example:
                kept._add(row)
                example: Example = super().example(row)
                return example

        return Keeping

    def check(self, row: Row) -> None:
        """Check that a row, or the file that it is the first row of, has the columns.

        Raises:
            DataError: a column is missing.
        """
        for name in self.names if self._required else ():
            if name not in row.values:
                message = f"no column {name!r}; {near_miss(name, row.values)}; choose columns with {self._option}"
                if row.own_columns:
                    raise row_error(row, f"{message}, add it to the row, {SKIP}")
                raise DataError(message, path=row.path)

    def take(self, line: int | None) -> dict[str, Any]:
        """Return the values of the row of a line, once; of an unknown row none."""
        return {} if line is None else self._rows.pop(line, {})

    def _add(self, row: Row) -> None:
        self._rows[row.line] = {name: row.values[name] for name in self.names if name in row.values}
