"""Open a saved model; every invalid file raises `ModelFileError`, whatever its bytes are.

The file is not trusted: before ONNX Runtime sees it, its graph is parsed (`onnx_file`) and its computation is bounded
(`graph_limits`), and again for every new size of its inputs; its metadata is validated; and it must process one small
batch before it is used. docs/security.md has the guarantees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from mixling.answers.conformal import ConformalSets
from mixling.answers.decision import DecisionRule
from mixling.answers.labels import LabelSet
from mixling.arrays import Float32, Int32
from mixling.config import Config, parse
from mixling.drift.profile import Profile
from mixling.errors import ConfigError, DataError, ModelFileError, near_miss, shown
from mixling.features.columns import Columns
from mixling.hub import on_hub
from mixling.opening import read_regular
from mixling.runtime.hub_model import fetch_model
from mixling.runtime.native import NativeEngine, open_native
from mixling.runtime.onnx.engine import Engine, Feed, first_line, require_onnxruntime
from mixling.runtime.onnx.extra_arrays import COLUMNS_ENTRY, take_branch, take_columns, take_transitions
from mixling.runtime.onnx.file import MAX_MODEL_BYTES, read_model_file
from mixling.runtime.onnx.graph import FLOAT, INT32, Graph
from mixling.runtime.onnx.limits import GraphLimits
from mixling.runtime.quick import ONNX_FILE
from mixling.storage import parse_json
from mixling.tasks import task_type
from mixling.tasks.base import Task
from mixling.text.config import MOST_TOGETHER, TextConfig, default_names
from mixling.text.ngram_branch import NgramBranch, NgramMetadata
from mixling.text.vocabulary import Vocabulary
from mixling.text.windows import MIN_WINDOW, ReadingConfig

MODEL_FORMAT = 1
MAX_ROW_DIM = 2**16
TRIED_BAGS = 1, 2  # words and feature indices of the batch on opening

Precision = Literal["int8", "float32"]


class Metadata(Config):
    """The JSON entry `mixling` of a model file's metadata, next to `vocabulary_name` and `vocabulary`."""

    format_version: Literal[1]
    library: str = Field(max_length=100, description="the version of mixling that wrote the file")
    task: str = Field(min_length=1, max_length=100)
    text: TextConfig
    labels: dict[str, Any]
    pairs: bool | None = Field(default=None, description="trained on several texts that belong together; None: unknown")
    texts: tuple[str, ...] = Field(
        default=(),
        max_length=MOST_TOGETHER,
        description="the names of these texts; empty: of a pair, text and text_pair",
    )
    reading: ReadingConfig | None = Field(default=None, description="how questions are answered; None: they are not")
    precision: Precision
    parameters: int = Field(ge=0, description="of the network")
    threshold: float | None = Field(
        default=None, ge=0, le=1, description="top probability below which predictions abstain; None: they never do"
    )
    label_thresholds: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(
        default={}, description="probabilities from which labels are predicted, where several are possible"
    )
    conformal: ConformalSets | None = Field(
        default=None, description="makes sets of labels; None: predictions have none"
    )
    rule: DecisionRule | None = Field(
        default=None, description="which label is the answer; None: the most probable one"
    )
    ngrams: NgramMetadata | None = Field(
        default=None, description="of the linear model beside the network, if there is one"
    )
    profile: Profile | None = Field(default=None, description="of the data, for `mixling drift`")

    @property
    def text_names(self) -> tuple[str, ...] | None:
        """The names of the texts that belong together, or of the only one; None: the number is unknown."""
        return None if self.pairs is None else (self.texts or default_names(1 + self.pairs))

    @model_validator(mode="after")
    def _texts_are_several(self) -> Metadata:
        if self.texts and (not self.pairs or len(set(self.texts)) < max(len(self.texts), 2)):
            raise ValueError(f"texts: got {', '.join(self.texts)}; allowed: different names, of two texts or more")
        if self.text.segments and len(self.text_names or ()) > self.text.segments:
            raise ValueError(f"text.segments: got {self.text.segments} for {len(self.texts)} texts")
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; `texts` only where they have names of their own, as not all versions know them."""
        values = super().to_dict()
        return values if self.texts else {key: value for key, value in values.items() if key != "texts"}


@dataclass(frozen=True)
class OpenModel:
    """A validated model file.

    Attributes:
        name: its path, for messages.
        row_dim: R, values of a word's summed row.
        has_weights: whether the words' bags have weights.
        native: computes the logits of whole texts if it can; otherwise `no_native` is the reason.
        branch: the linear model of n-grams, whose logits are added to the graph's.
        columns: beside the texts, which the branch has weights of; None: there are none.
    """

    name: str
    metadata: Metadata
    task: Task
    vocabulary: Vocabulary
    row_dim: int
    has_weights: bool
    engine: Engine
    limits: GraphLimits
    native: NativeEngine | None
    no_native: str
    branch: NgramBranch | None = None
    columns: Columns | None = None

    def rows(self, positions: Int32, weights: Float32 | None) -> Float32:
        """Return the summed rows (U, R) of words with bags (U, P); raise a ModelFileError as `logits` does."""
        self._check(self.limits.check_rows, positions)
        cached = np.zeros((1, self.row_dim), np.float32)
        return self.engine.run("rows", _feed(cached, positions, weights, np.ones((1, 1), np.int32)), only_path=True)

    def logits(self, rows: Float32, index: Int32) -> Float32:
        """Return logits (B, C) or (B, N, C); `index` (B, N) is 0 for padding, otherwise 1 + the index of a row.

        Raises:
            ModelFileError: the graph cannot be run, or requires more memory or work than a model may.
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


