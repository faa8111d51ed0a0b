"""Predict with a saved model, using NumPy, tokenizers and ONNX Runtime, but not torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mixling.errors import ConfigError, DataError
from mixling.runtime.inputs import PART_TEXTS, TextInputs
from mixling.runtime.native import NativeEngine
from mixling.runtime.network import BATCH_SIZE, ENCODING, Network
from mixling.runtime.quick import open_quickly
from mixling.runtime.windows import check_too_long, read_in_windows, refuse_long
from mixling.text.predictions import Prediction

if TYPE_CHECKING:  # imported when a model is opened in full
    from pathlib import Path

    from mixling.arrays import Float32
    from mixling.explain.explanation import Explanation
    from mixling.runtime.session import Metadata
    from mixling.tasks.base import Task
    from mixling.text.config import TextConfig
    from mixling.text.decoding import LabelDecoder
    from mixling.text.encoder import Encoded, Text, TextEncoder
    from mixling.text.labels import LabelSet
    from mixling.text.long_texts import TextWindow

_PART_CHARS = 64 << 20  # characters of texts in memory at a time, with the native engine
_QUESTIONS = 64  # questions at a time; their overlapping windows repeat the contexts
_SHOWN_LABELS = 5  # by `repr`
_OPENED_LATER = {"_network", "encoder"}


class Predictor:
    """Predicts for texts with a saved model.

    A text is a string, a pair of strings in a tuple, or a list of the words of a sentence. Methods that accept several
    texts treat a list as a list of texts, so pass a sentence of words to `predict_one`, or as `predict([words])`. A
    model for question answering takes pairs (question, context); contexts may be long.

    Predictors are thread-safe and can be used in forked processes. Pickling and copying preserve the content of the
    model file, `num_threads` and `encoder` (also that it is shared), but not the cache of rows. Load pickles, like any
    pickle, only from trusted sources; the model file itself may come from anywhere.

    The summed rows of words are cached, up to 64 MiB (with an encoder passed by the caller: of all words in its table),
    so a repeated word costs no hashing and no projection. The native engine caches up to 128 MiB for each thread that
    predicts at a time.
    """

    def __init__(
        self,
        path: str | Path | bytes,
        *,
        num_threads: int = 1,
        encoder: TextEncoder | None = None,
        threshold: float | Mapping[str, float] | None = None,
        too_long: str = "windows",
    ) -> None:
        """Open a saved model.

        Args:
            path: the folder of a saved model, its `model.onnx`, the bytes of that file, or `hf:NAME[@REVISION]`.
            num_threads: threads of one prediction; small models are fastest with one.
            encoder: the `encoder` of another predictor, to encode each text once for both (see `logits`).
            threshold: with one label for each text, the top probability below which predictions abstain; with any
                number of labels, the probability from which a label is predicted, or that of some labels by name. None:
                the model's own, or 0.5.
            too_long: how texts are read that are longer than the model's maximum: "windows", to the end, in parts;
                "truncate", the beginning only; "error", not at all. Contexts of questions are always read to the end.

        Raises:
            ModelFileError: there is no valid model at `path`.
            ConfigError: the task has no threshold, or it is no probability; `too_long` has another value; or `encoder`
                computes other features than those that this model was trained on.
        """
        self._num_threads = num_threads
        check_too_long(too_long)
        self._too_long = too_long
        for value in threshold.values() if isinstance(threshold, Mapping) else (threshold,):
            if value is not None and not 0 <= value <= 1:
                raise ConfigError(f"threshold: got {value:g}; allowed: a probability, from 0 to 1")
        self._threshold = threshold
        self._quick = open_quickly(path) if encoder is None and threshold is None else None
        if self._quick is None:
            self._open(path, encoder)
            return
        # Everything else is opened when it is first asked for.
        self._native: NativeEngine | None = self._quick.engine
        self._decoder: Task | LabelDecoder = self._quick.decoder
        self._inputs = TextInputs(pairs=self._native.pairs, questions=False, part_chars=_PART_CHARS)

    def _open(self, path: str | Path | bytes, encoder: TextEncoder | None) -> None:
        """Open a model with all that it has, for every engine and kind of text."""
        from mixling.runtime.session import open_model, set_threshold

        if (quick := self._quick) is None:
            model = open_model(path, num_threads=self._num_threads)
        else:
            model = open_model(quick.data, num_threads=self._num_threads, name=quick.name, native=quick.engine)
        if self._threshold is not None:
            set_threshold(model.task, self._threshold)
        network = Network(model, encoder)
        metadata = model.metadata
        questions = metadata.reading is not None
        self._inputs = TextInputs(pairs=metadata.pairs, questions=questions, part_chars=network.part_chars)
        self._decoder = model.task
        # An encoder of the caller's may read fewer words.
        self._native = model.native if network.encoder.config.max_len == metadata.text.max_len else None
        self.encoder = network.encoder
        self._network = network

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Called only for an attribute that is not there.
            if name not in _OPENED_LATER or "_quick" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            with ENCODING:
                if "_network" not in self.__dict__:
                    self._open("", None)
            return self.__dict__[name]

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        token: str | None = None,
        local_files_only: bool = False,
        num_threads: int = 1,
        threshold: float | None = None,
    ) -> Predictor:
        """Return a predictor for a model on the Hugging Face hub, or of a local folder.

        One file is downloaded, once; afterwards no network is needed. Needs huggingface_hub.

        Args:
            name: NAME[@REVISION] on the hub, such as "org/name"; a local folder or file has precedence.
            revision: a branch, tag or commit.
            token: an access token, instead of HF_TOKEN and the one of `hf auth login`.
            local_files_only: use what was downloaded before, and no network.

        Raises:
            ModelFileError: there is no such model, no access to it, or no network and no copy; or it is damaged.
            ConfigError: the name or the threshold is malformed.
            MissingPackage: huggingface_hub is not installed.
        """
        path = name
        if not os.path.exists(name):
            from mixling.runtime.hub_model import fetch_model

            path = fetch_model(str(name), revision=revision, token=token, local_files_only=local_files_only)
        return cls(path, num_threads=num_threads, threshold=threshold)

    @classmethod
    def from_bytes(cls, content: bytes, *, num_threads: int = 1, encoder: TextEncoder | None = None) -> Predictor:
        """Return a predictor for the content of a `model.onnx`."""
        return cls(content, num_threads=num_threads, encoder=encoder)

    def __reduce__(self) -> tuple[Callable[..., Predictor], tuple[Any, ...]]:
        engine = self._network.model.engine
        options = {"num_threads": engine.num_threads, "threshold": self._threshold, "too_long": self._too_long}
        return _open_again, (type(self), engine.data, self.encoder, options)

    def __repr__(self) -> str:
        metadata, names = self.metadata, self.labels.names
        shown = ", ".join(map(repr, names[:_SHOWN_LABELS])) + (", ..." if len(names) > _SHOWN_LABELS else "")
        labels = f"{len(names)} labels ({shown}), " if self.task.has_labels else ""
        return (
            f"<{type(self).__name__} of {self._network.model.name}: {metadata.task}, {labels}"
            f"{metadata.parameters:,} parameters, {metadata.precision}>"
        )

    @property
    def engine(self) -> str:
        """What computes: "native", or "onnx" and why; texts given as words are always computed by ONNX Runtime."""
        if self._native is not None:
            return f"native ({self._native.instructions})"
        reason = self._network.model.no_native or "the encoder given reads fewer words than the model"
        return f"onnx ({reason})"

    @property
    def metadata(self) -> Metadata:
        """The metadata of the model file: task, precision, number of parameters, ..."""
        return self._network.model.metadata

    @property
    def content(self) -> bytes:
        """The content of the model file."""
        return self._network.model.engine.data

    @property
    def task(self) -> Task:
        """The task with its labels; `task.name` is its name."""
        return self._network.model.task

    @property
    def labels(self) -> LabelSet:
        return self._network.model.task.labels

    @property
    def text_config(self) -> TextConfig:
        return self._network.model.metadata.text

    def predict(self, texts: Text | Sequence[Text]) -> Prediction | list[Prediction]:
        """Return the prediction for one text, or a list of predictions for several texts.

        Raises:
            DataError: an item is not a text.
        """
        if isinstance(texts, str | tuple):
            return self.predict_one(texts)
        if self._inputs.are_few(texts) and (native := self._alone(texts)) is not None:
            return native.predictions(texts, to_end=self._too_long == "windows")
        return list(self.predict_stream(texts))

    def predict_one(self, text: Text) -> Prediction:
        """Return the prediction for one text; a list is the words of a sentence."""
        self._inputs.check((text,))
        if (native := self._alone((text,))) is not None:
            return native.predictions((text,), to_end=self._too_long == "windows")[0]
        if self._inputs.questions:
            return self._answers([text], BATCH_SIZE)[0]
        (read,), (logits,) = self._read_and_run([text], 0)
        return self._decoder.decode(logits, read, text)

    def predict_stream(self, texts: Iterable[Text], *, batch_size: int = BATCH_SIZE) -> Iterator[Prediction]:
        """Yield predictions in the order of `texts`, which may be endless; a few thousand are in memory at a time.

        Raises:
            DataError: an item is not a text.
        """
        number = 0
        for part in self._inputs.parts(texts):
            if self._inputs.questions:
                for first in range(0, len(part), _QUESTIONS):
                    yield from self._answers(part[first : first + _QUESTIONS], batch_size)
                continue
            yield from self._predict_batch(part, number, batch_size)
            number += len(part)

    def _predict_batch(self, texts: list[Text], number: int, batch_size: int) -> list[Prediction]:
        """Return predictions for texts of which the first has this number."""
        if (native := self._alone(texts)) is not None:
            return native.predictions(texts, to_end=self._too_long == "windows")
        read, logits = self._read_and_run(texts, number, batch_size=batch_size)
        return self._decoder.decode_many(logits, read, texts)

    def _alone(self, texts: Sequence[Text]) -> NativeEngine | None:
        """Return the native engine if it makes the predictions for checked texts by itself: of one label each."""
        decoder: Any = self._decoder
        to_end = self._too_long == "windows"
        if (
            self._quick is None
            or self._native is None
            or decoder.threshold is not None
            or decoder.conformal is not None
        ):
            return None
        if (to_end and not self._native.reads_long) or self._too_long == "error" or set(map(type, texts)) != {str}:
            return None
        return self._native

    def predict_proba(self, texts: Iterable[Text]) -> npt.NDArray[np.float64]:
        """Return probabilities (number of texts, C) in the order of `labels.names`.

        Raises:
            DataError: an item is not a text, `texts` is a single text, or the task has no probabilities for texts.
        """
        if not self._decoder.has_probabilities:
            raise DataError(f"the model predicts {self.task.gives}, without probabilities for texts; use predict")
        out: list[npt.NDArray[np.float64]] = []
        for part in self._inputs.parts(texts):
            _, logits = self._read_and_run(part, sum(map(len, out)))
            out.append(self._decoder.probabilities(np.asarray(logits)))
        return np.concatenate(out) if out else np.zeros((0, len(self.labels)))

    def json_lines(self, texts: Sequence[str]) -> list[str]:
        """Return predictions for texts as JSON lines, as `mixling predict` writes them, faster than by way of objects.

        Raises:
            DataError: an item is not a text, or the task has no such lines (`task.json_of_texts`).
        """
        if not self._decoder.json_of_texts:
            raise DataError(f"the model predicts {self.task.gives}, whose lines of JSON are made of predictions")
        out: list[str] = []
        for part in self._inputs.parts(texts):
            if (native := self._alone(part)) is not None:
                out += native.json_lines(part, to_end=self._too_long == "windows")
                continue
            read, logits = self._read_and_run(part, len(out))
            out += self._decoder.json_lines(np.asarray(logits), read)
        return out

    def explain(
        self,
        text: Text,
        target: str | None = None,
        method: str = "auto",
        *,
        word: int | None = None,
        evaluations: int = 2048,
        seed: int = 0,
    ) -> Explanation:
        """Explain an answer by the effect of each word, found by leaving words out of the text.

        A text that is longer than the model's maximum is explained as `too_long` has it read: its windows stay the same
        while a word is left out of those that contain it.

        Args:
            text: as of `predict_one`.
            target: the label to explain; by default the most probable one. None in regression.
            method: "leave_one_out" (how much the score falls without the word), "shapley" (the mean of that over all
                orders of the words: exact up to 10 words, sampled beyond), or "auto" (Shapley values up to 64 words,
                leave-one-out beyond).
            word: tagging: the index of the word whose tag is explained; by default the first that is in a span.
            evaluations: about so many shortened texts are predicted for sampled Shapley values.
            seed: of the sample.

        Raises:
            ConfigError: the model has no such label or word, there is no such method, or it answers questions.
            DataError: `text` is not a text, is too long, or has more than 10,000 words.
        """
        from mixling.explain.words import explain
        from mixling.text.long_texts import text_windows

        def encode(text: Text) -> Encoded:
            return self._network.encode([text], offsets=True)[0]

        def divide(text: Text) -> list[TextWindow]:
            if self._too_long == "error":
                refuse_long(encode(text), 0, self.text_config.max_len)
            return text_windows(text, self.encoder.config, self.encoder.vocabulary, per_word=self.task.per_word)[0]

        self._inputs.check((text,))
        return explain(
            text, task=self.task, config=self.encoder.config, encode=encode, logits=self._few_logits,
            logits_of_kept=self._kept_logits, divide=None if self._too_long == "truncate" else divide,
            target=target, word=word, method=method, evaluations=evaluations, seed=seed,
        )  # fmt: skip

    def _kept_logits(self, text: str, kept: npt.NDArray[np.bool_]) -> Float32 | None:
        return None if self._native is None else self._native.kept_logits(text, kept)

    def _few_logits(self, texts: list[Text]) -> Sequence[Float32]:
        """Return the result of `text_logits`, for shortened texts that need no checks, as one array if they are few."""
        if len(texts) > PART_TEXTS:
            return self.text_logits(texts)
        return self._encode_and_run(texts, BATCH_SIZE)[1]

    def text_logits(self, texts: Iterable[Text]) -> list[Float32]:
        """Return the logits that predictions for texts are made of: (C,) each, or (W, C) of a tagger.

        Raises:
            DataError: an item is not a text.
        """
        out: list[Float32] = []
        for part in self._inputs.parts(texts):
            out.extend(self._read_and_run(part, len(out))[1])  # `+=` would add numbers of an array
        return out

    def text_vectors(self, texts: Sequence[Text]) -> Float32:
        """Return a vector (B, R) for each text: the mean of its words' rows, which are the input of the network."""
        return self._network.mean_rows(texts)

    def encode(self, texts: Sequence[Text]) -> list[Encoded]:
        """Encode texts for `logits` of this predictor and of others that share its encoder; long ones are truncated."""
        self._inputs.check(texts)
        return self._network.encode(texts)

    def logits(self, encoded: Sequence[Encoded]) -> list[Float32]:
        """Return the logits of each encoded text: (C,), or (N, C) of a tagger.

        Raises:
            DataError: the encoder's word table was emptied after the texts were encoded, because it was full.
        """
        return self._network.logits(encoded)

    def _read_and_run(
        self, texts: list[Text], number: int, *, batch_size: int = BATCH_SIZE
    ) -> tuple[Sequence[Encoded], Sequence[Float32]]:
        """Return what was read of texts, of which the first has this number, and their logits."""
        read, logits = self._encode_and_run(texts, batch_size, to_end=self._too_long == "windows")
        if self._too_long == "truncate" or not any(item.truncated for item in read):
            return read, logits
        native = self._native
        if self._too_long == "windows" and native is not None and native.reads_long and set(map(type, texts)) == {str}:
            return read, logits
        if self._too_long == "error":
            for index, item in enumerate(read, number):
                refuse_long(item, index, self.text_config.max_len)
        return read_in_windows(
            texts, read, logits,
            encoder=self.encoder, task=self.task, run=lambda windows: self._encode_and_run(windows, batch_size),
        )  # fmt: skip

    def _encode_and_run(
        self, texts: list[Text], batch_size: int, *, to_end: bool = False
    ) -> tuple[Sequence[Encoded], Sequence[Float32]]:
        """Return what was read of the texts up to the model's maximum, and their logits.

        Args:
            to_end: the native engine reads single texts to their end, if it can.
        """
        if self._native is not None and self._native.reads(texts):
            logits, read = self._native.logits(texts, to_end=to_end)
            return read, logits  # type: ignore[return-value]  # all that decoding asks for, and rows
        return self._network.read(texts, batch_size)

    def _answers(self, pairs: Sequence[Text], batch_size: int) -> list[Prediction]:
        """Return the answers to questions; a long context is read in several windows."""
        if self._native is not None:
            found = [self._native.answer((pair[0], pair[1])) for pair in pairs]
        else:
            found = self._network.find_answers(pairs, batch_size)
        assert self.metadata.reading is not None
        threshold = self.metadata.reading.threshold
        return [
            Prediction(answer=best.answer(pair[1], threshold), truncated=truncated)
            for pair, (best, truncated) in zip(pairs, found, strict=True)
        ]


def _open_again(kind: type[Predictor], content: bytes, encoder: TextEncoder, options: dict[str, Any]) -> Predictor:
    """Restore a pickled predictor."""
    return kind(content, encoder=encoder, **options)
