"""Read JSON that is not one object per line: arrays, objects over several lines, and tables as pandas writes them."""

from __future__ import annotations

import io
import itertools
import json
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

from mixling.data.readers.jsonl import read_jsonl, refuse_constant, unique
from mixling.data.readers.lines import MAX_LINE, Texts, is_utf16, read_line_blocks
from mixling.data.readers.rows import OnBadRow, Row, RowBlock
from mixling.data.readers.squad import MAX_SQUAD_BYTES, rows_of_squad
from mixling.errors import DataError, command_line

MAX_DOCUMENT = MAX_SQUAD_BYTES
_BEGIN = re.compile(r'\[|\{\s*"[^"]*"\s*:\s*[\[{]')
_BLANK = re.compile(r"[ \t\r\n\ufeff]*")
_TABLES = ("data", "train", "training", "test", "validation", "valid", "dev", "rows", "examples", "records", "items")
_RASA = "rasa_nlu_data"
_RECORDS = 'df.to_json(FILE, orient="records")'
_STRICT = json.JSONDecoder(object_pairs_hook=unique, parse_constant=refuse_constant)
_LENIENT = json.JSONDecoder()


def read_json_rows(
    data: BinaryIO, path: str, on_bad_row: OnBadRow, count: Callable[[Texts], Texts]
) -> Iterator[Row | RowBlock]:
    """Stream the rows of a file of JSON lines, or of a document, which is read at once.

    Args:
        count: passes the texts of the file on, and counts lines.

    Raises:
        DataError: a row is bad, unless `on_bad_row` skips it; or the document has no table, or is too large.
    """
    texts = iter(count(read_line_blocks(data, path, max_line=MAX_DOCUMENT if _may_be_document(data) else MAX_LINE)))
    not_blank = (item for item in texts if item[1].strip("\ufeff \t\r\n"))
    first, start = next(not_blank, (1, ""))
    kind = _kind(start)
    if kind == "object" and (following := next(texts, None)) is not None:
        texts = itertools.chain([following], texts)
        kind = ""
    if not kind:
        return read_jsonl(itertools.chain([(first, start)], texts), path, on_bad_row)
    parts = [start]
    size = len(start)
    for _, text in texts:
        parts.append(text)
        size += len(text)
        if size > MAX_DOCUMENT:
            message = f"is one JSON document of more than {MAX_DOCUMENT >> 20} MiB; write one object per line"
            raise DataError(message, path=path)
    content = "".join(parts)
    del parts, start
    if kind == "array" or (_decoded(content, _STRICT) is None and _begins_well(content)):
        return _of_elements(content, first, path, on_bad_row)
    values = _decoded(content, _STRICT)
    if isinstance(values, dict):
        return _of_object(values, first, path, on_bad_row)
    return read_jsonl(iter([(first, content)]), path, on_bad_row)


def _may_be_document(data: BinaryIO) -> bool:
    try:
        head = cast(io.BufferedReader, data).peek(512)[:512]
    except (EOFError, OSError, zlib.error):  # a damaged gzip file, which is reported by the reader
        return False
    text = head.decode("utf-16" if is_utf16(head[:4]) else "utf-8", "ignore")
    return _BEGIN.match(text, _end_of_blank(text, 0)) is not None


def _kind(text: str) -> str:
    """Return how a document begins; "" for lines of JSON.

    That is "array"; "object" for a line with a whole table, if no other follows; or "objects" over several lines, or
    with commas after them.
    """
    start = _end_of_blank(text, 0)
    if text.startswith("[", start):
        return "array"
    line, _, rest = text[start:].partition("\n")
    line = line.rstrip(" \t\r")
    rest = rest.strip()
    if isinstance(values := _decoded(line, _LENIENT), dict):
        return "object" if not rest and _is_table(values) else ""
    commas = line.endswith("},") and _decoded(line[:-1], _LENIENT) is not None
    return "objects" if line.startswith("{") and (commas or (rest and rest[0] != "{")) else ""


