"""Read CSV and TSV, with the physical line of every error."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from mixling.data.readers.dialects import (
    Dialect,
    RowPattern,
    dialect_of,
    is_remark,
    named_delimiter,
    quotes_are_text,
    unnamed_column,
    whole_rows,
)
from mixling.data.readers.first_line import first_line_is_row
from mixling.data.readers.lines import MAX_LINE, MAX_ROW, RowLines, Texts
from mixling.data.readers.rows import OnBadRow, RowBlock, check_header, nul_error
from mixling.errors import DataError

_NAMES = 20  # column names quoted in a message
_EXPECTED = {"csv": ",;\t", "tsv": "\t"}  # delimiters that are not mentioned
_SHOWN = {"\t": "a tab", "\x01": "Ctrl-A", " ": "a blank"}
_NULL = "\\N"  # a missing value, as databases export it
_RULER = re.compile(r" *:?-{3,}:? *|")  # below the header of a Markdown table
_LONG_DELIMITER = re.compile(r"\w+(::|\|\||;;|##|@@)\w+")
_JOIN = "write files one after another: mixling train a.csv b.csv"


@dataclass(frozen=True)
class Header:
    """The header of a table, and what follows it.

    Attributes:
        names: of the columns; "" for those without one.
        lines: of the file that the header is written on; the first one has the number `line`.
        records: the first line and the fields, or the error, of each later row.
    """

    names: list[str]
    lines: tuple[str, ...]
    line: int
    dialect: Dialect
    source: RowLines
    records: Iterator[tuple[int, list[str] | DataError]]


def read_header(
    texts: Texts, path: str, kind: str, *, again: Callable[[], Texts] | None = None, dialect: Dialect | None = None
) -> Header:
    """Read the first record; raises as `read_delimited`, which has the arguments."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE))  # the limit is global, so it is never lowered
    source = RowLines(texts)
    head = source.head(wait=again is not None)
    sign = None
    while head and dialect is None and sign is None:
        sign = named_delimiter(head[0].lstrip("\ufeff"))
        if sign is None and not is_remark(head, kind):
            break
        source.skip()
        head = source.head(wait=again is not None)
    if not head:
        raise DataError("is empty; a header and at least one row are required", path=path)
    is_new = dialect is None
    if dialect is None:
        dialect = dialect_of(head, kind, sign)
        if dialect.delimiter == "\t":
            whole = again() if again is not None else [(1, "".join(head))]
            if quotes_are_text(whole, head[0].lstrip("\ufeff"), "\t"):
                dialect = replace(dialect, quote="")
    records = _records(source, dialect, path, head)
    line, names = next(records)  # the first line is not blank
    if isinstance(names, DataError):
        raise names
    if len(names) == 1 and (problem := _one_column_problem(head[0], names[0])):
        raise DataError(problem, path=path, line=line)
    if is_new:
        numbered = first_line_is_row(names, whole_rows(head, dialect)[1:])
        dialect = replace(dialect, numbered=numbered)
        if not numbered:
            dialect = replace(dialect, unnamed=unnamed_column(len(names), head, dialect))
    if dialect.numbered:
        records = itertools.chain([(line, names)], records)
        names = list(map(str, range(1, len(names) + 1)))
    names = [*([""] if dialect.unnamed == "first" else []), *names, *([""] if dialect.unnamed == "last" else [])]
    header = check_header([name.strip() for name in names], path, line)
    return Header(header, tuple(source.row), line, dialect, source, records)


def _one_column_problem(line: str, name: str) -> str:
    """Return the problem of a header of one column that is several; "" if it is one."""
    if (found := _LONG_DELIMITER.search(name)) is not None:
        sign = found[1]
        return f"{sign!r} separates the fields; allowed: one character: sed 's/{sign}/\\t/g' OLD > NEW.tsv"
    if line.startswith('"') and re.fullmatch(r"\w+([,;\t]\w+)+", name):
        return "each line is quoted as a whole, so that it is one field: sed 's/^\"//; s/\"\\r*$//' OLD > NEW"
    return ""


