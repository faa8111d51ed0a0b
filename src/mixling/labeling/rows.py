"""The rows of a file that have a label, as what writes them needs them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from mixling.data.corpora import is_plain
from mixling.data.readers import OnBadRow, read_rows
from mixling.errors import DataError
from mixling.labeling.lines import labels_in_value
from mixling.labeling.texts import LABELING_TASKS, FileTexts, LabeledText, LabelValue, example_of, file_rows, key_of
from mixling.text.encoder import Text

Said = Mapping[str, LabelValue]
"""The values of the texts that have one, by their fingerprints (`Record.values`)."""
WriteRows = Callable[[FileTexts, Said], Iterator[Any]]
ONE, SEVERAL, SPANS = LABELING_TASKS
_NO_NAME = re.compile(r"[\s,]")  # in labels of words in lines


@dataclass(frozen=True, kw_only=True)
class LabeledRow:
    """A row with its label.

    Attributes:
        line: of the file, or the number of the row.
        others: its columns but the text and the labels.
    """

    path: Path
    line: int
    text: Text
    value: LabelValue
    others: dict[str, Any]

    def needs(self, allowed: bool, what: str) -> None:
        """Refuse what a format cannot hold."""
        if not allowed:
            raise DataError(f"{what}, which this format cannot hold; write .jsonl", path=self.path, line=self.line)

    def one_text(self, *, lines: bool = False) -> str:
        """Return the text; of words, with blanks between them."""
        self.needs(not isinstance(self.text, tuple), "the row has several texts")
        text = self.text if isinstance(self.text, str) else " ".join(self.text)
        self.needs(lines or len(text.splitlines()) < 2, "the text has several lines")
        return text

    def names(self) -> list[str]:
        """Return the labels, which are words."""
        for label in (found := labels_in_value(self.value)):
            self.needs(not _NO_NAME.search(label), f"the label {label!r} has a blank or a comma")
        return found

    def tags(self) -> tuple[list[str], list[str]]:
        """Return words and their tags."""
        words, tags = example_of(self.text, self.value, SPANS)
        return list(words), list(tags)  # type: ignore[arg-type]

    def spans(self) -> list[dict[str, Any]]:
        """Return the spans of characters."""
        ends = [*accumulate(map(len, LabeledText(self.text, self.line, None).parts))]
        return [
            {"start": ends[2 * first], "end": ends[2 * end - 1], "label": label} for first, end, label in self.value
        ]

    @property
    def meta(self) -> dict[str, Any]:
        return {"meta": self.others} if self.others else {}


def answered_rows(texts: FileTexts, said: Said) -> Iterator[LabeledRow]:
    """Yield the rows that have a value."""
    columns = texts.columns
    used = {*columns.texts, columns.label, *(columns.labels or ())}
    found = [*file_rows(texts.path, texts.task, columns)]
    whole: Iterable[dict[str, Any]] = [{}] * len(found)
    if texts.task != SPANS and not is_plain(str(texts.path)):  # read again: an example has no other columns
        whole = (row.values for row in read_rows(texts.path, on_bad_row=OnBadRow()))
    for (text, line, _), values in zip(found, whole, strict=True):
        if (value := said.get(key_of(text))) is not None:
            others = {name: item for name, item in values.items() if name not in used}
            yield LabeledRow(path=texts.path, line=line, text=text, value=value, others=others)


def json_lines(rows: Iterable[Any]) -> Iterator[str]:
    """Yield an object on each line."""
    return (json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)


def json_list(rows: Iterable[Any]) -> Iterator[str]:
    """Yield one array."""
    yield json.dumps([*rows], ensure_ascii=False, default=str, indent=1) + "\n"


class RowFormat(NamedTuple):
    """A format: the end of its files' names ("": it is a folder), whose labels it holds, and what yields its content.

    Of folders, the content is the names of files, each with its text.
    """

    suffix: str
    tasks: tuple[str, ...]
    write: WriteRows
