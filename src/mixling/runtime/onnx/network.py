"""From texts to logits with ONNX Runtime: the encoder, the rows of words, the graph and the n-gram branch."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mixling.errors import ConfigError, DataError
from mixling.features.cells import cells_of
from mixling.runtime.inputs import BATCH_SIZE

if TYPE_CHECKING:  # imported when a model is opened in full
    from mixling.answers.questions import Found
    from mixling.arrays import Float32
    from mixling.runtime.ngrams import BranchScorer
    from mixling.runtime.onnx.session import OpenModel
    from mixling.text.encoder import Encoded, Text, TextEncoder
    from mixling.text.windows import WindowEncoder

BATCH_TOKENS = 4096
_WINDOWS = 64  # windows of contexts in memory at a time

# Predictors may share an encoder, and threads a predictor. Encoding holds the interpreter's own lock almost all the
# time, so one lock for all of them costs nothing. A fork waits for it, so that the forked process has complete tables
# and a free lock; the lock is reentrant because a signal handler may fork while a text is being encoded.
ENCODING = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=ENCODING.acquire, after_in_parent=ENCODING.release, after_in_child=ENCODING.release)


class Network:
    """Computes the logits of texts, up to the model's maximum length.

    Attributes:
        branch: the linear model of n-grams whose logits are added; None: there is none.
        window_encoder: divides the contexts of questions; None for other tasks.
        part_chars: characters of texts whose words all fit into the cache of rows, even if they are distinct.
    """

    def __init__(self, model: OpenModel, encoder: TextEncoder | None) -> None:
        """Prepare a model.

        Args:
            encoder: another predictor's, to encode each text once for both.

        Raises:
            ConfigError: the encoder computes other features than those that the model was trained on.
        """
        from mixling.runtime.ngrams import BranchScorer
        from mixling.runtime.onnx.word_rows import WordRows, max_cached_words
        from mixling.text.encoder import TextEncoder
        from mixling.text.windows import WindowEncoder

        config = model.metadata.text
        max_words = max_cached_words(model.row_dim + (0 if model.branch is None else model.task.num_scores))
        if encoder is None:
            encoder = TextEncoder(config, model.vocabulary, max_table=max_words)
        elif encoder.digest != TextEncoder(config, model.vocabulary).digest:
            raise ConfigError(f"{model.name}: the shared encoder has another vocabulary, projection or casing")
        elif encoder.config.max_len > config.max_len:
            raise ConfigError(
                f"{model.name}: reads {config.max_len} words, the shared encoder {encoder.config.max_len}; "
                "share the encoder of the model that reads fewer"
            )
        self.model = model
        self.encoder = encoder
        self.part_chars = 8 * max_words
        self._rows = WordRows(model, encoder)
        self.branch: BranchScorer | None = None
        if model.branch is not None and model.metadata.ngrams is not None:
            self.branch = BranchScorer(model.branch, model.metadata.ngrams, model.task, encoder)
        reading = model.metadata.reading
        self.window_encoder: WindowEncoder | None = None if reading is None else WindowEncoder(encoder, reading)

    def encode(self, texts: Sequence[Text], *, offsets: bool | None = None) -> list[Encoded]:
        """Encode texts, by default with character offsets where answers are for words."""
        with ENCODING:
            return self.encoder.encode(texts, offsets=self.model.task.per_word if offsets is None else offsets)

    def mean_rows(self, texts: Sequence[Text]) -> Float32:
        """Return the mean (B, R) of the rows of each text's words."""
        with ENCODING:
            encoded = self.encoder.encode(texts)
            rows = self._rows.known()
            out = np.empty((len(encoded), rows.shape[1]), np.float32)
            for number, item in enumerate(encoded):
                rows[item.words].mean(0, out=out[number])
            return out

    def read(self, texts: Sequence[Text], batch_size: int = BATCH_SIZE) -> tuple[Sequence[Encoded], list[Float32]]:
        """Return what was read of texts, and their logits, (C,) each, or (W, C) of each text's words."""
        with ENCODING:
            encoded = self.encode(texts)
            rows, scores = self._look_up(encoded)
        logits = self._complete(encoded, self._run(rows, batch_size), scores)
        return encoded, logits if self.model.columns is None else self._add_columns(texts, logits)

    def _add_columns(self, texts: Sequence[Text], logits: list[Float32]) -> list[Float32]:
        """Return the logits of texts with what the columns beside them add."""
        assert self.branch is not None
        assert self.model.columns is not None
        own = self.branch.of_columns(list(map(cells_of, texts)), self.model.columns)
        return [row + mine for row, mine in zip(logits, own, strict=True)]

    def logits(self, encoded: Sequence[Encoded]) -> list[Float32]:
        """Return the logits of encoded texts.

        Raises:
            DataError: the encoder's word table was emptied after the texts were encoded, because it was full.
        """
        with ENCODING:
            if any(item.generation != self.encoder.generation for item in encoded):
                raise DataError("the word table has been emptied since the texts were encoded; encode them again")
            rows, scores = self._look_up(encoded)
        return self._complete(encoded, self._run(rows, BATCH_SIZE), scores)

    def find_answers(self, pairs: Sequence[Text], batch_size: int) -> list[tuple[Found, bool]]:
        """Return the answers to pairs (question, context), and whether anything of a pair was cut off.

        A long context is read in several windows.
        """
        from mixling.answers.questions import find_answer

        assert self.window_encoder is not None
        with ENCODING:
            encodings = self.window_encoder.encode([(pair[0], pair[1]) for pair in pairs])
            table = self._rows.known()
        windows = (table[item.window(i)] for item in encodings for i in range(len(item.begins)))
        parts = iter(lambda: list(itertools.islice(windows, _WINDOWS)), [])
        logits = itertools.chain.from_iterable(self._run(part, batch_size) for part in parts)
        reading = self.window_encoder.reading
        return [
            (find_answer(item, itertools.islice(logits, len(item.begins)), reading), item.truncated)
            for item in encodings
        ]

    def _look_up(self, encoded: Sequence[Encoded]) -> tuple[list[Float32], Float32 | None]:
        """Return the rows (N, R) of each text's words, and the branch's logits (B, C); the caller holds the lock."""
        words = [item.words for item in encoded]
        scores = None if self.branch is None else self.branch.logits(words)
        known = self._rows.known()
        if len(words) < 2:
            return [known[item] for item in words], scores
        return np.split(known[np.concatenate(words)], np.cumsum(list(map(len, words)))[:-1]), scores

    def _complete(self, encoded: Sequence[Encoded], logits: list[Float32], scores: Float32 | None) -> list[Float32]:
        """Return the model's logits for texts, or for their words, given the graph's and the branch's."""
        if self.branch is not None and scores is not None:
            return self.branch.add(logits, scores)
        if not self.model.task.per_word:
            return logits
        return [item.of_words(row) for item, row in zip(encoded, logits, strict=True)]

    def _run(self, rows: list[Float32], batch_size: int) -> list[Float32]:
        """Return the logits of texts, given the rows (N, R) of their words, in batches of similar length."""
        if len(rows) == 1:  # without the cost of sorting and padding
            return [self.model.logits(rows[0], np.arange(1, len(rows[0]) + 1, dtype=np.int32)[None])[0]]
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
            logits = self.model.logits(np.concatenate([rows[i] for i in batch]), index)
            for i, item in zip(batch, logits, strict=True):
                out[i] = item[: len(rows[i])] if item.ndim == 2 else item
        return out
