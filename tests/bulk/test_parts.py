"""Parts of files together are the file: the same rows as its reader has, in order, with the same errors and lines."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixling.bulk import plan as cutting
from mixling.bulk.csv_records import record_starts
from mixling.bulk.plan import make_plan
from mixling.bulk.read import LinesUnknownError, read_part, with_line
from mixling.data import ColumnsConfig, OnBadRow
from mixling.data.readers import flat, read_line_blocks
from mixling.data.readers.delimited import read_delimited
from mixling.data.readers.dialects import Dialect
from mixling.errors import ConfigError, DataError
from mixling.tasks import Classification, Tagging

READER = Classification.reader


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    def cut(size: int, rows: int) -> None:
        monkeypatch.setattr(cutting, "MIN_PART_BYTES", size)
        monkeypatch.setattr(cutting, "PARTS", 1000)
        monkeypatch.setattr(cutting, "MAX_ROWS", rows)

    return cut


def texts_of(path: Path, *, skip: bool = False) -> list[Any]:
    """The texts, or the errors, of all parts of a file."""
    out: list[Any] = []
    for part in make_plan([str(path)], reader=READER, columns=ColumnsConfig()).parts:
        try:
            windows = list(read_part(part, reader=READER, columns=ColumnsConfig(), skip=skip))
        except LinesUnknownError:
            windows = list(read_part(with_line(part), reader=READER, columns=ColumnsConfig(), skip=skip))
        out += [item.text or item.error for window in windows for item in window.items]
    return out


SIGNS = st.text('a",\n\r ', max_size=40)


@settings(max_examples=150)
@given(body=SIGNS, header=st.sampled_from(["x,y\n", '"x\nz",y\n', "\n\nx,y\r\n", "\ufeffx,y\n"]))
def test_records_begin_where_the_reader_finds_them(body: str, header: str) -> None:
    content = (header + body).encode()
    stream = io.BufferedReader(io.BytesIO(content))  # type: ignore[type-var,arg-type]
    starts = list(record_starts(stream, "f", Dialect(","), header.count("\n") + 1))
    ends = [*starts[1:], (len(content), 0)]
    assert starts[-1][0] <= len(content)

    def read(text: str, first_line: int | None = None) -> list[Any]:
        bad = OnBadRow("skip", keep=100)
        lines = read_line_blocks(io.BufferedReader(io.BytesIO(text.encode())), "f")  # type: ignore[arg-type]
        rows = [
            (row.line, *row.values.values())
            for row in flat(read_delimited(lines, "f", bad, "csv", first_line=first_line, dialect=Dialect(",")))
        ]
        return [*rows, *bad.messages]

    head = content[: starts[0][0]].decode()
    whole = read(head + content[starts[0][0] :].decode(), starts[0][1])
    parts: list[Any] = []
    for (start, line), (stop, _) in zip(starts, ends, strict=True):
        parts += read(head + content[start:stop].decode(), line)
    assert sorted(map(str, parts)) == sorted(map(str, whole))


def write(path: Path, texts: Sequence[str | None]) -> None:
    """Write rows in the format of a file's name; None is a row that is bad."""
    if path.name.endswith(".parquet"):
        pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), path, row_group_size=70)
        return
    out = io.StringIO()
    for number, text in enumerate(texts):
        row = f"{number},a,b\n" if text is None else '{},"{}"\n'.format(number, text.replace('"', '""'))
        out.write(json.dumps({"id": number, "text": text}) + "\n" if ".jsonl" in path.name else row)
    content = ("" if ".jsonl" in path.name else "id,text\n") + out.getvalue()
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.csv", "a.jsonl.gz", "a.csv.gz"])
def test_parts_together_have_all_rows_in_order(
    name: str, tmp_path: Path, small_parts: Callable[[int, int], None]
) -> None:
    draw = random.Random(0)
    texts = [f"row {number}" + '\nx, "y"' * draw.randrange(3) + " z" * draw.randrange(40) for number in range(200)]
    write(tmp_path / name, texts)
    for size, rows in ((1, 1), (97, 33), (1 << 20, 1000)):
        small_parts(size, rows)
        parts = make_plan([str(tmp_path / name)], reader=READER, columns=ColumnsConfig()).parts
        assert (len(parts) > 1) == (rows < 1000 and not name.endswith("gz"))
        assert [part.name for part in parts] == sorted({part.name for part in parts})
        assert texts_of(tmp_path / name) == texts


