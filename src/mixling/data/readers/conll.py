"""Read CoNLL files: one token per line with its tag, and a blank line between sentences."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from mixling.data.readers.rows import OnBadRow, Row, nul_error
from mixling.data.tag_schemes import MARK_LETTER, types_of
from mixling.errors import DataError

MAX_SENTENCE = 100_000  # tokens; in longer sentences, the blank lines are missing
MAX_COLUMNS = 1000
MAX_SIZE = 64 << 20  # bytes of memory
_OF_COLUMN = 64  # bytes of memory that a word takes beside its characters
_METADATA = re.compile(r"#[ \t]|#.* = |#(begin|end) document")  # where a sentence may start; `#news O` is a token
_TAG = re.compile(rf"O|{MARK_LETTER}-\S+")
_NO_TOKEN = re.compile(r"\d+[-.]\d+")  # CoNLL-U numbers `4-5 zum` beside its parts, and the empty node `5.1`
# sentences, and bytes of them, that show which columns a file has
_SAMPLE = 200
_SAMPLED = 32 << 20


@dataclass(frozen=True, slots=True)
class _Sentence:
    """The columns of each token, the line of the first, and how many bytes of memory they take."""

    tokens: list[list[str]]
    line: int
    size: int


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which columns there are: `lead` that are not read; numbers, or not; the column of the tags, from 0, or None."""

    lead: int
    numbered: bool
    slots: int | None


def read_conll(
    lines: Iterator[str], path: str, on_bad_row: OnBadRow, columns: Collection[str] | None = None
) -> Iterator[Row]:
    """Stream sentences with the columns `tokens` and `slots`.

    First columns that have one value in each sentence, and then one that counts its tokens, are skipped. The tokens are
    the first column after them. The tags are the last column that has tags, but not one with tags inside the spans of
    another; without any, the last.

    Args:
        columns: if given, all columns are there under their numbers as well: `1`, `2`, ...

    Raises:
        DataError: the file has no tokens, or an endless sentence; or the lines of a sentence differ in their number of
            columns, or are not numbered as in the other sentences, unless `on_bad_row` skips it.
    """
    skipped = on_bad_row.skipped
    next_number = 1
    sentences = _sentences(lines, path, on_bad_row)
    first: list[_Sentence] = []
    size = 0
    try:
        for sentence in sentences:
            first.append(sentence)
            size += sentence.size
            if len(first) == _SAMPLE or size > _SAMPLED:
                break
    except DataError as error:  # the sentences before it come first
        sentences = _raising(error)
    layout = _layout(first, path, on_bad_row) if first else None
    for sentence in itertools.chain(first, sentences):
        layout = layout or _layout([sentence], path, on_bad_row)
        tokens = sentence.tokens
        if layout.numbered:
            tokens = _numbered(tokens, next_number, layout.lead) or []
            if not tokens:
                at = f"column {layout.lead + 1}" if layout.lead else "the first column"
                message = f"{at} does not count the tokens of this sentence, as it does in others"
                on_bad_row(DataError(message, path=path, line=sentence.line))
                continue
            next_number = int(tokens[-1][layout.lead]) + 1
        values = {"tokens": [parts[layout.lead + layout.numbered] for parts in tokens]}
        if layout.slots is not None:
            values["slots"] = [parts[layout.slots] for parts in tokens]
        if columns is not None:
            values |= {str(number): list(column) for number, column in enumerate(zip(*tokens, strict=True), 1)}
        yield Row(values, path, sentence.line)
    if layout is None and on_bad_row.skipped == skipped:
        raise DataError("has no tokens; write a line per token and a blank line between sentences", path=path)


