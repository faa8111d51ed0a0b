"""Generated tables: the rows that are read are those that Python's csv wrote, or there is an error with the line.

A part of the files is read in each run of the tests; all 2,000 with

    GENERATED_FILES=2000 python -m pytest tests/data/test_generated_files.py
"""

from __future__ import annotations

import csv
import gzip
import io
import os
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mixling.data import OnBadRow, read_rows
from mixling.errors import DataError

FILES = settings(
    max_examples=int(os.environ.get("GENERATED_FILES", "150")) // 2,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
NAMES = ["text", "label", "id", "", "a b"]
WORDS = [
    "good",
    "a",
    "it's",
    '"',
    "'",
    '""',
    ",",
    ";",
    "\t",
    "|",
    " ",
    "\n",
    "\\",
    '\\"',
    "é",
    "\U0001f600",
    "1,000",
    "x",
]
FIELD = st.lists(st.sampled_from(WORDS), max_size=6).map("".join)
SIGN = st.sampled_from(",;\t|")
END = st.sampled_from(["\n", "\r\n"])
ENCODING = st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])


def read(path: Path, mode: Any) -> tuple[list[list[str]], OnBadRow, DataError | None]:
    bad, found = OnBadRow(mode), []
    try:
        for row in read_rows(path, on_bad_row=bad):
            found.append(list(row.values.values()))
    except DataError as error:
        return found, bad, error
    return found, bad, None


def named(rows: list[list[str]], header: list[str]) -> list[list[str]]:
    """The fields of the columns that have a name."""
    return [[field for field, name in zip(row, header, strict=True) if name] for row in rows]


@FILES
@given(data=st.data(), sign=SIGN, end=END, encoding=ENCODING)
def test_what_csv_writes_is_read(tmp_path: Path, data: st.DataObject, sign: str, end: str, encoding: str) -> None:
    header = data.draw(
        st.lists(st.sampled_from(NAMES), min_size=2, max_size=4, unique_by=lambda name: name or object())
    )
    assume(any(header))
    row = st.lists(FIELD, min_size=len(header), max_size=len(header))
    rows = data.draw(st.lists(row, min_size=1, max_size=12))
    assume(all(sorted(fields) != sorted(header) and any(fields) for fields in rows))
    out = io.StringIO()
    quoting: Any = data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]))
    writer = csv.writer(out, delimiter=sign, lineterminator=end, quoting=quoting)
    writer.writerow(header)
    blank = data.draw(st.integers(0, len(rows)))
    for number, fields in enumerate(rows):
        writer.writerow(fields)
        if number + 1 == blank:
            out.write(end)
    content = out.getvalue().removesuffix(end if data.draw(st.booleans()) else "")
    name = data.draw(st.sampled_from(["a.csv", "a.tsv", "a.csv.gz"]))
    raw = content.encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    found, bad, error = read(tmp_path / name, "error")
    if error is not None:  # lines of a field that look like rows
        assert error.line is not None
        assert "one row, or, read as text" in str(error) or "never closed" in str(error)
        return
    assert len(found) == len(rows)
    if not any("quotes" in note or "read as a quote" in note for note in bad.notes):  # these say what was taken
        assert found == named(rows, header)
    lines = content.count("\n") + (not content.endswith("\n"))
    assert f"{lines:,} line{'' if lines == 1 else 's'}, {len(rows)} row" in bad.lines()[0]


@FILES
@given(data=st.data(), sign=SIGN, end=END, encoding=ENCODING)
def test_rows_without_quoting_are_all_read(
    tmp_path: Path, data: st.DataObject, sign: str, end: str, encoding: str
) -> None:
    """Each line is a row, and a quote is a character; or an error names a line, and skipping loses that row alone."""
    field = FIELD.map(lambda text: text.replace(sign, "").replace("\n", "").replace("\\", ""))
    rows = data.draw(st.lists(st.tuples(field, st.sampled_from(["x", "y"])), min_size=1, max_size=40))
    content = end.join(sign.join(fields) for fields in [("text", "label"), *rows]) + end
    (tmp_path / "a.csv").write_bytes(content.encode(encoding))
    found, _, error = read(tmp_path / "a.csv", "error")
    quoted = list(csv.reader(io.StringIO(content, newline=""), delimiter=sign))[1:]
    if error is None:
        assert [row[1] for row in found] == [row[1] for row in rows]
        assert found in (list(map(list, rows)), quoted) or "'" in content
    else:
        assert error.line is not None
        skipped, bad, _ = read(tmp_path / "a.csv", "skip")
        assert len(skipped) + bad.skipped == len(rows)
