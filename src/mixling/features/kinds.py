"""The names of the kinds of columns, and how `--features` names columns with them."""

from __future__ import annotations

from collections.abc import Sequence

from mixling.errors import ConfigError, DataError, shown

KIND_NAMES = ("date", "number", "category")  # each is a file of this package; guessed in this order


def check_cell(name: str, kind: str, cell: str | None) -> None:
    """Check that a cell is of its column's kind, or missing.

    Raises:
        DataError: it is neither.
    """
    from mixling.features.columns import COLUMN_KINDS
    from mixling.features.kind import has_no_value

    if cell is not None and not has_no_value(cell) and not COLUMN_KINDS[kind].reads(cell):
        got = f"column {name!r} is not {COLUMN_KINDS[kind].what}: {shown(cell)}"
        raise DataError(f"{got}; empty it where it is missing")


def parse_features(items: Sequence[str]) -> dict[str, str | None]:
    """Return the names of columns with their kinds, None where it is to be guessed.

    Args:
        items: NAME or NAME:KIND.

    Raises:
        ConfigError: a column is named twice, or has no name.
    """
    found: dict[str, str | None] = {}
    for item in items:
        name, mark, kind = item.rpartition(":")
        if not mark or kind.strip() not in KIND_NAMES:
            name, kind = item, ""
        name = name.strip()
        if not name or name in found:
            problem = f"the column {name!r} twice" if name else "a column without a name"
            raise ConfigError(
                f"--features: got {problem}; allowed: COLUMN,COLUMN:KIND, with KIND {', '.join(KIND_NAMES)}"
            )
        found[name] = kind.strip() or None
    return found
