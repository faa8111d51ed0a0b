"""Files that are not what their names promise, hold what nobody asked for, or are pipes: one error, or sound rows."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mixling import DataError, Example, read_examples
from mixling.data import ColumnsConfig, OnBadRow, read_rows
from mixling.data.in_memory import labeled_rows
from mixling.data.readers import parquet
from mixling.data.readers.rows import check_header
from mixling.tasks import task_type

ROWS = "text,label\na,x\nb,y\n"


def examples_of(path: Path, task: str = "classification") -> list[Example]:
    return list(read_examples([path], reader=task_type(task).reader, columns=ColumnsConfig(), on_bad_row=OnBadRow()))


@pytest.mark.parametrize(
    ("begin", "reported"),
    [
        (b"\x28\xb5\x2f\xfd\x04", "unzstd"),
        (b"\x89PNG\r\n\x1a\n\x00", "is an image"),
        (b"%PDF-1.7", "is a PDF"),
    ],
)
def test_content_of_another_format_is_named(begin: bytes, reported: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(begin + bytes(range(256)))
    with pytest.raises(DataError, match=reported):
        examples_of(tmp_path / "a.csv")


@pytest.mark.parametrize("suffix", [".zst", ".7z", ".tar"])
def test_packed_files_are_to_be_unpacked(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"a.csv{suffix}").write_bytes(b"x")
    with pytest.raises(DataError, match=rf"\{suffix} files are not supported.*unpack it, or compress it with gzip"):
        examples_of(tmp_path / f"a.csv{suffix}")


def test_a_dangling_link_names_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to(tmp_path / "gone.csv")
    with pytest.raises(DataError, match=r"is a link to .*gone\.csv, which does not exist"):
        examples_of(tmp_path / "a.csv")


def test_two_byte_order_marks_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" * 2 + ROWS.encode())
    assert [example.text for example in examples_of(tmp_path / "a.csv")] == ["a", "b"]


def test_columns_of_parquet_that_nobody_asked_for_are_not_read(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    far = pa.array([2**31 - 1, 0], pa.int32()).cast(pa.date32())
    ages = pa.array([1, 2], pa.int64())
    columns = {
        "far": far,
        "nanoseconds": ages.cast(pa.timestamp("ns", tz="Mars/Olympus")),
        "duration": ages.cast(pa.duration("ns")),
        "text": ["a", "b"],
        "label": ["x", "y"],
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    found = examples_of(tmp_path / "a.parquet")
    assert [(example.text, example.target) for example in found] == [("a", "x"), ("b", "y")]
    rows = list(read_rows(tmp_path / "a.parquet", on_bad_row=OnBadRow(), columns=("text",)))
    assert [(list(row.values), row.values["text"], row.values["label"]) for row in rows] == [
        (list(columns), "a", None),
        (list(columns), "b", None),
    ]
    everything = list(read_rows(tmp_path / "a.parquet", on_bad_row=OnBadRow()))  # as to find out the task
    assert [row.values["text"] for row in everything] == ["a", "b"]
    with pytest.raises(DataError, match=r"a\.parquet: cannot be read as Parquet"):
        list(read_rows(tmp_path / "a.parquet", on_bad_row=OnBadRow(), columns=("far",)))


def test_a_zipped_parquet_file_that_unzips_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MAX_SPOOLED", 1 << 20)
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(bytes(4 << 20)))
    with pytest.raises(DataError, match="expands to more than"):
        examples_of(tmp_path / "a.parquet.gz")


@pytest.mark.parametrize("value", ["9" * 5_000, "NaN", "Infinity"])
def test_numbers_that_json_has_not_are_refused(value: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"text": "a", "label": {value}}}\n')
    with pytest.raises(DataError, match=r"a\.jsonl:1: .*bad JSON"):
        examples_of(tmp_path / "a.jsonl")
    (tmp_path / "squad.json").write_text(f'{{"data": [{{"paragraphs": [], "n": {value}}}]}}')
    with pytest.raises(DataError, match=r"squad\.json: bad JSON"):
        examples_of(tmp_path / "squad.json", "question_answering")


@pytest.mark.parametrize(("first", "second"), [('"1"', "1"), ('"true"', "true"), ("1.0", '"1"'), ('["1"]', "[1]")])
def test_a_label_is_written_in_one_way(first: str, second: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        "".join(f'{{"text": "t", "label": {label}}}\n' for label in (first, first, second))
    )
    task: str = "multi_label" if first[0] == "[" else "classification"
    with pytest.raises(DataError, match=r"a\.jsonl:3: column 'label' is .*write each label in one way"):
        examples_of(tmp_path / "a.jsonl", task)


def test_a_label_in_memory_is_written_in_one_way() -> None:
    assert labeled_rows(["a", "b"], [1, 2], "<fit>", many=False)[1] == ["1", "2"]
    with pytest.raises(DataError, match=r"<fit>:1: got the label a string \(1\), which was a number before"):
        labeled_rows(["a", "b"], [1, "1"], "<fit>", many=False)


def test_a_header_is_checked_in_linear_time() -> None:
    def once(header: list[str]) -> float:
        begun = time.process_time()
        check_header(header, "a.csv", 1)
        return time.process_time() - begun

    def seconds(count: int) -> float:
        header = [f"column {number}" for number in range(count)]
        return min(once(header) for _ in range(5))  # the machine may be busy

    # Linear is 16 times, more where the caches end; to compare each with each took 256.
    assert seconds(80_000) < 80 * max(seconds(5_000), 1e-3)
    with pytest.raises(DataError, match="occurs twice"):
        check_header(["a"] * 2, "a.csv", 1)


def test_a_message_quotes_a_part_of_a_long_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",".join(f"column{number}" for number in range(9_999)) + "\na,b\n")
    with pytest.raises(DataError) as error:
        list(read_rows(tmp_path / "a.csv", on_bad_row=OnBadRow()))
    assert "and 9979 more" in str(error.value)
    assert len(str(error.value)) < 500


def through_pipe(content: bytes, name: Path | None, read: Callable[[Path], object]) -> object:
    """Read what another thread writes into a pipe, with a name or without, as of the shell's <(command)."""
    if name is not None:
        os.mkfifo(name)
        thread = threading.Thread(target=lambda: name.write_bytes(content))
        thread.start()
        try:
            return read(name)
        finally:
            thread.join()
    out, into = os.pipe()
    with os.fdopen(into, "wb") as file:
        file.write(content)
    try:
        return read(Path(f"/dev/fd/{out}"))
    finally:
        os.close(out)


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", [None, "a.csv"])
def test_a_pipe_is_read_once(name: str | None, zipped: bool, tmp_path: Path) -> None:
    content = gzip.compress(ROWS.encode()) if zipped else ROWS.encode()

    def read(path: Path) -> list[Example]:
        found = examples_of(path)
        if name is None:
            with pytest.raises(DataError, match="is a pipe, which can be read only once"):
                examples_of(path)
        return found

    found = through_pipe(content, None if name is None else tmp_path / name, read)
    assert [example.text for example in found] == ["a", "b"]  # type: ignore[attr-defined]


def test_json_lines_and_parquet_come_through_pipes_too(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"text": text, "label": "x"}) + "\n" for text in "ab")
    assert [item.text for item in through_pipe(rows.encode(), None, examples_of)] == ["a", "b"]  # type: ignore[attr-defined]
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.table({"text": ["a", "b"], "label": ["x", "y"]}), out)
    found = through_pipe(out.getvalue(), tmp_path / "a.parquet", examples_of)
    assert [item.text for item in found] == ["a", "b"]  # type: ignore[attr-defined]


def test_what_readers_decide_is_told_once_and_before_the_skipped_rows() -> None:
    bad = OnBadRow("skip")
    bad.note("column 3 was taken")
    bad.note("column 3 was taken")
    bad(DataError("is empty", path="a.csv", line=3))
    assert bad.lines("bad test rows") == [
        "column 3 was taken",
        "1 bad test row was skipped, among them: a.csv:3: is empty",
    ]
