"""A trained model as one ONNX file, complete with vocabulary, labels and configuration.

The graph's inputs are `cached` (K, R) float32, summed rows of words that the caller has; `positions` (U, P) int32, the
bags of words that it has not, with `weights` (U, P) float32 unless all are one; `index` (B, N) int32, for each token 0
for padding or 1 + the number of its word in [cached, new]. Outputs: `logits` (B, C) or (B, N, C), and `rows` (U, R),
the new words' sums, for the caller's cache. All of K, U, P, B and N are free, K and U may be 0. R = (2w+1) D.
"""

from __future__ import annotations

import contextlib
import copy
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

from mixling.errors import UserError
from mixling.export.quantize import quantize, quantize_graph
from mixling.models.model import Model, count_parameters
from mixling.runtime.onnx_file import OPSET, seal
from mixling.runtime.session import BRANCH, FORMAT_VERSION, Metadata
from mixling.text.config import TextConfig
from mixling.text.labels import LabelSet
from mixling.text.ngram_branch import NgramBranch, NgramMetadata
from mixling.text.vocabulary import Vocabulary
from mixling.text.windows import ReadingConfig
from mixling.version import __version__

IR_VERSION = 10


class ExportedModel(nn.Module):
    """The whole graph: bags of words -> rows -> logits.

    In 8 bits a row is the sum of integers, which float32 holds exactly below 2^24, times one scale a column: it
    does not depend on the order of the sum, so that every runtime and every cache has the same row.
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
            table, self.scale = torch.from_numpy(integers), torch.from_numpy(scale)
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
        return self.model.from_rows(known, index, index.bool()), rows


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
    """The bytes of `model.onnx`, which `mixling.runtime` reads; equal models give equal bytes.

    Args:
        model: of any device and mode, and left as it is.
        text: how the model's texts were encoded in training.
        task: the task's name, kept for the reader.
        precision: "int8" stores weights in 8 bits (a quarter of the size); "float32" stores them as they are.
        pairs: whether the training texts were pairs: the reader refuses the other kind; None: not known.
        reading: how questions are answered, of a model that does.

    Raises:
        UserError: the packages that export needs are not installed.
    """
    _require()
    from onnx import ModelProto, OperatorSetIdProto, helper

    has_weights = text.projection.weighted
    metadata = Metadata(
        format_version=FORMAT_VERSION,
        library=__version__,
        task=task,
        text=text,
        labels=labels.to_dict(),
        pairs=pairs,
        reading=reading,
        precision=precision,
        parameters=count_parameters(model),
    )
    still = copy.deepcopy(model).cpu().float().eval()
    graph = _trace(ExportedModel(still, precision=precision, has_weights=has_weights), max_len=text.max_len)
    if precision == "int8":
        quantize_graph(graph)
    _strip(graph)
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
    helper.set_model_props(proto, entries)
    return seal(proto.SerializeToString(deterministic=True))


def add_branch(content: bytes, branch: NgramBranch, ngrams: NgramMetadata) -> bytes:
    """Return a model file without a branch, the bytes of `model.onnx`, with one."""
    from onnx import ModelProto, numpy_helper

    proto = ModelProto.FromString(content)
    entries = {item.key: item for item in proto.metadata_props}
    metadata = json.loads(entries["mixling"].value)
    assert metadata.get("ngrams") is None, "there is a branch already"
    entries["mixling"].value = _json({**metadata, "ngrams": ngrams.to_dict()})
    proto.metadata_props.remove(proto.metadata_props[-1])  # the seal
    for name, array in branch.to_arrays().items():
        proto.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), f"{BRANCH}{name}"))
    return seal(proto.SerializeToString(deterministic=True))


def _json(metadata: dict[str, Any]) -> str:
    return json.dumps(metadata, ensure_ascii=False, sort_keys=True)


def _trace(module: ExportedModel, *, max_len: int) -> Any:
    """The GraphProto of a module."""
    # Two texts, because a dimension of size 1 is taken for a constant; so is a length of one or of `max_len`.
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
    """Empty what torch keeps of an export for the life of the process: 9,000 objects, which no other export reads.

    They are results of operations by the export's own symbolic sizes.
    """
    assert program.exported_program is not None
    for node in program.exported_program.graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        cache = getattr(getattr(mode, "shape_env", None), "fake_tensor_cache", None)
        if cache is not None:
            cache.clear()


def _strip(graph: Any) -> None:
    """Take out what the exporter notes for debugging: stack traces, names of its own, paths of the machine."""
    graph.name = "mixling"
    del graph.value_info[:]
    for item in (graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        del item.metadata_props[:]
        item.ClearField("doc_string")
    for node in graph.node:
        node.ClearField("name")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter's warnings are about itself; what it cannot do it raises."""
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


def _require() -> None:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UserError(f'export needs the package {error.name}; pip install "mixling[train]"') from None