def _sentences(lines: Iterator[str], path: str, on_bad_row: OnBadRow) -> Iterator[_Sentence]:
    width = start = size = 0
    tokens: list[list[str]] = []
    problem: DataError | None = None
    for number, line in enumerate(itertools.chain(lines, [""]), 1):  # the last blank line may be missing
        body = line.rstrip("\r\n")
        parts = body.split("\t") if "\t" in body else [part for part in body.split(" ") if part]
        boundary = not body.strip() or parts[0] == "-DOCSTART-"
        comment = not tokens and bool(_METADATA.match(body)) and not _TAG.fullmatch(parts[-1])
        if boundary and problem:
            on_bad_row(problem)
        elif boundary and tokens:
            yield _Sentence(tokens, start, size)
        if boundary:
            tokens = []
            problem = None
            size = 0
        elif not comment:
            if len(parts) > MAX_COLUMNS:
                message = f"has {len(parts):,} columns; allowed: up to {MAX_COLUMNS:,}, the tag last"
                raise DataError(message, path=path, line=number)
            start = start if tokens else number
            width = width or len(parts)
            tokens.append(parts)
            if len(parts) != width and problem is None:
                expected = (
                    f"earlier lines have {width}; write a token first, its tag last, blank lines between sentences"
                )
                problem = DataError(f"{len(parts)} columns, but {expected}", path=path, line=number)
            elif "\0" in line:
                problem = problem or nul_error(path, number)
            size += len(line) + _OF_COLUMN * len(parts)
            if len(tokens) > MAX_SENTENCE or size > MAX_SIZE:
                most = f"{MAX_SENTENCE:,} tokens" if len(tokens) > MAX_SENTENCE else f"{MAX_SIZE >> 20} MiB"
                message = f"a sentence of more than {most}; put a blank line between sentences"
                raise DataError(message, path=path, line=start)


def _layout(sentences: Sequence[_Sentence], path: str, on_bad_row: OnBadRow) -> _Layout:
    """Find the columns of a file by its first sentences, and note decisions that a user would not expect."""
    width = len(sentences[0].tokens[0])
    several = [one.tokens for one in sentences if len(one.tokens) > 1]
    constant = (all(len({parts[i] for parts in tokens}) == 1 for tokens in several) for i in range(width - 2))
    lead = sum(itertools.takewhile(bool, constant)) if len(several) > 1 else 0
    if lead:
        have, read = ("column 1 has", "is") if lead == 1 else (f"the first {lead} columns have", "are")
        on_bad_row.note(f"{path}: {have} one value in each sentence, and {read} not read")
    kept = [[parts for parts in one.tokens if not _NO_TOKEN.fullmatch(parts[lead])] for one in sentences]
    columns = [[[parts[i] for parts in tokens] for tokens in kept] for i in range(width)]
    # Tokens that are numbers have their tags beside them, and numbers their tokens.
    left = width - lead
    numbered = left > 1 and _all_numbered(sentences, lead) and (left > 2 or types_of(columns[lead + 1]) is None)
    if numbered:
        on_bad_row.note(f"{path}: column {lead + 1} counts the tokens of each sentence and is not read")
    if left == 1 + numbered:
        return _Layout(lead, numbered, None)
    types = {i: kinds for i in range(lead + 1 + numbered, width) if (kinds := types_of(columns[i])) is not None}
    last = max(types, default=width - 1)
    inner = types.get(last)
    outer = next((i for i, kinds in types.items() if i != last and inner and inner <= kinds), None)
    if numbered and len(types) == left - 2 > 1:  # GermEval has nothing but tokens and their tags
        outer = min(types)
    if outer is not None:
        nested = f"column {last + 1} is for spans inside of them, and is read with --set data.columns.slots={last + 1}"
        on_bad_row.note(f"{path}: column {outer + 1} is read as the tags; {nested}")
    elif types and (last != width - 1 or len(types) > 1):
        others = "".join(
            f"; column {i + 1} has tags, too: --set data.columns.slots={i + 1}" for i in types if i != last
        )
        on_bad_row.note(f"{path}: column {last + 1} is read as the tags{others}")
    return _Layout(lead, numbered, last if outer is None else outer)


def _all_numbered(sentences: Sequence[_Sentence], at: int) -> bool:
    """Return whether a column counts the tokens of sentences; one at least has several."""
    next_number = 1
    for sentence in sentences:
        tokens = _numbered(sentence.tokens, next_number, at)
        if not tokens:
            return False
        next_number = int(tokens[-1][at]) + 1
    return any(len(sentence.tokens) > 1 for sentence in sentences)


def _numbered(tokens: list[list[str]], next_number: int, at: int) -> list[list[str]] | None:
    """Return the tokens that a column counts, from 0, 1 or `next_number`; None if it counts none."""
    kept = [parts for parts in tokens if not _NO_TOKEN.fullmatch(parts[at])]
    numbers = [parts[at] for parts in kept]
    starts = (first for first in (1, 0, next_number) if kept and numbers[0] == str(first))
    first = next(starts, None)
    counted = first is not None and numbers == list(map(str, range(first, first + len(kept))))
    return kept if counted else None


def _raising(error: DataError) -> Iterator[_Sentence]:
    raise error
    yield  # a generator raises when its first item is asked for
