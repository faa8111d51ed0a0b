"""The native engine of a saved model, where it is built and knows the model's parts."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mixling.errors import ConfigError, shown
from mixling.text.encoder import Encoded, Text
from mixling.text.table import EMPTY, FIRST

if TYPE_CHECKING:
    from mixling.native._core import Model

VARIABLE, ENGINES = "MIXLING_ENGINE", ("native", "onnx")
CACHE_BYTES = 128 << 20  # at most, for words that a thread met
# What decoding asks of a text as it was read, by the flags of mixling.h: 1 truncated, 2 empty.
_READ = tuple(
    Encoded(np.array([EMPTY if flags & 2 else FIRST], np.int32), None, bool(flags & 1), 0) for flags in range(4)
)


class NativeEngine:
    """Computes the logits of texts, not of rows of words: the words are found in C as well.

    Any number of threads may call it at a time, and the interpreter's lock is free meanwhile.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def instructions(self) -> str:
        """The instructions of the processor that it computes with."""
        return self._model.instructions

    def logits(self, texts: Sequence[Text]) -> tuple[npt.NDArray[np.float32], list[Encoded]]:
        """Return the logits (B, C) of texts or pairs, and what `Task.decode` asks of each (not its words)."""
        values, flags = self._model.predict(texts)
        logits = np.frombuffer(values, np.float32).reshape(len(flags), -1)
        return logits, [_READ[bits] for bits in flags]

    @staticmethod
    def reads(texts: Sequence[Any]) -> bool:
        """Whether none of the texts is a list of words, which the other engine takes."""
        return not any(isinstance(text, list) for text in texts)


def open_native(data: bytes, *, has_branch: bool = False) -> tuple[NativeEngine | None, str]:
    """Open the bytes of a model file that was checked before.

    The variable `MIXLING_ENGINE` chooses an engine: "onnx" always that of ONNX Runtime, "native" none but this one.

    Args:
        has_branch: whether the model has a linear n-gram branch, which this engine does not compute.

    Returns:
        the engine, or None and why it cannot run the model.

    Raises:
        ConfigError: the variable has another value, or asks for what cannot be.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", *ENGINES):
        raise ConfigError(f"{VARIABLE} is {shown(wanted)}; allowed: {', '.join(ENGINES)}, or nothing")
    if wanted == "onnx":
        engine, reason = None, f"{VARIABLE} is onnx"
    elif has_branch:
        engine, reason = None, "it has a linear n-gram branch"
    else:
        engine, reason = _open(data)
    if engine is None and wanted == "native":
        raise ConfigError(f"{VARIABLE} is native, but this model needs ONNX Runtime: {reason}; unset {VARIABLE}")
    return engine, reason


def _open(data: bytes) -> tuple[NativeEngine | None, str]:
    try:
        from mixling.native import _core
    except ImportError:
        return None, "the native engine is not built here; where there is a C compiler, installing mixling builds it"
    try:
        return NativeEngine(_core.Model(data, CACHE_BYTES, secrets.randbits(64))), ""
    except (NotImplementedError, ValueError) as error:
        return None, str(error)
