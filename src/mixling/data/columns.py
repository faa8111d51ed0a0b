"""Store the examples of a data set by columns, in memory or, if there are too many texts, on disk."""

from __future__ import annotations

import bisect
import hashlib
import json
import math
import tempfile
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mixling.answers.questions import Answers
from mixling.data.examples import Example, ExampleBlock, Target
from mixling.data.spool import SpoolFile
from mixling.errors import DataError
from mixling.features.cells import cells_of, with_cells
from mixling.text.encoder import Text

RowIndices = range | npt.NDArray[np.int64]
TargetKind = Literal["none", "label", "labels", "number", "answers"]

_OVERHEAD = 64  # bytes of a Python object in addition to its text
_UNLABELED = -1
_MOST_LINES = 1 << 31  # of 32 bits
_KINDS = {
    "none": "no target",
    "label": "a label",
    "labels": "a tuple of labels",
    "number": "a number",
    "answers": "answers to a question",
}
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class Schema:
    """The properties that all examples of a data set share.

    Args:
        texts: how many texts belong together; 1: each is a string or a list of words.
        targets: the kind of targets: a label, a tuple of labels (a set of them, or a tag for each word), a number, or
            the answers to a question. Individual examples may have no target.
        grouped: each example belongs to a group, which a split keeps together.
    """

    texts: int = 1
    targets: TargetKind = "none"
    grouped: bool = False

    @property
    def pairs(self) -> bool:
        """Whether several texts belong together, two of a pair or more."""
        return self.texts > 1


