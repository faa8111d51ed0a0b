"""Saved models of this library, and files of answers, as teachers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from mixling.data.rows import OnBadRow
from mixling.data.tables import read_rows
from mixling.errors import DataError, near_miss
from mixling.runtime.predictor import Predictor
from mixling.runtime.session import FILE_NAME
from mixling.teachers.base import Answer, Teacher, columns_of, read_answer
from mixling.text.encoder import Text
from mixling.text.labels import LabelSet


class SavedTeacher(Teacher):
    """A run folder, or a `model.onnx`."""

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        self.path, self.predictor = path, Predictor(path)
        self.key = hashlib.sha256((path / FILE_NAME if path.is_dir() else path).read_bytes()).hexdigest()

    def answers(self, texts: Sequence[Text], labels: LabelSet) -> list[Answer]:
        columns = columns_of(self.predictor.labels.names, labels, f"the teacher {self.path}")
        logits = self.predictor.logits(self.predictor.encode(texts))
        found = [self.predictor.labels.probabilities(row)[..., columns].astype(np.float32) for row in logits]
        if labels.kind != "iob":
            return list(found)
        return [row[: len(text)] for row, text in zip(found, texts, strict=True)]


class FileTeacher(Teacher):
    """Rows that hold a text and its probabilities: JSON lines or Parquet, as `mixling predict` writes them.

    `probabilities` is an object of labels and numbers; beside `tokens`, a list of one for each word. A text that has no
    row has no answer.
    """

    def __init__(self, path: str, *, text: str = "text", text_pair: str | None = None, tokens: str = "tokens") -> None:
        self.path, self._columns = path, (text, text_pair, tokens)
        self._found: dict[str, tuple[int, object]] = {}
        self._texts: list[Text] = []
        for row in read_rows(path, on_bad_row=OnBadRow("error")):
            wanted = tokens if tokens in row.values else text
            for name in (wanted, "probabilities", *([text_pair] if text_pair else [])):
                if row.values.get(name) is None:
                    raise DataError(
                        f"has no {name!r}; {near_miss(name, row.values)}; each row of a teacher's answers has a text "
                        "and its probabilities",
                        path=row.path,
                        line=row.line,
                    )
            value = row.values[wanted]
            given: Text = (str(value), str(row.values[text_pair])) if text_pair else value
            self._texts.append(given)
            self._found[_key(given)] = (row.line, row.values["probabilities"])

    def texts(self) -> Iterator[Text]:
        """The texts of the rows, which are unlabelled text too."""
        yield from self._texts

    def answers(self, texts: Sequence[Text], labels: LabelSet) -> list[Answer]:
        out: list[Answer] = []
        for text in texts:
            line, item = self._found.get(_key(text), (0, None))
            out.append(read_answer(item, labels, None, f"{self.path}:{line}: probabilities"))
        return out


def _key(text: Text) -> str:
    return json.dumps(text, ensure_ascii=False)
