"""An index of texts in a folder: their vectors as 8-bit integers, the texts, and the model that made the vectors."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixling.arrays import Int8
from mixling.errors import ConfigError, ModelFileError, shown
from mixling.folders import remove
from mixling.native import _counts
from mixling.opening import open_regular
from mixling.runtime.predictor import Predictor
from mixling.runtime.vector_graph import GRAPH, VectorGraph, empty_graph, write_vector_graph
from mixling.runtime.vectors import LAYERS, LENGTH
from mixling.storage import MAX_JSON, atomic_file, parse_json, read_json, write_atomic
from mixling.text.encoder import Text

RECORD = "index.json"
_VECTORS, _TEXTS, _ENDS, _MODEL = "vectors.npy", "texts.jsonl", "ends.npy", "model.onnx"
MOST = 10_000_000  # vectors that are compared one by one
_TOGETHER = 4096
_HEADER = 128  # bytes of a .npy file before its values


class VectorIndex:
    """Finds the texts of an index that are nearest to others, by the cosine of their vectors.

    All vectors are compared, in C: 1,000,000 of 192 numbers take about 20 ms of one core. The graph of an index finds
    nearly the same without that. The folder may be moved: it has a copy of the model.

    Args:
        folder: of `write_index`, or `mixling encode -o FOLDER`.
        graph: search by the graph of the index, which must be one that you made: usearch trusts its file, and a few
            changed bytes end the process.

    Raises:
        ModelFileError: there is no index, or it is damaged.
        ConfigError: a graph is asked for, and it has none.
        MissingPackage: a graph is asked for, and usearch is not installed.
    """

    def __init__(self, folder: str | Path, *, graph: bool = False) -> None:
        self.folder = Path(folder)
        try:
            record = read_json(self.folder / RECORD)
            self.layer = record["layer"]
            has_graph = bool(record.get("graph"))
            self.vectors: Int8 = _mapped(self.folder / _VECTORS)
            self._ends = _mapped(self.folder / _ENDS)
        except FileNotFoundError as error:
            missing = Path(error.filename or str(error)).name
            remedy = f"make one: mixling encode MODEL FILE -o {self.folder}"
            raise ModelFileError(f"{self.folder}: is no index ({missing} is missing); {remedy}") from None
        except (ValueError, KeyError, TypeError, EOFError, OSError) as error:
            raise ModelFileError(f"{self.folder}: the index is damaged: {error}") from None
        sound = self.vectors.ndim == 2 and self.vectors.dtype == np.int8 and self.layer in LAYERS
        if not sound or self._ends.shape != (len(self.vectors),) or self._ends.dtype != np.int64:
            raise ModelFileError(f"{self.folder}: the index is damaged: its files do not fit together")
        self.predictor = Predictor(self.folder / _MODEL)
        if graph and not has_graph:
            raise ConfigError(f"{self.folder}: the index has no graph; make one: mixling encode MODEL FILE --graph")
        self._graph = VectorGraph(self.folder / GRAPH, self.vectors) if graph else None

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        return f"<VectorIndex of {len(self):,} texts, {self.vectors.shape[1]} numbers each, layer {self.layer}>"

    def nearest(self, texts: Sequence[Text], count: int = 10) -> list[list[tuple[int, float]]]:
        """Return for each text the numbers of the nearest texts of the index, counted from 0, and their cosines.

        Raises:
            ConfigError: `count` is less than 1.
            DataError: an item is no text that the model accepts.
        """
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ConfigError(f"count: got {shown(count)}; allowed: a whole number from 1")
        queries = self.predictor.encode(texts, layer=self.layer, dtype="int8")
        size = self.vectors.shape[1]
        if queries.shape[1] != size:
            raise ModelFileError(f"{self.folder}: the index is damaged: its model has vectors of another size")
        if self._graph is not None:
            near = [self._graph.nearest(query, count) for query in queries]
            return [list(zip(rows.tolist(), (found / LENGTH**2).tolist(), strict=True)) for rows, found in near]
        numbers, products = _counts.nearest(self.vectors, np.ascontiguousarray(queries), size, count)
        shape = (len(queries), min(count, len(self)))
        rows = np.frombuffer(numbers, np.int64).reshape(shape).tolist()
        cosines = (np.frombuffer(products, np.int32).reshape(shape) / LENGTH**2).tolist()
        return [list(zip(*pair, strict=True)) for pair in zip(rows, cosines, strict=True)]

    def text(self, number: int) -> Any:
        """Return a text of the index by its number.

        Raises:
            ModelFileError: the file of the texts is damaged.
        """
        begin = int(self._ends[number - 1]) if number else 0
        end = int(self._ends[number])
        try:
            if not 0 <= begin <= end <= begin + MAX_JSON:
                raise ValueError(f"a text from byte {begin:,} to {end:,}")
            with open_regular(self.folder / _TEXTS) as file:
                file.seek(begin)
                found = parse_json(file.read(end - begin))
        except (OSError, ValueError) as error:
            raise ModelFileError(f"{self.folder / _TEXTS}: is damaged: {error}") from None
        return tuple(found) if isinstance(found, list) else found


def write_index(
    folder: Path, predictor: Predictor, texts: Iterable[Text], *, layer: str = "words", graph: bool = False
) -> int:
    """Write an index of texts, which are read once and not kept in memory; return how many there are.

    Args:
        graph: add a graph, so that millions of texts need not be compared one by one.

    Raises:
        ConfigError: there is no such layer, or there are more than 10,000,000 texts and no graph.
        MissingPackage: a graph is asked for, and usearch is not installed.
        DataError: an item is no text that the model accepts.
        StorageError: a file cannot be written.
    """
    if graph:
        empty_graph(1)
    folder.mkdir(parents=True, exist_ok=True)
    ends = array("q")
    with atomic_file(folder / _VECTORS) as vectors, atomic_file(folder / _TEXTS) as lines:
        place = 0
        size = 0
        vectors.write(b"\0" * _HEADER)
        for part in _parts(texts):
            found = predictor.encode(part, layer=layer, dtype="int8")
            size = found.shape[1]
            vectors.write(found.tobytes())
            for text in part:
                place += lines.write(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
                ends.append(place)
            if len(ends) > MOST and not graph:
                raise ConfigError(f"{folder}: more than {MOST:,} texts would be compared one by one; use --graph")
        vectors.seek(0)
        vectors.write(npy_header((len(ends), size or predictor.encode([], layer=layer).shape[1])))
    with atomic_file(folder / _ENDS) as file:
        np.save(file, np.frombuffer(ends, np.int64) if ends else np.zeros(0, np.int64))
    write_atomic(folder / _MODEL, predictor.content)
    if graph := graph and bool(ends):
        write_vector_graph(folder / GRAPH, _mapped(folder / _VECTORS))
    else:
        remove(folder / GRAPH)
    record = {"format": 1, "texts": len(ends), "size": size, "layer": layer, "graph": graph}
    write_atomic(folder / RECORD, json.dumps(record).encode())
    return len(ends)


def npy_header(shape: tuple[int, int], dtype: str = "|i1") -> bytes:
    """Return the 128 bytes before the values of a .npy file of numbers."""
    text = str({"descr": dtype, "fortran_order": False, "shape": shape})
    return b"\x93NUMPY\x01\x00" + (_HEADER - 10).to_bytes(2, "little") + text.ljust(_HEADER - 11).encode() + b"\n"


def _mapped(path: Path) -> Any:
    """Return the array of a file, which stays there unless it has no values."""
    with open_regular(path) as file:
        is_empty = os.fstat(file.fileno()).st_size <= _HEADER
    return np.load(path, mmap_mode=None if is_empty else "r", allow_pickle=False)


def _parts(texts: Iterable[Text]) -> Iterable[list[Text]]:
    part: list[Text] = []
    for text in texts:
        part.append(text)
        if len(part) == _TOGETHER:
            yield part
            part = []
    if part:
        yield part
