"""The run folder: what is written into it at the end of a run, and how torch reads it back."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from mixling.config import parse
from mixling.errors import ConfigError, ModelFileError
from mixling.models.model import Model, ModelConfig, build_model
from mixling.runs.artifact import (
    CONFIG_FILE,
    read_config,
    read_folder,
    vocabulary_file,
)
from mixling.runs.config import TASKS
from mixling.runs.weights import read_model
from mixling.tasks.base import TaskName
from mixling.text.encoder import TextEncoder
from mixling.text.labels import LabelSet
from mixling.text.vocabulary import Vocabulary


def load_model(folder: str | Path) -> tuple[Model, TextEncoder, LabelSet, TaskName]:
    """Return the float model of a run folder, for torch.

    Raises:
        ModelFileError: a file of the folder is missing or damaged.
    """
    return read_folder(folder, _load_model)


def _load_model(folder: Path) -> tuple[Model, TextEncoder, LabelSet, TaskName]:
    try:
        saved = read_config(folder)
        config = parse(ModelConfig, saved["model"], where=str(folder / CONFIG_FILE))
        labels, task = LabelSet.from_dict(saved["labels"]), saved["task"]
        vocabulary = Vocabulary.load(str(vocabulary_file(folder, saved)))
        output = TASKS[task][0].output
        model = read_model(folder, saved, lambda: build_model(config, num_outputs=len(labels), output=output))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, ConfigError, ValidationError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelFileError(f"{folder}: is not a complete run folder: {reason}") from None
    return model.eval(), TextEncoder(config.text, vocabulary), labels, task
