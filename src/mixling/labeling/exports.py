"""The rows of a labeled file with their labels, in formats that `train` and tools for annotation read."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from mixling.data.corpora import is_plain
from mixling.data.csv_lines import cell_of
from mixling.data.readers import OnBadRow, format_of_name, read_rows
from mixling.errors import ConfigError, DataError
from mixling.labeling.lines import labels_in_value
from mixling.labeling.texts import LABELING_TASKS, FileTexts, LabeledText, LabelValue, example_of, file_rows, key_of
from mixling.storage import atomic_file
from mixling.text.encoder import Text

Said = Mapping[str, LabelValue]
"""The values of the texts that have one, by their fingerprints (`Record.values`)."""
_Write = Callable[[FileTexts, Said], Iterator[Any]]
_ONE, _SEVERAL, _SPANS = LABELING_TASKS
_NO_NAME = re.compile(r"[\s,]")  # in labels of words in lines
_NO_FOLDER = re.compile(r"\.|.*[/\\\0]")


@dataclass(frozen=True, kw_only=True)
class _Row:
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
        words, tags = example_of(self.text, self.value, _SPANS)
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


def _rows(texts: FileTexts, said: Said) -> Iterator[_Row]:
    columns = texts.columns
    used = {*columns.texts, columns.label, *(columns.labels or ())}
    found = [*file_rows(texts.path, texts.task, columns)]
    whole: Iterable[dict[str, Any]] = [{}] * len(found)
    if texts.task != _SPANS and not is_plain(str(texts.path)):  # read again: an example has no other columns
        whole = (row.values for row in read_rows(texts.path, on_bad_row=OnBadRow()))
    for (text, line, _), values in zip(found, whole, strict=True):
        if (value := said.get(key_of(text))) is not None:
            others = {name: item for name, item in values.items() if name not in used}
            yield _Row(path=texts.path, line=line, text=text, value=value, others=others)


# Tables, with all columns.


def _table(texts: FileTexts, said: Said) -> Iterator[dict[str, Any]]:
    columns = texts.columns
    for row in _rows(texts, said):
        if texts.task == _SPANS:
            yield dict(zip(("tokens", "slots"), row.tags(), strict=True))
            continue
        several = isinstance(row.text, tuple)
        parts = dict(zip(columns.texts, row.text if several else [row.text], strict=several))
        yield {**parts, columns.label: row.value, **row.others}


def _lines(rows: Iterable[Any]) -> Iterator[str]:
    return (json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)


def _list(rows: Iterable[Any]) -> Iterator[str]:
    yield json.dumps([*rows], ensure_ascii=False, default=str, indent=1) + "\n"


def _delimited(delimiter: str) -> _Write:
    def write(texts: FileTexts, said: Said) -> Iterator[str]:
        rows = [*_table(texts, said)]
        names = [*dict.fromkeys(name for row in rows for name in row)]
        out = io.StringIO()
        writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
        writer.writerow(names)
        for row in rows:
            writer.writerow("" if row.get(name) is None else cell_of(row[name]) for name in names)
        yield out.getvalue()

    return write


def _parquet(texts: FileTexts, said: Said) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [*_table(texts, said)]
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except pa.ArrowException:  # they are of several kinds
            columns[name] = pa.array([None if value is None else str(cell_of(value)) for value in values])
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    yield out.getvalue()


# Lines of words.


def _fasttext(texts: FileTexts, said: Said) -> Iterator[str]:
    for row in _rows(texts, said):
        row.needs(bool(row.value), "the text has no label")
        row.needs("__label__" not in row.one_text(), "the text has __label__ in it")
        yield " ".join([*(f"__label__{label}" for label in row.names()), row.one_text()]) + "\n"


def _conll(texts: FileTexts, said: Said) -> Iterator[str]:
    for row in _rows(texts, said):
        row.names()
        for word, tag in zip(*row.tags(), strict=True):
            row.needs(word.split() == [word] != ["-DOCSTART-"], f"the word {word!r} has a blank, or begins a document")
            yield f"{word}\t{tag}\n"
        yield "\n"


# Tools.


def _doccano(texts: FileTexts, said: Said) -> Iterator[str]:
    for row in _rows(texts, said):
        spans = [[*span.values()] for span in row.spans()] if texts.task == _SPANS else labels_in_value(row.value)
        yield from _lines([{"text": row.one_text(lines=True), "label": spans, **row.meta}])


def _prodigy(texts: FileTexts, said: Said) -> Iterator[str]:
    for row in _rows(texts, said):
        found = {"spans": row.spans()} if texts.task == _SPANS else {"accept": labels_in_value(row.value)}
        yield from _lines([{"text": row.one_text(lines=True), **found, "answer": "accept", **row.meta}])


def _label_studio(texts: FileTexts, said: Said) -> Iterator[str]:
    def task(row: _Row) -> dict[str, Any]:
        text = row.one_text(lines=True)
        kind = "labels" if texts.task == _SPANS else "choices"
        values: list[dict[str, Any]] = [{kind: labels_in_value(row.value)}]
        if texts.task == _SPANS:
            values = [
                {"start": start, "end": end, "text": text[start:end], kind: [label]}
                for start, end, label in (span.values() for span in row.spans())
            ]
        result = [{"from_name": "label", "to_name": "text", "type": kind, "value": value} for value in values]
        return {"data": {"text": text, **row.meta}, "annotations": [{"result": result}]}

    return _list(map(task, _rows(texts, said)))


def _argilla(texts: FileTexts, said: Said) -> Iterator[str]:
    for row in _rows(texts, said):
        name, value = ("spans", row.spans()) if texts.task == _SPANS else ("label", row.value)
        fields = {"text": row.one_text(lines=True)}
        yield from _lines([{"fields": fields, "metadata": row.others, "responses": {name: [{"value": value}]}}])


def _spacy(texts: FileTexts, said: Said) -> Iterator[str]:
    def pair(row: _Row) -> list[Any]:
        return [row.one_text(lines=True), {"entities": [[*span.values()] for span in row.spans()]}]

    return _list(map(pair, _rows(texts, said)))


# Folders: names of files and their content.


def _classes(texts: FileTexts, said: Said) -> Iterator[tuple[str, str]]:
    for row in _rows(texts, said):
        row.needs(not _NO_FOLDER.match(row.value), f"the label {row.value!r} is no name of a folder")
        yield f"{row.value}/{row.line:07}.txt", row.one_text(lines=True) + "\n"


def _brat(texts: FileTexts, said: Said) -> Iterator[tuple[str, str]]:
    documents: list[str] = []
    notes: list[str] = []
    begin = 0
    for row in _rows(texts, said):
        row.names()
        text = row.one_text()
        for start, end, label in (span.values() for span in row.spans()):
            notes.append(f"T{len(notes) + 1}\t{label} {begin + start} {begin + end}\t{text[start:end]}\n")
        documents.append(text + "\n")
        begin += len(text) + 1
    yield "texts.txt", "".join(documents)
    yield "texts.ann", "".join(notes)


class RowFormat(NamedTuple):
    """A format: the end of its files' names ("": it is a folder), whose labels it holds, and what yields its content.

    Of folders, the content is the names of files, each with its text.
    """

    suffix: str
    tasks: tuple[str, ...]
    write: _Write


_ALL = LABELING_TASKS
EXPORTS = {
    "csv": RowFormat(".csv", _ALL, _delimited(",")),
    "tsv": RowFormat(".tsv", _ALL, _delimited("\t")),
    "jsonl": RowFormat(".jsonl", _ALL, lambda texts, said: _lines(_table(texts, said))),
    "json": RowFormat(".json", _ALL, lambda texts, said: _list(_table(texts, said))),
    "parquet": RowFormat(".parquet", _ALL, _parquet),
    "fasttext": RowFormat(".ft", (_ONE, _SEVERAL), _fasttext),
    "conll": RowFormat(".conll", (_SPANS,), _conll),
    "classes": RowFormat("", (_ONE,), _classes),
    "brat": RowFormat("", (_SPANS,), _brat),
    "doccano": RowFormat(".jsonl", _ALL, _doccano),
    "prodigy": RowFormat(".jsonl", _ALL, _prodigy),
    "label-studio": RowFormat(".json", _ALL, _label_studio),
    "argilla": RowFormat(".jsonl", _ALL, _argilla),
    "spacy": RowFormat(".json", (_SPANS,), _spacy),
}
"""The formats, by name. `classes` is a folder with a folder for each label, and a file for each text."""


def exported(texts: FileTexts, said: Said, form: str) -> Iterator[bytes]:
    """Yield the content of a file in a format of `EXPORTS`.

    Raises:
        DataError: the format cannot hold a row.
    """
    for piece in EXPORTS[form].write(texts, said):
        yield piece if isinstance(piece, bytes) else piece.encode(errors="surrogatepass")


def format_for(out: Path, task: str, form: str | None = None) -> str:
    """Return the format that is named, or that the name of a file or folder says.

    Raises:
        ConfigError: there is no such format, or it is not for the task, or has files of other names.
    """
    known = {name: one for name, one in EXPORTS.items() if task in one.tasks}
    suffix = PurePath(out.name).suffix.lower()
    if form is None:
        by_suffix = {one.suffix: name for name, one in reversed(known.items())}
        found = by_suffix.get(suffix)
        if found is None:
            raise ConfigError(f"{out}: allowed: a folder, or a name that ends in {', '.join(filter(None, by_suffix))}")
        return found
    if form not in known:
        raise ConfigError(f"--format: got {form!r}; allowed for {task}: {', '.join(known)}")
    wanted = known[form].suffix
    if wanted != suffix and (not wanted or format_of_name(f"_{wanted}") != format_of_name(f"_{suffix}")):
        named = f"a name that ends in {wanted}" if wanted else "the name of a folder"
        raise ConfigError(f"{out}: {form} needs {named}")
    return form


def write_labeled(out: Path, texts: FileTexts, said: Said, form: str) -> None:
    """Write the rows that have a label to a file, or to a new folder, in a format of `EXPORTS`.

    Raises:
        ConfigError: it is the file that is labeled, or a folder that is there.
        DataError: the format cannot hold a row; what was there before is unchanged.
        StorageError: it cannot be written.
    """
    if EXPORTS[form].suffix:
        if out.exists() and out.samefile(texts.path):
            raise ConfigError(f"{out}: is the file that is labeled; name another")
        with atomic_file(out) as file:
            for piece in exported(texts, said, form):
                file.write(piece)
        return
    if out.exists():
        raise ConfigError(f"{out}: exists; name a new folder")
    for name, content in [*EXPORTS[form].write(texts, said)]:  # all rows are checked before the first one is written
        with atomic_file(out / name) as file:
            file.write(content.encode(errors="surrogatepass"))
