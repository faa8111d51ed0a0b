"""Prediction from a saved model: NumPy, tokenizers and ONNX Runtime, never torch."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.errors import ConfigError, DataError
from mixling.runtime.engine import Float32
from mixling.runtime.ngrams import BranchScorer
from mixling.runtime.session import Metadata, OpenModel, open_model
from mixling.tasks.base import Task
from mixling.text.answers import find_answer
from mixling.text.clean import check_many, count_chars
from mixling.text.config import TextConfig
from mixling.text.encoder import Encoded, Text, TextEncoder
from mixling.text.labels import LabelSet
from mixling.text.predictions import Prediction
from mixling.text.windows import WindowEncoder

# One batch: more texts are no faster on a core, and their activations leave its cache.
BATCH_SIZE = 16
BATCH_TOKENS = 4096
# Texts that are looked at together, to put those of one length into one batch.
WINDOW_TEXTS = 4096
_WINDOWS = 64  # of contexts, whose rows are held at a time
WINDOW_QUESTIONS = 64  # questions, whose overlapping windows hold their contexts several times
ROW_CACHE_BYTES = 64 << 20
_GATHERED = 1 << 22  # numbers of the bags whose rows are summed at a time
_SHOWN_LABELS = 5  # by `repr`

# An encoder may be shared between predictors, and predictors between threads. Encoding holds the interpreter's own lock
# almost all the time, so one lock for all of them costs nothing. A fork waits for it, so that the forked process has
# complete tables and a free lock; a signal handler may fork in the middle of an encoding, hence the reentrant lock.
_ENCODING = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_ENCODING.acquire, after_in_parent=_ENCODING.release, after_in_child=_ENCODING.release)


class Predictor:
    """Answers for texts with a saved model.

    A text is a string, a pair of strings in a tuple, or a list of words of a sentence that was split before. Where many
    texts may be given, a list is always a list of texts: one sentence given as words goes to `predict_one`, or as
    `predict([words])`. A model that answers questions takes pairs (question, context); contexts may be long.

    Safe to be called from several threads, and in processes forked meanwhile. Pickling and copying keep the content of
    the model file, `num_threads` and `encoder`, so that predictors which share an encoder share one in the copy too,
    but not the rows of words: the copy's table is empty. As any pickle, that of a predictor is to be loaded from
    trusted places only; the model file itself may come from anywhere.

    The summed row of each word is kept, as many words as fit 64 MiB (with an
    encoder of the caller's: as many as that holds), so that a word met again costs no hashing and no projection.
    """

    def __init__(self, path: str | Path | bytes, *, num_threads: int = 1, encoder: TextEncoder | None = None) -> None:
        """Open a saved model.

        Args:
            path: a saved model's folder, its `model.onnx` alone, or the bytes of that file.
            num_threads: threads of one prediction; small models are fastest with one.
            encoder: the `encoder` of another predictor, to encode each text once for both (see `logits`).

        Raises:
            ModelFileError: there is no sound model at `path`.
            ConfigError: `encoder` gives words other features than this model was trained on.
        """
        self._model: OpenModel = open_model(path, num_threads=num_threads)
        config, dim = self._model.metadata.text, self._model.row_dim
        sums = 0 if self._model.branch is None else self._model.task.num_scores
        max_words = max(ROW_CACHE_BYTES // (4 * (dim + sums)), 1024)
        if encoder is None:
            encoder = TextEncoder(config, self._model.vocabulary, max_table=max_words)
        elif encoder.digest != TextEncoder(config, self._model.vocabulary).digest:
            raise ConfigError(f"{self._model.name}: the encoder given has another vocabulary, projection or casing")
        elif encoder.config.max_len > config.max_len:
            raise ConfigError(
                f"{self._model.name}: reads {config.max_len} words, the encoder given {encoder.config.max_len}; "
                "share the encoder of the model that reads fewer"
            )
        self.encoder = encoder
        self._branch: BranchScorer | None = None
        if self._model.branch is not None and self.metadata.ngrams is not None:
            self._branch = BranchScorer(self._model.branch, self.metadata.ngrams, self.task, encoder)
        reading = self.metadata.reading
        self._windows_of = None if reading is None else WindowEncoder(encoder, reading)
        # A window's new words stay within what the cache may hold, even if no two are the same.
        self._window_chars = 8 * max_words
        self._generation = encoder.generation
        self._rows: Float32 = np.zeros((0, dim), np.float32)
        self._num_rows = 0

    @classmethod
    def from_bytes(cls, content: bytes, *, num_threads: int = 1, encoder: TextEncoder | None = None) -> Predictor:
        """A predictor from the content of a `model.onnx`."""
        return cls(content, num_threads=num_threads, encoder=encoder)

    def __reduce__(self) -> tuple[Callable[..., Predictor], tuple[Any, ...]]:
        engine = self._model.engine
        return _open_again, (type(self), engine.data, engine.num_threads, self.encoder)

    def __repr__(self) -> str:
        metadata, names = self.metadata, self.labels.names
        shown = ", ".join(map(repr, names[:_SHOWN_LABELS])) + (", ..." if len(names) > _SHOWN_LABELS else "")
        labels = f"{len(names)} labels ({shown}), " if self.task.has_labels else ""
        return (
            f"<{type(self).__name__} of {self._model.name}: {metadata.task}, {labels}"
            f"{metadata.parameters:,} parameters, {metadata.precision}>"
        )

    @property
    def metadata(self) -> Metadata:
        """What the model file says of itself: task, precision, number of parameters."""
        return self._model.metadata

    @property
    def task(self) -> Task:
        """The task, with its labels; `task.name` is its name."""
        return self._model.task

    @property
    def labels(self) -> LabelSet:
        return self._model.task.labels

    @property
    def text_config(self) -> TextConfig:
        return self._model.metadata.text

    def predict(self, texts: Text | Sequence[Text]) -> Prediction | list[Prediction]:
        """One text -> its prediction; several -> a list in their order.

        Raises:
            DataError: an item is no text.
        """
        if isinstance(texts, str | tuple):
            return self.predict_one(texts)
        return list(self.predict_stream(texts))

    def predict_one(self, text: Text) -> Prediction:
        """The prediction for one text; a list is the words of a sentence."""
        self._check(text, 0)
        if self._windows_of is not None:
            return self._answers([text], BATCH_SIZE)[0]
        task = self.task
        with _ENCODING:
            encoded = self.encoder.encode([text], offsets=task.per_word)[0]
            rows = self._word_rows(encoded.words)
            own = None if self._branch is None else self._branch.logits([encoded.words])
        logits = self._model.logits(rows, np.arange(1, len(rows) + 1, dtype=np.int32)[None])[0]
        if self._branch is not None and own is not None:
            logits = self._branch.add([logits], own)[0]
        return task.decode(encoded.of_words(logits) if task.per_word else logits, encoded, text)

    def predict_stream(self, texts: Iterable[Text], *, batch_size: int = BATCH_SIZE) -> Iterator[Prediction]:
        """Predictions in the order of `texts`, which may be endless: a few thousand of them are held at a time.

        Raises:
            DataError: an item is no text.
        """
        for window in self._windows(texts):
            if self._windows_of is not None:
                for first in range(0, len(window), WINDOW_QUESTIONS):
                    yield from self._answers(window[first : first + WINDOW_QUESTIONS], batch_size)
                continue
            encoded, logits = self._encode_and_run(window, offsets=self.task.per_word, batch_size=batch_size)
            yield from self.task.decode_many(logits, encoded, window)

    def predict_proba(self, texts: Iterable[Text]) -> npt.NDArray[np.float64]:
        """Probabilities (number of texts, C) in the order of `labels.names`.

        Raises:
            DataError: an item is no text, `texts` is a single one, or the model gives texts no labels.
        """
        if not self.task.has_probabilities:
            raise DataError(f"the model gives {self.task.gives}, and texts have no probabilities; use predict")
        parts = [np.zeros((0, len(self.labels)))]
        for window in self._windows(texts):
            _, logits = self._encode_and_run(window, offsets=False, batch_size=BATCH_SIZE)
            parts.append(self.task.probabilities(np.stack(logits)))
        return np.concatenate(parts)

    def encode(self, texts: Sequence[Text]) -> list[Encoded]:
        """What `logits` reads, here and of every other predictor that shares this encoder."""
        for number, text in enumerate(texts):
            self._check(text, number)
        with _ENCODING:
            return self.encoder.encode(texts, offsets=self.task.per_word)

    def logits(self, encoded: Sequence[Encoded]) -> list[Float32]:
        """The logits of each encoded text: (C,), or (N, C) of a tagger.

        Raises:
            DataError: the texts were encoded before the encoder's table was full and started anew: encode them again.
        """
        with _ENCODING:
            if any(item.generation != self.encoder.generation for item in encoded):
                raise DataError("texts were encoded for a word table that has been emptied since; encode them again")
            rows = [self._word_rows(item.words) for item in encoded]
            own = self._branch_logits(encoded)
        return self._of_words(encoded, self._run(rows, BATCH_SIZE), own)

    def _windows(self, texts: Iterable[Text]) -> Iterator[list[Text]]:
        check_many(texts, "texts")
        window: list[Text] = []
        num_chars = 0
        for number, text in enumerate(texts):
            num_chars += self._check(text, number)
            window.append(text)
            if len(window) >= WINDOW_TEXTS or num_chars >= self._window_chars:
                yield window
                window, num_chars = [], 0
        if window:
            yield window

    def _check(self, text: object, number: int) -> int:
        """The characters of a text.

        Raises:
            DataError: it is none, or not of the kind that the model was trained on.
        """
        size = count_chars(text, number)
        pairs = self.metadata.pairs if self._windows_of is None else True
        if pairs is not None and isinstance(text, tuple) != pairs:
            if self._windows_of is not None:
                raise DataError(
                    f"item {number} is one text; this model answers questions: give (question, context), or on the "
                    "command line --question and --context, or a file that has both"
                )
            raise DataError(
                f"item {number} is one text; this model was trained on pairs: give (first, second), "
                "or on the command line a file and its columns with --text and --text-pair"
                if pairs
                else f"item {number} is a pair of texts; this model was trained on single texts: give one"
            )
        return size

    def _encode_and_run(
        self, texts: list[Text], *, offsets: bool, batch_size: int
    ) -> tuple[list[Encoded], list[Float32]]:
        with _ENCODING:
            encoded = self.encoder.encode(texts, offsets=offsets)
            lengths = [len(item.words) for item in encoded]
            flat = self._word_rows(np.concatenate([item.words for item in encoded]))
            own = self._branch_logits(encoded)
        logits = self._run(np.split(flat, np.cumsum(lengths)[:-1]), batch_size)
        return encoded, self._of_words(encoded, logits, own)

    def _answers(self, pairs: Sequence[Text], batch_size: int) -> list[Prediction]:
        """The answers to questions; a long context is read in several windows."""
        assert self._windows_of is not None
        with _ENCODING:
            encodings = self._windows_of.encode([(pair[0], pair[1]) for pair in pairs])
            table = self._known_rows()
        windows = (table[item.window(i)] for item in encodings for i in range(len(item.begins)))
        parts = iter(lambda: list(itertools.islice(windows, _WINDOWS)), [])
        logits = itertools.chain.from_iterable(self._run(part, batch_size) for part in parts)
        reading = self._windows_of.reading
        out = []
        for pair, encoding in zip(pairs, encodings, strict=True):
            found = find_answer(encoding, itertools.islice(logits, len(encoding.begins)), reading)
            out.append(Prediction(answer=found.answer(pair[1], reading.threshold), truncated=encoding.truncated))
        return out

    def _branch_logits(self, encoded: Sequence[Encoded]) -> Float32 | None:
        """The branch's logits (B, C), if there is one; the caller holds the lock."""
        return None if self._branch is None else self._branch.logits([item.words for item in encoded])

    def _of_words(self, encoded: Sequence[Encoded], logits: list[Float32], own: Float32 | None = None) -> list[Float32]:
        if self._branch is not None and own is not None:
            return self._branch.add(logits, own)
        if not self.task.per_word or self.text_config.tokens == "words":
            return logits
        return [item.of_words(row) for item, row in zip(encoded, logits, strict=True)]

    def _run(self, rows: list[Float32], batch_size: int) -> list[Float32]:
        """Logits of texts given as their words' rows (N, R), in batches of nearly one length."""
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
            real = np.arange(lengths[-1]) < lengths[:, None]  # (B, N)
            index = np.zeros(real.shape, np.int32)
            index[real] = np.arange(1, lengths.sum() + 1)
            logits = self._model.logits(np.concatenate([rows[i] for i in batch]), index)
            for i, item in zip(batch, logits, strict=True):
                out[i] = item[: len(rows[i])] if item.ndim == 2 else item
        return out

    def _word_rows(self, words: npt.NDArray[np.int32]) -> Float32:
        """The summed rows (len(words), R) of words, rows of the encoder's table; the caller holds the lock."""
        return self._known_rows()[words]

    def _known_rows(self) -> Float32:
        """The summed rows (words, R) of the encoder's table; the caller holds the lock, and may keep what it gets."""
        if self._generation != self.encoder.generation:
            self._rows, self._num_rows = self._rows[:0].copy(), 0  # never written over: another thread may read it
            self._generation = self.encoder.generation
        if self._num_rows < len(self.encoder):
            self._add_rows()
        return self._rows

    def _add_rows(self) -> None:
        """Sum the rows of the words that the encoder's table has gained."""
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


def _open_again(kind: type[Predictor], content: bytes, num_threads: int, encoder: TextEncoder) -> Predictor:
    """What a pickle calls."""
    return kind(content, num_threads=num_threads, encoder=encoder)