def read_delimited(
    texts: Texts,
    path: str,
    on_bad_row: OnBadRow,
    kind: str,
    *,
    again: Callable[[], Texts] | None = None,
    first_line: int | None = None,
    dialect: Dialect | None = None,
) -> Iterator[RowBlock]:
    """Stream rows of strings. Blank lines are skipped, and column names are stripped; columns without one are ignored.

    Args:
        kind: csv or tsv.
        again: yields the texts once more, for a look at the whole file.
        first_line: the texts are the header and then a part of the file, which begins at this line and may be empty.
        dialect: if it is known; by default found from the first lines.

    Raises:
        DataError: there is no header, or no row, or a bad row that `on_bad_row` does not skip.
    """
    header = read_header(texts, path, kind, again=again, dialect=dialect)
    names = header.names
    source = header.source
    _note(header, path, on_bad_row, kind)
    empty = first_line is None
    if first_line is not None:
        source.number = first_line - 1
    repeated = {name.casefold() for name in names}
    longest = max(map(len, names)) + 4
    exact = set(names)
    if header.dialect.numbered:  # there is no header that could be repeated
        repeated = set()
        longest = -1
        exact = set()
    unnamed = "" in exact
    second = header.line + len(header.lines)
    block: list[dict[str, str | None]] = []
    first = 0
    for line, fields in header.records:
        problem = None
        if isinstance(fields, DataError):
            problem = fields
        elif fields and len(fields) != len(names):
            problem = DataError(_width_problem(fields, header), path=path, line=line)
        elif not fields:
            pass  # a blank line
        elif (len(fields[0]) <= longest >= len(fields[-1]) or not exact.isdisjoint(fields)) and _is_header(
            fields, names, repeated
        ):
            problem = DataError(f"repeats the header; {_JOIN}", path=path, line=line)
        elif line == second and any(fields) and all(map(_RULER.fullmatch, fields)):
            on_bad_row.note(f"{path}: the line of dashes below the header is no row")
            empty = False
        else:
            values: dict[str, str | None] = dict(zip(names, fields, strict=True))
            if _NULL in fields:
                values = {name: None if field == _NULL else field for name, field in values.items()}
            if unnamed:
                values.pop("", None)
            if block and line != first + len(block):
                yield RowBlock(block, path, first, own_columns=False)
                block = []
            if not block:
                first = line
            block.append(values)
            empty = False
        if block and (problem is not None or not source.at_hand):
            yield RowBlock(block, path, first, own_columns=False)
            block = []
        if problem is not None:
            empty = False
            on_bad_row(problem)
    if empty:
        raise DataError("has a header but no rows; at least one row is required", path=path, line=header.line)


def _is_header(fields: list[str], names: list[str], folded: Collection[str]) -> bool:
    """Return whether a row names the columns: in whatever order and case, two or more of another file, or `sep=;`."""
    if fields[0].lower() == "sep=" and not any(fields[1:]):
        return True
    if len(names) == 1:
        return fields[0].strip() == names[0]
    # Columns may be named 0 and 1, as their values are.
    if sum(field == name and not name.isdigit() for field, name in zip(fields, names, strict=True) if name) > 1:
        return True
    return {field.strip().casefold() for field in fields} == folded


def _note(header: Header, path: str, on_bad_row: OnBadRow, kind: str) -> None:
    """Describe how this dialect differs from most files."""
    dialect = header.dialect
    sign = header.dialect.delimiter
    if sign not in _EXPECTED[kind] and len(header.names) > 1:
        on_bad_row.note(f"{path}: {_SHOWN.get(sign, repr(sign))} separates the fields")
    if dialect.numbered:
        on_bad_row.note(f"{path}: the first line is a row, so that its {len(header.names)} columns are named 1, 2, ...")
    if not dialect.quote:
        on_bad_row.note(f"{path}: quotes are read as characters of the texts, so that each line is a row")
    elif dialect.quote != '"':
        on_bad_row.note(f"{path}: single quotes (') enclose fields")
    if dialect.backslash:
        on_bad_row.note(f"{path}: \\{dialect.quote} is read as a quote, and \\\\ as a backslash")


