"""Storing a teacher's predictions in a folder, so that they are computed once and survive interruptions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from mixling.answers.labels import LabelSet
from mixling.errors import ModelFileError
from mixling.features.cells import cells_of
from mixling.opening import open_regular
from mixling.storage import write_atomic
from mixling.tasks.base import Task
from mixling.teachers.base import Probabilities, Teacher
from mixling.text.encoder import Text

_CHUNK = 1024  # texts per file


def collect_predictions(
    teacher: Teacher,
    texts: Sequence[Text],
    task: Task,
    *,
    folder: Path | None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Probabilities]:
    """Return the teacher's probabilities for each text, (C,) or (words, C), in float16.

    They are read from the folder if it holds the same teacher, labels and texts, which the names of its files
    are hashes of.

    Args:
        folder: where predictions are stored; None, or a teacher without a key: nowhere.
        progress: called with the number of texts done.

    Raises:
        DataError: a prediction of the teacher is not valid.
        ModelFileError: a file of the folder is damaged.
        StorageError: a file cannot be written.
    """
    out: list[Probabilities] = []
    for first in range(0, len(texts), _CHUNK):
        chunk = texts[first : first + _CHUNK]
        path = None if folder is None or teacher.key is None else folder / _name(teacher.key, chunk, task.labels)
        if path is not None and path.exists():
            out += _read(path, len(chunk), task)
        else:
            new = [None if item is None else item.astype(np.float16) for item in teacher.predict(chunk, task)]
            if path is not None:
                write_atomic(path, _packed(new, task.labels))
            out += new
        progress(len(out))
    return out


def _name(key: str, texts: Sequence[Text], labels: LabelSet) -> str:
    beside = list(map(cells_of, texts))
    of_texts = [texts, beside] if any(beside) else [texts]
    content = json.dumps([key, labels.to_dict(), *of_texts], ensure_ascii=False)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32] + ".safetensors"


def _packed(predictions: list[Probabilities], labels: LabelSet) -> bytes:
    """Serialize the stacked rows of all predictions, and the number of rows of each: -1 if there is none."""
    sizes = [-1 if item is None else len(item) if item.ndim == 2 else 1 for item in predictions]
    rows = [item.reshape(-1, len(labels)) for item in predictions if item is not None]
    stacked = np.concatenate(rows) if rows else np.zeros((0, len(labels)), np.float16)
    arrays = {"sizes": np.array(sizes, np.int64), "probabilities": stacked}
    return save(arrays, {"sha256": _digest(arrays)})


def _digest(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    out = hashlib.sha256()
    for name in ("sizes", "probabilities"):
        out.update(f"{arrays[name].dtype} {arrays[name].shape}".encode() + arrays[name].tobytes())
    return out.hexdigest()


def _read(path: Path, count: int, task: Task) -> list[Probabilities]:
    try:
        open_regular(path).close()
        with safe_open(path, framework="np") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            wanted = (file.metadata() or {}).get("sha256")
        if wanted != _digest(arrays):
            raise ValueError("it does not match its checksum")
        sizes = arrays["sizes"]
        rows = arrays["probabilities"]
        if len(sizes) != count or rows.shape != (sizes[sizes > 0].sum(), len(task.labels)):
            raise ValueError(f"{len(sizes)} predictions with probabilities of shape {rows.shape}")
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ModelFileError(f"{path}: is damaged, delete it: {error}") from None
    ends = np.cumsum(np.maximum(sizes, 0))
    parts = [None if size < 0 else rows[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    return parts if task.per_word else [None if part is None else part[0] for part in parts]
