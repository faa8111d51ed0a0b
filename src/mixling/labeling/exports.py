"""The rows of a labeled file with their labels, in formats that `train` and tools for annotation read."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from mixling.data.csv_lines import cell_of
from mixling.data.readers import format_of_name
from mixling.errors import ConfigError
from mixling.labeling.rows import ONE, SEVERAL, SPANS, RowFormat, Said, WriteRows, answered_rows, json_lines, json_list
from mixling.labeling.texts import LABELING_TASKS, FileTexts
from mixling.labeling.tools import TOOLS
from mixling.storage import atomic_file

_NO_FOLDER = re.compile(r"\.|.*[/\\\0]")


# Tables, with all columns.


def _table(texts: FileTexts, said: Said) -> Iterator[dict[str, Any]]:
    columns = texts.columns
    for row in answered_rows(texts, said):
        if texts.task == SPANS:
            yield dict(zip(("tokens", "slots"), row.tags(), strict=True))
            continue
        several = isinstance(row.text, tuple)
        parts = dict(zip(columns.texts, row.text if several else [row.text], strict=several))
        yield {**parts, columns.label: row.value, **row.others}


def _delimited(delimiter: str) -> WriteRows:
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
    for row in answered_rows(texts, said):
        row.needs(bool(row.value), "the text has no label")
        row.needs("__label__" not in row.one_text(), "the text has __label__ in it")
        yield " ".join([*(f"__label__{label}" for label in row.names()), row.one_text()]) + "\n"


def _conll(texts: FileTexts, said: Said) -> Iterator[str]:
    for row in answered_rows(texts, said):
        row.names()
        for word, tag in zip(*row.tags(), strict=True):
            row.needs(word.split() == [word] != ["-DOCSTART-"], f"the word {word!r} has a blank, or begins a document")
            yield f"{word}\t{tag}\n"
        yield "\n"


# Folders: names of files and their content.


def _classes(texts: FileTexts, said: Said) -> Iterator[tuple[str, str]]:
    for row in answered_rows(texts, said):
        row.needs(not _NO_FOLDER.match(row.value), f"the label {row.value!r} is no name of a folder")
        yield f"{row.value}/{row.line:07}.txt", row.one_text(lines=True) + "\n"


def _brat(texts: FileTexts, said: Said) -> Iterator[tuple[str, str]]:
    documents: list[str] = []
    notes: list[str] = []
    begin = 0
    for row in answered_rows(texts, said):
        row.names()
        text = row.one_text()
        for start, end, label in (span.values() for span in row.spans()):
            notes.append(f"T{len(notes) + 1}\t{label} {begin + start} {begin + end}\t{text[start:end]}\n")
        documents.append(text + "\n")
        begin += len(text) + 1
    yield "texts.txt", "".join(documents)
    yield "texts.ann", "".join(notes)


_ALL = LABELING_TASKS
EXPORTS = {
    "csv": RowFormat(".csv", _ALL, _delimited(",")),
    "tsv": RowFormat(".tsv", _ALL, _delimited("\t")),
    "jsonl": RowFormat(".jsonl", _ALL, lambda texts, said: json_lines(_table(texts, said))),
    "json": RowFormat(".json", _ALL, lambda texts, said: json_list(_table(texts, said))),
    "parquet": RowFormat(".parquet", _ALL, _parquet),
    "fasttext": RowFormat(".ft", (ONE, SEVERAL), _fasttext),
    "conll": RowFormat(".conll", (SPANS,), _conll),
    "classes": RowFormat("", (ONE,), _classes),
    "brat": RowFormat("", (SPANS,), _brat),
    **TOOLS,
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
