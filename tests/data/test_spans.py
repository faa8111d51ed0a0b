"""Texts with spans of characters, and files with a word in each row, become words with IOB2 tags."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from mixling import DataError, Example, read_examples
from mixling.data import ColumnsConfig, OnBadRow
from mixling.tasks import Tagging, infer_task, task_type
from mixling.text import word_spans

TEXT = "Mia Vik flew to San Juan."
WORDS = ["Mia", "Vik", "flew", "to", "San", "Juan", "."]
TAGS = ("B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC", "O")


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def read(path: Path, *, labeled: bool = True, mode: str = "error", **columns: str) -> tuple[list[Example], OnBadRow]:
    bad = OnBadRow(mode)  # type: ignore[arg-type]
    kind = ColumnsConfig(**columns)
    found = read_examples([path], reader=Tagging.reader, columns=kind, on_bad_row=bad, labeled=labeled)
    return list(found), bad


def task_of(path: Path, **columns: str) -> str:
    return infer_task({"train": [str(path)], "columns": columns})[0]


FORMS: dict[str, Any] = {
    "doccano": {"label": [[0, 7, "PER"], [16, 24, "LOC"]]},
    "doccano labels": {"labels": [[16, 24, "LOC"], [0, 7, "PER"]]},
    "doccano relations": {
        "entities": [
            {"id": 1, "label": "PER", "start_offset": 0, "end_offset": 7},
            {"id": 2, "label": "LOC", "start_offset": 16, "end_offset": 24},
        ],
        "relations": [],
    },
    "prodigy": {
        "spans": [
            {"start": 0, "end": 7, "token_start": 0, "token_end": 1, "label": "PER"},
            {"start": 16, "end": 24, "token_start": 4, "token_end": 5, "label": "LOC"},
        ],
    },
    "rasa": {
        "entities": [
            {"start": 0, "end": 7, "value": "mia", "entity": "PER"},
            {"start": 16, "end": 24, "value": "SJU", "entity": "LOC"},
        ],
    },
    "label studio": {
        "label": [
            {"start": 0, "end": 7, "text": "Mia Vik", "labels": ["PER"]},
            {"start": 16, "end": 24, "text": "San Juan", "labels": ["LOC"]},
        ],
    },
    "azure": {
        "entities": [
            {"offset": 0, "length": 7, "category": "PER"},
            {"offset": 16, "length": 8, "category": "LOC"},
        ],
    },
    "numbers as text": {"label": [["0", "7", "PER"], ["16", "24", "LOC"]]},
    "label first": {"annotation": [["PER", 0, 7], ["LOC", 16, 24]]},
    "in a cell": {"label": '[{"start": 0, "end": 7, "labels": ["PER"]}, {"start": 16, "end": 24, "labels": ["LOC"]}]'},
    "white space at the ends": {"label": [[0, 8, "PER"], [15, 24, "LOC"]]},
}


@pytest.mark.parametrize("form", FORMS)
def test_spans_in_the_forms_of_annotation_tools(tmp_path: Path, form: str) -> None:
    empty = {"text": "nothing here", **{name: [] for name in FORMS[form]}}
    path = write(tmp_path / "a.jsonl", empty, {"id": 3, "text": TEXT, **FORMS[form]})
    assert task_of(path) == "tagging"
    assert read(path)[0] == [
        Example(["nothing", "here"], ("O", "O"), str(path), 1),
        Example(WORDS, TAGS, str(path), 2),
    ]
    assert [example.text for example in read(path, labeled=False)[0]] == ["nothing here", TEXT]


def test_columns_of_texts_and_spans_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"body": TEXT, "marks": FORMS["doccano"]["label"]})
    assert task_of(path, slots="marks", text="body") == "tagging"
    assert read(path, slots="marks", text="body")[0][0].target == TAGS
    other = write(tmp_path / "b.jsonl", {"body": TEXT, **FORMS["doccano"]})
    assert task_of(other, text="body") == "tagging"


def test_a_file_with_a_label_and_spans_is_not_taken_for_tagging(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"text": TEXT, "label": "travel", **FORMS["rasa"]})
    assert task_of(path) == "classification"
    assert read(path)[0][0].target == TAGS  # with --task tagging


@pytest.mark.parametrize("task", ["classification", "multi_label"])
def test_other_tasks_say_which_one_reads_spans(tmp_path: Path, task: str) -> None:
    path = write(tmp_path / "a.jsonl", {"text": TEXT, **FORMS["doccano"]})
    rows = read_examples([path], reader=task_type(task).reader, columns=ColumnsConfig(), on_bad_row=OnBadRow())
    with pytest.raises(DataError, match="spans of characters, which --task tagging reads"):
        list(rows)


@pytest.mark.parametrize(
    ("content", "task"),
    [
        ("tokens,tags\nMia Vik,B-PER I-PER\nin Oslo,O B-LOC\n", "tagging"),
        ("words,labels\nMia Vik,PER PER\nin,O\nto,O O\n", "tagging"),  # the last row is bad
        ("words,tags,text,label\nsports,news,a text,x\n", "classification"),
    ],
)
def test_tables_of_words_and_tags_under_other_names(tmp_path: Path, content: str, task: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content)
    assert task_of(path) == task


def test_random_spans_of_words_come_back_as_their_characters(tmp_path: Path) -> None:
    """The spans are drawn as words; the characters of the tags must be those of the spans."""
    draw = random.Random(3)
    rows, wanted = [], []
    for _ in range(100):
        text = "".join(
            draw.choice(("né", "it's ", "x-y ", "東京 ", "👍🏽 ", "a\u0301b ", ",  ", "9,5 ")) for _ in range(12)
        )
        words = word_spans(text, len(text))
        starts = sorted(draw.sample(range(len(words)), 3))
        spans = [
            (words[a][0], words[draw.randrange(a, b)][1], draw.choice("XY"))
            for a, b in zip(starts, [*starts[1:], len(words)], strict=True)
        ]
        rows.append({"text": text, "label": spans})
        wanted.append(spans)
    found, _ = read(write(tmp_path / "a.jsonl", *rows))
    for row, example, spans in zip(rows, found, wanted, strict=True):
        assert isinstance(example.target, tuple)
        at = word_spans(str(row["text"]), 999)
        begins = [i for i, tag in enumerate(example.target) if tag[0] == "B"]
        ends = [next((j for j in range(i + 1, len(at)) if example.target[j][0] != "I"), len(at)) for i in begins]
        assert [(at[i][0], at[j - 1][1], example.target[i][2:]) for i, j in zip(begins, ends, strict=True)] == spans


@pytest.mark.parametrize(
    ("spans", "says"),
    [
        ([[0, 6, "PER"]], r"'Mia Vi' \(PER, characters 0 to 6\) cuts the word 'Vik' \(characters 4 to 7\)"),
        ([[0, 7, "P"], [4, 12, "X"]], r"'Mia Vik' \(P, .*\) and the span 'Vik flew' \(X, .*\) overlap"),
        ([[0, 26, "P"]], "the text has 25 characters; allowed: 0 <= start < end <= 25"),
        ([[-1, 3, "P"]], "the text has 25 characters"),
        ([[3, 4, "P"]], "has no word"),
        ([{"start": 1, "end": 8, "text": "Mia Vik", "label": "P"}], "characters 1 to 8 of the text are 'ia Vik '"),
        ([{"start": 0, "end": 7, "labels": ["P", "Q"]}], "has 2 labels"),
        ([{"start": 0, "end": 7}], r"allowed: \[start, end, \"name\"\]"),
        ([[0, 7, " "]], "whose label is empty"),
    ],
)
def test_a_span_that_fits_no_words_is_a_bad_row(tmp_path: Path, spans: Any, says: str) -> None:
    path = write(tmp_path / "a.jsonl", {"text": TEXT, **FORMS["doccano"]}, {"text": TEXT, "label": spans})
    with pytest.raises(DataError, match=rf"a\.jsonl:2: column 'label': .*{says}"):
        read(path)
    assert len(read(path, mode="skip")[0]) == 1


KAGGLE = 'Sentence #,Word,POS,Tag\nSentence: 1,Mia,N,B-PER\n,Vik,N,I-PER\n,",",P,O\nSentence: 2,in,P,O\n,Rome,N,B-LOC\n'
COLUMNS = {"tokens": "Word", "slots": "Tag"}


@pytest.mark.parametrize("repeated", [False, True])
def test_rows_of_words_are_joined_to_sentences(tmp_path: Path, repeated: bool) -> None:
    path = tmp_path / "a.csv"
    content = KAGGLE.replace("\n,Vik", "\nSentence: 1,Vik").replace("\n,Rome", "\nSentence: 2,Rome")
    path.write_text(content.replace('\n,","', '\nSentence: 1,","') if repeated else KAGGLE)
    found, bad = read(path, **COLUMNS, sentence="Sentence #")
    assert found == [
        Example(["Mia", "Vik", ","], ("B-PER", "I-PER", "O"), str(path), 2),
        Example(["in", "Rome"], ("O", "B-LOC"), str(path), 5),
    ]
    assert bad.notes == []
    assert [example.text for example in read(path, labeled=False, **COLUMNS, sentence="Sentence #")[0]] == [
        ["Mia", "Vik", ","],
        ["in", "Rome"],
    ]


def test_rows_of_words_that_are_not_joined_are_named_as_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(KAGGLE)
    with pytest.raises(
        DataError, match=r"a\.csv:3: .*'I-PER'.*each row is a sentence; .*columns.sentence='Sentence #'"
    ):
        read(path, **COLUMNS)
    path.write_text(KAGGLE.replace("I-PER", "O"))
    found, bad = read(path, **COLUMNS)
    assert len(found) == 5
    assert "each row is a sentence; if it is a word, join the rows" in bad.notes[0]


def test_what_is_wrong_with_a_word_a_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(KAGGLE.replace("\n,Vik,", "\n,,"))
    with pytest.raises(DataError, match=r"a\.csv:3: column 'Word' is empty"):
        read(path, **COLUMNS, sentence="Sentence #")
    assert [example.text for example in read(path, mode="skip", **COLUMNS, sentence="Sentence #")[0]] == [
        ["in", "Rome"]
    ]
    with pytest.raises(DataError, match=r"no column 'Sentence'; did you mean 'Sentence #'.*columns.sentence=COLUMN"):
        read(path, **COLUMNS, sentence="Sentence")
    shuffled = "s,w,t\n" + "".join(f"{i % 3},w{i},O\n" for i in range(9))
    path.write_text(shuffled)
    assert "must follow each other" in read(path, tokens="w", slots="t", sentence="s")[1].notes[0]
    path.write_text("s,w,t\n1,a,O\n1,b,B-x\n2,c,O\n2,d,O\n1,e,O\n2,f,O\n")
    [note] = read(path, tokens="w", slots="t", sentence="s")[1].notes
    assert note.startswith(f"{path}: the value '1' of s comes back on line 6, where a new sentence begins")
