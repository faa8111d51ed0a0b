"""A graph of near vectors (HNSW, Malkov and Yashunin 2016, by usearch), for indexes that take long to compare in full.

Decided here: of each search four times as many candidates are taken as are asked for, and their cosines are computed
from the vectors, as rounded ones are not quite of one length: of 100,000 sentences' ten nearest it finds .99, not .89.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.arrays import Int8
from mixling.errors import MissingPackage, ModelFileError
from mixling.folders import move
from mixling.installation import install_command

GRAPH = "graph.usearch"
_NEIGHBORS = 16
_BUILD_WIDTH = 128
_SEARCH_WIDTH = 128
_CANDIDATES = 4  # for each that is asked for
_TOGETHER = 16_384


def _usearch() -> Any:
    try:
        from usearch.index import Index
    except ImportError:
        command = install_command("index")
        raise MissingPackage(f"a graph of vectors needs usearch, which is not installed: {command}") from None
    return Index


def empty_graph(size: int) -> Any:
    """Return a graph for vectors of `size` integers.

    Raises:
        MissingPackage: usearch is not installed.
    """
    return _usearch()(
        ndim=size, metric="cos", dtype="i8", connectivity=_NEIGHBORS, expansion_add=_BUILD_WIDTH,
        expansion_search=_SEARCH_WIDTH,
    )  # fmt: skip


def write_vector_graph(path: Path, vectors: Int8) -> None:
    """Write the graph of vectors (N, R); raises as `empty_graph`."""
    graph = empty_graph(vectors.shape[1])
    for first in range(0, len(vectors), _TOGETHER):
        part = np.ascontiguousarray(vectors[first : first + _TOGETHER])
        graph.add(np.arange(first, first + len(part), dtype=np.uint64), part)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".graph.") as folder:  # usearch would follow a link
        graph.save(os.path.join(folder, GRAPH))
        move(Path(folder, GRAPH), path)


class VectorGraph:
    """Finds vectors that are near, most of them the nearest.

    The file is mapped, not read, and trusted as usearch trusts it: open those that you made.

    Raises:
        MissingPackage: usearch is not installed.
        ModelFileError: the file is no graph of these vectors.
    """

    def __init__(self, path: Path, vectors: Int8) -> None:
        kind = _usearch()
        try:
            self._graph = kind.restore(str(path), view=True)
        except (RuntimeError, ValueError, OSError) as error:
            raise ModelFileError(f"{path}: is damaged: {error}") from None
        if self._graph is None or (len(self._graph), self._graph.ndim) != vectors.shape:
            raise ModelFileError(f"{path}: is missing, or not a graph of the vectors beside it")
        self._graph.expansion_search = _SEARCH_WIDTH
        self._vectors = vectors

    def nearest(self, query: Int8, count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Return the numbers of the nearest vectors (K,) to one of (R,), and their products with it, highest first."""
        found = self._graph.search(query, min(_CANDIDATES * count, len(self._vectors))).keys.astype(np.int64)
        products = self._vectors[found].astype(np.int32) @ query.astype(np.int32)
        order = np.lexsort((found, -products))[:count]
        return found[order], products[order]
