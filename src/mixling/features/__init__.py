"""Columns beside the text: numbers, categories and dates as inputs of a model.

A kind of column is a file here, named in `COLUMN_KINDS` of `columns`, which says how it is recognized and described.
The C core (`native/columns.c`) makes vectors by the description, for training and for predictions alike.
"""

from mixling.lazy import TYPE_CHECKING, lazy_imports

if TYPE_CHECKING:
    from mixling.features.cells import Cells, as_cell, cells_in, cells_of, with_cells
    from mixling.features.columns import COLUMN_KINDS, Columns, describe_columns, remarks

__getattr__, __dir__ = lazy_imports(__name__)
