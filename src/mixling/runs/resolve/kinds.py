"""Inferring which kind of run a user asks for: predicting labels, generating text, or classifying images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from mixling.artifacts.artifact import IMAGES, TEXT_TO_TEXT, TRAINING, kind_of_model
from mixling.config import read_overrides, read_toml
from mixling.data.readers import OnBadRow, read_rows
from mixling.data.readers.text_folder import holds_images
from mixling.errors import ConfigError, DataError, near_miss, shown
from mixling.tasks import task_names

WRITING = "text2text"  # the task of models that generate text
IMAGE_CLASSIFICATION = "image_classification"
_OTHERS = {WRITING: TEXT_TO_TEXT, IMAGE_CLASSIFICATION: IMAGES}  # tasks that are not in `mixling.tasks`


def infer_kind(
    *,
    task: str | None = None,
    toml: str | None = None,
    overrides: Iterable[str] = (),
    pairs: bool = False,
    pretrained: str | Path | None = None,
    files: Sequence[str] = (),
    columns_named: bool = False,
) -> str:
    """Return TRAINING, TEXT_TO_TEXT or IMAGES, from the named task, else from other options and the first file.

    Args:
        toml: the path of a configuration.
        overrides: KEY=VALUE as `--set` takes them.
        pairs: an option is given that only text-to-text runs have, such as the source column.
        pretrained: the folder of the run whose model is trained further.
        files: the training files.
        columns_named: an option names a column that only labeled data have.

    Raises:
        ConfigError: the configuration cannot be read, or the task is unknown.
    """
    file = read_toml(toml) if toml else {}
    task = task or read_overrides(overrides).get("task") or file.get("task")
    if task is not None:
        if not isinstance(task, str):
            raise ConfigError(f"{toml or 'options'}: task: got {shown(task)}; allowed: text")
        if task not in _OTHERS and task not in (known := task_names()):
            raise ConfigError(f"task: got {task!r}; {near_miss(str(task), (*known, *_OTHERS))}")
        return _OTHERS.get(task, TRAINING)
    if pairs or "tasks" in file:
        return TEXT_TO_TEXT
    if pretrained is not None:
        return TEXT_TO_TEXT if kind_of_model(pretrained) == TEXT_TO_TEXT else TRAINING
    if files and Path(files[0]).is_dir():  # a folder of images or texts for each label
        return IMAGES if holds_images(Path(files[0])) else TRAINING
    if not files or columns_named:
        return TRAINING
    try:
        first = next(iter(read_rows(files[0], on_bad_row=OnBadRow("skip"))), None)
    except DataError:  # reported when the files are read, after errors in the options
        return TRAINING
    columns = set() if first is None else first.values.keys()
    return TEXT_TO_TEXT if {"source", "target"} <= columns and "label" not in columns else TRAINING
