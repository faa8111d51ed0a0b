"""Export a trained model as one ONNX file, complete with vocabulary, labels and configuration.

The graph's inputs are `cached` (K, R) float32, the summed rows of words in the caller's cache; `positions` (U, P)
int32, the feature indices of new words, with `weights` (U, P) float32 unless all are one; `index` (B, N) int32, 0 for
padding, otherwise 1 + the index of the token's word in [cached, new]. Outputs: `logits` (B, C) or (B, N, C), and `rows`
(U, R), the sums of new words for the cache. K, U, P, B and N are variable; K and U may be 0. R = (2w+1) D.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.answers.labels import LabelSet
from mixling.errors import UserError
from mixling.export.native import native_plan
from mixling.export.quantize import quantize, quantize_graph
from mixling.export.write import write_graph
from mixling.installation import install_command
from mixling.models.heads import TokenHead
from mixling.models.model import Model, count_parameters
from mixling.runtime.onnx.extra_arrays import BRANCH, TRANSITIONS
from mixling.runtime.onnx.file import OPSET, seal
from mixling.runtime.onnx.session import MODEL_FORMAT, Metadata
from mixling.text.config import TextConfig
from mixling.text.ngram_branch import NgramBranch, NgramMetadata
from mixling.text.vocabulary import Vocabulary
from mixling.text.windows import ReadingConfig
from mixling.version import __version__

IR_VERSION = 10


class ExportedModel(nn.Module):
    """The complete graph, from bags of words to rows to logits.

    In 8 bits, a row is a sum of integers (exact in float32 below 2^24) times one scale per column. It does not depend
    on the order of the sum, so it is the same in every runtime and cache.
    """

    def __init__(self, model: Model, *, precision: Literal["int8", "float32"], has_weights: bool) -> None:
        super().__init__()
        self.table: Tensor
        self.scale: Tensor | None
        self.model = model
        self.has_weights = has_weights
        table = model.embedding.table().detach()
        self.register_buffer("scale", None)
        if precision == "int8":
            integers, scale = quantize(table.numpy(), axis=1)
            table = torch.from_numpy(integers)
            self.scale = torch.from_numpy(scale)
        self.register_buffer("table", table)
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


def export_onnx(
    model: Model,
    *,
    text: TextConfig,
    task: str,
    labels: LabelSet,
    vocabulary: Vocabulary,
    precision: Literal["int8", "float32"],
    pairs: bool | None = None,
    reading: ReadingConfig | None = None,
) -> bytes:
    """Return the bytes of `model.onnx`, which `mixling.runtime` reads; equal models give equal bytes.

    Args:
        model: on any device and in any mode; not modified.
        text: how the model's texts were encoded in training.
        task: the name of the task.
        labels: the names of the task's outputs.
        vocabulary: the vocabulary of the model's encoder.
        precision: "int8" stores weights in 8 bits (a quarter of the size), "float32" without change.
        pairs: whether the training texts were pairs, so that a predictor rejects the other kind; None: unknown.
        reading: how questions are answered; None: the model does not answer questions.

    Raises:
        UserError: the packages for exporting are not installed.
    """
    _require("onnx")
    from onnx import ModelProto, OperatorSetIdProto, helper, numpy_helper

    has_weights = text.projection.weighted
    metadata = Metadata(
        format_version=MODEL_FORMAT,
        library=__version__,
        task=task,
        text=text,
        labels=labels.to_dict(),
        pairs=pairs,
        reading=reading,
        precision=precision,
        parameters=count_parameters(model),
    )
    frozen = copy.deepcopy(model).cpu().float().eval()
    exported = ExportedModel(frozen, precision=precision, has_weights=has_weights)
    graph = write_graph(frozen, exported.table, exported.scale, has_weights=has_weights)
    if graph is None:
        graph = trace(exported, max_len=text.max_len)
    plan = native_plan(frozen, graph, exported.table, exported.scale)
    if precision == "int8":
        quantize_graph(graph)
    _strip(graph)
    if isinstance(frozen.head, TokenHead) and frozen.head.transitions is not None:
        graph.initializer.append(numpy_helper.from_array(frozen.head.transitions.detach().numpy(), TRANSITIONS))
    proto = ModelProto(
        ir_version=IR_VERSION,
        producer_name="mixling",
        producer_version=__version__,
        opset_import=[OperatorSetIdProto(domain="", version=OPSET)],
        graph=graph,
    )
    name, content = vocabulary.serialize()
    entries = {
        "mixling": _json(metadata.to_dict()),
        "vocabulary_name": name,
        "vocabulary": content,
    }
    if plan is not None:
        entries["native"] = json.dumps(plan, sort_keys=True)
    helper.set_model_props(proto, entries)
    return seal(proto.SerializeToString(deterministic=True))


def amend(
    content: bytes,
    *,
    branch: tuple[NgramBranch, NgramMetadata] | None = None,
    **values: Any,
) -> bytes:
    """Return a model file, the bytes of `model.onnx`, with something added that was fitted after the export.

    Args:
        content: a file without the additions.
        branch: a linear n-gram branch.
        values: entries of `Metadata`, such as `threshold`.
    """
    from onnx import ModelProto, numpy_helper

    proto = ModelProto.FromString(content)
    entries = {item.key: item for item in proto.metadata_props}
    metadata = json.loads(entries["mixling"].value)
    proto.metadata_props.remove(proto.metadata_props[-1])  # the checksum trailer
    if branch is not None:
        assert metadata["ngrams"] is None, "there is a branch already"
        metadata["ngrams"] = branch[1].to_dict()
        for name, array in branch[0].to_arrays().items():
            proto.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), f"{BRANCH}{name}"))
    metadata |= values
    entries["mixling"].value = _json(metadata)
    return seal(proto.SerializeToString(deterministic=True))


def _json(metadata: dict[str, Any]) -> str:
    return json.dumps(metadata, ensure_ascii=False, sort_keys=True)


def trace(module: ExportedModel, *, max_len: int) -> Any:
    """Return the GraphProto of a model that has parts without a writer."""
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
    graph = program.model_proto.graph
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


def _strip(graph: Any) -> None:
    """Remove the exporter's debugging information: stack traces, generated names, local paths."""
    graph.name = "mixling"
    del graph.value_info[:]
    for item in (graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        del item.metadata_props[:]
        item.ClearField("doc_string")
    for node in graph.node:
        node.ClearField("name")


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
        raise UserError(f"export needs the package {error.name}; run {install_command('train')}") from None
