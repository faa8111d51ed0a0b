"""Read files in fastText's format: words, and labels among them, on each line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mixling.data.readers.rows import OnBadRow, Row, nul_error
from mixling.data.readers.sniffing import FASTTEXT_LABEL
from mixling.errors import DataError

_PREFIX = "__label__"
_LABELS = re.compile(rf"(?:^|,){_PREFIX}")  # several, with commas between them, in one word


def read_fasttext(lines: Iterator[str], path: str, on_bad_row: OnBadRow) -> Iterator[Row]:
    """Stream rows with the columns `text` and `label`, a list of labels or None; blank lines are skipped.

    Raises:
        DataError: the file has no rows, or a label has no name, unless `on_bad_row` skips it.
    """
    empty = True
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        empty = False
        labels = [name for found in FASTTEXT_LABEL.findall(line) for name in _LABELS.split(found)[1:]]
        if "\0" in line:
            on_bad_row(nul_error(path, number))
        elif "" in labels:
            on_bad_row(DataError(f"a label has no name; write {_PREFIX}NAME", path=path, line=number))
        else:
            text = " ".join(part.strip() for part in FASTTEXT_LABEL.split(line.strip()) if part.strip())
            yield Row({"text": text, "label": list(dict.fromkeys(labels)) or None}, path, number)
    if empty:
        raise DataError("is empty; a line of words with a label is required", path=path)
