"""Saved models of mixling, and files of probabilities, as teachers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixling.data.readers import read_rows
from mixling.data.readers.rows import OnBadRow
from mixling.errors import DataError, near_miss
from mixling.runtime.predictor import Predictor
from mixling.runtime.quick import ONNX_FILE
from mixling.tasks.base import Task
from mixling.teachers.base import Probabilities, Teacher, label_columns, parse_prediction
from mixling.text.encoder import Text


class SavedTeacher(Teacher):
    """A run folder, or a `model.onnx`."""

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        self.path = path
        self.predictor = Predictor(path)
        self.key = hashlib.sha256((path / ONNX_FILE if path.is_dir() else path).read_bytes()).hexdigest()

    def predict(self, texts: Sequence[Text], task: Task) -> list[Probabilities]:
        own = self.predictor.task
        if own.name != task.name:
            raise DataError(
                f"the teacher {self.path} predicts {own.gives}, but the training rows have {task.gives}; "
                "give another teacher"
            )
        columns = label_columns(own.labels.names, task.labels, f"the teacher {self.path}")
        logits = self.predictor.text_logits(texts)
        return [own.probabilities(row)[..., columns].astype(np.float32) for row in logits]


class FileTeacher(Teacher):
    """A file with texts and their probabilities: JSON lines or Parquet, as `mixling predict --echo` writes them.

    `probabilities` is an object from labels to numbers, or a list of one such object per word if the text is `tokens`.
    The text is in the columns of the training data, or in `text`, where several are a list of texts. Texts that are
    not in the file have no prediction.
    """

    def __init__(
        self, path: str, *, text: str = "text", text_pair: tuple[str, ...] = (), tokens: str = "tokens"
    ) -> None:
        self.path = path
        self._rows: dict[str, tuple[int, object]] = {}
        self._texts: list[Text] = []
        columns = {text, *text_pair, tokens, "text", "probabilities"}
        for row in read_rows(path, on_bad_row=OnBadRow("error"), columns=columns):
            values = row.values
            wanted = tokens if tokens in values else text if text in values else "text"
            for name in (wanted, "probabilities"):
                if values.get(name) is None:
                    raise DataError(
                        f"has no {name!r}; {near_miss(name, values)}; each row of a teacher's file has a text and its "
                        "probabilities",
                        path=row.path,
                        line=row.line,
                    )
            value = values[wanted]
            if text_pair:
                known = values.keys() >= {*text_pair}
                value = (value, *(values[name] for name in text_pair)) if known else tuple(value)
            if not _is_text(value):
                message = (
                    f"column {wanted!r} holds {str(value)[:40]!r}; a text, several texts or a list of words is allowed"
                )
                raise DataError(message, path=row.path, line=row.line)
            self._texts.append(value)
            self._rows[_key(value)] = (row.line, values["probabilities"])

    def texts(self) -> Iterator[Text]:
        """Yield the texts of the file, which serve as unlabeled text."""
        yield from self._texts

    def predict(self, texts: Sequence[Text], task: Task) -> list[Probabilities]:
        out: list[Probabilities] = []
        for text in texts:
            line, item = self._rows.get(_key(text), (0, None))
            out.append(parse_prediction(item, task, None, f"{self.path}:{line}: probabilities"))
        return out


def _is_text(value: Any) -> bool:
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not parts or (isinstance(value, tuple) and len(value) < 2):
        return False
    return all(isinstance(part, str) and part.strip() for part in parts)


def _key(text: Text) -> str:
    return json.dumps(text, ensure_ascii=False)
