"""A fitted n-gram branch with its part in the sum of logits, and how it reads texts while it is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float32, Int32, UInt32
from mixling.features.columns import Columns
from mixling.ngrams.search import Attempt
from mixling.tasks.base import Task
from mixling.text.ngram_branch import NgramBranch, NgramMetadata
from mixling.text.ngrams import Distinct, Words
from mixling.text.sparse_weights import SparseWeights


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """A fitted branch.

    Attributes:
        branch: with its weight in the sum multiplied in.
        held_out: (V, C), what branches that were not fitted on the validation examples add to the network's logits, by
            cross-fitting (R, C) for all examples; None: this one was not.
        report: the entry of metrics.json.
        columns: beside the texts, which the branch has weights of; None: there are none.
        out_of_fold: logits (T, C) of both together for the training examples that chose the branch by cross-fitting,
            each of models that had not seen it, and the targets; None: there was none, or they are in `held_out`.
    """

    branch: NgramBranch
    metadata: NgramMetadata
    held_out: npt.NDArray[np.float32] | None
    report: dict[str, Any]
    columns: Columns | None = None
    out_of_fold: tuple[npt.NDArray[np.float32], npt.NDArray[Any]] | None = None

    def combine(self, network: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[np.float32]] | None:
        """Return the logits for the validation examples, given the network's; None: the file's own."""
        if self.held_out is None:
            return None
        return list((self.metadata.network * np.stack(network) + self.held_out).astype(np.float32))


class Reader:
    """Gives the logits that branches have for texts.

    Args:
        words: of all rows of the table.
        texts: the windows of each, as rows of the table.
        terms: all that the branches have; None: any.
        columns: (B, W), the columns beside the texts.
    """

    def __init__(
        self,
        task: Task,
        words: Words,
        texts: Sequence[Sequence[Int32]],
        terms: UInt32 | None = None,
        columns: Float32 | None = None,
    ) -> None:
        self._columns = columns
        found = Distinct.of_texts([window for windows in texts for window in windows], words.hashes)
        used, rows = np.unique(found.rows, return_inverse=True)
        self._task, self._words, self._found = task, words.of_rows(used), replace(found, rows=rows.astype(np.int32))
        if terms is not None:  # without the others, each branch has less to look up
            self._words, self._found = self._words.only(terms), self._found.only(terms)
        self._ends = np.cumsum(list(map(len, texts)))

    def column_logits(self, branch: NgramBranch) -> Float32 | None:
        """Return the logits (B, C) that a branch has for the columns beside the texts; None: there are none."""
        if self._columns is None or branch.columns is None:
            return None
        return self._task.logits_of_scores(self._columns @ branch.columns)

    def logits(self, branch: NgramBranch) -> Float32:
        """Return the logits (B, C) of a branch for the texts without the columns beside them."""
        if isinstance(branch.weights, SparseWeights):
            scores = branch.logits_of_words(self._found, self._words)
        else:
            scores = branch.logits(self._found, branch.row_sums(self._words))
        of_windows = self._task.logits_of_scores(scores)
        if len(of_windows) == len(self._ends):
            return of_windows
        return np.stack([self._task.pool_windows(part) for part in np.split(of_windows, self._ends[:-1])])


def report_of(best: Attempt, branch: NgramBranch, loss_scaled: float) -> dict[str, Any]:
    """Return the entry of metrics.json; `loss_scaled`: of the network alone, with its logits scaled and shifted."""
    num_bytes = sum(array.nbytes for array in branch.to_arrays().values())
    num_bytes += 0 if branch.columns is None else branch.columns.nbytes
    out = {"strength": best.strength, "ratio_power": best.ratio_power, "terms": len(branch.terms), "bytes": num_bytes}
    parts = {f"mixture_{key}": getattr(best.mixture, key) for key in ("network", "branch", "loss", "alone")}
    parts |= {} if branch.columns is None else {"mixture_columns": best.mixture.columns}
    return out | {"loss_scaled": loss_scaled} | parts
