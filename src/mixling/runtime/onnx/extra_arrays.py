"""Arrays of a model file that its graph does not read: the n-gram branch's, and the transitions between tags.

They are removed from the graph's weights, so that a node that reads one is refused like any unknown name.
"""

from __future__ import annotations

import numpy as np

from mixling.arrays import Float32
from mixling.errors import ModelFileError
from mixling.runtime.onnx.graph import Graph
from mixling.tasks.base import Task
from mixling.text.ngram_branch import NgramBranch, NgramMetadata

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
