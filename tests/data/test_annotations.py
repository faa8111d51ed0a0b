"""The exports of annotation tools are read as they are: texts with spans or labels, without what was rejected."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from mixling import DataError, Example, read_examples
from mixling.data import ColumnsConfig, OnBadRow
from mixling.tasks import infer_task, task_type

TEXT = "Mia Vik flew to San Juan."
TAGS = ("B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC", "O")


def label_studio(
    *results: list[dict[str, Any]], text: str = TEXT, key: str = "text", **annotation: Any
) -> dict[str, Any]:
    return {
        "id": 1,
        "annotations": [{"id": 7, "result": result, "was_cancelled": False, **annotation} for result in results],
        "data": {key: text},
        "predictions": [],
    }


def span(start: int, end: int, label: str) -> dict[str, Any]:
    value = {"start": start, "end": end, "text": TEXT[start:end], "labels": [label]}
    return {"value": value, "id": "x", "from_name": "label", "to_name": "text", "type": "labels", "origin": "manual"}


def choice(*labels: str) -> dict[str, Any]:
    return {"value": {"choices": list(labels)}, "from_name": "sentiment", "to_name": "text", "type": "choices"}


SPANS = [span(16, 24, "LOC"), span(0, 7, "PER")]
TOKENS = [{"text": word, "start": 0, "end": 3, "id": i} for i, word in enumerate(TEXT.split())]
UBIAI = [
    {"text": "Mia Vik", "start": 0, "end": 7, "token_start": 0, "token_end": 1, "entityLabel": "PER"},
    {"text": "San Juan", "start": 16, "end": 24, "token_start": 4, "token_end": 5, "entityLabel": "LOC"},
]
DATATURKS = [
    {"label": ["PER"], "points": [{"start": 0, "end": 6, "text": "Mia Vik"}]},
    {"label": ["LOC"], "points": [{"start": 16, "end": 23, "text": "San Juan"}]},
]
OBJECTS = [{"start": 0, "end": 7, "label": "PER"}, {"start": 16, "end": 24, "label": "LOC"}]
ENTITIES = [[0, 7, "PER"], [16, 24, "LOC"]]
TAGGED: dict[str, dict[str, Any]] = {
    "label studio": label_studio(SPANS),
    "label studio, two annotators of one mind": label_studio(SPANS, SPANS[::-1]),
    "label studio, another key": label_studio(SPANS, key="body"),
    "label studio, minimal": {"text": TEXT, "id": 1, "annotator": 1, "lead_time": 2.5,
                              "label": [item["value"] for item in SPANS]},
    "prodigy": {"text": TEXT, "_input_hash": 1, "tokens": TOKENS, "spans": OBJECTS, "answer": "accept"},
    "argilla": {"text": TEXT, "tokens": TEXT.split(), "prediction": None, "annotation": OBJECTS, "status": "Validated"},
    "argilla 2": {"text": TEXT, "span.responses": [OBJECTS], "span.responses.status": ["submitted"]},
    "lighttag": {"content": TEXT, "annotations": [{"start": 0, "end": 7, "tag": "PER", "value": "Mia Vik"},
                                                  {"start": 16, "end": 24, "tag": "LOC", "value": "San Juan"}]},
    "ubiai": {"documentName": "a", "document": TEXT, "tokens": UBIAI, "relations": []},
    "dataturks": {"content": TEXT, "annotation": DATATURKS, "extras": None},
    "an object around spaCy's pairs": {"classes": ["PER"], "annotations": [[TEXT, {"entities": ENTITIES}]]},
}  # fmt: skip
LABELED: dict[str, tuple[dict[str, Any], str]] = {
    "label studio": (label_studio([choice("pos")]), "pos"),
    "prodigy, binary": ({"text": TEXT, "label": "pos", "_input_hash": 1, "answer": "accept"}, "pos"),
    "prodigy, options": ({"text": TEXT, "options": [{"id": "pos", "text": "Positive"}], "accept": ["pos"],
                          "answer": "accept"}, "pos"),
    "argilla": ({"text": TEXT, "annotation": "pos", "status": "Validated"}, "pos"),
    "argilla 2": ({"text": TEXT, "label.responses": ["pos", "pos"], "label.suggestion": "neg"}, "pos"),
    "argilla 2, nested": ({"fields": {"text": TEXT}, "responses": {"label": [{"value": "pos"}]}}, "pos"),
    "doccano 1": ({"text": TEXT, "annotations": [{"label": "pos", "user": 1}], "meta": {}}, "pos"),
    "dataturks": ({"content": TEXT, "annotation": {"labels": ["pos"], "note": ""}}, "pos"),
}  # fmt: skip


def write(folder: Path, *rows: Any) -> Path:
    path = folder / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path: Path, task: str, *, labeled: bool = True, **columns: str) -> tuple[list[Example], list[str]]:
    bad = OnBadRow()
    reader, kind = task_type(task).reader, ColumnsConfig(**columns)
    found = list(read_examples([path], reader=reader, columns=kind, on_bad_row=bad, labeled=labeled))
    return found, [note.removeprefix(f"{path}: ") for note in bad.notes]


@pytest.mark.parametrize("tool", TAGGED)
def test_spans_of_each_tool(tmp_path: Path, tool: str) -> None:
    path = write(tmp_path, TAGGED[tool])
    assert infer_task({"train": [str(path)]})[0] == "tagging"
    [example], notes = read(path, "tagging")
    assert (example.text, example.target) == (["Mia", "Vik", "flew", "to", "San", "Juan", "."], TAGS)
    assert notes == []
    [example], _ = read(path, "tagging", labeled=False)
    assert example.text == (TEXT.split() if tool == "argilla" else TEXT)


@pytest.mark.parametrize("tool", LABELED)
def test_labels_of_each_tool(tmp_path: Path, tool: str) -> None:
    values, label = LABELED[tool]
    path = write(tmp_path, values)
    assert infer_task({"train": [str(path)]})[0] == "classification"
    [example], _ = read(path, "classification")
    assert (example.text, example.target) == (TEXT, label)


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("form", ["label studio", "spaCy", "lighttag", "tables of labels"])
def test_documents_of_several_rows(tmp_path: Path, form: str, indent: int | None) -> None:
    path = tmp_path / "a.json"
    values: Any = {
        "label studio": [TAGGED["label studio"]] * 3,
        "spaCy": [[TEXT, {"entities": ENTITIES}]] * 3,
        "lighttag": {"examples": [TAGGED["lighttag"]] * 3},
        "tables of labels": {"classes": ["PER"], "annotations": [[TEXT, {"entities": ENTITIES}]] * 3},
    }[form]
    path.write_text(json.dumps(values, indent=indent))
    assert infer_task({"train": [str(path)]})[0] == "tagging"
    assert [example.target for example in read(path, "tagging")[0]] == [TAGS] * 3


def test_spans_in_the_cells_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with path.open("w", newline="") as file:
        cells = [json.dumps([item["value"] for item in SPANS]), ""]
        csv.writer(file).writerows([("text", "label"), *((TEXT, cell) for cell in cells)])
    assert infer_task({"train": [str(path)]})[0] == "tagging"
    assert [example.target for example in read(path, "tagging")[0]] == [TAGS, ("O",) * 7]


def test_several_choices_are_several_labels(tmp_path: Path) -> None:
    minimal = {"text": TEXT, "annotator": 1, "topic": {"choices": ["a", "b"]}}
    path = write(tmp_path, label_studio([choice("a", "b")]), label_studio([choice("a")]))
    assert infer_task({"train": [str(path)]})[0] == "multi_label"
    assert [example.target for example in read(path, "multi_label")[0]] == [("a", "b"), ("a",)]
    assert read(write(tmp_path, minimal), "multi_label", label="topic")[0][0].target == ("a", "b")
    table = tmp_path / "a.csv"
    table.write_text('text,topic\na text,"{""choices"":[""a"",""b""]}"\n')
    assert read(table, "multi_label", label="topic")[0][0].target == ("a", "b")


def test_what_is_not_annotated_is_left_out_of_training_and_is_predicted(tmp_path: Path) -> None:
    rows = [
        label_studio(SPANS),
        label_studio(),
        label_studio(SPANS, was_cancelled=True),
        label_studio(SPANS, SPANS[:1]),
        {"text": TEXT, "spans": OBJECTS, "answer": "reject"},
        {"text": TEXT, "tokens": TOKENS, "_input_hash": 1, "answer": "ignore"},
        {"text": "a word", "tokens": TOKENS, "_input_hash": 1, "answer": "accept"},
    ]
    path = write(tmp_path, *rows)
    found, notes = read(path, "tagging")
    assert [(example.line, example.target) for example in found] == [(1, TAGS), (7, ("O", "O"))]
    assert notes == ["5 rows are left out: without annotation, rejected or skipped, or annotated in several ways"]
    assert len(read(path, "tagging", labeled=False)[0]) == 7
    binary = {"text": TEXT, "label": "x", "_input_hash": 1}
    notes = read(write(tmp_path, {**binary, "answer": "accept"}, {**binary, "answer": "reject"}), "classification")[1]
    assert notes[0].endswith("; 1 of them only say which label is wrong: learning needs the right one")
    with pytest.raises(DataError, match="no rows are left, 0 were skipped, 2 have no annotation that is accepted"):
        read(write(tmp_path, label_studio(), label_studio()), "tagging")
    sure, unsure = label_studio([choice("a")]), label_studio([choice("a")], [choice("a", "b")])
    assert infer_task({"train": [str(write(tmp_path, unsure, sure))]})[0] == "classification"


def test_the_truth_of_label_studio_counts_alone(tmp_path: Path) -> None:
    values = label_studio(SPANS[:1], SPANS)
    values["annotations"][1]["ground_truth"] = True
    assert read(write(tmp_path, values), "tagging")[0][0].target == TAGS


def test_a_column_answer_that_is_the_label_stays_one(tmp_path: Path) -> None:
    path = write(tmp_path, {"text": "a", "answer": "accept"}, {"text": "b", "answer": "reject"})
    assert [example.target for example in read(path, "classification", label="answer")[0]] == ["accept", "reject"]


def test_spans_that_are_counted_in_another_way_are_named(tmp_path: Path) -> None:
    wrong = span(0, 7, "PER")
    wrong["value"]["start"] = 1
    with pytest.raises(DataError, match=r"a\.jsonl:1: column 'spans': .*characters 1 to 7 of the text are 'ia Vik'"):
        read(write(tmp_path, label_studio([wrong])), "tagging")


def test_a_folder_of_brat(tmp_path: Path) -> None:
    text = f"Ada sees é.\n\n{TEXT}\n"
    at = text.index("Mia")
    notes = [f"T1\tPER {at} {at + 7}\tMia Vik", f"T2\tLOC {at + 16} {at + 24}\tSan Juan", "T3\tPER 0 3\tAda"]
    (tmp_path / "1.txt").write_text(text)
    (tmp_path / "1.ann").write_text("\n".join([*notes, "R1\tvisits Arg1:T1 Arg2:T2", "#1\tNote T1\tsure"]) + "\n")
    assert infer_task({"train": [str(tmp_path)]})[0] == "tagging"
    found, _ = read(tmp_path, "tagging")
    assert [(example.line, example.target) for example in found] == [(1, ("B-PER", "O", "O", "O")), (3, TAGS)]
    (tmp_path / "1.ann").write_text("T1\tPER 0 3;4 8\tAda sees\n")
    with pytest.raises(DataError, match=r"1\.ann:1: got .*a span has one part"):
        read(tmp_path, "tagging")
    (tmp_path / "1.ann").write_text("T1\tPER 9 16\té. Mia\n")
    with pytest.raises(DataError, match=r"1\.txt:1: the span 'é\. Mia' \(PER\) is on several lines"):
        read(tmp_path, "tagging")
    (tmp_path / "1.txt").unlink()
    with pytest.raises(DataError, match=r"1\.txt: no such file"):
        read(tmp_path, "tagging")