def _width_problem(fields: list[str], header: Header) -> str:
    names = header.names
    sign = header.dialect.delimiter
    row = "".join(header.source.row).rstrip("\r\n")
    names = [name or "without a name" for name in names]
    some = [*names[:_NAMES], f"and {len(names) - _NAMES} more"] if len(names) > _NAMES else names
    whose = "first row" if header.dialect.numbered else "header"
    got = f"{len(fields)} field{'' if len(fields) == 1 else 's'}, but the {whose} has {len(names)} ({', '.join(some)})"
    if len(names) > 1 and row.endswith("".join(header.lines).strip()):
        return f"{got}; the header of another file begins here without a line end before it; {_JOIN}"
    if len(names) > 1 and set(names) <= {field.strip() for field in fields}:
        return f"{got}; it is the header of another file; {_JOIN}"
    if len(fields) < len(names):
        return f"{got}; write every field, including empty ones, separated by {_SHOWN.get(sign, repr(sign))}"
    remedy = f'quote fields that contain {sign!r}: "a{sign}b"'
    if "\\" + sign in row:
        remedy = f"{remedy}; a backslash before {sign!r} is read as a backslash"
    if header.dialect.quote == '"' and any(field.startswith("'") for field in fields):
        remedy = f"{remedy}; single quotes (') are read as apostrophes"
    return f"{got}; {remedy}"


def _records(
    source: RowLines, dialect: Dialect, path: str, head: list[str]
) -> Iterator[tuple[int, list[str] | DataError]]:
    """Yield the first line and the fields (or the error) of each record; after an error, continue on the next line.

    Blank lines are skipped, except for one behind which a reader may have to wait.
    """
    reader = dialect.reader(source)
    pattern = RowPattern(head, dialect)
    row = source.row
    while True:
        row.clear()
        line = source.number + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem_line, message = _explain(str(error), source, dialect, line)
            kept = problem_line - line + 1
            # UTF-16 read as UTF-8 has stray returns and quotes, too, but the NUL explains the problem.
            nul = any("\0" in text for text in row[:kept])
            source.give_back(kept)
            reader = dialect.reader(source)
            yield line, nul_error(path, problem_line) if nul else DataError(message, path=path, line=problem_line)
            continue
        if source.nul and any("\0" in text for text in row):
            yield line, nul_error(path, line)
        elif len(row) > 1 and pattern.fits(row):
            message = _two_readings(row, line, dialect)
            source.give_back(1)
            yield line, DataError(message, path=path, line=line)
        elif fields or not source.at_hand:
            yield line, fields


def _two_readings(row: list[str], line: int, dialect: Dialect) -> str:
    quote = dialect.quote
    sign = "\\t" if dialect.delimiter == "\t" else dialect.delimiter
    count = len(row)
    command = f"""sed 's/"/""/g; s/[^{sign}]*/"&"/g'"""
    command = f"tr -d '\\r' < OLD | {command} > NEW" if row[0].endswith("\r\n") else f"{command} OLD > NEW"
    remedy = f"if quotes are characters of the texts, quote each field: {command}" if quote == '"' else "close it"
    return (
        f"a quote ({quote}) opens a field here that ends on line {line + count - 1}: one row, or, read as text, "
        f"{count} rows, because each line is a complete row; {remedy}; if it is one row, replace its line breaks"
    )


def _explain(reason: str, source: RowLines, dialect: Dialect, line: int) -> tuple[int, str]:
    """Return the line of the error in the row that starts at `line`, and a message."""
    quote = dialect.quote
    row = source.row
    if "new-line character" in reason:
        message = "a carriage return without a line feed; convert the file: tr '\\r' '\\n' < OLD > NEW"
    elif "unexpected end" in reason:
        # The open field is the last one and extends to the end, so its line feeds give the line of its quote.
        last = next(dialect.reader(list(row), strict=False))[-1]
        line += sum(text.count("\n") for text in row) - last.count("\n")
        message = (
            f"a quote ({quote}) is opened here and never closed; close it, or double quotes that belong to the text"
        )
    elif "larger" in reason:
        what, size = ("row", MAX_ROW) if "row" in reason else ("quoted field", MAX_LINE)
        message = f"a {what} is longer than {size >> 20} MiB; close its quote"
    else:
        where = f" on line {source.number}" if source.number > line else ""
        inside = f"double each quote ({quote}) inside a quoted field"
        if "\\" + quote in "".join(row):
            inside += f""": sed 's/\\\\{quote}/{quote}{quote}/g' OLD > NEW"""
        message = f"text follows a closing quote{where}; {inside}, or close the field"
    return line, message