def _decoded(text: str, decoder: json.JSONDecoder) -> Any:
    """Return the value of a text that has nothing else; None if it is something else."""
    try:
        return decoder.decode(text)
    except (ValueError, RecursionError):
        return None


def _begins_well(text: str) -> bool:
    try:
        _LENIENT.raw_decode(text, _end_of_blank(text, 0))
    except (ValueError, RecursionError):
        return False
    return True


def _end_of_blank(text: str, at: int) -> int:
    return cast("re.Match[str]", _BLANK.match(text, at)).end()


def _of_elements(content: str, first: int, path: str, on_bad_row: OnBadRow) -> Iterator[Row]:
    """Stream the elements of an array, or the objects one after another, with the line that each begins on."""
    elements = _elements(content, first, path, on_bad_row)
    begin = next(elements, None)
    if begin is None and not on_bad_row.skipped:
        raise DataError("is an empty array; at least one row is required", path=path)
    top = begin[1] if begin is not None else None
    if isinstance(top, dict) and top.keys() & {"paragraphs", "qas"}:
        yield from _squad([top, *(value for _, value in elements)], path, on_bad_row)
        return
    if isinstance(top, list) and _spacy(top) is None:
        message = f"is a table whose columns have no names, such as {json.dumps(top)[:40]}; write it with {_RECORDS}"
        raise DataError(message, path=path, line=first)
    for line, value in itertools.chain([begin] if begin is not None else [], elements):
        row = value if isinstance(value, dict) else _spacy(value)
        if row is None:
            allowed = 'allowed: objects with the names of columns, such as {"text": "...", "label": "..."}'
            on_bad_row(DataError(f"got {json.dumps(value)[:40]}; {allowed}", path=path, line=line))
        else:
            yield Row(row, path, line, own_columns=True)


def _elements(content: str, first: int, path: str, on_bad_row: OnBadRow) -> Iterator[tuple[int, Any]]:
    at = _end_of_blank(content, 0)
    counted = 0
    line = first
    is_array = content.startswith("[", at)
    at += is_array
    while True:
        at = _end_of_blank(content, at)
        line = line + content.count("\n", counted, at)
        counted = at
        if at == len(content) and not is_array:
            return
        if is_array and content.startswith("]", at):
            if (end := _end_of_blank(content, at + 1)) < len(content):
                message = "something follows the array; write one array, or one object per line"
                raise DataError(message, path=path, line=line + content.count("\n", at, end))
            return
        try:
            value, end = _STRICT.raw_decode(content, at)
        except json.JSONDecodeError as error:
            allowed = "an array of objects, or one object per line"
            message = f"column {error.colno}: bad JSON: {error.msg}; allowed: {allowed}"
            raise DataError(message, path=path, line=first + error.lineno - 1) from None
        except RecursionError:
            raise DataError("is nested too deeply; allowed: an array of flat objects", path=path, line=line) from None
        except ValueError as error:  # a key that occurs twice, NaN, or a number of thousands of digits
            problem = DataError(f"bad JSON: {error}; allowed: flat JSON objects", path=path, line=line)
            try:
                end = _LENIENT.raw_decode(content, at)[1]
            except (ValueError, RecursionError):
                raise problem from None
            on_bad_row(problem)
        else:
            yield line, value
        at = _end_of_blank(content, end)
        if content.startswith(",", at):
            at += 1
        elif is_array and not content.startswith("]", at):
            line += content.count("\n", counted, at)
            raise DataError("bad JSON: a comma or ] is missing after an object", path=path, line=line)


def _squad(parts: list[Any], path: str, on_bad_row: OnBadRow) -> Iterator[Row]:
    """Stream the rows of SQuAD's articles, or of their paragraphs."""
    articles = parts if "paragraphs" in parts[0] else [{"paragraphs": parts}]
    return rows_of_squad({"data": articles}, path, on_bad_row)


def _spacy(value: Any) -> dict[str, Any] | None:
    """Return the row of a text and its annotations in spaCy's older format; None if it is something else."""
    if not (isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict)):
        return None
    row = {"text": value[0], **value[1]}
    cats = value[1].get("cats")
    if "entities" in row:
        row.setdefault("label", row["entities"])
    elif isinstance(cats, dict):
        names = [name for name, number in cats.items() if isinstance(number, int | float) and number >= 0.5]
        row.setdefault("label", names)
    return row


