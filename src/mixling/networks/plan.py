"""A network as the native steps know it: found from the configuration of a model, never from its name.

`plan_network` says where each parameter is in one array, and which layers there are, as numbers (`network.h`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mixling.errors import ConfigError
from mixling.networks.mixers import TokenMLPConfig

if TYPE_CHECKING:
    from mixling.networks.blocks import BlockConfig
    from mixling.networks.config import ModelConfig, Output

TABLE = "embedding.weight"
_WIDE = 16  # floats: widths are multiples, and parameters begin at multiples
_MOST_OUTPUTS = (1 << 16) - 1
_TOKEN_MLP = 1
_FEED_FORWARD = 2
_POOLINGS = {"attention": 1, "mean": 2, "max": 3, "all": 4}
_ABSENT = -1
_DRAWS = 1 << 16  # of which dropout has a fraction

ParameterShape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class NetworkPlan:
    """Where the parameters of a network are, and its layers.

    Attributes:
        shapes: of the parameters, by their names in PyTorch's model.
        places: where each of them begins in the array of all.
        size: floats of the array of all.
        ends: where the table, the other matrices, and all others end in it.
        numbers: what the native steps read.
        knows_widths: whether they know all widths.
    """

    shapes: Mapping[str, ParameterShape]
    places: Mapping[str, int]
    size: int
    ends: tuple[int, int, int]
    numbers: npt.NDArray[np.int64]
    knows_widths: bool

    def views(self, array: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[np.float32]]:
        """Return the parts of an array of all parameters, or of their moments, by name."""
        return {
            name: array[place : place + math.prod(self.shapes[name])].reshape(self.shapes[name])
            for name, place in self.places.items()
        }


def plan_network(config: ModelConfig, num_outputs: int, output: Output, *, any_width: bool = False) -> NetworkPlan:
    """Return the plan of a network.

    Args:
        config: complete, with the rows of the embedding table.
        num_outputs: C.
        output: as in `Model`.
        any_width: also of widths that the native steps do not know.

    Raises:
        ConfigError: the native steps do not know a layer, or a width; the message names it.
    """
    _check(config, output)
    unknown = _unknown_width(config, num_outputs)
    if unknown and not any_width:
        raise ConfigError(unknown)
    pooled = output == "text"
    dim = config.dim
    window = config.embedding.window
    row = (2 * window + 1) * dim
    factorized = config.embedding.window_type == "factorized"
    width = dim if factorized else row
    shapes: dict[str, ParameterShape] = {TABLE: (config.text.num_rows, width)}
    if factorized:
        shapes["embedding.spread"] = (dim, row)
    if config.embedding.bias:
        shapes["embedding.bias"] = (dim,)
    for number, block in enumerate(config.blocks):
        shapes |= _block_shapes(block, f"layers.{number}", dim, config.text.max_len)
    pooling = config.head.pooling
    if pooled and pooling in ("attention", "all"):
        shapes |= _linear("head.score", dim, 1)
    shapes |= _linear("head.output", 3 * dim if pooled and pooling == "all" else dim, num_outputs)
    if output == "tags" and config.head.transitions:
        shapes["head.transitions"] = (num_outputs, num_outputs)

    places, ends = _places(shapes)

    def at(*names: str) -> list[int]:
        return [places.get(name, _ABSENT) for name in names]

    sublayers = [numbers for number, block in enumerate(config.blocks) for numbers in _sublayers(block, number, at)]
    fixed = [ends[-1], config.text.num_rows, width, dim, window, config.text.max_len, num_outputs]
    fixed += [_POOLINGS[pooling] if pooled else 0]
    fixed += at("embedding.spread", "embedding.bias", "head.score.weight", "head.score.bias")
    fixed += at("head.output.weight", "head.output.bias", "head.transitions")
    fixed += [min(round(config.head.dropout * _DRAWS), _DRAWS - 1)]
    numbers = np.array([*fixed, len(sublayers), *(number for one in sublayers for number in one)], np.int64)
    return NetworkPlan(
        shapes=shapes, places=places, size=ends[-1], ends=ends, numbers=numbers, knows_widths=not unknown
    )


def _check(config: ModelConfig, output: Output) -> None:
    """Refuse what the native steps do not know."""
    embedding = config.embedding
    head = config.head
    refused: dict[str, object] = {
        "text.projection": config.text.projection.fixed_dim is not None and config.text.projection.type,
        "text.tokens": output == "tags" and config.text.tokens != "words" and config.text.tokens,
        "embedding.positions": embedding.positions != "none" and embedding.positions,
        "embedding.norm": embedding.norm,
        "embedding.dropout": embedding.dropout,
        "final_norm": config.final_norm,
        "head.pooling": output == "text" and head.pooling not in _POOLINGS and head.pooling,
    }
    for number, block in enumerate(config.blocks):
        refused |= {f"layers.{number}.{key}": value for key, value in _refused_of(block).items()}
    for key, value in refused.items():
        if value:
            raise ConfigError(f"model.{key}: got {value!r}, which the native steps do not know")
    if output == "subwords":
        raise ConfigError(f"the native steps do not know the loss of {output}")


def _unknown_width(config: ModelConfig, num_outputs: int) -> str:
    """Return which width the native steps do not know; empty: they know all."""
    widths = {"dim": config.dim}
    for number, block in enumerate(config.blocks):
        if block.feed_forward is not None:
            widths[f"layers.{number}.feed_forward.ffn_dim"] = block.feed_forward.ffn_dim
    for key, width in widths.items():
        if width % _WIDE:
            return f"model.{key}: got {width}, which the native steps do not know"
    many = num_outputs > _MOST_OUTPUTS
    return f"the native steps know up to {_MOST_OUTPUTS:,} labels; got {num_outputs:,}" if many else ""


def _refused_of(block: BlockConfig) -> dict[str, object]:
    ffn = block.feed_forward
    unknown = [mixer.type for mixer in block.mixers if not isinstance(mixer, TokenMLPConfig) or mixer.window]
    return {
        "mixers": unknown,
        "norm": block.norm != "pre" and block.norm,
        "norm_type": block.norm_type != "layer" and block.norm_type,
        "dropout": block.dropout,
        "feed_forward.type": ffn is not None and ffn.type != "mlp" and ffn.type,
        "feed_forward.dropout": ffn is not None and ffn.dropout,
    }


def _linear(name: str, inputs: int, outputs: int, *, bias: bool = True) -> dict[str, ParameterShape]:
    shapes: dict[str, ParameterShape] = {f"{name}.weight": (outputs, inputs)}
    return {**shapes, f"{name}.bias": (outputs,)} if bias else shapes


def _norm(name: str, dim: int) -> dict[str, ParameterShape]:
    return {f"{name}.weight": (dim,), f"{name}.bias": (dim,)}


def _block_shapes(block: BlockConfig, name: str, dim: int, max_len: int) -> dict[str, ParameterShape]:
    shapes: dict[str, ParameterShape] = {}
    for number, mixer in enumerate(block.mixers):
        assert isinstance(mixer, TokenMLPConfig)
        shapes |= _norm(f"encoder.{name}.mixer_norms.{number}", dim)
        shapes |= _linear(f"encoder.{name}.mixers.{number}.expand", max_len, mixer.hidden_dim)
        shapes |= _linear(f"encoder.{name}.mixers.{number}.contract", mixer.hidden_dim, max_len)
    if (ffn := block.feed_forward) is not None:
        shapes |= _norm(f"encoder.{name}.feed_forward_norm", dim)
        shapes |= _linear(f"encoder.{name}.feed_forward.expand", dim, ffn.ffn_dim, bias=ffn.bias)
        shapes |= _linear(f"encoder.{name}.feed_forward.contract", ffn.ffn_dim, dim, bias=ffn.bias)
    return shapes


def _places(shapes: Mapping[str, ParameterShape]) -> tuple[dict[str, int], tuple[int, int, int]]:
    """Return where parameters begin, and where those with the same learning rate and weight decay end."""
    places: dict[str, int] = {}
    ends: list[int] = []
    end = 0
    for belongs in (_is_table, _is_matrix, _is_vector):
        for name, shape in shapes.items():
            if belongs(name, shape):
                places[name] = end
                end += -(-math.prod(shape) // _WIDE) * _WIDE
        ends.append(end)
    return places, (ends[0], ends[1], ends[2])


def _is_table(name: str, shape: ParameterShape) -> bool:
    return name == TABLE


def _is_matrix(name: str, shape: ParameterShape) -> bool:
    return name != TABLE and len(shape) > 1


def _is_vector(name: str, shape: ParameterShape) -> bool:
    return len(shape) == 1


def _sublayers(block: BlockConfig, number: int, at: Callable[..., list[int]]) -> list[list[int]]:
    """Return the numbers of a block's sublayers, in their order."""
    parts = ("expand.weight", "expand.bias", "contract.weight", "contract.bias")
    name = f"encoder.layers.{number}"
    out = []
    for index, mixer in enumerate(block.mixers):
        assert isinstance(mixer, TokenMLPConfig)
        norm = at(f"{name}.mixer_norms.{index}.weight", f"{name}.mixer_norms.{index}.bias")
        out.append([_TOKEN_MLP, mixer.hidden_dim, *norm, *at(*(f"{name}.mixers.{index}.{part}" for part in parts))])
    if (ffn := block.feed_forward) is not None:
        norm = at(f"{name}.feed_forward_norm.weight", f"{name}.feed_forward_norm.bias")
        out.append([_FEED_FORWARD, ffn.ffn_dim, *norm, *at(*(f"{name}.feed_forward.{part}" for part in parts))])
    return out
