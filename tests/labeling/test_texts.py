"""Files that are labeled, and the rows that come out: read by other libraries, and by the readers of `train`."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from mixling import UserError, read_examples
from mixling.data import ColumnsConfig, OnBadRow
from mixling.labeling import EXPORTS, FileTexts, example_of, format_for, key_of, read_file_texts, write_labeled
from mixling.tasks import infer_task, task_type

HARD = ['say "hi", twice', "two\nlines", "שלום עולם", "naïve 🫨 café", "=1+1"]


def read_back(path: Path, task: str, **columns: Any) -> list[tuple[Any, Any]]:
    config = ColumnsConfig(**columns)
    rows = read_examples([path], reader=task_type(task).reader, columns=config, on_bad_row=OnBadRow())
    return [(row.text, row.target) for row in rows]


def known(texts: FileTexts) -> dict[str, Any]:
    return {key: text.given for key, text in texts.by_key.items() if text.given is not None}


def test_rows_of_csv_keep_their_columns(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow(["id", "message", "topic"])
        writer.writerows([[number, text, "old" if number == 1 else ""] for number, text in enumerate([*HARD, HARD[0]])])
    texts = read_file_texts(file, task="classification", columns=ColumnsConfig(text="message", label="topic"))
    assert [text.text for text in texts.by_key.values()] == HARD
    said = {key_of(HARD[0]): "first", key_of(HARD[3]): 'a "b", c'}
    write_labeled(tmp_path / "out.csv", texts, known(texts) | said, "csv")
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
    write_labeled(out, texts, said, suffix)
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
    write_labeled(out, texts, known(texts) | said, "jsonl")
    assert read_back(out, "tagging")[0] == (
        ["fly", "to", "New", "York", ",", "now"],
        ("O", "O", "B-city", "I-city", "O", "B-time"),
    )
    again = read_file_texts(out, task="tagging", columns=ColumnsConfig())
    assert next(iter(again.by_key.values())).given == said[key_of("fly to New York, now")]
    assert "".join(next(iter(again.by_key.values())).parts) == "fly to New York , now"


def test_pairs_are_labeled(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("text,other\na,b\na,c\n")
    texts = read_file_texts(file, task="classification", columns=ColumnsConfig(text_pair="other"))
    assert [text.text for text in texts.by_key.values()] == [("a", "b"), ("a", "c")]
    out = tmp_path / "out.csv"
    write_labeled(out, texts, {key_of(("a", "c")): "same"}, "csv")
    assert read_back(out, "classification", text_pair="other") == [(("a", "c"), "same")]


def test_the_file_itself_is_never_written(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("text,label\na,b\n")
    texts = read_file_texts(file, task="classification", columns=ColumnsConfig())
    with pytest.raises(UserError, match="is the file that is labeled"):
        write_labeled(file, texts, {}, "csv")
    with pytest.raises(UserError, match="labels can be given for"):
        read_file_texts(file, task="regression", columns=ColumnsConfig())
    file.write_text("text,label\n  ,b\n")
    with pytest.raises(UserError, match="has no text with words"):
        read_file_texts(file, task="classification", columns=ColumnsConfig())


PLAIN = ["my card is lost", "naïve 🫨 café, no?", "שלום עולם", "12 34", "O", '"hi" they said', "# no comment", "=1+1"]
MARKS = {
    "classification": ["a", "b", "a", "é", "b", "a", "a", "b"],
    "multi_label": [["a"], ["a", "b"], ["b"], ["é", "b"], ["a"], ["b"], ["a", "b"], ["a"]],
    "tagging": [
        [[0, 1, "a"], [1, 3, "b"]], [[3, 4, "é"]], [[0, 2, "a"]], [], [[0, 1, "b"]], [[1, 2, "a"]], [[2, 3, "a"]], [],
    ],
}  # fmt: skip


@pytest.mark.parametrize(("task", "form"), [(task, form) for form, export in EXPORTS.items() for task in export.tasks])
@pytest.mark.parametrize("texts", [PLAIN, [*PLAIN[:-1], "two\nlines | here"]], ids=["lines", "several"])
def test_what_is_exported_is_read_by_training_as_the_same_rows(
    tmp_path: Path, task: str, form: str, texts: list[str]
) -> None:
    file = tmp_path / "rows.jsonl"
    rows = ({"text": text, "number": number, "at": {"x": 1}} for number, text in enumerate(texts))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    of_file = read_file_texts(file, task=task, columns=ColumnsConfig())
    said = {key_of(text): value for text, value in zip(texts, MARKS[task], strict=True)}
    out = tmp_path / f"out{EXPORTS[form].suffix}"
    assert format_for(out, task, form) == form
    if "\n" in texts[-1] and form in ("fasttext", "brat"):
        with pytest.raises(UserError, match=r"rows\.jsonl:8: the text has several lines"):
            write_labeled(out, of_file, said, form)
        assert not out.exists()
        return
    write_labeled(out, of_file, said, form)
    wanted = [example_of(text, value, task) for text, value in zip(texts, MARKS[task], strict=True)]
    got = read_back(out, task)
    assert (sorted if form == "classes" else list)(got) == (sorted if form == "classes" else list)(wanted)
    assert infer_task({"train": [str(out)], "columns": {}})[0] == task


# Other words in the names of formats that are read: kinds of tables, data sets, and forms of one format.
NO_FORMAT = {"json", "json-min", "nlu", "name", "kaggle", "wnut", "multiconer", "germeval", "neuronlp"}


def test_each_format_that_training_reads_is_written() -> None:
    """The page of what is read names each format of EXPORTS; each name on it is one of EXPORTS."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "formats.md").read_text("utf-8")
    labeled = page.partition("## In: texts with labels")[2].partition("## In: questions")[0]
    names = ",".join(re.findall(r"(?m)^\| (?!what|---)(.*?) \|", labeled)).replace("Label Studio", "Label-studio")
    names = names.replace("JSON lines", "Jsonl").replace("a folder for each class", "Classes").replace("brat:", "Brat")
    named = {name.lower() for name in re.findall(r"\b(?:[A-Z][A-Za-z-]+|doccano|spaCy|fastText)\b", names)}
    named = {"conll" if name.startswith("conll") else name for name in named}
    assert named - NO_FORMAT == EXPORTS.keys() - {"json"}