def _of_rasa(row: Any) -> Any:
    """Return an example of Rasa with its intent as the label."""
    return {**row, "label": row["intent"]} if isinstance(row, dict) and "intent" in row else row


def _is_table(values: dict[str, Any]) -> bool:
    """Return whether an object is a table, and no row."""
    if isinstance(values.get(_RASA), dict):
        return True
    if not values or "paragraphs" in values:
        return bool(values)
    parts = list(values.values())
    keys = parts[0].keys() if isinstance(parts[0], dict) else None
    if keys and all(isinstance(part, dict) and part.keys() == keys for part in parts):
        return True
    return _has_lists(parts) or (any(isinstance(values.get(name), list) for name in _TABLES) and "text" not in values)


def _of_object(values: dict[str, Any], first: int, path: str, on_bad_row: OnBadRow) -> Iterator[Row]:
    """Stream the rows of the only object of a file."""
    if not _is_table(values):
        yield Row(values, path, first, own_columns=True)
        return
    if isinstance(of_rasa := values.get(_RASA), dict):
        values = {"examples": [_of_rasa(row) for row in of_rasa.get("common_examples") or ()]}
    names = [name for name in _TABLES if isinstance(values.get(name), list)]
    if names and isinstance(top := next(iter(values[names[0]]), None), list) and "columns" not in values:
        message = f"{names[0]!r} has arrays, such as {json.dumps(top)[:40]}, whose columns have no names"
        raise DataError(f"{message}; allowed: objects, as {_RECORDS} writes them", path=path)
    if len(names) > 1:
        commands = "; ".join(f"{command_line('jq', '-c', f'.{name}[]', path)} > {name}.jsonl" for name in names[:2])
        raise DataError(f"has the tables {', '.join(names)}; write each to a file of its own: {commands}", path=path)
    parts = values[names[0]] if names else [values]
    if not parts:
        raise DataError(f"{names[0]!r} is empty; at least one row is required", path=path)
    if isinstance(parts[0], dict) and parts[0].keys() & {"paragraphs", "qas"}:
        yield from _squad(parts, path, on_bad_row)
        return
    if isinstance(parts[0], dict) and parts[0].keys() >= {"row_idx", "row"}:  # of the Hugging Face data sets server
        parts = [part["row"] if isinstance(part, dict) and "row" in part else part for part in parts]
    rows = iter(parts) if names else _transposed(values)
    if names and isinstance(columns := values.get("columns"), list):
        rows = (
            dict(zip(columns, part, strict=True)) if isinstance(part, list) and len(part) == len(columns) else part
            for part in parts
        )
    for number, row in enumerate(rows, 1):
        if isinstance(row, dict):
            yield Row(row, path, number, own_columns=True)
        else:
            got = json.dumps(row)[:40]
            message = f"row {number} of {names[0]!r} is {got}; allowed: objects, as {_RECORDS} writes them"
            on_bad_row(DataError(message, path=path, line=number))


def _has_lists(parts: list[Any]) -> bool:
    """Return whether values are columns: lists of one length, and one has mostly texts with blanks, not words."""
    if len(parts) < 2 or not all(isinstance(part, list) and len(part) == len(parts[0]) > 1 for part in parts):
        return False
    return any(2 * sum(isinstance(item, str) and " " in item.strip() for item in part) > len(part) for part in parts)


def _transposed(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table that was written by its columns, or by its index."""
    if isinstance(next(iter(values.values())), list):
        yield from (dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True))
        return
    inner = list(next(iter(values.values())))
    by_index = all(map(str.isdigit, values)) and not all(map(str.isdigit, inner))
    if by_index or (len(values) > len(inner) and not all(map(str.isdigit, inner))):
        yield from values.values()
    else:
        yield from ({name: column[key] for name, column in values.items()} for key in inner)
