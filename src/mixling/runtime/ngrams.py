"""Compute the logits of a model's n-gram branch; the sums of each word are cached, as the network's rows are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mixling.arrays import Float32, Int32
from mixling.features.cells import Cells
from mixling.features.columns import Columns
from mixling.tasks.base import Task
from mixling.text.encoder import TextEncoder
from mixling.text.ngram_branch import NgramBranch, NgramMetadata
from mixling.text.ngrams import Distinct, Words
from mixling.text.sparse_weights import SparseWeights

_TOGETHER = 1024  # words looked up at a time


class BranchScorer:
    """Scores texts as rows of an encoder's word table; the caller holds a lock that the encoder is under.

    Args:
        branch, metadata: of the model file.
        task: makes logits of the branch's scores.
    """

    def __init__(self, branch: NgramBranch, metadata: NgramMetadata, task: Task, encoder: TextEncoder) -> None:
        self.branch = branch
        self.metadata = metadata
        self._task = task
        self._encoder = encoder
        self._sparse = isinstance(branch.weights, SparseWeights)
        self._forget()

    def logits(self, texts: Sequence[Int32]) -> Float32:
        """Return the logits (B, C) of texts."""
        if self._generation != self._encoder.generation:
            self._forget()
        if self._known < len(self._encoder):
            self._add_words()
        found = Distinct.of_texts(texts, self._hashes)
        if self._sparse:
            used, rows = np.unique(found.rows, return_inverse=True)
            words = Words.of_table(self._encoder, 0, self.metadata.min_n, self.metadata.max_n).of_rows(used)
            scores = self.branch.logits_of_words(replace(found, rows=rows.astype(np.int32)), words)
            return self._task.logits_of_scores(scores)
        return self._task.logits_of_scores(self.branch.logits(found, self._sums))

    def add(self, network: Sequence[Float32], own: Float32) -> list[Float32]:
        """Return the network's logits of texts, (C,) each, with the branch's (B, C) added."""
        factor = np.float32(self.metadata.network)
        return [factor * row + mine for row, mine in zip(network, own, strict=True)]

    def of_columns(self, rows: Sequence[Cells | None], columns: Columns) -> Float32:
        """Return the logits (B, C) of the columns beside texts; raises as `Columns.encode`."""
        assert self.branch.columns is not None
        return self._task.logits_of_scores(columns.encode(rows) @ self.branch.columns)

    def _forget(self) -> None:
        self._generation = self._encoder.generation
        self._known = 0
        self._hashes = np.zeros(0, np.uint32)
        self._sums = np.zeros((0, self.branch.outputs + 1), np.int32)

    def _add_words(self) -> None:
        first = self._known
        size = len(self._encoder)
        words = Words.of_table(self._encoder, first, self.metadata.min_n, self.metadata.max_n)
        if size > len(self._hashes):
            room = max(size, len(self._hashes) * 3 // 2, 1024)
            self._hashes = np.resize(self._hashes, room)
            if not self._sparse:
                self._sums = np.concatenate(
                    [self._sums[:first], np.zeros((room - first, self.branch.outputs + 1), np.int32)]
                )
        self._hashes[first:size] = words.hashes
        for start in range(0, 0 if self._sparse else size - first, _TOGETHER):
            stop = min(start + _TOGETHER, size - first)
            self._sums[first + start : first + stop] = self.branch.row_sums(words.part(start, stop))
        self._known = size
