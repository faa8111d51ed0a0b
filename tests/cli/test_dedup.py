"""`mixling dedup` keeps rows whole, says what repeats what, and reports mistakes in one line."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from .conftest import Call


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "message", "topic"])
        for number, text in enumerate(
            [
                "my parcel is late today",
                "My parcel is late  today",
                'a "quoted", text\nof two lines',
                "my parcel is very late today",
                "my parcel is late today",
                "short",
            ]
        ):
            writer.writerow([number, text, "ab"[number % 2]])
    return path


def test_rows_are_kept_whole_and_duplicates_reported(rows: Path, tmp_path: Path, call: Call) -> None:
    done = call(
        "dedup",
        str(rows),
        "--text",
        "message",
        "-o",
        str(tmp_path / "kept.csv"),
        "--report",
        str(tmp_path / "report.csv"),
    )
    assert done.code == 0
    assert done.out.startswith("6 rows: 3 kept, 2 equal and 1 nearly equal to others")
    with open(tmp_path / "kept.csv", encoding="utf-8", newline="") as file:
        kept = list(csv.DictReader(file))
    assert [row["id"] for row in kept] == ["0", "2", "5"]
    assert kept[1] == {"id": "2", "message": 'a "quoted", text\nof two lines', "topic": "a"}
    with open(tmp_path / "report.csv", encoding="utf-8", newline="") as file:
        report = list(csv.DictReader(file))
    assert [(row["line"], row["repeats_line"], row["similarity"]) for row in report] == [
        ("3", "2", "1.0000"), ("6", "2", "0.8333"), ("7", "2", "1.0000"),
    ]  # fmt: skip


def test_the_column_is_found_and_other_formats_are_written(rows: Path, tmp_path: Path, call: Call) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("one line\nOne line\nanother\n")
    assert call("dedup", str(lines), "-o", str(tmp_path / "kept.txt")).code == 0
    assert (tmp_path / "kept.txt").read_text() == "one line\nanother\n"
    assert call("dedup", str(rows), "--text", "message", "-o", str(tmp_path / "kept.jsonl")).code == 0
    found = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert [row["id"] for row in found] == ["0", "2", "5"]
    done = call("dedup", str(rows), str(rows), "--text", "message")
    assert done.out.startswith("12 rows: 3 kept, 7 equal and 2 nearly equal")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rows.csv", "--text", "mesage"], r"mesage"),
        (["rows.csv", "-o", "rows.csv", "--text", "message"], "also an input"),
        (["rows.csv", "-o", "kept.xlsx", "--text", "message"], r"kept\.xlsx: ends in none of \.csv, \.jsonl, \.txt"),
        (["rows.csv", "--text", "message", "--threshold", "2"], "threshold: got 2"),
        (["rows.csv", "--text", "message", "-o", "a.csv", "--report", "a.csv"], "give two"),
        (["none.csv"], "none.csv"),
        (["-"], "not standard input"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str],
    message: str,
    rows: Path,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(rows.parent)
    before = rows.read_bytes()
    done = call("dedup", *arguments)
    assert done.code == 2
    assert re.search(message, done.err), done.err
    assert "Traceback" not in done.err
    assert rows.read_bytes() == before
