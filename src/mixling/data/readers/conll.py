"""CoNLL files to rows: a token a line with its tag last, a blank line between sentences."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from mixling.data.readers.rows import OnBadRow, Row, nul_error
from mixling.errors import DataError

MAX_SENTENCE = 100_000  # tokens: beyond it the blank lines are missing
_METADATA = re.compile(r"# |#.* = ")  # only where a sentence may start; `#news O` and `# O` are tokens
_TAG = re.compile(r"O|[BI]-\S+")


def read_conll(lines: Iterator[str], path: str, on_bad_row: OnBadRow) -> Iterator[Row]:
    """Stream sentences with the columns `tokens` (first column) and `slots` (last column, absent where there is one).

    Raises:
        DataError: the file has no tokens, or a sentence no end, always; lines of different numbers of columns, unless
            `on_bad_row` skips the sentence.
    """
    width = start = 0
    columns: list[list[str]] = []
    problem: DataError | None = None
    empty = True
    for number, line in enumerate(itertools.chain(lines, [""]), 1):  # the last sentence may lack its blank line
        body = line.rstrip("\r\n")
        parts = body.split("\t") if "\t" in body else [part for part in body.split(" ") if part]
        boundary = not body.strip() or parts[0] == "-DOCSTART-"
        comment = not columns and bool(_METADATA.match(body)) and not _TAG.fullmatch(parts[-1])
        if boundary and problem:
            on_bad_row(problem)
        elif boundary and columns:
            tokens = [parts[0] for parts in columns]
            slots = {} if width == 1 else {"slots": [parts[-1] for parts in columns]}
            yield Row({"tokens": tokens, **slots}, path, start)
        if boundary:
            columns, problem = [], None
        elif not comment:
            start = start if columns else number
            width = width or len(parts)
            empty = False
            columns.append(parts)
            if len(parts) != width and problem is None:
                expected = f"the lines before have {width}; a token first, its tag last, a blank line between sentences"
                problem = DataError(f"{len(parts)} columns, but {expected}", path=path, line=number)
            elif "\0" in line:
                problem = problem or nul_error(path, number)
            if len(columns) > MAX_SENTENCE:
                message = f"a sentence of more than {MAX_SENTENCE} tokens; put a blank line between sentences"
                raise DataError(message, path=path, line=start)
    if empty:
        raise DataError("holds no tokens; a line per token and a blank line between sentences are needed", path=path)
