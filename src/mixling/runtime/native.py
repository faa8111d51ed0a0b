"""The native engine of a saved model, where it knows the model's parts."""

from __future__ import annotations

import math
import os

from mixling.answers.decoding import parts_of_json
from mixling.answers.predictions import Prediction
from mixling.errors import ConfigError, shown
from mixling.lazy import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import numpy as np
    import numpy.typing as npt

    from mixling.answers.questions import Found
    from mixling.native._core import Model
    from mixling.text.encoder import Text

VARIABLE = "MIXLING_ENGINE"
ENGINES = ("native", "onnx")
TAGGING = "tagging"  # a task with logits of words
CACHE_BYTES = 128 << 20  # at most, for words that a thread met


class ReadText:
    """What decoding asks of a text as it was read, by the flags of mixling.h; the engine keeps the words to itself."""

    __slots__ = ("is_empty", "truncated")

    def __init__(self, flags: int) -> None:
        self.truncated = bool(flags & 1)
        self.is_empty = bool(flags & 2)


class ReadWords(ReadText):
    """What decoding asks of a text whose words are tagged.

    Attributes:
        offsets: start and end characters of each word (W, 2).
        tags: the ids of the most probable sequence (W,).
        probabilities: of these tags (W,).
    """

    __slots__ = ("offsets", "probabilities", "tags")

    def __init__(
        self,
        flags: int,
        offsets: list[tuple[int, int]],
        tags: npt.NDArray[np.int64],
        probabilities: npt.NDArray[np.float32],
    ) -> None:
        super().__init__(flags)
        self.offsets = offsets
        self.tags = tags
        self.probabilities = probabilities


_READ = tuple(map(ReadText, range(4)))


class NativeEngine:
    """Computes the logits of texts, not of rows of words: the words are found in C as well.

    Any number of threads may call it at a time, and the interpreter's lock is free meanwhile.

    Attributes:
        labels: the names of the labels.
        task: the name of the task.
        num_texts: how many texts belong together; 0: unknown.
        columns: the names of the columns beside each text.
        abstains: whether predictions abstain or have conformal sets, which the engine leaves to the caller.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.labels = model.labels
        self.task = model.task
        self.num_texts = model.num_texts
        self.columns = model.columns
        self._json: tuple[tuple[bytes, ...], tuple[bytes, ...], tuple[bytes, ...]] | None = None
        self.abstains = model.abstains

    @property
    def instructions(self) -> str:
        """The instructions of the processor that it computes with."""
        return self._model.instructions

    def logits(
        self, texts: Sequence[Text], *, to_end: bool = False
    ) -> tuple[npt.NDArray[np.float32] | list[npt.NDArray[np.float32]], Sequence[ReadText | ReadWords]]:
        """Return the logits (B, C) of texts, or (W, C) of each text's words, and what `Task.decode` asks.

        Args:
            to_end: read long texts to their end, in windows as `runtime.windows` does; otherwise up to the maximum.
        """
        if self.task == TAGGING:
            return self._tagged(texts, to_end=to_end)
        import numpy as np

        values, flags = self._model.predict(texts, to_end)
        return np.ndarray((len(flags), len(self.labels)), np.float32, values), list(map(_READ.__getitem__, flags))

    def kept_logits(self, text: str, kept: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32] | None:
        """Return the logits (M, C) of the texts that keep some of the words of one, by a matrix (M, W).

        What they have in common is computed once. None: not for this model, or the text has another number of words.
        """
        import numpy as np

        values = self._model.kept(text, np.ascontiguousarray(kept), kept.shape[1])
        return None if values is None else np.ndarray((len(kept), len(self.labels)), np.float32, values)

    def decider(self, *, to_end: bool) -> Callable[[Any], Any]:
        """Return what makes predictions of one label each, without a threshold, for single texts.

        It takes a string, or a list of at most 4,096, and returns None for anything else, or if a logit is not finite.
        """
        return self._model.decider(Prediction, to_end)

    def json_lines(self, texts: Sequence[Any], *, to_end: bool) -> list[str]:
        """Return predictions of one label each, without a threshold, for single texts, as lines of JSON.

        Raises:
            ModelFileError: a logit is not finite.
        """
        if self._json is None:
            self._json = parts_of_json(self.labels)
        lines = self._model.lines(texts, to_end, *self._json)
        if lines is None:
            from mixling.answers.labels import not_finite

            raise not_finite()
        return lines

    def _tagged(self, texts: Sequence[Any], *, to_end: bool) -> tuple[list[npt.NDArray[np.float32]], list[ReadWords]]:
        import numpy as np

        flags, *parts = self._model.tag(texts, to_end)
        counts, places, tags = (np.frombuffer(parts[i], np.uint32) for i in (0, 1, 3))
        rows = np.frombuffer(parts[2], np.float32).reshape(-1, len(self.labels))
        offsets = list(zip(places[::2].tolist(), places[1::2].tolist(), strict=True))
        ids = tags.astype(np.int64)
        probabilities = np.frombuffer(parts[4], np.float32)
        ends = np.cumsum(counts, dtype=np.int64).tolist()
        bounds = list(zip([0, *ends], ends, strict=False))
        read = [
            ReadWords(bits, offsets[first:end], ids[first:end], probabilities[first:end])
            for bits, (first, end) in zip(flags, bounds, strict=True)
        ]
        return [rows[first:end] for first, end in bounds], read

    def answer(self, pair: tuple[str, str]) -> tuple[Found, bool]:
        """Return the best span of a context for a question, and whether the question was truncated.

        Raises:
            ModelFileError: a logit is not finite.
        """
        from mixling.answers.labels import not_finite
        from mixling.answers.questions import Found

        flags, start, end, margin, probability, no_answer = self._model.answer(pair)
        if math.isnan(probability):
            raise not_finite()
        return Found(None if start < 0 else (start, end), margin, probability, no_answer), bool(flags & 1)

    def vectors(self, texts: Sequence[Text]) -> npt.NDArray[np.float32]:
        """Return the mean (B, R) of the rows of each text's words."""
        import numpy as np

        return np.frombuffer(self._model.vectors(texts), np.float32).reshape(len(texts), -1)

    def pooled(self, texts: Sequence[Text]) -> npt.NDArray[np.float32] | None:
        """Return the pooled tokens (B, R) of each text; None: the model has logits of words."""
        import numpy as np

        values, size = self._model.pooled(texts)
        return np.ndarray((len(texts), size), np.float32, values) if size else None


def open_native(data: bytes) -> tuple[NativeEngine | None, str]:
    """Open the bytes of a model file that was checked before.

    The variable `MIXLING_ENGINE` chooses an engine: "onnx" always ONNX Runtime, "native" always this one.

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
    """Open the bytes of a model file; return None, and why, where this engine does not run it."""
    from mixling.native import _core

    try:
        return NativeEngine(_core.Model(data, CACHE_BYTES, int.from_bytes(os.urandom(8), "little"))), ""
    except (NotImplementedError, ValueError) as error:
        return None, str(error)
