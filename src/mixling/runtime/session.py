"""Opening a saved model: every file that is not a sound one ends in `ModelFileError`, whatever its bytes are.

The file is untrusted: it is checked before ONNX Runtime reads it (`onnx_file`), its metadata is validated, and it must
answer one small batch before it is used. What cannot be ruled out is a file made on purpose that asks for much memory
or work, as any ONNX graph can: set limits of the operating system where strangers' models are loaded.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mixling.config import Config, parse
from mixling.errors import ConfigError, ModelFileError
from mixling.runtime.engine import Engine, Feed, Float32, first_line
from mixling.runtime.onnx_file import ONNX_FILE, read_metadata
from mixling.text.config import TextConfig
from mixling.text.fingerprint import MinHash
from mixling.text.labels import LabelSet
from mixling.text.vocabulary import Vocabulary
from mixling.text.windows import MIN_LENGTH, ReadingConfig

FORMAT_VERSION = 1
MAX_BYTES = 2**31
MAX_ROW = 2**16

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
    parameters: int = Field(ge=0)


@dataclass(frozen=True)
class OpenModel:
    """A model file that was found sound.

    name: its path, for messages.
    row_dim: R, floats of a word's summed row.
    has_weights: whether the words' bags have weights.
    """

    name: str
    metadata: Metadata
    labels: LabelSet
    vocabulary: Vocabulary
    row_dim: int
    has_weights: bool
    engine: Engine

    def rows(self, positions: Int32, weights: Float32 | None) -> Float32:
        """The summed rows (U, R) of words given as bags (U, P)."""
        cached = np.zeros((1, self.row_dim), np.float32)
        return self.engine.run("rows", _feed(cached, positions, weights, np.ones((1, 1), np.int32)), only_path=True)

    def logits(self, rows: Float32, index: Int32) -> Float32:
        """Logits (B, C) or (B, N, C); `index` (B, N) is 0 for padding, else 1 + the number of a row of `rows`."""
        positions = np.zeros((0, 1), np.int32)
        weights = np.zeros((0, 1), np.float32) if self.has_weights else None
        return self.engine.run("logits", _feed(rows, positions, weights, index))


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
    entries = read_metadata(data)
    metadata = _metadata(entries)
    labels = LabelSet.from_dict(metadata.labels)
    if (labels.kind == "span") != (metadata.reading is not None):
        raise ModelFileError("its metadata has answers to find but not how, or the other way round")
    if labels.kind == "span" and metadata.text.max_len < MIN_LENGTH:
        raise ModelFileError(f"it reads {metadata.text.max_len} tokens; to answer questions {MIN_LENGTH} are needed")
    vocabulary = _vocabulary(entries)
    engine = Engine(data, name, num_threads=num_threads)
    session = engine.session
    assert session is not None
    inputs = {item.name: (item.type, len(item.shape), item.shape) for item in session.get_inputs()}
    has_weights = not isinstance(metadata.text.projection, MinHash)
    _check_signature(inputs, has_weights)
    outputs = {item.name: item.shape for item in session.get_outputs()}
    if list(outputs) != ["logits", "rows"]:
        raise ModelFileError(f"the graph's outputs are {list(outputs)}; a model has logits and rows")
    width = inputs["cached"][2][1]
    if not isinstance(width, int) or not 0 < width <= MAX_ROW:
        raise ModelFileError(f"the rows of words have {width} values; allowed: 1 to {MAX_ROW:,}")
    return OpenModel(name, metadata, labels, vocabulary, width, has_weights, engine)


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


def _vocabulary(entries: dict[str, str]) -> Vocabulary:
    try:
        return Vocabulary.parse(entries["vocabulary_name"], entries["vocabulary"])
    except ModelFileError:
        raise
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":  # the latter comes from Rust
            raise ModelFileError(f"its vocabulary cannot be used: {first_line(error)}") from None
        raise


def _check_signature(inputs: dict[str, tuple[str, int, Any]], has_weights: bool) -> None:
    expected = {"cached": ("tensor(float)", 2), "positions": ("tensor(int32)", 2), "index": ("tensor(int32)", 2)}
    if has_weights:
        expected["weights"] = ("tensor(float)", 2)
    found = {name: (kind, rank) for name, (kind, rank, _) in inputs.items()}
    if found != expected:
        raise ModelFileError(f"the graph's inputs are {found}; a model with this projection has {expected}")


def _try_out(model: OpenModel) -> None:
    """Run the graph on a word of the highest position in two texts, one of two words and one of one."""
    highest = model.metadata.text.num_rows - 1
    if highest >= 2**31:
        raise ModelFileError(f"{model.name}: its projection has {highest + 1:,} features; allowed: up to {2**31:,}")
    positions = np.full((1, 2), highest, np.int32)
    rows = model.rows(positions, np.ones((1, 2), np.float32) if model.has_weights else None)
    if rows.shape != (1, model.row_dim) or rows.dtype != np.float32:
        raise ModelFileError(f"{model.name}: the graph answers with rows {rows.shape}; expected {(1, model.row_dim)}")
    length = min(2, model.metadata.text.max_len)
    index = np.array([[1, 1], [1, 0]], np.int32)[:, :length]
    logits = model.logits(rows, index)
    expected = (2, length, len(model.labels)) if model.labels.of_tokens else (2, len(model.labels))
    if logits.shape != expected or logits.dtype != np.float32:
        raise ModelFileError(
            f"{model.name}: the graph answers with logits {logits.shape}; "
            f"expected {expected}, for {len(model.labels)} labels of kind {model.labels.kind!r}"
        )
