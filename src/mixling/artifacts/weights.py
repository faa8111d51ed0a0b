"""Writing the weights of a run folder with a checksum, and reading them only if they match it and are finite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from mixling.answers.labels import LabelSet
from mixling.artifacts.artifact import Artifact, read_artifact
from mixling.artifacts.files import CONFIG_FILE, WEIGHTS_FILE
from mixling.artifacts.kinds import TRAINING
from mixling.errors import ConfigError, ModelFileError
from mixling.networks.config import ModelConfig
from mixling.networks.network import TextNetwork
from mixling.storage import check_sha256, sha256_of, write_atomic, write_sealed
from mixling.tasks import task_type
from mixling.text.encoder import TextEncoder
from mixling.text.vocabulary import Vocabulary
from mixling.training.backends.choose import make_network, shapes_of


def write_model(folder: Path, weights: Mapping[str, npt.NDArray[Any]], saved: Mapping[str, Any]) -> None:
    """Write model.safetensors and config.json.

    Args:
        weights: by name.
        saved: the content of config.json without checksums; `vocabulary`, if it is there, names a file of the folder.

    Raises:
        StorageError: a file cannot be written.
    """
    state = {name: np.ascontiguousarray(value).reshape(value.shape) for name, value in sorted(weights.items())}
    write_atomic(folder / WEIGHTS_FILE, save(state, {"format": "pt"}))
    sums = {"weights_sha256": sha256_of(folder / WEIGHTS_FILE)}
    if "vocabulary" in saved:
        sums["vocabulary_sha256"] = sha256_of(folder / saved["vocabulary"])
    write_sealed(folder / CONFIG_FILE, {**saved, **sums})


def read_weights(folder: Path, saved: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
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
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise ModelFileError(f"{path}: {name} contains a number that is not finite")
    return weights


def weight_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights in a folder, without reading the weights.

    Raises:
        ModelFileError: the file is missing or damaged.
    """
    path = folder / WEIGHTS_FILE
    check_sha256(path, None)
    try:
        with safe_open(path, framework="np") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ModelFileError(f"{path}: is damaged: {error}") from None


def check_shapes(
    folder: Path,
    own_shapes: Callable[[], Mapping[str, tuple[int, ...]]],
    shapes: Mapping[str, tuple[int, ...]],
    *,
    parts: tuple[str, ...] = ("",),
) -> None:
    """Check that a folder's configuration fits its weights, without allocating memory for the model.

    Args:
        own_shapes: returns the shapes of the model that config.json describes.
        parts: prefixes of the names of the weights to compare.

    Raises:
        ModelFileError: the model cannot be built or has other weights.
    """
    where = folder / CONFIG_FILE
    try:
        own = own_shapes()
    except (ConfigError, RuntimeError, TypeError, ValueError, OverflowError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelFileError(f"{where}: describes a model that cannot be built: {reason}") from None
    for name in sorted(own.keys() | shapes.keys()):
        if name.startswith(parts) and own.get(name) != shapes.get(name):
            got, wanted = (part.get(name) for part in (shapes, own))
            raise ModelFileError(f"{folder / WEIGHTS_FILE}: {name} has the shape {got}, but config.json needs {wanted}")


def check_weights(
    own: Mapping[str, tuple[int, ...]], weights: Mapping[str, npt.NDArray[Any]], *, folder: str | Path, remedy: str
) -> None:
    """Check that the weights of a folder are exactly a model's.

    Args:
        own: the shapes of the model's.
        remedy: what the user can do if they do not fit, for the error message.

    Raises:
        ConfigError: names or shapes differ.
    """
    wrong = sorted(own.keys() ^ weights.keys()) or [name for name in own if own[name] != weights[name].shape]
    if wrong:
        name = wrong[0]
        got = weights[name].shape if name in weights else None
        raise ConfigError(f"{folder}: {name} has the shape {got}, but the model needs {own.get(name)}{remedy}")


def load_network(folder: str | Path) -> tuple[TextNetwork, TextEncoder, LabelSet, str]:
    """Load the float network of a folder of `mixling train`, and return it with its encoder, labels and task.

    A linear n-gram branch (`RunConfig.ngrams`), whose logits a `Predictor` adds, is in model.onnx only.

    Raises:
        ConfigError: it is not such a folder.
        ModelFileError: a file is missing or damaged.
    """

    def read(artifact: Artifact) -> tuple[TextNetwork, TextEncoder, LabelSet, str]:
        config = artifact.parse(ModelConfig, artifact.saved["model"])
        task = task_type(artifact.saved["task"])(LabelSet.from_dict(artifact.saved["labels"]))
        vocabulary = Vocabulary.load(str(artifact.vocabulary()))
        weights = read_weights(artifact.folder, artifact.saved)
        shapes = {name: value.shape for name, value in weights.items()}
        described = config, len(task.labels), task.output
        check_shapes(artifact.folder, lambda: shapes_of(*described), shapes)
        network = make_network(*described)
        network.restore(weights)
        return network, TextEncoder(config.text, vocabulary), task.labels, task.name

    return read_artifact(folder, read, hint="`mixling train` makes one", kinds=(TRAINING,))
