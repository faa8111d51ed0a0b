"""The native engine of a saved model, where it is built and knows the model's parts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mixling.errors import ConfigError, shown

if TYPE_CHECKING:
    from mixling.native._core import Model
    from mixling.text.encoder import Text

VARIABLE, ENGINES = "MIXLING_ENGINE", ("native", "onnx")
CACHE_BYTES = 128 << 20  # at most, for words that a thread met


class ReadText(NamedTuple):
    """What decoding asks of a text as it was read; the engine keeps the words to itself."""

    truncated: bool
    is_empty: bool


_READ = tuple(ReadText(bool(flags & 1), bool(flags & 2)) for flags in range(4))  # by the flags of mixling.h


class NativeEngine:
    """Computes the logits of texts, not of rows of words: the words are found in C as well.

    Any number of threads may call it at a time, and the interpreter's lock is free meanwhile.

    Attributes:
        labels: the names of the labels.
        task: the name of the task.
        pairs: whether the model was trained on pairs of texts; None: unknown.
        abstains: whether predictions abstain or have conformal sets, which the engine leaves to the caller.
    """

    def __init__(self, model: Model) -> None:
        self._model, self.labels, self.task, self.pairs = model, model.labels, model.task, model.pairs
        self.abstains = model.abstains

    @property
    def instructions(self) -> str:
        """The instructions of the processor that it computes with."""
        return self._model.instructions

    def logits(self, texts: Sequence[Text]) -> tuple[npt.NDArray[np.float32], list[ReadText]]:
        """Return the logits (B, C) of texts or pairs, and what `Task.decode` asks of each (not its words)."""
        values, flags = self._model.predict(texts)
        return np.ndarray((len(flags), len(self.labels)), np.float32, values), [_READ[bits] for bits in flags]

    @staticmethod
    def reads(texts: Sequence[Any]) -> bool:
        """Whether none of the texts is a list of words, which the other engine takes."""
        return not any(isinstance(text, list) for text in texts)


def open_native(data: bytes) -> tuple[NativeEngine | None, str]:
    """Open the bytes of a model file that was checked before.

    The variable `MIXLING_ENGINE` chooses an engine: "onnx" always that of ONNX Runtime, "native" none but this one.

    Returns:
        the engine, or None and why it cannot run the model.

    Raises:
        ConfigError: the variable has another value, or asks for what cannot be.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", *ENGINES):
        raise ConfigError(f"{VARIABLE} is {shown(wanted)}; allowed: {', '.join(ENGINES)}, or nothing")
    engine, reason = (None, f"{VARIABLE} is onnx") if wanted == "onnx" else load_native(data)
    if engine is None and wanted == "native":
        raise ConfigError(f"{VARIABLE} is native, but this model needs ONNX Runtime: {reason}; unset {VARIABLE}")
    return engine, reason


def load_native(data: bytes) -> tuple[NativeEngine | None, str]:
    """Open the bytes of a model file; return None, and why, where this engine is missing or does not run it."""
    try:
        from mixling.native import _core
    except ImportError:
        return None, "the native engine is not built here; where there is a C compiler, installing mixling builds it"
    try:
        return NativeEngine(_core.Model(data, CACHE_BYTES, int.from_bytes(os.urandom(8), "little"))), ""
    except (NotImplementedError, ValueError) as error:
        return None, str(error)
