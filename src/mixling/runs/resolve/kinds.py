"""Inferring which kind of run a user asks for: predicting labels, generating text, or classifying images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from mixling.artifacts.artifact import kind_of_model
from mixling.artifacts.kinds import TRAINING, Clues, RunKind, all_kinds, kind_named
from mixling.config import read_overrides, read_toml
from mixling.data.readers import OnBadRow, read_rows
from mixling.errors import ConfigError, DataError, near_miss, shown
from mixling.networks.presets import NATIVE_PRESETS
from mixling.tasks import task_names


def infer_kind(
    *,
    task: str | None = None,
    model: str | None = None,
    toml: str | None = None,
    overrides: Iterable[str] = (),
    pairs: bool = False,
    pretrained: str | Path | None = None,
    files: Sequence[str] = (),
    columns_named: bool = False,
) -> RunKind:
    """Return the kind of a run of `mixling train`, from the named task, else from other options and the first file.

    Args:
        model: the name of a preset.
        toml: the path of a configuration.
        overrides: KEY=VALUE as `--set` takes them.
        pairs: an option is given that only text-to-text runs have, such as the source column.
        pretrained: the folder of the run whose model is trained further.
        files: the training files.
        columns_named: an option names a column that only labeled data have.

    Raises:
        ConfigError: the configuration cannot be read, or the task is unknown.
    """
    values = read_toml(toml) if toml else {}
    task = task or read_overrides(overrides).get("task") or values.get("task")
    others = {kind.task: kind for kind in all_kinds() if kind.task is not None}
    if task is not None:
        if not isinstance(task, str):
            raise ConfigError(f"{toml or 'options'}: task: got {shown(task)}; allowed: text")
        if task not in others and task not in (known := task_names()):
            raise ConfigError(f"task: got {task!r}; {near_miss(str(task), (*known, *others))}")
        return others.get(task, kind_named(TRAINING))
    folder = Path(files[0]) if files and Path(files[0]).is_dir() else None
    readable = files and folder is None and not columns_named and pretrained is None
    clues = Clues(
        model=None if model in NATIVE_PRESETS else model,  # other kinds import PyTorch to name theirs
        options=pairs,
        toml=values,
        pretrained=None if pretrained is None else kind_of_model(pretrained),
        folder=None if pretrained is not None else folder,
        columns=_columns(files[0]) if readable else frozenset(),
    )
    return next((kind for kind in others.values() if kind.fits(clues)), kind_named(TRAINING))


def _columns(file: str) -> frozenset[str]:
    """Return the columns of the first row; none if it cannot be read, which is reported when all rows are read."""
    try:
        first = next(iter(read_rows(file, on_bad_row=OnBadRow("skip"))), None)
    except DataError:
        return frozenset()
    return frozenset() if first is None else frozenset(first.values)
