"""The texts of a file that is labeled, with the labels that it has."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixling.data.config import ColumnsConfig
from mixling.data.corpora import is_plain
from mixling.data.examples import Target, read_examples
from mixling.data.inputs import text_lines
from mixling.data.readers import OnBadRow
from mixling.data.values import has_no_words
from mixling.errors import ConfigError, DataError
from mixling.tasks import task_type
from mixling.text.encoder import Text
from mixling.text.words import split_words, word_spans

LABELING_TASKS = ("classification", "multi_label", "tagging")  # whose labels can be given here
_MOST_TEXTS = 500_000
LabelValue = Any
"""What is said of a text, as JSON: a label, a list of labels, or spans of words: [first, last + 1, label]."""


@dataclass(frozen=True, slots=True)
class LabeledText:
    """A text of the file; equal rows are one text.

    Attributes:
        row: the line, or number of the row, where it is first.
        given: what the file says of it; None: nothing.
    """

    text: Text
    row: int
    given: LabelValue | None

    @property
    def parts(self) -> list[str]:
        """The signs before the first word, the word, the signs before the next, ..., those behind the last."""
        if isinstance(self.text, list):
            return [piece for number, word in enumerate(self.text) for piece in (" " * (number > 0), word)] + [""]
        assert isinstance(self.text, str)
        out = []
        end = 0
        for start, stop in word_spans(self.text, len(self.text)):
            out += [self.text[end:start], self.text[start:stop]]
            end = stop
        return [*out, self.text[end:]]


@dataclass(frozen=True, kw_only=True)
class FileTexts:
    """The texts of a file.

    Attributes:
        by_key: by their fingerprints, in the order of the file.
        rows: how many rows there are.
    """

    path: Path
    task: str
    columns: ColumnsConfig
    by_key: Mapping[str, LabeledText]
    rows: int


def key_of(text: Text) -> str:
    """Return the fingerprint of a text, by which its answers are found when rows are moved."""
    content = json.dumps(text, ensure_ascii=False).encode(errors="surrogatepass")
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def read_file_texts(path: Path, *, task: str, columns: ColumnsConfig) -> FileTexts:
    """Read the texts of a file in any format of `train`, whose labels may be missing, or of a `.txt` file.

    Raises:
        ConfigError: labels of the task cannot be given.
        DataError: the file cannot be read, or has no text with words, or more than 500,000.
    """
    if task not in LABELING_TASKS:
        raise ConfigError(f"--task: got {task!r}; labels can be given for {', '.join(LABELING_TASKS)}")
    given = _given(path, task, columns)
    by_key: dict[str, LabeledText] = {}
    rows = 0
    for text, row, target in file_rows(path, task, columns):
        rows += 1
        key = key_of(text)
        if has_no_words(text):
            continue
        value = given.get(row) if task == "tagging" else value_of(target)
        if key not in by_key or (by_key[key].given is None and value is not None):
            by_key[key] = LabeledText(text, by_key[key].row if key in by_key else row, value)
        if len(by_key) > _MOST_TEXTS:
            raise DataError(f"has more than {_MOST_TEXTS:,} texts; give a part of it", path=path)
    if not by_key:
        raise DataError("has no text with words", path=path)
    return FileTexts(path=path, task=task, columns=columns, by_key=by_key, rows=rows)


def file_rows(path: Path, task: str, columns: ColumnsConfig) -> Iterator[tuple[Text, int, Target]]:
    """Yield the text, line and target of each row; the target may be missing."""
    if is_plain(str(path)):
        for number, item in enumerate(text_lines(str(path), skip=False), 1):
            if item.text:
                yield item.text, number, None
        return
    reader = task_type(task).reader
    for row in read_examples([path], reader=reader, columns=columns, on_bad_row=OnBadRow(), labeled=False):
        yield row.text, row.line, row.target


def _given(path: Path, task: str, columns: ColumnsConfig) -> dict[int, LabelValue]:
    """Return the spans of the rows that have tags, or spans of characters, by line."""
    if task != "tagging" or is_plain(str(path)):
        return {}
    reader = task_type(task).reader
    try:
        rows = read_examples([path], reader=reader, columns=columns, on_bad_row=OnBadRow("skip"))
        return {row.line: value_of(row.target, tags=True) for row in rows}
    except DataError:  # there is no such column
        return {}


def value_of(target: Target, *, tags: bool = False) -> LabelValue | None:
    """Return what a target says, as JSON; tags as spans of words."""
    if not isinstance(target, tuple):
        return target
    if not tags:
        return list(target)
    spans: list[list[Any]] = []
    for number, tag in enumerate(target):
        if tag.startswith("I-") and spans and spans[-1][1] == number and spans[-1][2] == tag[2:]:
            spans[-1][1] = number + 1
        elif tag != "O":
            spans.append([number, number + 1, tag[2:]])
    return spans


def example_of(text: Text, value: LabelValue, task: str) -> tuple[Text, Target]:
    """Return a text and its labels, as training takes them."""
    if task == "classification":
        return text, value
    if task == "multi_label":
        return text, tuple(value)
    words = split_words(text) if isinstance(text, str) else text
    tags = ["O"] * len(words)
    for first, end, label in value:
        tags[first:end] = [f"B-{label}", *[f"I-{label}"] * (end - first - 1)]
    return list(words), tuple(tags)
