"""Read data sets of the hub, and those that its library saved in a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mixling.data.readers import HUB
from mixling.data.readers.rows import Row
from mixling.errors import DataError, UserError, near_miss
from mixling.hub import pinned, split_revision
from mixling.installation import install_command


def pinned_rows(source: str) -> str:
    """Return `hf:NAME[@REVISION][:SPLIT]` with the revision's current commit.

    Raises:
        ConfigError: there is no revision after the @.
    """
    name, split = _name_and_split(source)
    return f"{HUB}{pinned(name, 'dataset')}{f':{split}' if split else ''}"


def _name_and_split(source: str) -> tuple[str, str]:
    name, _, split = source.removeprefix(HUB).partition(":")
    return name, split


def read_hub(source: str) -> Iterator[Row]:
    """Stream the rows of `hf:NAME[@REVISION][:SPLIT]`; SPLIT is `train` by default, NAME may be a local folder.

    Raises:
        DataError: the data set cannot be read, or has no rows.
        UserError: the library datasets is not installed.
    """
    name, split = _name_and_split(source)
    try:
        import datasets
    except ImportError:
        raise UserError(f"reading {source} requires the library datasets: {install_command('hf')}") from None
    number = 0
    try:  # errors of many other libraries pass through this one: network, file systems, archives, Arrow
        if (Path(name) / "state.json").is_file() or (Path(name) / "dataset_dict.json").is_file():
            table = _of_split(datasets.load_from_disk(name), split, source)
        else:
            # Streaming does not copy the data set to disk; only slices such as train[:100] cannot be streamed.
            base, revision = split_revision(pinned(name, "dataset"))
            table = datasets.load_dataset(
                base,
                split=split or "train",
                revision=revision,
                streaming="[" not in split,
                trust_remote_code=False,
            )
        features = table.features or {}
        for number, values in enumerate(table, 1):
            yield Row({key: _names(value, features.get(key)) for key, value in values.items()}, source, number)
    except UserError:
        raise
    except Exception as error:
        message = f"cannot be read: {type(error).__name__}: {error}; the format is hf:NAME[@REVISION][:SPLIT]"
        raise DataError(message, path=source, line=number or None) from error
    if not number:
        raise DataError("has no rows; at least one row is required", path=source)


def _of_split(saved: Any, split: str, source: str) -> Any:
    """Return the table of a split, by default `train`, of what was saved: tables by split, or a single one.

    Raises:
        DataError: there is none.
    """
    if isinstance(saved, dict):
        if (name := split or "train") not in saved:
            raise DataError(f"has no split {name!r}; {near_miss(name, saved)}", path=source)
        return saved[name]
    if split and split != str(saved.split):
        raise DataError(f"is a single table without splits; leave out :{split}", path=source)
    return saved


def _names(value: Any, feature: Any) -> Any:
    """Replace class numbers by the names that the data set declares; -1 means no label on the hub."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        inner = getattr(feature, "feature", None)
        return [_names(item, inner) for item in value] if hasattr(inner, "int2str") else value
    if value is None or not hasattr(feature, "int2str"):
        return value
    return None if value == -1 else feature.int2str(value)
