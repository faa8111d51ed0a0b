"""Files that are labeled, and the rows that come out: read by other libraries, and by the readers of `train`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from mixling import UserError, read_examples
from mixling.data import ColumnsConfig, OnBadRow
from mixling.labeling import key_of, read_file_texts, write_labeled
from mixling.tasks import task_type

HARD = ['say "hi", twice', "two\nlines", "שלום עולם", "naïve 🫨 café", "=1+1"]


def read_back(path: Path, task: str, **columns: Any) -> list[tuple[Any, Any]]:
    config = ColumnsConfig(**columns)
    rows = read_examples([path], reader=task_type(task).reader, columns=config, on_bad_row=OnBadRow())
    return [(row.text, row.target) for row in rows]


def test_rows_of_csv_keep_their_columns(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow(["id", "message", "topic"])
        writer.writerows([[number, text, "old" if number == 1 else ""] for number, text in enumerate([*HARD, HARD[0]])])
    texts = read_file_texts(file, task="classification", columns=ColumnsConfig(text="message", label="topic"))
    assert [text.text for text in texts.by_key.values()] == HARD
    said = {key_of(HARD[0]): "first", key_of(HARD[3]): 'a "b", c'}
    assert write_labeled(tmp_path / "out.csv", texts, said.get) == 4
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    assert [(row["id"], row["message"], row["topic"]) for row in rows] == [
        ("0", HARD[0], "first"), ("1", HARD[1], "old"), ("3", HARD[3], 'a "b", c'), ("5", HARD[0], "first"),
    ]  # fmt: skip
    assert read_back(tmp_path / "out.csv", "classification", text="message", label="topic")[0] == (HARD[0], "first")


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_sets_of_labels_are_read_again(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("one\n\ntwo\nthree\n")
    texts = read_file_texts(file, task="multi_label", columns=ColumnsConfig())
    said = {key_of("one"): ["a", "b, c"], key_of("two"): []}
    out = tmp_path / f"out.{suffix}"
    assert write_labeled(out, texts, said.get) == 2
    assert read_back(out, "multi_label") == [("one", ("a", "b, c")), ("two", ())]


def test_spans_become_tags_and_tags_spans(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [
        {"text": "fly to New York, now"},
        {"text": "no", "spans": []},
        {"text": "in Rome", "spans": [[3, 7, "city"]]},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    texts = read_file_texts(file, task="tagging", columns=ColumnsConfig())
    given = {text.text: text.given for text in texts.by_key.values()}
    assert given == {"fly to New York, now": None, "no": [], "in Rome": [[1, 2, "city"]]}
    first = texts.by_key[key_of("fly to New York, now")]
    assert "".join(first.parts) == first.text
    assert first.parts[1::2] == ["fly", "to", "New", "York", ",", "now"]
    said = {key_of("fly to New York, now"): [[2, 4, "city"], [5, 6, "time"]]}
    out = tmp_path / "out.jsonl"
    assert write_labeled(out, texts, said.get) == 3
    assert read_back(out, "tagging")[0] == (
        ["fly", "to", "New", "York", ",", "now"],
        ("O", "O", "B-city", "I-city", "O", "B-time"),
    )
    again = read_file_texts(out, task="tagging", columns=ColumnsConfig())
    assert next(iter(again.by_key.values())).given == said[key_of("fly to New York, now")]
    assert "".join(next(iter(again.by_key.values())).parts) == "fly to New York , now"
    with pytest.raises(UserError, match=r"ends in \.jsonl"):
        write_labeled(tmp_path / "out.csv", texts, said.get)


def test_pairs_are_labeled(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("text,other\na,b\na,c\n")
    texts = read_file_texts(file, task="classification", columns=ColumnsConfig(text_pair="other"))
    assert [text.text for text in texts.by_key.values()] == [("a", "b"), ("a", "c")]
    out = tmp_path / "out.csv"
    write_labeled(out, texts, {key_of(("a", "c")): "same"}.get)
    assert read_back(out, "classification", text_pair="other") == [(("a", "c"), "same")]


def test_the_file_itself_is_never_written(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("text,label\na,b\n")
    texts = read_file_texts(file, task="classification", columns=ColumnsConfig())
    with pytest.raises(UserError, match="is the file that is labeled"):
        write_labeled(file, texts, lambda key: None)
    with pytest.raises(UserError, match="labels can be given for"):
        read_file_texts(file, task="regression", columns=ColumnsConfig())
    file.write_text("text,label\n  ,b\n")
    with pytest.raises(UserError, match="has no text with words"):
        read_file_texts(file, task="classification", columns=ColumnsConfig())
