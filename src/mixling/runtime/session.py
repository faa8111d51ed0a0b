"""Opening a saved model: every file that is not a sound one ends in `ModelFileError`, whatever its bytes are.

The file is untrusted: its graph is read (`onnx_file`) and what it would compute is bounded (`graph_limits`) before ONNX
Runtime sees it, and again for every new size of its inputs; its metadata is validated; and it must answer one small
batch before it is used. docs/security.md has what is promised.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mixling.config import Config, parse
from mixling.errors import ConfigError, DataError, ModelFileError, shown
from mixling.runtime.engine import Engine, Feed, Float32, first_line
from mixling.runtime.graph import FLOAT, INT32, Graph
from mixling.runtime.graph_limits import GraphLimits
from mixling.runtime.onnx_file import ONNX_FILE, read_file
from mixling.tasks import task_type
from mixling.tasks.base import Task
from mixling.text.config import TextConfig
from mixling.text.labels import LabelSet
from mixling.text.ngram_branch import NgramBranch, NgramMetadata
from mixling.text.tokenizer_file import rust_errors
from mixling.text.vocabulary import Vocabulary
from mixling.text.windows import MIN_LENGTH, ReadingConfig

FORMAT_VERSION = 1
MAX_BYTES = 2**31
MAX_ROW = 2**16
BRANCH = "ngrams."  # with which the names of the branch's arrays begin
TRIED_BAGS = 1, 2  # words and positions that a model is tried with when it is opened

Precision = Literal["int8", "float32"]
Int32 = npt.NDArray[np.int32]


class Metadata(Config):
    """The entry `mixling` of a model file's metadata, as JSON; `vocabulary_name` and `vocabulary` stand beside it."""

    format_version: Literal[1]
    library: str = Field(max_length=100, description="the version of mixling that wrote the file")
    task: str = Field(min_length=1, max_length=100)
    text: TextConfig
    labels: dict[str, Any]
    pairs: bool | None = Field(None, description="trained on pairs of texts; None: the file does not say")
    reading: ReadingConfig | None = Field(None, description="how questions are answered, of a model that does")
    precision: Precision
    parameters: int = Field(ge=0, description="of the network")
    ngrams: NgramMetadata | None = Field(None, description="of the linear model beside the network, if there is one")


@dataclass(frozen=True)
class OpenModel:
    """A model file that was found sound.

    name: its path, for messages.
    row_dim: R, floats of a word's summed row.
    has_weights: whether the words' bags have weights.
    branch: the linear model of n-grams, whose logits belong to those of the graph.
    """

    name: str
    metadata: Metadata
    task: Task
    vocabulary: Vocabulary
    row_dim: int
    has_weights: bool
    engine: Engine
    limits: GraphLimits
    branch: NgramBranch | None = None

    def rows(self, positions: Int32, weights: Float32 | None) -> Float32:
        """The summed rows (U, R) of words given as bags (U, P); raises ModelFileError as `logits`."""
        self._check(self.limits.check_rows, positions)
        cached = np.zeros((1, self.row_dim), np.float32)
        return self.engine.run("rows", _feed(cached, positions, weights, np.ones((1, 1), np.int32)), only_path=True)

    def logits(self, rows: Float32, index: Int32) -> Float32:
        """Logits (B, C) or (B, N, C); `index` (B, N) is 0 for padding, else 1 + the number of a row of `rows`.

        Raises:
            ModelFileError: the graph cannot be run, or asks for more memory or work than a model may.
        """
        self._check(self.limits.check_logits, index)
        positions = np.zeros((0, 1), np.int32)
        weights = np.zeros((0, 1), np.float32) if self.has_weights else None
        return self.engine.run("logits", _feed(rows, positions, weights, index))

    def _check(self, check: Callable[[int, int], None], feed: Int32) -> None:
        try:
            check(*feed.shape)
        except ValueError as error:
            raise ModelFileError(f"{self.name}: the graph cannot be run: {error}") from None


def _feed(cached: Float32, positions: Int32, weights: Float32 | None, index: Int32) -> Feed:
    feed: Feed = {"cached": cached, "positions": positions, "index": index}
    return feed if weights is None else {**feed, "weights": weights}


