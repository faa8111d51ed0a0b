"""The graph of a model that has layers without a writer, traced by PyTorch."""

from __future__ import annotations

import contextlib
import importlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.errors import UserError
from mixling.export.graph_builder import WrittenGraph
from mixling.installation import install_command
from mixling.models.model import Model
from mixling.runtime.onnx.file import OPSET
from mixling.runtime.onnx.graph import Node


class ExportedModel(nn.Module):
    """The complete graph, from bags of words to rows to logits.

    In 8 bits, a row is a sum of integers (exact in float32 below 2^24) times one scale per column. It does not depend
    on the order of the sum, so it is the same in every runtime and cache.
    """

    def __init__(
        self, model: Model, table: npt.NDArray[Any], scale: npt.NDArray[Any] | None, *, has_weights: bool
    ) -> None:
        super().__init__()
        self.table: Tensor
        self.scale: Tensor | None
        self.model = model
        self.has_weights = has_weights
        self.register_buffer("scale", None if scale is None else torch.from_numpy(scale))
        self.register_buffer("table", torch.from_numpy(table))
        spread = model.embedding.spread
        self.row_dim = table.shape[1] if spread is None else spread.shape[1]

    def forward(
        self,
        cached: Float[Tensor, "K R"],
        positions: Int[Tensor, "U P"],
        index: Int[Tensor, "B N"],
        weights: Float[Tensor, "U P"] | None = None,
    ) -> tuple[Tensor, Float[Tensor, "U R"]]:
        parts = F.embedding(positions, self.table).float()
        rows = (parts if weights is None else parts * weights[..., None]).sum(1)
        if self.scale is not None:
            rows = rows * self.scale
        rows = self.model.embedding.spread_rows(rows)
        known = torch.cat([torch.zeros(1, rows.shape[1]), cached, rows])
        logits = self.model.from_rows(known, index, index.bool())
        assert isinstance(logits, Tensor), "transitions are returned in training only"
        return logits, rows


def trace(module: ExportedModel, *, max_len: int) -> WrittenGraph:
    """Return the graph of a model.

    Raises:
        UserError: the packages for tracing are not installed.
    """
    _require("onnx")
    _require("onnxscript")
    # Two texts, because a dimension of size 1 is treated as constant, and so is a length of 1 or `max_len`.
    length = min(max(2, max_len // 2), max_len)
    example = {
        "cached": torch.zeros(3, module.row_dim),
        "positions": torch.zeros(4, 5, dtype=torch.int32),
        "index": torch.ones(2, length, dtype=torch.int32),
    }
    free: dict[str, dict[int, str]] = {
        "cached": {0: "cached_words"},
        "positions": {0: "new_words", 1: "bag"},
        "index": {0: "texts", 1: "tokens"},
    }
    if module.has_weights:
        example["weights"] = torch.ones(4, 5)
        free["weights"] = {0: "new_words", 1: "bag"}
    with _quiet():
        program = torch.onnx.export(
            module.eval(),
            kwargs=example,
            dynamo=True,
            opset_version=OPSET,
            input_names=list(example),
            output_names=["logits", "rows"],
            dynamic_shapes=free,
            verbose=False,
        )
    assert program is not None
    graph = graph_of(program.model_proto.graph)
    _forget(program)
    return graph


def _forget(program: torch.onnx.ONNXProgram) -> None:
    """Clear what torch would keep of an export until the process ends: 9,000 results for its own symbolic sizes."""
    assert program.exported_program is not None
    for node in program.exported_program.graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        cache = getattr(getattr(mode, "shape_env", None), "fake_tensor_cache", None)
        if cache is not None:
            cache.clear()


def graph_of(proto: Any) -> WrittenGraph:
    """Return a GraphProto as the writers' graph, without names of nodes, traces and local paths."""
    from onnx import helper, numpy_helper

    def value(attribute: Any) -> Any:
        found = helper.get_attribute_value(attribute)
        if isinstance(found, bytes):
            return found.decode()
        return numpy_helper.to_array(found) if attribute.type == attribute.TENSOR else found

    def sizes(info: Any) -> tuple[int | str, ...]:
        return tuple(size.dim_param or size.dim_value for size in info.type.tensor_type.shape.dim)

    return WrittenGraph(
        nodes=[
            Node(one.op_type, tuple(one.input), tuple(one.output), {each.name: value(each) for each in one.attribute})
            for one in proto.node
        ],
        weights={one.name: numpy_helper.to_array(one) for one in proto.initializer},
        inputs={one.name: (one.type.tensor_type.elem_type, sizes(one)) for one in proto.input},
        outputs={one.name: sizes(one) for one in proto.output},
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's warnings, which concern only itself; problems are raised as errors."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def _require(package: str) -> None:
    try:
        importlib.import_module(package)
    except ImportError as error:
        raise UserError(f"export needs the package {error.name}; run {install_command('torch')}") from None
