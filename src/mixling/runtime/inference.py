"""From texts to what was read of them and their logits, with the engine that can: native, or ONNX Runtime."""

from __future__ import annotations

from mixling.lazy import TYPE_CHECKING
from mixling.runtime.inputs import BATCH_SIZE, PART_TEXTS, TextInputs
from mixling.runtime.quick import open_quickly

if TYPE_CHECKING:  # imported when a model is opened in full
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    import numpy as np
    import numpy.typing as npt

    from mixling.answers.decoding import LabelDecoder
    from mixling.answers.questions import Found
    from mixling.arrays import Float32
    from mixling.runtime.native import NativeEngine
    from mixling.runtime.onnx.network import Network
    from mixling.tasks.base import Task
    from mixling.text.encoder import Encoded, Text, TextEncoder


def _not_here(texts: object) -> None:
    """Return None: predictions are made of logits."""


_PART_CHARS = 64 << 20  # characters of texts in memory at a time, with the native engine


class Inference:
    """An opened model, and the engines that compute its logits.

    Where the native engine answers alone, nothing else is opened until it is asked for.

    Attributes:
        inputs: checks texts, and divides a stream of them into parts.
        decoder: makes predictions of logits.
        native: the native engine; None if the model, or the caller's encoder, is not for it.
        too_long: how texts are read that are longer than the model's maximum, see `windows`.
        decide: predicts by `native` alone, if one label is all that there is to predict, for a string or a list of up
            to `PART_TEXTS`; returns None for all that needs checks, or more than that.
    """

    def __init__(
        self,
        path: str | Path | bytes,
        *,
        num_threads: int,
        encoder: TextEncoder | None,
        threshold: float | Mapping[str, float] | None,
        too_long: str,
    ) -> None:
        """Open a model; for the arguments, see `Predictor`."""
        self.too_long = too_long
        self._num_threads = num_threads
        self._threshold = threshold
        self._network: Network | None = None
        self.decide: Callable[[Any], Any] = _not_here
        self._quick = open_quickly(path) if encoder is None and threshold is None else None
        if self._quick is None:
            self._network = self._open(path, encoder)
            return
        engine = self._quick.engine
        self.native: NativeEngine | None = engine
        self.decoder: Task | LabelDecoder = self._quick.decoder
        names = ("text",) if engine.num_texts else None
        self.inputs = TextInputs(names=names, questions=False, part_chars=_PART_CHARS, columns=engine.columns)
        if too_long != "error":
            self.decide = engine.decider(to_end=self.to_end)

    @property
    def network(self) -> Network:
        """The model with all that it has, for ONNX Runtime and every kind of text."""
        if self._network is None:
            from mixling.runtime.onnx.network import ENCODING

            with ENCODING:
                if self._network is None:
                    self._network = self._open("", None)
        return self._network

    def _open(self, path: str | Path | bytes, encoder: TextEncoder | None) -> Network:
        from mixling.runtime.onnx.network import Network
        from mixling.runtime.onnx.session import open_model, set_threshold

        if (quick := self._quick) is None:
            model = open_model(path, num_threads=self._num_threads)
        else:
            model = open_model(quick.data, num_threads=self._num_threads, name=quick.name, native=quick.engine)
        if self._threshold is not None:
            set_threshold(model.task, self._threshold)
        network = Network(model, encoder)
        metadata = model.metadata
        questions = metadata.reading is not None
        names = ("text",) if model.task.per_word else metadata.text_names
        self.inputs = TextInputs(
            names=names, questions=questions, part_chars=network.part_chars,
            columns=() if model.columns is None else model.columns.names,
        )  # fmt: skip
        self.decoder = model.task
        # An encoder of the caller's may read fewer words.
        self.native = model.native if network.encoder.config.max_len == metadata.text.max_len else None
        return network

    @property
    def to_end(self) -> bool:
        """Whether long texts are read to their end, in windows."""
        return self.too_long == "windows"

    def alone(self, texts: Sequence[Text]) -> NativeEngine | None:
        """Return the native engine if it makes the predictions for checked texts by itself: of one label each."""
        return self.native if self.decide is not _not_here and set(map(type, texts)) == {str} else None

    def read(
        self, texts: list[Text], number: int, *, batch_size: int = BATCH_SIZE
    ) -> tuple[Sequence[Encoded], Sequence[Float32]]:
        """Return checked texts as they were read, numbered from the given number on, and their logits.

        Raises:
            TooLong: a text is, and `too_long` is "error".
        """
        if self.too_long != "error" and self.native is not None:
            values, found = self._native_logits(texts, to_end=self.to_end)
            return found, values
        read, logits = self._read_up_to_maximum(texts, batch_size)
        if self.too_long == "truncate" or not any(item.truncated for item in read):
            return read, logits
        from mixling.runtime.windows import read_in_windows, refuse_long

        network = self.network
        if self.too_long == "error":
            for index, item in enumerate(read, number):
                refuse_long(item, index, network.model.metadata.text.max_len)
        return read_in_windows(
            texts, read, logits,
            encoder=network.encoder, task=network.model.task,
            run=lambda windows: self._read_up_to_maximum(windows, batch_size),
        )  # fmt: skip

    def _native_logits(self, texts: list[Text], *, to_end: bool) -> tuple[Any, Sequence[Any]]:
        """Return the result of `NativeEngine.logits`.

        Raises:
            DataError: a value of a column is not of its kind.
        """
        assert self.native is not None
        try:
            return self.native.logits(texts, to_end=to_end)
        except ValueError:
            if (columns := self.network.model.columns) is not None:
                from mixling.features.cells import cells_of

                columns.encode(list(map(cells_of, texts)))
            raise

    def _read_up_to_maximum(self, texts: list[Text], batch_size: int) -> tuple[Sequence[Encoded], Sequence[Float32]]:
        """Return what was read of the texts up to the model's maximum, and their logits."""
        if self.native is not None:
            logits, read = self._native_logits(texts, to_end=False)
            return read, logits
        return self.network.read(texts, batch_size)

    def logits(self, texts: Iterable[Text]) -> list[Float32]:
        """Return the logits that predictions for texts are made of: (C,) each, or (W, C) of a tagger.

        Raises:
            DataError: an item is not a text.
        """
        out: list[Float32] = []
        for part in self.inputs.parts(texts):
            out.extend(self.read(part, len(out))[1])  # `+=` would add numbers of an array
        return out

    def logits_of_shortened(self, texts: list[Text]) -> Sequence[Float32]:
        """Return the logits of shortened texts, which need no checks, as one array if they are few."""
        return self.logits(texts) if len(texts) > PART_TEXTS else self._read_up_to_maximum(texts, BATCH_SIZE)[1]

    def vectors(self, texts: Sequence[Text]) -> Float32:
        """Return a vector (B, R) for each checked text: the mean of its words' rows."""
        return self.network.mean_rows(texts) if self.native is None else self.native.vectors(texts)

    def logits_of_kept(self, text: str, kept: npt.NDArray[np.bool_]) -> Float32 | None:
        """Return the result of `NativeEngine.kept_logits`; None without it."""
        return None if self.native is None else self.native.kept_logits(text, kept)

    def find_answers(self, pairs: Sequence[Text], batch_size: int) -> list[tuple[Found, bool]]:
        """Return the answers to pairs (question, context), and whether anything of a pair was cut off."""
        if self.native is not None:
            return [self.native.answer((pair[0], pair[1])) for pair in pairs]
        return self.network.find_answers(pairs, batch_size)