def open_model(path: str | Path | bytes, *, num_threads: int = 1) -> OpenModel:
    """Read a model: a folder that holds `model.onnx`, such a file, or its bytes.

    Raises:
        ModelFileError: missing, empty, damaged, of a newer format, hostile, or not a model of ours; names the path.
    """
    data, name = (path, "the model's bytes") if isinstance(path, bytes) else _read(Path(path))
    try:
        model = _open(data, name, num_threads)
    except (ModelFileError, ValueError) as error:
        raise ModelFileError(f"{name}: {error}") from None
    _try_out(model)
    return model


def _read(path: Path) -> tuple[bytes, str]:
    try:
        if path.is_dir():
            path = path / ONNX_FILE
            if not path.exists():
                raise ModelFileError(f"{path.parent}: the folder holds no {ONNX_FILE}; a saved model's folder does")
        if not path.exists():
            raise ModelFileError(
                f"{path}: there is no such file or folder; give a saved model's folder or its {ONNX_FILE}"
            )
        if not path.is_file():
            raise ModelFileError(f"{path}: is not a regular file; give a saved model's folder or its {ONNX_FILE}")
        size = path.stat().st_size
        if not size:
            raise ModelFileError(f"{path}: is empty")
        if size > MAX_BYTES:
            raise ModelFileError(f"{path}: has {size:,} bytes; model files have at most {MAX_BYTES:,}")
        return path.read_bytes(), str(path)
    except (OSError, ValueError, MemoryError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise ModelFileError(f"{path}: cannot be read: {reason}") from None


def _open(data: bytes, name: str, num_threads: int) -> OpenModel:
    entries, graph = read_file(data)
    metadata = _metadata(entries)
    task = _task(metadata)
    if task.windows != (metadata.reading is not None):
        raise ModelFileError("its metadata has answers to find but not how, or the other way round")
    if task.windows and metadata.text.max_len < MIN_LENGTH:
        raise ModelFileError(f"it reads {metadata.text.max_len} tokens; to answer questions {MIN_LENGTH} are needed")
    vocabulary = _vocabulary(entries)
    branch = _branch(metadata, task, _take_branch(graph))
    has_weights = metadata.text.projection.weighted
    row_dim = _check_signature(graph, has_weights=has_weights)
    limits = GraphLimits(graph, row_dim)
    limits.check_rows(*TRIED_BAGS)
    limits.check_logits(*_tried_texts(metadata))
    engine = Engine(data, name, num_nodes=len(graph.nodes), num_threads=num_threads)
    return OpenModel(name, metadata, task, vocabulary, row_dim, has_weights, engine, limits, branch)


def _metadata(entries: dict[str, str]) -> Metadata:
    missing = [key for key in ("mixling", "vocabulary_name", "vocabulary") if key not in entries]
    if missing:
        raise ModelFileError(f"is not a mixling model: its metadata has no {', '.join(missing)}")
    try:
        values = json.loads(entries["mixling"])
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"its metadata is not JSON: {first_line(error)}") from None
    version = values.get("format_version") if isinstance(values, dict) else None
    if type(version) is not int or version < 1:
        raise ModelFileError("its metadata names no format version")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"has format version {version}; this version of mixling reads version {FORMAT_VERSION}: upgrade mixling"
        )
    try:
        metadata = parse(Metadata, values, where="its metadata")
        _ = metadata.text.num_rows
        return metadata
    except (ConfigError, RecursionError) as error:
        raise ModelFileError(first_line(error)) from None


def _task(metadata: Metadata) -> Task:
    labels = LabelSet.from_dict(metadata.labels)
    try:
        kind = task_type(metadata.task)
    except ConfigError as error:
        raise ModelFileError(f"its task is not installed here: {error}") from None
    if labels.kind != kind.kind:
        raise ModelFileError(f"labels: got kind {shown(labels.kind)}; those of {kind.name} are of kind {kind.kind!r}")
    try:
        return kind(labels)
    except DataError as error:
        raise ModelFileError(f"labels: {error}") from None


