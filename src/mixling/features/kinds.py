"""The names of the kinds of columns, and how `--features` names columns with them."""

from __future__ import annotations

from collections.abc import Sequence

from mixling.errors import ConfigError

KIND_NAMES = ("date", "number", "category")  # each is a file of this package; guessed in this order


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
