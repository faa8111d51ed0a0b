"""Read a folder of brat: texts (`.txt`) with their annotations beside them (`.ann`), a row for each line of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mixling.data.readers.files import open_file
from mixling.data.readers.lines import read_document, read_lines
from mixling.data.readers.rows import OnBadRow, Row
from mixling.errors import DataError

_SPAN = re.compile(r"T\d+\t(?P<label>\S+) (?P<start>\d+) (?P<end>\d+)\t(?P<text>.*)")


def read_brat(folder: Path, on_bad_row: OnBadRow) -> Iterator[Row]:
    """Stream rows with the columns `text` and `spans`, whose characters are counted in the line.

    Relations, events and notes are left out.

    Raises:
        DataError: a text is missing; or a span has parts or crosses a line, unless `on_bad_row` skips it.
    """
    for notes in sorted(folder.glob("*.ann")):
        document = notes.with_suffix(".txt")
        with ExitStack() as stack:
            lines = read_document(open_file(document, stack), str(document))
        spans = list(_spans(notes, on_bad_row))
        begin = 0
        for number, line in enumerate(lines, 1):
            text = line.rstrip("\r\n")
            end = begin + len(line)
            inside = [span for span in spans if begin <= span["start"] < end]
            crossing = next((span for span in inside if span["end"] > begin + len(text)), None)
            own = [{**span, "start": span["start"] - begin, "end": span["end"] - begin} for span in inside]
            begin = end
            if crossing is not None:
                message = f"the span {crossing['text'][:40]!r} ({crossing['label']}) is on several lines; divide it"
                on_bad_row(DataError(message, path=document, line=number))
            elif text.strip():
                yield Row({"text": text, "spans": own}, str(document), number)


def _spans(notes: Path, on_bad_row: OnBadRow) -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        for number, line in enumerate(read_lines(open_file(notes, stack), str(notes)), 1):
            if not line.startswith("T"):
                continue
            match = _SPAN.fullmatch(line.rstrip("\r\n"))
            if match is None:
                allowed = "allowed: T1, a tab, LABEL START END, a tab, the text; a span has one part"
                on_bad_row(DataError(f"got {line.strip()[:60]!r}; {allowed}", path=notes, line=number))
                continue
            yield {**match.groupdict(), "start": int(match["start"]), "end": int(match["end"])}
