"""Export a trained model as one ONNX file, complete with vocabulary, labels and configuration.

The graph's inputs are `cached` (K, R) float32, the summed rows of words in the caller's cache; `positions` (U, P)
int32, the feature indices of new words, with `weights` (U, P) float32 unless all are one; `index` (B, N) int32, 0 for
padding, otherwise 1 + the index of the token's word in [cached, new]. Outputs: `logits` (B, C) or (B, N, C), and `rows`
(U, R), the sums of new words for the cache. K, U, P, B and N are variable; K and U may be 0. R = (2w+1) D.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from typing import Any, Literal

import numpy.typing as npt

from mixling.answers.labels import LabelSet
from mixling.export.encode import add_to_model, encode_model
from mixling.export.layers import Unknown, layers_of, table_of
from mixling.export.native import native_plan
from mixling.export.quantize import quantize, quantize_graph
from mixling.export.write import write_graph
from mixling.features.columns import Columns
from mixling.networks.network import TRANSITION_SCORES, TextNetwork
from mixling.runtime.onnx.extra_arrays import BRANCH, COLUMN_WEIGHTS, COLUMNS_ENTRY, TRANSITIONS
from mixling.runtime.onnx.file import SEAL_KEY, read_metadata
from mixling.runtime.onnx.session import MODEL_FORMAT, Metadata
from mixling.text.config import TextConfig
from mixling.text.ngram_branch import NgramBranch, NgramMetadata
from mixling.text.vocabulary import Vocabulary
from mixling.text.windows import ReadingConfig
from mixling.version import __version__


def export_onnx(
    network: TextNetwork,
    *,
    text: TextConfig,
    task: str,
    labels: LabelSet,
    vocabulary: Vocabulary,
    precision: Literal["int8", "float32"],
    pairs: bool | None = None,
    texts: Sequence[str] = (),
    reading: ReadingConfig | None = None,
) -> bytes:
    """Return the bytes of `model.onnx`, which `mixling.runtime` reads; equal models give equal bytes.

    Args:
        network: on any device; not modified.
        text: how the model's texts were encoded in training.
        task: the name of the task.
        labels: the names of the task's outputs.
        vocabulary: the vocabulary of the model's encoder.
        precision: "int8" stores weights in 8 bits (a quarter of the size), "float32" without change.
        pairs: whether several texts belonged together, so that a predictor rejects other numbers; None: unknown.
        texts: the names of these texts; empty: those of a pair without names.
        reading: how questions are answered; None: the model does not answer questions.

    Raises:
        UserError: the model has to be traced, and the packages for that are not installed.
    """
    has_weights = text.projection.weighted
    metadata = Metadata(
        format_version=MODEL_FORMAT,
        library=__version__,
        task=task,
        text=text,
        labels=labels.to_dict(),
        pairs=pairs,
        texts=tuple(texts),
        reading=reading,
        precision=precision,
        parameters=network.num_parameters,
    )
    weights = network.weights()
    module = network.module()
    try:
        layers = layers_of(network, weights, module)
    except Unknown:
        layers = None
    table: npt.NDArray[Any] = table_of(weights)
    scale = None
    if precision == "int8":
        table, scale = quantize(table, axis=1)
    graph = None if layers is None else write_graph(layers, table, scale, has_weights=has_weights)
    if graph is None:
        tracing = importlib.import_module("mixling.export.trace")
        traced = tracing.ExportedModel(module, table, scale, has_weights=has_weights)
        graph = tracing.trace(traced, max_len=text.max_len)
    plan = None if layers is None else native_plan(layers, graph, table, scale)
    if precision == "int8":
        quantize_graph(graph)
    if TRANSITION_SCORES in weights:
        graph.weights[TRANSITIONS] = weights[TRANSITION_SCORES]
    name, content = vocabulary.serialize()
    entries = {
        "mixling": _json(metadata.to_dict()),
        "vocabulary_name": name,
        "vocabulary": content,
    }
    if plan is not None:
        entries["native"] = json.dumps(plan, sort_keys=True)
    return encode_model(graph, entries, producer=("mixling", __version__))


def amend(
    content: bytes,
    *,
    branch: tuple[NgramBranch, NgramMetadata] | None = None,
    columns: Columns | None = None,
    **values: Any,
) -> bytes:
    """Return a model file, the bytes of `model.onnx`, with something added that was fitted after the export.

    Args:
        content: a file without the additions.
        branch: a linear n-gram branch.
        columns: beside the texts, which the branch has weights of.
        values: entries of `Metadata`, such as `threshold`.
    """
    entries = read_metadata(content)
    metadata = json.loads(entries["mixling"])
    arrays: dict[str, npt.NDArray[Any]] = {}
    if branch is not None:
        assert metadata["ngrams"] is None, "there is a branch already"
        metadata["ngrams"] = branch[1].to_dict()
        arrays = {f"{BRANCH}{name}": array for name, array in branch[0].to_arrays().items()}
    if branch is not None and columns is not None and branch[0].columns is not None:
        entries[COLUMNS_ENTRY] = columns.description
        arrays[COLUMN_WEIGHTS] = branch[0].columns
    entries["mixling"] = _json(metadata | values)
    del entries[SEAL_KEY]
    return add_to_model(content, arrays, entries)


def _json(metadata: dict[str, Any]) -> str:
    return json.dumps(metadata, ensure_ascii=False, sort_keys=True)