def open_model(
    path: str | Path | bytes,
    *,
    num_threads: int = 1,
    name: str = "the model's bytes",
    native: NativeEngine | None = None,
) -> OpenModel:
    """Open a model: a folder with a `model.onnx`, such a file, or its bytes.

    Args:
        path: may be a name on the hub, `hf:NAME[@REVISION]`.
        name: of bytes, for messages.
        native: the native engine of the model, if it was opened before.

    Raises:
        ModelFileError: the file is missing, empty, damaged, of a newer format, hostile, or not a mixling model.
    """
    if on_hub(path):
        path = fetch_model(str(path))
    data, name = (path, name) if isinstance(path, bytes) else _read(Path(path))
    try:
        model = _open(data, name, num_threads, native)
    except (ModelFileError, ValueError) as error:
        raise ModelFileError(f"{name}: {error}") from None
    if model.native is None:
        _try_out(model)
    return model


def _read(path: Path) -> tuple[bytes, str]:
    try:
        if path.is_dir():
            path = path / ONNX_FILE
            if not path.exists():
                raise ModelFileError(f"{path.parent}: has no {ONNX_FILE}; pass the folder of a model of labeled texts")
        if not path.exists():
            raise ModelFileError(f"{path}: no such file or folder; pass the folder of a saved model or its {ONNX_FILE}")
        if not path.is_file():
            raise ModelFileError(f"{path}: is not a regular file; pass the folder of a saved model or its {ONNX_FILE}")
        size = path.stat().st_size
        if not size:
            raise ModelFileError(f"{path}: is empty")
        if size > MAX_MODEL_BYTES:
            raise ModelFileError(f"{path}: has {size:,} bytes; model files have at most {MAX_MODEL_BYTES:,}")
        return read_regular(path, MAX_MODEL_BYTES), str(path)
    except (OSError, ValueError, MemoryError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error) or "there is too little memory"
        raise ModelFileError(f"{path}: cannot be read: {reason}") from None


def _open(data: bytes, name: str, num_threads: int, native: NativeEngine | None) -> OpenModel:
    entries, graph = read_model_file(data)
    metadata = _metadata(entries)
    task = _task(metadata)
    if task.windows != (metadata.reading is not None):
        raise ModelFileError("its metadata has a reading configuration but no questions to answer, or vice versa")
    if task.windows and metadata.text.max_len < MIN_WINDOW:
        raise ModelFileError(f"it reads {metadata.text.max_len} tokens; questions need at least {MIN_WINDOW}")
    if metadata.threshold is not None and not task.abstains:
        raise ModelFileError(f"it has a threshold to abstain; models of {task.name} do not")
    task.threshold = metadata.threshold
    if metadata.label_thresholds and not task.has_label_thresholds:
        raise ModelFileError(f"it has thresholds of labels; models of {task.name} have none")
    if unknown := metadata.label_thresholds.keys() - set(task.labels.names):
        raise ModelFileError(f"it has a threshold of {shown(min(unknown))}, which is none of its labels")
    task.label_thresholds = metadata.label_thresholds
    if metadata.conformal is not None and not task.abstains:
        raise ModelFileError(f"it has conformal sets; models of {task.name} do not")
    task.conformal = metadata.conformal
    if (rule := metadata.rule) is not None:
        if not task.abstains:
            raise ModelFileError(f"it has a rule of decisions; models of {task.name} do not")
        rule = rule.of(task.labels.names) if rule.levels else rule
        if rule.num_labels != len(task.labels):
            raise ModelFileError(f"its rule of decisions is for {rule.num_labels} labels; it has {len(task.labels)}")
    task.rule = rule
    vocabulary = _vocabulary(entries)
    branch, columns = take_columns(graph, entries.get(COLUMNS_ENTRY), take_branch(graph, metadata.ngrams, task))
    if (transitions := take_transitions(graph, task)) is not None:
        task.transitions = transitions
    has_weights = metadata.text.projection.weighted
    row_dim = _check_signature(graph, has_weights=has_weights)
    limits = GraphLimits(graph, row_dim)
    limits.check_rows(*TRIED_BAGS)
    limits.check_logits(*_tried_texts(metadata))
    native, no_native = (native, "") if native is not None else open_native(data)
    later = native is not None
    if not later:
        require_onnxruntime(f"{name}: a model that the C core cannot compute ({no_native})")
    engine = Engine(data, name, num_nodes=len(graph.nodes), num_threads=num_threads, later=later)
    parts = (engine, limits, native, no_native, branch, columns)
    return OpenModel(name, metadata, task, vocabulary, row_dim, has_weights, *parts)


