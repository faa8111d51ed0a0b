"""JSON as other programs write it, in a file of either name: an array, objects over several lines, pandas' tables."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mixling.data import OnBadRow, read_rows
from mixling.errors import DataError

ROWS = [{"text": "a, [b]", "label": "x"}, {"text": 'c "é"\n\U0001f600', "label": "y"}, {"text": "}", "label": "x"}]
BY_COLUMN = {name: {str(i): row[name] for i, row in enumerate(ROWS)} for name in ("text", "label")}
BY_INDEX = {str(i): row for i, row in enumerate(ROWS)}
SPLIT = {"columns": ["text", "label"], "index": [0, 1, 2], "data": [[row["text"], row["label"]] for row in ROWS]}
TABLE = {"schema": {"fields": [{"name": "text", "type": "string"}]}, "data": ROWS}  # what pandas calls orient="table"
WRAPPED = ({"data": ROWS}, {"train": ROWS}, {"version": "1.0", "data": ROWS})
DOCUMENTS: list[tuple[str, list[int]]] = [
    (json.dumps(ROWS), [1, 1, 1]),
    (json.dumps(ROWS, indent=2), [2, 6, 10]),
    ("[\n" + ",\n".join(map(json.dumps, ROWS)) + "\n]\n", [2, 3, 4]),
    ("\n\n[" + "\n,".join(map(json.dumps, ROWS)) + "]", [3, 4, 5]),
    ("".join(json.dumps(row) + ",\n" for row in ROWS), [1, 2, 3]),
    ("\n".join(json.dumps(row, indent=1) for row in ROWS), [1, 5, 9]),
    ("".join(json.dumps(row) + "\n" for row in ROWS), [1, 2, 3]),
    *((json.dumps(table), [1, 2, 3]) for table in (BY_COLUMN, BY_INDEX, SPLIT, TABLE, *WRAPPED)),
    *((json.dumps(table, indent=1), [1, 2, 3]) for table in (BY_COLUMN, BY_INDEX, SPLIT, TABLE, *WRAPPED)),
]


def read(path: Path, mode: Any = "error") -> tuple[list[tuple[int, Any]], OnBadRow]:
    bad = OnBadRow(mode)
    return [(row.line, row.values) for row in read_rows(path, on_bad_row=bad)], bad


@pytest.mark.parametrize(("content", "lines"), DOCUMENTS)
def test_documents_are_read_with_their_lines(tmp_path: Path, content: str, lines: list[int]) -> None:
    for name in ("a.json", "a.jsonl"):
        for encoding in ("utf-8", "utf-8-sig", "utf-16"):
            path = tmp_path / name
            path.write_bytes(content.encode(encoding))
            found, bad = read(path)
            assert found == list(zip(lines, ROWS, strict=True))
            assert f", {len(ROWS)} rows, 0 skipped" in bad.lines()[0]
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(content.encode()))
    assert read(tmp_path / "a.json.gz")[0] == found


def test_an_object_that_is_a_row_stays_one(tmp_path: Path) -> None:
    for row in (
        ROWS[0],
        {"tokens": ["a", "b"], "slots": ["O", "O"]},
        {"text": "a", "data": [{"x": 1}]},
        {"text": "a", "entities": [{"start": 0}]},
        {"answers": {"text": ["a"], "start": [0]}, "question": "q", "context": "a"},
    ):
        for indent in (None, 1):
            path = tmp_path / "a.json"
            path.write_text(json.dumps(row, indent=indent))
            assert read(path)[0] == [(1, row)]
            path.write_text(json.dumps(row) + "\n" + json.dumps(row))
            assert read(path)[0] == [(1, row), (2, row)]


def test_a_table_larger_than_what_is_read_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    rows = [{"text": "word " * 100, "label": str(i)} for i in range(5000)]
    path.write_text(json.dumps({name: {str(i): row[name] for i, row in enumerate(rows)} for name in rows[0]}))
    assert [values for _, values in read(path)[0]] == rows
    path.write_text(json.dumps({"text": "word " * 100_000, "label": "x"}) + "\n" + json.dumps(rows[0]))
    assert len(read(path)[0]) == 2


SQUAD = [{"context": "a b", "qas": [{"id": "1", "question": "q?", "answers": [{"text": "b", "answer_start": 2}]}]}]
ARTICLE = {"title": "t", "paragraphs": SQUAD}


@pytest.mark.parametrize(
    "document",
    [
        SQUAD,
        [ARTICLE],
        ARTICLE,
        {"data": SQUAD},
        {"data": [{"paragraphs": SQUAD}]},
        {"data": [ARTICLE], "version": "1"},
    ],
)
def test_questions_of_squad_with_and_without_what_encloses_them(tmp_path: Path, document: Any) -> None:
    row = {"id": "1", "question": "q?", "context": "a b", "answers": [{"text": "b", "answer_start": 2}]}
    for indent in (None, 2):
        (tmp_path / "a.json").write_text(json.dumps(document, indent=indent))
        assert read(tmp_path / "a.json")[0] == [(1, row)]


def test_pairs_of_text_and_annotations(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps([["in Rome", {"entities": [[3, 7, "LOC"]]}], ["x", {"entities": []}]]))
    assert [values["label"] for _, values in read(path)[0]] == [[[3, 7, "LOC"]], []]
    path.write_text(json.dumps([["good", {"cats": {"POS": 1.0, "NEG": 0.0}}]]))
    assert read(path)[0] == [(1, {"text": "good", "cats": {"POS": 1.0, "NEG": 0.0}, "label": ["POS"]})]


@pytest.mark.parametrize("bad", ['{"text": NaN}', '{"text": "a", "text": "b"}', "3", '"text"', "null"])
def test_bad_elements_are_skipped_with_their_line(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "a.json"
    path.write_text("[" + ",\n".join([json.dumps(ROWS[0]), bad, json.dumps(ROWS[1])]) + "]")
    found, skipped = read(path, "skip")
    assert found == [(1, ROWS[0]), (3, ROWS[1])]
    assert skipped.messages[0].startswith(f"{path}:2: ")
    with pytest.raises(DataError, match=r"a\.json:2: "):
        read(path)
