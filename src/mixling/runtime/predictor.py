"""Predict with a saved model, using NumPy, tokenizers and ONNX Runtime, but not torch."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mixling.errors import ConfigError, DataError
from mixling.runtime.native import QUESTIONS, NativeEngine
from mixling.runtime.quick import open_quickly
from mixling.runtime.windows import check_too_long, read_in_windows, refuse_long
from mixling.text.predictions import Prediction

if TYPE_CHECKING:  # imported when a model is opened in full
    from pathlib import Path

    from mixling.arrays import Float32
    from mixling.explain.explanation import Explanation
    from mixling.runtime.ngrams import BranchScorer
    from mixling.runtime.session import Metadata, OpenModel
    from mixling.tasks.base import Task
    from mixling.text.config import TextConfig
    from mixling.text.decoding import LabelDecoder
    from mixling.text.encoder import Encoded, Text, TextEncoder
    from mixling.text.labels import LabelSet
    from mixling.text.long_texts import TextWindow
    from mixling.text.windows import WindowEncoder

# Larger batches are not faster on one core, because their activations exceed its cache.
BATCH_SIZE = 16
BATCH_TOKENS = 4096
# Texts that are sorted together, to form batches of similar length.
WINDOW_TEXTS = 4096
_CHECKED = 256  # texts that are checked together
_WINDOWS = 64  # windows of contexts in memory at a time
WINDOW_QUESTIONS = 64  # questions at a time; their overlapping windows repeat the contexts
ROW_CACHE_BYTES = 64 << 20
_GATHERED = 1 << 22  # values of the rows that are summed at a time
_SHOWN_LABELS = 5  # by `repr`
_OPENED_LATER = {"_model", "encoder", "_window_encoder", "_generation", "_rows", "_num_rows", "_branch"}

# Predictors may share an encoder, and threads a predictor. Encoding holds the interpreter's own lock almost all the
# time, so one lock for all of them costs nothing. A fork waits for it, so that the forked process has complete tables
# and a free lock; the lock is reentrant because a signal handler may fork while a text is being encoded.
_ENCODING = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_ENCODING.acquire, after_in_parent=_ENCODING.release, after_in_child=_ENCODING.release)


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
        self._single = True
        self._window_chars = ROW_CACHE_BYTES

    def _open(self, path: str | Path | bytes, encoder: TextEncoder | None) -> None:
        """Open a model with all that it has, for every engine and kind of text."""
        from mixling.runtime.ngrams import BranchScorer
        from mixling.runtime.session import open_model, set_threshold
        from mixling.text.encoder import TextEncoder
        from mixling.text.windows import WindowEncoder

        if (quick := self._quick) is None:
            model = open_model(path, num_threads=self._num_threads)
        else:
            model = open_model(quick.data, num_threads=self._num_threads, name=quick.name, native=quick.engine)
        if self._threshold is not None:
            set_threshold(model.task, self._threshold)
        config, dim = model.metadata.text, model.row_dim
        sums = 0 if model.branch is None else model.task.num_scores
        max_words = max(ROW_CACHE_BYTES // (4 * (dim + sums)), 1024)
        if encoder is None:
            encoder = TextEncoder(config, model.vocabulary, max_table=max_words)
        elif encoder.digest != TextEncoder(config, model.vocabulary).digest:
            raise ConfigError(f"{model.name}: the shared encoder has another vocabulary, projection or casing")
        elif encoder.config.max_len > config.max_len:
            raise ConfigError(
                f"{model.name}: reads {config.max_len} words, the shared encoder {encoder.config.max_len}; "
                "share the encoder of the model that reads fewer"
            )
        self._branch: BranchScorer | None = None
        if model.branch is not None and model.metadata.ngrams is not None:
            self._branch = BranchScorer(model.branch, model.metadata.ngrams, model.task, encoder)
        reading = model.metadata.reading
        # The new words of a window fit into the cache, even if all of them are distinct.
        self._window_chars = 8 * max_words
        self._single = not model.metadata.pairs and reading is None
        # An encoder of the caller's may read fewer words.
        self._native = model.native if encoder.config.max_len == config.max_len else None
        self._decoder = model.task
        self._window_encoder: WindowEncoder | None = None if reading is None else WindowEncoder(encoder, reading)
        self._rows: Float32 = np.zeros((0, dim), np.float32)
        self._num_rows = 0
        self._generation = encoder.generation
        self.encoder: TextEncoder = encoder
        self._model: OpenModel = model

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Called only for an attribute that is not there.
            if name not in _OPENED_LATER or "_quick" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            with _ENCODING:
                if "_model" not in self.__dict__:
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
        engine = self._model.engine
        options = {"num_threads": engine.num_threads, "threshold": self._threshold, "too_long": self._too_long}
        return _open_again, (type(self), engine.data, self.encoder, options)

    def __repr__(self) -> str:
        metadata, names = self.metadata, self.labels.names
        shown = ", ".join(map(repr, names[:_SHOWN_LABELS])) + (", ..." if len(names) > _SHOWN_LABELS else "")
        labels = f"{len(names)} labels ({shown}), " if self.task.has_labels else ""
        return (
            f"<{type(self).__name__} of {self._model.name}: {metadata.task}, {labels}"
            f"{metadata.parameters:,} parameters, {metadata.precision}>"
        )

    @property
    def engine(self) -> str:
        """What computes: "native", or "onnx" and why; texts given as words are always computed by ONNX Runtime."""
        if self._native is not None:
            return f"native ({self._native.instructions})"
        reason = self._model.no_native or "the encoder given reads fewer words than the model"
        return f"onnx ({reason})"

    @property
    def metadata(self) -> Metadata:
        """The metadata of the model file: task, precision, number of parameters, ..."""
        return self._model.metadata

    @property
    def content(self) -> bytes:
        """The content of the model file."""
        return self._model.engine.data

    @property
    def task(self) -> Task:
        """The task with its labels; `task.name` is its name."""
        return self._model.task

    @property
    def labels(self) -> LabelSet:
        return self._model.task.labels

    @property
    def text_config(self) -> TextConfig:
        return self._model.metadata.text

    def predict(self, texts: Text | Sequence[Text]) -> Prediction | list[Prediction]:
        """Return the prediction for one text, or a list of predictions for several texts.

        Raises:
            DataError: an item is not a text.
        """
        if isinstance(texts, str | tuple):
            return self.predict_one(texts)
        few = type(texts) is list and 0 < len(texts) <= _CHECKED and self._check_all(texts, 0) < self._window_chars
        if few and (native := self._alone(texts)) is not None:
            return native.predictions(texts, to_end=self._too_long == "windows")
        return list(self.predict_stream(texts))

    def predict_one(self, text: Text) -> Prediction:
        """Return the prediction for one text; a list is the words of a sentence."""
        self._check_all((text,), 0)
        if (native := self._alone((text,))) is not None:
            return native.predictions((text,), to_end=self._too_long == "windows")[0]
        if self._native is not None and self._native.task != QUESTIONS and self._native.reads((text,)):
            answer, (read,) = self._native.logits((text,))
            if read.truncated and self._too_long != "truncate":
                return self._predict_batch([text], 0, BATCH_SIZE)[0]
            return self._decoder.decode(answer[0], read, text)  # type: ignore[arg-type]
        if self._window_encoder is not None:
            return self._answers([text], BATCH_SIZE)[0]
        task = self.task
        with _ENCODING:
            encoded = self.encoder.encode([text], offsets=task.per_word)[0]
            rows = self._word_rows(encoded.words)
            own = self._branch_logits([encoded])
        if encoded.truncated and self._too_long != "truncate":
            return self._predict_batch([text], 0, BATCH_SIZE)[0]
        logits = self._model.logits(rows, np.arange(1, len(rows) + 1, dtype=np.int32)[None])[0]
        if self._branch is not None and own is not None:
            logits = self._branch.add([logits], own)[0]
        return task.decode(encoded.of_words(logits) if task.per_word else logits, encoded, text)

    def predict_stream(self, texts: Iterable[Text], *, batch_size: int = BATCH_SIZE) -> Iterator[Prediction]:
        """Yield predictions in the order of `texts`, which may be endless; a few thousand are in memory at a time.

        Raises:
            DataError: an item is not a text.
        """
        number = 0
        for window in self._windows(texts):
            if (self._native is None or self._native.task == QUESTIONS) and self._window_encoder is not None:
                for first in range(0, len(window), WINDOW_QUESTIONS):
                    yield from self._answers(window[first : first + WINDOW_QUESTIONS], batch_size)
                continue
            yield from self._predict_batch(window, number, batch_size)
            number += len(window)

    def _predict_batch(self, texts: list[Text], number: int, batch_size: int) -> list[Prediction]:
        """Return predictions for texts of which the first has this number."""
        if (native := self._alone(texts)) is not None:
            return native.predictions(texts, to_end=self._too_long == "windows")
        read, logits = self._read_and_run(texts, number, batch_size=batch_size)
        return self._decoder.decode_many(logits, read, texts)

    def _alone(self, texts: Sequence[Text]) -> NativeEngine | None:
        """Return the native engine if it makes the predictions for checked texts by itself: of one label each."""
        decoder: Any = self._decoder
        if (
            self._quick is None
            or self._native is None
            or decoder.threshold is not None
            or decoder.conformal is not None
        ):
            return None
        if self._too_long == "error" or set(map(type, texts)) != {str}:
            return None
        return self._native

    def predict_proba(self, texts: Iterable[Text]) -> npt.NDArray[np.float64]:
        """Return probabilities (number of texts, C) in the order of `labels.names`.

        Raises:
            DataError: an item is not a text, `texts` is a single text, or the task has no probabilities for texts.
        """
        if not self._decoder.has_probabilities:
            raise DataError(f"the model predicts {self.task.gives}, without probabilities for texts; use predict")
        parts: list[npt.NDArray[np.float64]] = []
        for window in self._windows(texts):
            _, logits = self._read_and_run(window, sum(map(len, parts)))
            parts.append(self._decoder.probabilities(np.asarray(logits)))
        return np.concatenate(parts) if parts else np.zeros((0, len(self.labels)))

    def json_lines(self, texts: Sequence[str]) -> list[str]:
        """Return predictions for texts as JSON lines, as `mixling predict` writes them, faster than by way of objects.

        Raises:
            DataError: an item is not a text, or the task has no such lines (`task.json_of_texts`).
        """
        if not self._decoder.json_of_texts:
            raise DataError(f"the model predicts {self.task.gives}, whose lines of JSON are made of predictions")
        out: list[str] = []
        for window in self._windows(texts):
            if (native := self._alone(window)) is not None:
                out += native.json_lines(window, to_end=self._too_long == "windows")
                continue
            read, logits = self._read_and_run(window, len(out))
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

        def divide(text: Text) -> list[TextWindow]:
            if self._too_long == "error":
                refuse_long(self._with_offsets(text), 0, self.text_config.max_len)
            return text_windows(text, self.encoder.config, self.encoder.vocabulary, per_word=self.task.per_word)[0]

        self._check_all((text,), 0)
        return explain(
            text, task=self.task, config=self.encoder.config, encode=self._with_offsets, logits=self._few_logits,
            logits_of_kept=self._kept_logits, divide=None if self._too_long == "truncate" else divide,
            target=target, word=word, method=method, evaluations=evaluations, seed=seed,
        )  # fmt: skip

    def _with_offsets(self, text: Text) -> Encoded:
        with _ENCODING:
            return self.encoder.encode([text], offsets=True)[0]

    def _kept_logits(self, text: str, kept: npt.NDArray[np.bool_]) -> Float32 | None:
        return None if self._native is None else self._native.kept_logits(text, kept)

    def _few_logits(self, texts: list[Text]) -> Sequence[Float32]:
        """Return the result of `text_logits`, for shortened texts that need no checks, as one array if they are few."""
        if len(texts) > WINDOW_TEXTS:
            return self.text_logits(texts)
        return self._encode_and_run(texts, BATCH_SIZE)[1]

    def text_logits(self, texts: Iterable[Text]) -> list[Float32]:
        """Return the logits that predictions for texts are made of: (C,) each, or (W, C) of a tagger.

        Raises:
            DataError: an item is not a text.
        """
        out: list[Float32] = []
        for window in self._windows(texts):
            out.extend(self._read_and_run(window, len(out))[1])  # `+=` would add numbers of an array
        return out

    def text_vectors(self, texts: Sequence[Text]) -> Float32:
        """Return a vector (B, R) for each text: the mean of its words' rows, which are the input of the network."""
        with _ENCODING:
            encoded = self.encoder.encode(texts)
            return np.stack([self._word_rows(item.words).mean(0) for item in encoded])

    def encode(self, texts: Sequence[Text]) -> list[Encoded]:
        """Encode texts for `logits` of this predictor and of others that share its encoder; long ones are truncated."""
        for number, text in enumerate(texts):
            self._check(text, number)
        with _ENCODING:
            return self.encoder.encode(texts, offsets=self.task.per_word)

    def logits(self, encoded: Sequence[Encoded]) -> list[Float32]:
        """Return the logits of each encoded text: (C,), or (N, C) of a tagger.

        Raises:
            DataError: the encoder's word table was emptied after the texts were encoded, because it was full.
        """
        with _ENCODING:
            if any(item.generation != self.encoder.generation for item in encoded):
                raise DataError("the word table has been emptied since the texts were encoded; encode them again")
            rows = [self._word_rows(item.words) for item in encoded]
            own = self._branch_logits(encoded)
        return self._complete(encoded, self._run(rows, BATCH_SIZE), own)

    def _windows(self, texts: Iterable[Text]) -> Iterator[list[Text]]:
        if type(texts) is not list:
            from mixling.text.clean import check_many

            check_many(texts, "texts")
        window: list[Text] = []
        num_chars = number = 0
        left = iter(texts)
        while chunk := list(itertools.islice(left, min(_CHECKED, WINDOW_TEXTS - len(window)))):
            num_chars += self._check_all(chunk, number)
            number += len(chunk)
            window += chunk
            if len(window) >= WINDOW_TEXTS or num_chars >= self._window_chars:
                yield window
                window, num_chars = [], 0
        if window:
            yield window

    def _check_all(self, texts: Sequence[Text], first: int) -> int:
        """Return the number of characters of texts of which the first has this number; raise as `_check` does."""
        if self._single and set(map(type, texts)) == {str}:
            return sum(map(len, texts))
        return sum(self._check(text, number) for number, text in enumerate(texts, first))

    def _check(self, text: object, number: int) -> int:
        """Return the number of characters of a text.

        Raises:
            DataError: it is not a text, or not of the kind that the model was trained on.
        """
        from mixling.text.clean import count_chars

        size = count_chars(text, number)
        pairs = self.metadata.pairs if self._window_encoder is None else True
        if pairs is not None and isinstance(text, tuple) != pairs:
            if self._window_encoder is not None:
                raise DataError(
                    f"item {number} is one text; this model answers questions: pass (question, context), or on the "
                    "command line --question and --context, or a file with both"
                )
            raise DataError(
                f"item {number} is one text; this model was trained on pairs: pass (first, second), "
                "or on the command line a file and its columns with --text and --text-pair"
                if pairs
                else f"item {number} is a pair of texts; this model was trained on single texts: pass one text"
            )
        return size

    def _read_and_run(
        self, texts: list[Text], number: int, *, batch_size: int = BATCH_SIZE
    ) -> tuple[Sequence[Encoded], Sequence[Float32]]:
        """Return what was read of texts, of which the first has this number, and their logits."""
        read, logits = self._encode_and_run(texts, batch_size, to_end=self._too_long == "windows")
        if self._too_long == "truncate" or not any(item.truncated for item in read):
            return read, logits
        native = self._native
        if self._too_long == "windows" and native is not None and native.reads(texts):
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
            to_end: the native engine reads texts to their end, if it can.
        """
        if self._native is not None and self._native.reads(texts):
            logits, read = self._native.logits(texts, to_end=to_end)
            return read, logits  # type: ignore[return-value]  # all that decoding asks for, and rows
        with _ENCODING:
            encoded = self.encoder.encode(texts, offsets=self._decoder.per_word)
            lengths = [len(item.words) for item in encoded]
            flat = self._word_rows(np.concatenate([item.words for item in encoded]))
            own = self._branch_logits(encoded)
        rows = np.split(flat, np.cumsum(lengths)[:-1])
        return encoded, self._complete(encoded, self._run(rows, batch_size), own)

    def _answers(self, pairs: Sequence[Text], batch_size: int) -> list[Prediction]:
        """Return the answers to questions; a long context is read in several windows."""
        from mixling.text.answers import find_answer

        assert self._window_encoder is not None
        if self._native is not None:
            threshold, found = (
                self._window_encoder.reading.threshold,
                [self._native.answer((pair[0], pair[1])) for pair in pairs],
            )
            return [
                Prediction(answer=best.answer(pair[1], threshold), truncated=truncated)
                for pair, (best, truncated) in zip(pairs, found, strict=True)
            ]
        with _ENCODING:
            encodings = self._window_encoder.encode([(pair[0], pair[1]) for pair in pairs])
            table = self._known_rows()
        windows = (table[item.window(i)] for item in encodings for i in range(len(item.begins)))
        parts = iter(lambda: list(itertools.islice(windows, _WINDOWS)), [])
        logits = itertools.chain.from_iterable(self._run(part, batch_size) for part in parts)
        reading = self._window_encoder.reading
        out = []
        for pair, encoding in zip(pairs, encodings, strict=True):
            best = find_answer(encoding, itertools.islice(logits, len(encoding.begins)), reading)
            out.append(Prediction(answer=best.answer(pair[1], reading.threshold), truncated=encoding.truncated))
        return out

    def _branch_logits(self, encoded: Sequence[Encoded]) -> Float32 | None:
        """Return the branch's logits (B, C), if there is a branch; the caller holds the lock."""
        return None if self._branch is None else self._branch.logits([item.words for item in encoded])

    def _complete(self, encoded: Sequence[Encoded], logits: list[Float32], own: Float32 | None) -> list[Float32]:
        """Return the model's logits for texts, or for their words, given the graph's and the branch's."""
        if self._branch is not None and own is not None:
            return self._branch.add(logits, own)
        if not self.task.per_word or self.text_config.tokens == "words":
            return logits
        return [item.of_words(row) for item, row in zip(encoded, logits, strict=True)]

    def _run(self, rows: list[Float32], batch_size: int) -> list[Float32]:
        """Return the logits of texts, given the rows (N, R) of their words, in batches of similar length."""
        out: list[Float32] = [np.zeros(0, np.float32)] * len(rows)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        first = 0
        while first < len(order):
            size = 1
            while first + size < len(order) and size < batch_size:
                if (size + 1) * len(rows[order[first + size]]) > BATCH_TOKENS:
                    break
                size += 1
            batch = order[first : first + size]
            first += size
            lengths = np.array([len(rows[i]) for i in batch])
            mask = np.arange(lengths[-1]) < lengths[:, None]  # (B, N)
            index = np.zeros(mask.shape, np.int32)
            index[mask] = np.arange(1, lengths.sum() + 1)
            logits = self._model.logits(np.concatenate([rows[i] for i in batch]), index)
            for i, item in zip(batch, logits, strict=True):
                out[i] = item[: len(rows[i])] if item.ndim == 2 else item
        return out

    def _word_rows(self, words: npt.NDArray[np.int32]) -> Float32:
        """Return the summed rows (len(words), R) of rows of the encoder's table; the caller holds the lock."""
        return self._known_rows()[words]

    def _known_rows(self) -> Float32:
        """Return the summed rows (words, R) of the encoder's table; the caller holds the lock and may keep them."""
        if self._generation != self.encoder.generation:
            self._rows, self._num_rows = self._rows[:0].copy(), 0  # never overwritten: another thread may read it
            self._generation = self.encoder.generation
        if self._num_rows < len(self.encoder):
            self._add_rows()
        return self._rows

    def _add_rows(self) -> None:
        """Sum the rows of words that are new in the encoder's table."""
        size = len(self.encoder)
        if size > len(self._rows):
            rows = np.empty((max(size, len(self._rows) * 3 // 2, 1024), self._rows.shape[1]), np.float32)
            rows[: self._num_rows] = self._rows[: self._num_rows]
            self._rows = rows
        together = min(max(_GATHERED // max(self.encoder.bag_size * self._rows.shape[1], 1), 1), 1024)
        for first in range(self._num_rows, size, together):
            part = slice(first, min(first + together, size))
            bags = self.encoder.bags(np.arange(part.start, part.stop))
            self._rows[part] = self._model.rows(bags.positions, bags.weights)
        self._num_rows = size


def _open_again(kind: type[Predictor], content: bytes, encoder: TextEncoder, options: dict[str, Any]) -> Predictor:
    """Restore a pickled predictor."""
    return kind(content, encoder=encoder, **options)