class ExampleColumns:
    """The columns of a data set, which grow by `add` and can be read after `freeze`."""

    def __init__(self, texts: int | None, spool_dir: Path | None, memory_limit: int) -> None:
        self.file: SpoolFile | None = None
        self.names: list[str] = []  # of the labels
        self.label_types: dict[str, str] = {}
        self.label_columns: tuple[str, ...] = ()
        self.ids = array("i")  # id of the label; with tuples, the ids of all their items, concatenated
        self.ends: array[int] | None = None  # (len,) ends of the tuples in `ids`; None without tuples
        # of the texts; of the names of groups, if there are groups
        self.hashes = array("Q")
        self.groups = array("Q")
        self._lines = array("i")
        self._numbers = array("d")
        self._paths: list[str] = []
        self._path_starts: list[int] = []
        self._texts: list[Text] = []
        self._answers: list[Answers] = []
        self._together = texts
        self._targets: TargetKind = "none"
        self._sizes = array("q")  # bytes of the records
        self._folder = Path(spool_dir or tempfile.gettempdir())
        self._limit = memory_limit
        self._bytes = 0
        self._number_of: dict[str, int] = {}
        self._shared: dict[str, str] = {}  # words and contexts, each stored once

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def schema(self) -> Schema:
        return Schema(self._together or 1, self._targets, bool(self.groups))

    def add(self, example: Example) -> None:
        self._check(example)
        self._begin_path(example.path)
        try:
            self._lines.append(example.line)
        except OverflowError:
            self._lines = array("q", [*self._lines, example.line])
        self._add_target(example.target)
        if example.group is not None:
            self.groups.append(hash_of(utf8(example.group)))
        record = _record(example.text, None)
        self.hashes.append(hash_of(record))
        if example.answers is not None or cells_of(example.text) is not None:
            record = _stored(example.text, example.answers)
        self._sizes.append(len(record))
        self._bytes += len(record)
        if self.file is None and self._bytes + _OVERHEAD * len(self) > self._limit:
            file = SpoolFile(self._folder)
            file.write(map(self._record, range(len(self) - 1)))
            self._texts = []
            self._answers = []
            self._shared = {}
            self.file = file
        if self.file is not None:
            self.file.write([record])
        else:
            self._keep(example)

    def add_block(self, block: ExampleBlock) -> None:
        """Add the examples of a block."""
        names: Any = block.targets
        records = [_record(text, None) for text in block.texts]
        size = sum(map(len, records))
        count = len(self) + len(records)
        is_large = self._bytes + size + _OVERHEAD * count > self._limit or block.line + len(records) > _MOST_LINES
        if is_large or self.file is not None or self.ends is not None or set(map(type, names)) != {str}:
            for example in block:
                self.add(example)
            return
        self._check(next(iter(block)))  # the others have the same schema
        self._begin_path(block.path)
        self._lines.extend(range(block.line, block.line + len(records)))
        numbers = self._number_of
        for name in dict.fromkeys(names):
            numbers.setdefault(name, len(numbers))
        self.ids.extend([numbers[name] for name in names])
        self.hashes.frombytes(np.frombuffer(b"".join(map(_digest, records)), "<u8").astype(np.uint64).tobytes())
        self._sizes.extend(map(len, records))
        self._bytes += size
        self._texts += block.texts

    def _begin_path(self, path: str) -> None:
        """Note the path of the next examples."""
        if not self._paths or self._paths[-1] != path:
            self._paths.append(path)
            self._path_starts.append(len(self))

    def _check(self, example: Example) -> None:
        """Reject an example whose schema differs from earlier examples."""
        together = len(example.text) if isinstance(example.text, tuple) else 1
        kind = _kind(example)
        message = ""
        if not len(self):
            self._together = together if self._together is None else self._together
            self._targets = kind
        if together != self._together:
            got, first = (texts_in_words(number) for number in (together, self._together or 1))
            message = f"got {got}, but the first example is {first}; give each example as many texts"
        elif kind != self._targets and ("answers" in (kind, self._targets) or "none" not in (kind, self._targets)):
            message = f"got {_KINDS[kind]}, but the first example has {_KINDS[self._targets]}; use one kind of target"
        elif len(self) and bool(self.groups) != (example.group is not None):
            message = "some examples have a group, others have none; give all of them a group, or none"
        self._targets = kind if self._targets == "none" else self._targets
        if message:
            raise DataError(message, path=example.path, line=example.line)

    def _add_target(self, target: Target) -> None:
        if isinstance(target, tuple) and self.ends is None:
            self.ends = array("q", range(1, len(self) + 1))  # all earlier examples are unlabeled: one id each
        if self._targets == "number":
            self._numbers.extend([math.nan] * (len(self) - len(self._numbers)))  # earlier examples are unlabeled
            self._numbers.append(target if isinstance(target, float) else math.nan)
        if isinstance(target, str | tuple):
            labels = target if isinstance(target, tuple) else (target,)
            self.ids.extend(self._number_of.setdefault(label, len(self._number_of)) for label in labels)
        else:
            self.ids.append(_UNLABELED)
        if self.ends is not None:
            self.ends.append(len(self.ids))

    def _keep(self, example: Example) -> None:
        """Store a text in memory; repeated words and contexts are stored once."""
        text = example.text
        shared = self._shared
        if isinstance(text, list):
            text = [shared.setdefault(word, word) for word in text]
        elif isinstance(text, str):
            text = str(text) if cells_of(text) is None else text  # also of a library's subclass
        else:
            text = text if example.answers is None else (text[0], shared.setdefault(text[1], text[1]))
        self._texts.append(text)
        if example.answers is not None:
            self._answers.append(example.answers)

    def freeze(self) -> None:
        """Make the columns readable."""
        self.names = list(self._number_of)
        self._shared = {}
        if self.file is not None:
            self.file.flush()

    def sizes(self, rows: RowIndices) -> npt.NDArray[np.int64]:
        """Return the sizes of records in bytes."""
        return np.asarray(self._sizes)[np.asarray(rows, np.int64)]

    def text(self, index: int) -> Text:
        if self.file is not None:
            value = self.file.read(index)
            if isinstance(value, dict) and "cells" in value:
                text = value["text"]
                return with_cells(tuple(text) if self.schema.pairs else text, tuple(value["cells"]))
            return tuple(value["pair"]) if isinstance(value, dict) else value
        return self._texts[index]

    def answers(self, index: int) -> Answers:
        assert self._targets == "answers", f"examples with {_KINDS[self._targets]}"
        if self.file is None:
            return self._answers[index]
        value = self.file.read(index)
        return Answers(tuple(value["texts"]), tuple(value["starts"]))

    def target(self, index: int) -> Target:
        if self._targets == "number":
            number: Any = self._numbers[index]
            return None if math.isnan(number) else number
        if self.ends is None:
            number = self.ids[index]
            return None if number == _UNLABELED else self.names[number]
        numbers = self.ids[self.ends[index - 1] if index else 0 : self.ends[index]].tolist()
        return None if numbers == [_UNLABELED] else tuple(self.names[number] for number in numbers)

    def where(self, index: int) -> tuple[str, int]:
        return self._paths[bisect.bisect_right(self._path_starts, index) - 1], self._lines[index]

    def example(self, index: int) -> Example:
        answers = self.answers(index) if self._targets == "answers" else None
        return Example(self.text(index), self.target(index), *self.where(index), answers=answers)

    def _record(self, index: int) -> bytes:
        return _stored(self.text(index), self._answers[index] if self._answers else None)


def texts_in_words(number: int) -> str:
    """Return a number of texts that belong together in words."""
    return "one text" if number == 1 else "a pair of texts" if number == 2 else f"{number} texts"


def _kind(example: Example) -> TargetKind:
    if example.answers is not None:
        return "answers"
    if example.target is None:
        return "none"
    return "number" if isinstance(example.target, float) else "labels" if isinstance(example.target, tuple) else "label"


def _record(text: Text, answers: Answers | None) -> bytes:
    """Return a text with its answers as JSON in UTF-8, for hashes as well."""
    value: object = {"pair": text} if isinstance(text, tuple) else text
    if answers is not None:
        value = {"pair": text, "texts": answers.texts, "starts": answers.starts}
    return utf8(_ENCODE(value))


def _stored(text: Text, answers: Answers | None) -> bytes:
    """Return a text with its answers, or with the cells of the columns beside it, for the file."""
    cells = cells_of(text)
    return _record(text, answers) if cells is None else utf8(_ENCODE({"cells": cells, "text": text}))


def text_hash(text: Text) -> int:
    """Return the 64-bit hash of a text, as `Dataset.text_hashes` has it."""
    return hash_of(_record(text, None))


def utf8(text: str) -> bytes:
    """Return the bytes of any string, including lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def hash_of(content: bytes) -> int:
    """Return a 64-bit hash that is the same on every platform."""
    return int.from_bytes(_digest(content), "little")


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=8).digest()