def _metadata(entries: dict[str, str]) -> Metadata:
    for key in ("vocabulary", "vocabulary_name"):
        if key not in entries:
            raise ModelFileError(f"its metadata has no {key}")
    try:
        values = parse_json(entries["mixling"])
    except ValueError as error:
        raise ModelFileError(f"its metadata is not JSON: {first_line(error)}") from None
    version = values.get("format_version") if isinstance(values, dict) else None
    if type(version) is not int or version < 1:
        raise ModelFileError("its metadata has no format version")
    if version > MODEL_FORMAT:
        raise ModelFileError(
            f"has format version {version}; this version of mixling reads version {MODEL_FORMAT}: upgrade mixling"
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
        raise ModelFileError(f"its task is not installed: {error}") from None
    if labels.kind != kind.kind:
        raise ModelFileError(f"labels: got kind {shown(labels.kind)}; {kind.name} needs kind {kind.kind!r}")
    try:
        return kind(labels)
    except DataError as error:
        raise ModelFileError(f"labels: {error}") from None


def set_threshold(task: Task, threshold: float | Mapping[str, float]) -> None:
    """Replace the thresholds of a model: of all labels, or of some by name.

    Raises:
        ConfigError: the task has none, or no such label.
    """
    if not task.has_threshold:
        raise ConfigError(f"threshold: predictions of {task.name} do not depend on one; leave it out")
    if not isinstance(threshold, Mapping):
        task.threshold = threshold
        task.label_thresholds = {}
        return
    if not task.has_label_thresholds:
        raise ConfigError(f"threshold: models of {task.name} have one for all labels; give a number, such as 0.8")
    for name in threshold:
        if name not in task.labels.names:
            raise ConfigError(f"threshold: the model has no label {shown(name)}; {near_miss(name, task.labels.names)}")
    task.label_thresholds = {**task.label_thresholds, **threshold}


def _vocabulary(entries: dict[str, str]) -> Vocabulary:
    return Vocabulary.parse(entries["vocabulary_name"][:100], entries["vocabulary"])


def _check_signature(graph: Graph, *, has_weights: bool) -> int:
    """Return R, the values of a word's row; reject a graph whose inputs and outputs differ from a model's."""
    expected = {"cached": (FLOAT, 2), "positions": (INT32, 2), "index": (INT32, 2)}
    if has_weights:
        expected["weights"] = (FLOAT, 2)
    inputs = {name: (kind, len(sizes)) for name, (kind, sizes) in graph.inputs.items()}
    if inputs != expected:
        raise ModelFileError(
            f"the graph's inputs (type, dimensions) are {str(inputs)[:200]}; this projection needs {expected}"
        )
    if list(graph.outputs) != ["logits", "rows"]:
        raise ModelFileError(f"the graph's outputs are {str(list(graph.outputs))[:200]}; a model has logits and rows")
    width = graph.inputs["cached"][1][1]
    if width is None or not 0 < width <= MAX_ROW_DIM:
        raise ModelFileError(f"the rows of words have {width} values; allowed: 1 to {MAX_ROW_DIM:,}")
    for name, (_, sizes) in [*graph.inputs.items(), *graph.outputs.items()]:
        free = sizes if name in ("positions", "weights", "index") else sizes[:-1]
        if any(size is not None for size in free):  # ONNX Runtime would compute with it on opening the file
            raise ModelFileError(f"the graph has {name} of fixed sizes {sizes}; a model's are variable")
    return width


def _tried_texts(metadata: Metadata) -> tuple[int, int]:
    """Return the number of texts of the batch on opening, and their tokens."""
    return 2, min(2, metadata.text.max_len)


def _try_out(model: OpenModel) -> None:
    """Run the graph on two texts, of two words and of one, whose words have the highest feature index."""
    highest = model.metadata.text.num_rows - 1
    if highest >= 2**31:
        raise ModelFileError(f"{model.name}: its projection has {highest + 1:,} features; allowed: up to {2**31:,}")
    positions = np.full(TRIED_BAGS, highest, np.int32)
    rows = model.rows(positions, np.ones(TRIED_BAGS, np.float32) if model.has_weights else None)
    if rows.shape != (1, model.row_dim) or rows.dtype != np.float32:
        raise ModelFileError(f"{model.name}: the graph computes rows {rows.shape}; expected {(1, model.row_dim)}")
    _, length = _tried_texts(model.metadata)
    index = np.array([[1, 1], [1, 0]], np.int32)[:, :length]
    logits = model.logits(rows, index)
    expected = model.task.logits_shape(2, length)
    if logits.shape != expected or logits.dtype != np.float32:
        raise ModelFileError(
            f"{model.name}: the graph computes logits {logits.shape}; "
            f"expected {expected}, for {len(model.task.labels)} labels of kind {model.task.kind!r}"
        )