@pytest.mark.parametrize(
    ("task", "form", "text", "value", "problem"),
    [
        ("classification", "fasttext", "a", "x y", "the label 'x y' has a blank or a comma"),
        ("classification", "fasttext", "a __label__b", "x", "has __label__ in it"),
        ("multi_label", "fasttext", "a", [], "the text has no label"),
        ("classification", "classes", "a", "../x", "is no name of a folder"),
        ("tagging", "brat", "a", [[0, 1, "x y"]], "has a blank"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(
    tmp_path: Path, task: str, form: str, text: str, value: Any, problem: str
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"text": text}))
    texts = read_file_texts(file, task=task, columns=ColumnsConfig())
    with pytest.raises(UserError, match=problem):
        write_labeled(tmp_path / f"out{EXPORTS[form].suffix}", texts, {key_of(text): value}, form)
    assert [*tmp_path.iterdir()] == [file]


def test_names_say_the_format() -> None:
    named = ("out.csv", "out.tsv", "out.jsonl", "out.json", "out.parquet", "out.ft", "out")
    assert [format_for(Path(name), "classification") for name in named] == [
        "csv", "tsv", "jsonl", "json", "parquet", "fasttext", "classes",
    ]  # fmt: skip
    assert [format_for(Path(name), "tagging") for name in ("out", "out.conll")] == ["brat", "conll"]
    for name, form in (
        ("out.csv.gz", None),
        ("out.xlsx", None),
        ("out.csv", "prodigy"),
        ("out.csv", "brat"),
        ("x", "y"),
    ):
        with pytest.raises(UserError):
            format_for(Path(name), "tagging", form)
