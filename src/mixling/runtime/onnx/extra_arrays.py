"""Arrays of a model file that its graph does not read: of the n-gram branch, of columns, and transitions of tags.

They are removed from the graph's weights, so that a node that reads one is refused like any unknown name.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mixling.arrays import Float32
from mixling.errors import ModelFileError
from mixling.features.columns import Columns
from mixling.runtime.onnx.graph import Graph
from mixling.tasks.base import Task
from mixling.text.ngram_branch import NgramBranch, NgramMetadata

COLUMN_WEIGHTS = "columns.weights"  # (W, K)
COLUMNS_ENTRY = "columns"  # of the metadata
BRANCH = "ngrams."  # prefix of the names of the branch's arrays
TRANSITIONS = "tags.transitions"


def take_branch(graph: Graph, metadata: NgramMetadata | None, task: Task) -> NgramBranch | None:
    """Remove and return the branch; None: the file has none.

    Raises:
        ModelFileError: it does not fit the metadata or the task.
    """
    names = [name for name in graph.weights if name.startswith(BRANCH)]
    arrays = {name.removeprefix(BRANCH): graph.weights.pop(name).array() for name in names}
    if (metadata is None) != (not arrays):
        raise ModelFileError("its metadata has an n-gram branch and its arrays do not, or vice versa")
    if metadata is None:
        return None
    if not task.has_scores:
        raise ModelFileError(f"it has an n-gram branch; models of {task.name} have none")
    if metadata.min_n > metadata.max_n:
        raise ModelFileError(f"its n-grams have {metadata.min_n} to {metadata.max_n} characters")
    return NgramBranch.from_arrays(arrays, task.num_scores)


def take_columns(
    graph: Graph, description: str | None, branch: NgramBranch | None
) -> tuple[NgramBranch | None, Columns | None]:
    """Remove the weights of the columns beside the text, and return the branch with them; None: the file has none.

    Raises:
        ModelFileError: they do not fit their description or the branch.
    """
    weights = graph.weights.pop(COLUMN_WEIGHTS).array() if COLUMN_WEIGHTS in graph.weights else None
    if (weights is None) != (description is None):
        raise ModelFileError("it has columns without weights, or vice versa")
    if weights is None or description is None:
        return branch, None
    if branch is None:
        raise ModelFileError("it has columns without the linear model that reads them")
    try:
        columns = Columns.parse(description)
    except ValueError as error:
        raise ModelFileError(str(error)) from None
    expected = (columns.width, branch.outputs)
    if weights.dtype != np.float32 or weights.shape != expected or not np.isfinite(weights).all():
        raise ModelFileError(
            f"the weights of its columns are {weights.dtype} {weights.shape}; needed are finite float32 {expected}"
        )
    return replace(branch, columns=weights), columns


def take_transitions(graph: Graph, task: Task) -> Float32 | None:
    """Remove and return the scores of a tag after another (tags, tags); None: the file has none.

    Raises:
        ModelFileError: they do not fit the task.
    """
    if TRANSITIONS not in graph.weights:
        return None
    scores = graph.weights.pop(TRANSITIONS).array()
    number = len(task.labels)
    if not task.per_word or task.windows:
        raise ModelFileError(f"it has transitions between tags; models of {task.name} have none")
    if scores.dtype != np.float32 or scores.shape != (number, number) or not np.isfinite(scores).all():
        raise ModelFileError(
            f"its transitions are {scores.dtype} {scores.shape}; {number} tags need finite float32 ({number}, {number})"
        )
    return scores