def _take_branch(graph: Graph) -> dict[str, npt.NDArray]:
    """The arrays of the branch, which are no part of the graph: a node that reads one is refused like any unknown."""
    names = [name for name in graph.weights if name.startswith(BRANCH)]
    return {name.removeprefix(BRANCH): graph.weights.pop(name).array() for name in names}


def _branch(metadata: Metadata, task: Task, arrays: dict[str, npt.NDArray]) -> NgramBranch | None:
    if (metadata.ngrams is None) != (not arrays):
        raise ModelFileError("its metadata names an n-gram branch that it has not, or the other way round")
    if metadata.ngrams is None:
        return None
    if not task.has_scores:
        raise ModelFileError(f"it has an n-gram branch, which models of {task.name} have not")
    if metadata.ngrams.min_n > metadata.ngrams.max_n:
        raise ModelFileError(f"its n-grams have {metadata.ngrams.min_n} to {metadata.ngrams.max_n} characters")
    return NgramBranch.from_arrays(arrays, task.num_scores)


def _vocabulary(entries: dict[str, str]) -> Vocabulary:
    with rust_errors(ModelFileError, "its vocabulary cannot be used"):
        return Vocabulary.parse(entries["vocabulary_name"][:100], entries["vocabulary"])


def _check_signature(graph: Graph, *, has_weights: bool) -> int:
    """The values of a word's row, R; refuses a graph whose inputs and outputs are not those of a model."""
    expected = {"cached": (FLOAT, 2), "positions": (INT32, 2), "index": (INT32, 2)}
    if has_weights:
        expected["weights"] = (FLOAT, 2)
    found = {name: (kind, len(sizes)) for name, (kind, sizes) in graph.inputs.items()}
    if found != expected:
        raise ModelFileError(
            f"the graph's inputs (type, dimensions) are {str(found)[:200]}; a model with this projection has {expected}"
        )
    if list(graph.outputs) != ["logits", "rows"]:
        raise ModelFileError(f"the graph's outputs are {str(list(graph.outputs))[:200]}; a model has logits and rows")
    width = graph.inputs["cached"][1][1]
    if width is None or not 0 < width <= MAX_ROW:
        raise ModelFileError(f"the rows of words have {width} values; allowed: 1 to {MAX_ROW:,}")
    for name, (_, sizes) in [*graph.inputs.items(), *graph.outputs.items()]:
        free = sizes if name in ("positions", "weights", "index") else sizes[:-1]
        if any(size is not None for size in free):  # ONNX Runtime would compute with it when it opens the file
            raise ModelFileError(f"the graph takes or gives {name} of the sizes {sizes}; those of a model are free")
    return width


def _tried_texts(metadata: Metadata) -> tuple[int, int]:
    """The texts that a model is tried with, and their tokens."""
    return 2, min(2, metadata.text.max_len)


def _try_out(model: OpenModel) -> None:
    """Run the graph on a word of the highest position in two texts, one of two words and one of one."""
    highest = model.metadata.text.num_rows - 1
    if highest >= 2**31:
        raise ModelFileError(f"{model.name}: its projection has {highest + 1:,} features; allowed: up to {2**31:,}")
    positions = np.full(TRIED_BAGS, highest, np.int32)
    rows = model.rows(positions, np.ones(TRIED_BAGS, np.float32) if model.has_weights else None)
    if rows.shape != (1, model.row_dim) or rows.dtype != np.float32:
        raise ModelFileError(f"{model.name}: the graph answers with rows {rows.shape}; expected {(1, model.row_dim)}")
    _, length = _tried_texts(model.metadata)
    index = np.array([[1, 1], [1, 0]], np.int32)[:, :length]
    logits = model.logits(rows, index)
    expected = model.task.logits_shape(2, length)
    if logits.shape != expected or logits.dtype != np.float32:
        raise ModelFileError(
            f"{model.name}: the graph answers with logits {logits.shape}; "
            f"expected {expected}, for {len(model.task.labels)} labels of kind {model.task.kind!r}"
        )
