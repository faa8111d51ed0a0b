"""Standard input with rows: read by column where one is named, and named as rows where none is."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Call

from mixling.data import STDIN, ColumnsConfig, PlainTexts, file_items, plain_or_items
from mixling.tasks import LabelReader

TEXTS = ["a lovely film", "a { bad film", 'it is "good",\nthey say', "x"]
JSONL = "".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(TEXTS))
TABLE = 'id,text\n0,a lovely film\n1,a { bad film\n2,"it is ""good"",\nthey say"\n3,x\n'


@pytest.mark.slow
def test_rows_of_standard_input_are_predicted_as_those_of_a_file(call: Call, model: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(JSONL)
    wanted = call("predict", model, tmp_path / "rows.jsonl", "--text", "text").out
    answers = [json.loads(line) for line in wanted.splitlines()]
    assert len(answers) == len(TEXTS)
    array = json.dumps([json.loads(line) for line in JSONL.splitlines()])
    for content in (JSONL, "\ufeff" + JSONL, array, TABLE, TABLE.replace(",", "\t").replace('""\t', '"",')):
        for data in (content.encode(), gzip.compress(content.encode())):
            done = call("predict", model, "-", "--text", "text", stdin=data)
            assert done.err == ""
            assert [json.loads(line) for line in done.out.splitlines()] == answers
    assert call("predict", model, "-", "--text", "text", stdin=JSONL.encode()).out == wanted
    labeled = "".join(f"__label__good {text}\n" for text in (TEXTS[0], TEXTS[1], TEXTS[3]))
    done = call("predict", model, "-", "--text", "text", stdin=labeled.encode())
    assert [json.loads(line) for line in done.out.splitlines()] == [answers[0], answers[1], answers[3]]
    kept = call("predict", model, "-", "--text", "text", "--columns", "id", stdin=TABLE.encode()).out
    assert [json.loads(line)["id"] for line in kept.splitlines()] == ["0", "1", "2", "3"]
    wrong = call("predict", model, "-", "--text", "txt", stdin=JSONL.encode())
    assert wrong.code == 2
    assert "<stdin>:1: no column 'txt'; did you mean 'text'?" in wrong.err


@pytest.mark.slow
def test_lines_that_look_like_rows_are_named(call: Call, model: Path) -> None:
    for content, what in (
        (JSONL, "the first line is a JSON object (id, text)"),
        ("__label__good a film\nx\n", "the first line begins with a label of fastText's (__label__good)"),
        ("id;review\n1;a\n", "the first line names columns (id, review)"),  # the column that the model reads
    ):
        done = call("predict", model, "-", stdin=content.encode())
        assert done.err == f"<stdin>: {what}; each line is taken as a text; --text review reads a column of rows\n"
        assert len(done.out.splitlines()) == content.count("\n")
    for text in ("{ is a brace\n", "{}\n", "[1]\n", "a review of this\n", "review this, please\n", "\n"):
        assert not call("predict", model, "-", stdin=text.encode()).err


@pytest.mark.parametrize(
    "parts",
    [
        ('{"text": "one"}\n', '{"text": ["two"]}\n', '{"text": "three"}\n{"text": "four"}\n'),
        ("text,label\none,x\n", '"two\nlines",x\n', "three,x\nfour,x\n"),
    ],
)
@pytest.mark.parametrize("plain", [True, False])
def test_rows_are_yielded_as_they_arrive(parts: tuple[str, ...], plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    with open(read_end) as stream, open(write_end, "w", buffering=1) as out:
        monkeypatch.setattr(sys, "stdin", stream)
        options: dict[str, Any] = {"reader": LabelReader, "columns": ColumnsConfig(), "skip": False}
        windows: Any = plain_or_items(STDIN, **options) if plain else file_items([STDIN], **options)
        found = []
        for part in parts:  # without threads: a reader that waited for more would never end
            out.write(part)
            while len(found) < sum(map(rows_in, parts[: parts.index(part) + 1])):
                window = next(windows)
                found += window if isinstance(window, PlainTexts) else [item.text for item in window]
        out.close()
        assert found in (["one", ["two"], "three", "four"], ["one", "two\nlines", "three", "four"])
        assert list(windows) == []


def rows_in(part: str) -> int:
    return 1 if "two" in part or "one" in part else 2
