"""Open a model for the native engine alone.

`Predictor` starts with this: it imports no library, not even NumPy, and little of Python's own (neither `typing` nor
`re`), which takes several times as long as to read a model and to predict. C checks the file (its checksum, metadata
and weights) and refuses what it does not know; all else of a model is opened when it is first used, with the checks and
errors of `session`.
"""

from __future__ import annotations

import os

from mixling.answers.decoding import LabelDecoder
from mixling.lazy import TYPE_CHECKING
from mixling.opening import read_regular
from mixling.runtime.native import ENGINES, VARIABLE, load_native

if TYPE_CHECKING:
    from pathlib import Path

    from mixling.runtime.native import NativeEngine

ONNX_FILE = "model.onnx"  # in a folder
_LARGE = 1 << 30  # bytes of a file that is not read twice
_TASK = "classification"


class QuickModel:
    """The native engine of a model with one label a text, and the file that it was opened from."""

    def __init__(self, engine: NativeEngine, data: bytes, name: str) -> None:
        self.engine = engine
        self.data = data
        self.name = name
        self.decoder = LabelDecoder(engine.labels)


def open_quickly(path: str | Path | bytes) -> QuickModel | None:
    """Open a model, or return None: to open it in full has the errors, or another engine."""
    if os.environ.get(VARIABLE, "") not in ("", ENGINES[0]):
        return None
    try:
        data, name = (path, "the model's bytes") if isinstance(path, bytes) else _read(os.fspath(path))
    except (OSError, ValueError, MemoryError):
        return None
    engine, _ = load_native(data)
    if engine is None or engine.task != _TASK or engine.num_texts > 1 or engine.abstains:
        return None
    names = engine.labels
    if len(set(names)) < len(names) or not all(map(str.strip, names)):
        return None
    return QuickModel(engine, data, name)


def _read(path: str) -> tuple[bytes, str]:
    if os.path.isdir(path):
        path = os.path.join(path, ONNX_FILE)
    return read_regular(path, _LARGE), path