@pytest.mark.parametrize(("name", "line"), [("a.parquet", 63), ("a.jsonl", 63), ("a.csv", 65), ("a.csv.gz", 65)])
def test_bad_rows_have_their_file_and_line_in_every_part(
    name: str, line: int, tmp_path: Path, small_parts: Callable[[int, int], None]
) -> None:
    path = tmp_path / name
    write(path, ["one", "two\nlines", *("three" for _ in range(60)), None, "five"])
    small_parts(50, 5)
    found = texts_of(path, skip=True)
    assert [found[0], found[1], found[-1]] == ["one", "two\nlines", "five"]
    assert found[-2].startswith(f"{path}:{line}: {'3 fields' if '.csv' in name else 'column'}")
    with pytest.raises(DataError, match=f"{name}:{line}: "):
        texts_of(path)


def test_lines_that_cannot_be_read_have_their_number(tmp_path: Path, small_parts: Callable[[int, int], None]) -> None:
    path = tmp_path / "a.jsonl"
    write(path, ["one"] * 50)
    path.write_bytes(path.read_bytes() + b'nothing\n{"text": 1}\n{"other": "x"}\n{"text": "a", "prediction": 1}\n')
    small_parts(100, 1)
    errors = texts_of(path, skip=True)[50:]
    assert [error.partition(": ")[0] for error in errors] == [f"{path}:{line}" for line in (51, 52, 53, 54)]
    assert "already" in errors[-1]
    path.write_bytes(path.read_bytes() + b"\xff\n")
    with pytest.raises(DataError, match=r"a.jsonl:55: byte 0xff"):
        texts_of(path, skip=True)


def test_a_damaged_row_group_is_named_and_its_rows_have_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    texts = [f"text {number}" for number in range(300)]
    pq.write_table(pa.table({"text": texts}), path, row_group_size=100, compression="gzip", use_dictionary=False)
    column = pq.read_metadata(path).row_group(1).column(0)
    content = bytearray(path.read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    content[middle : middle + 40] = bytes(40)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a.parquet:101: row group 1 from here to row 200: cannot be read as Parquet"):
        texts_of(path)
    found = texts_of(path, skip=True)
    assert found[:100] + found[200:] == texts[:100] + texts[200:]
    assert all(error.endswith("write it again") for error in found[100:200])


def test_inputs_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    def plan(*names: str) -> Any:
        return make_plan([str(tmp_path / name) for name in names], reader=READER, columns=ColumnsConfig())

    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "a.parquet", ["one"])
    write(tmp_path / "a.csv", ["one"])
    (tmp_path / "b.csv").write_text("id,texts\n1,a\n")
    pq.write_table(pa.table({"id": ["1"], "text": ["a"]}), tmp_path / "b.parquet")
    assert len(plan("*/a.parquet").parts) == 2
    for names, error, message in (
        (["*.txt"], DataError, r"\*.txt: no file has a name like this"),
        (["c.csv"], DataError, "c.csv: no such file"),
        (["x"], DataError, r"is a folder; name its files: .*x/\*.parquet"),
        (["x/a.parquet", "y/a.parquet"], ConfigError, "outputs of the same name"),
        (["a.csv", "b.csv"], DataError, "b.csv: has the column 'texts' where 'text' is in .*a.csv"),
        (["x/a.parquet", "b.parquet"], DataError, "b.parquet: has the column 'id' of string where 'id' of int64"),
        (["a.csv", "b.parquet"], DataError, "b.parquet: is parquet, but .*a.csv is csv"),
        (["b.csv"], DataError, "b.csv: no column 'text'; did you mean 'texts'"),
    ):
        with pytest.raises(error, match=message):
            plan(*names)
    with pytest.raises(ConfigError, match="Protocol not known"):
        make_plan(["nothing://a/b.csv"], reader=READER, columns=ColumnsConfig())
    (tmp_path / "d.parquet").write_bytes((tmp_path / "b.parquet").read_bytes()[:-20])
    with pytest.raises(DataError, match=r"d.parquet: cannot be read as Parquet"):
        plan("d.parquet")


def test_words_in_rows_of_their_own_are_not_cut_into_parts(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("s,tokens\n1,Mia\n,Vik\n")
    with pytest.raises(
        DataError, match=r"a\.csv: the words of a sentence have rows of their own .* predict into a file"
    ):
        make_plan([str(path)], reader=Tagging.reader, columns=ColumnsConfig(sentence="s"))
