"""Writing the weights of a run folder with a checksum, and reading them only if they match it and are finite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from mixling.answers.labels import LabelSet
from mixling.artifacts.artifact import Artifact, read_artifact
from mixling.artifacts.files import CONFIG_FILE, WEIGHTS_FILE
from mixling.artifacts.kinds import TRAINING
from mixling.errors import ConfigError, ModelFileError
from mixling.models.model import Model, build_model
from mixling.networks.config import ModelConfig
from mixling.storage import check_sha256, sha256_of, write_atomic, write_sealed
from mixling.tasks import task_type
from mixling.text.encoder import TextEncoder
from mixling.text.vocabulary import Vocabulary

_M = TypeVar("_M", bound=nn.Module)


def write_model(folder: Path, model: nn.Module, saved: Mapping[str, Any]) -> None:
    """Write model.safetensors and config.json.

    Args:
        saved: the content of config.json without checksums; `vocabulary`, if it is there, names a file of the folder.

    Raises:
        StorageError: a file cannot be written.
    """
    state = {key: value.contiguous() for key, value in sorted(model.state_dict().items())}
    write_atomic(folder / WEIGHTS_FILE, save(state, {"format": "pt"}))
    sums = {"weights_sha256": sha256_of(folder / WEIGHTS_FILE)}
    if "vocabulary" in saved:
        sums["vocabulary_sha256"] = sha256_of(folder / saved["vocabulary"])
    write_sealed(folder / CONFIG_FILE, {**saved, **sums})


def read_weights(folder: Path, saved: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the weights of the model in a folder.

    Args:
        saved: the content of config.json.

    Raises:
        ModelFileError: the file is missing or damaged, does not match config.json's checksum, or contains a non-finite
            number.
    """
    path = folder / WEIGHTS_FILE
    check_sha256(path, saved.get("weights_sha256"))
    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ModelFileError(f"{path}: is damaged: {error}") from None
    for name, value in weights.items():
        if value.is_floating_point() and not value.isfinite().all():
            raise ModelFileError(f"{path}: {name} contains a number that is not finite")
    return weights


def read_model(artifact: Artifact, build: Callable[[], _M]) -> _M:
    """Return a model with the weights of a saved run.

    Shapes are compared before memory is allocated for the model.

    Args:
        build: makes the model that config.json describes.

    Raises:
        ModelFileError: see `read_weights`; or the model cannot be built or has other weights.
    """
    weights = read_weights(artifact.folder, artifact.saved)
    check_shapes(artifact.folder, build, {name: value.shape for name, value in weights.items()})
    model = build()
    model.load_state_dict(weights)
    return model


def weight_shapes(folder: Path) -> dict[str, torch.Size]:
    """Return the shapes of the weights in a folder, without reading the weights.

    Raises:
        ModelFileError: the file is missing or damaged.
    """
    path = folder / WEIGHTS_FILE
    check_sha256(path, None)
    try:
        with safe_open(path, framework="pt") as file:
            return {name: torch.Size(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ModelFileError(f"{path}: is damaged: {error}") from None


def check_shapes(
    folder: Path,
    build: Callable[[], nn.Module],
    shapes: Mapping[str, torch.Size],
    *,
    parts: tuple[str, ...] = ("",),
) -> None:
    """Check that a folder's configuration fits its weights, without allocating memory for the model.

    Args:
        build: makes the model that config.json describes.
        parts: prefixes of the names of the weights to compare.

    Raises:
        ModelFileError: the model cannot be built or has other weights.
    """
    where = folder / CONFIG_FILE
    try:
        with torch.device("meta"):
            own = {name: value.shape for name, value in build().state_dict().items()}
    except (ConfigError, RuntimeError, TypeError, ValueError, OverflowError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelFileError(f"{where}: describes a model that cannot be built: {reason}") from None
    for name in sorted(own.keys() | shapes.keys()):
        if name.startswith(parts) and own.get(name) != shapes.get(name):
            got, wanted = (tuple(part[name]) if name in part else None for part in (shapes, own))
            raise ModelFileError(f"{folder / WEIGHTS_FILE}: {name} has the shape {got}, but config.json needs {wanted}")


def load_weights(
    model: nn.Module, weights: Mapping[str, Tensor], *, folder: str | Path, remedy: str, parts: tuple[str, ...] = ("",)
) -> None:
    """Load weights of a folder into a model, which must have exactly these weights.

    Args:
        remedy: what the user can do if they do not fit, for the error message.
        parts: prefixes of the names of the weights to replace.

    Raises:
        ConfigError: names or shapes differ.
    """
    own = {name: value for name, value in model.state_dict().items() if name.startswith(parts)}
    wrong = sorted(own.keys() ^ weights.keys()) or [name for name in own if own[name].shape != weights[name].shape]
    if wrong:
        name = wrong[0]
        got, wanted = (tuple(part[name].shape) if name in part else None for part in (weights, own))
        raise ConfigError(f"{folder}: {name} has the shape {got}, but the model needs {wanted}{remedy}")
    model.load_state_dict({**model.state_dict(), **weights})


def load_model(folder: str | Path) -> tuple[Model, TextEncoder, LabelSet, str]:
    """Load the float model of a folder of `mixling train`, and return it with its encoder, labels and task.

    It is the network alone: a linear n-gram branch (`RunConfig.ngrams`), whose logits a `Predictor` adds, is in
    model.onnx only.

    Raises:
        ConfigError: it is not such a folder.
        ModelFileError: a file is missing or damaged.
    """

    def read(artifact: Artifact) -> tuple[Model, TextEncoder, LabelSet, str]:
        config = artifact.parse(ModelConfig, artifact.saved["model"])
        task = task_type(artifact.saved["task"])(LabelSet.from_dict(artifact.saved["labels"]))
        vocabulary = Vocabulary.load(str(artifact.vocabulary()))
        model = read_model(artifact, lambda: build_model(config, num_outputs=len(task.labels), output=task.output))
        return model.eval(), TextEncoder(config.text, vocabulary), task.labels, task.name

    return read_artifact(folder, read, hint="`mixling train` makes one", kinds=(TRAINING,))
