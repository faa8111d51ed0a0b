"""Models of PyTorch from the folders of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy.typing as npt
import torch
from torch import nn

from mixling.answers.labels import LabelSet
from mixling.artifacts.artifact import Artifact
from mixling.artifacts.weights import check_shapes, check_weights, load_network, read_weights
from mixling.models.model import Model
from mixling.models.network import as_torch
from mixling.models.tensors import restore_weights
from mixling.text.encoder import TextEncoder

_M = TypeVar("_M", bound=nn.Module)


def load_model(folder: str | Path) -> tuple[Model, TextEncoder, LabelSet, str]:
    """Load the float model of a folder of `mixling train` as one of PyTorch; see `load_network`."""
    network, encoder, labels, task = load_network(folder)
    return as_torch(network).model.eval(), encoder, labels, task


def read_model(artifact: Artifact, build: Callable[[], _M]) -> _M:
    """Return a model with the weights of a saved run.

    Shapes are compared before memory is allocated for the model.

    Args:
        build: makes the model that config.json describes.

    Raises:
        ModelFileError: see `read_weights`; or the model cannot be built or has other weights.
    """
    weights = read_weights(artifact.folder, artifact.saved)

    def shapes() -> dict[str, tuple[int, ...]]:
        with torch.device("meta"):
            return {name: tuple(value.shape) for name, value in build().state_dict().items()}

    check_shapes(artifact.folder, shapes, {name: value.shape for name, value in weights.items()})
    model = build()
    restore_weights(model, weights)
    return model


def load_weights(model: nn.Module, weights: Mapping[str, npt.NDArray[Any]], *, folder: str | Path, remedy: str) -> None:
    """Load weights of a folder into a model, which must have exactly these weights; raises as `check_weights`."""
    check_weights(
        {name: tuple(v.shape) for name, v in model.state_dict().items()}, weights, folder=folder, remedy=remedy
    )
    restore_weights(model, weights)
