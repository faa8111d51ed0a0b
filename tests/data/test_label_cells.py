"""Labels, tags and answers that are lists in a cell, columns of 0 and 1, and what task they belong to."""

import csv
import json

import pytest

from mixling import ConfigError, DataError
from mixling.data import ColumnsConfig, OnBadRow, read_examples
from mixling.tasks import infer_task, task_type

SETS = [["billing"], ["delivery", "urgent"], [], ["login"]]
NOTATIONS = {
    "JSON": ['["billing"]', '["delivery", "urgent"]', "[]", '["login"]'],
    "Python": ["['billing']", "['delivery', 'urgent']", "[]", "['login']"],
    "tuples": ["('billing',)", "('delivery', 'urgent')", "()", "('login',)"],
    "NumPy": ["['billing']", "['delivery' 'urgent']", "[]", "['login']"],
    "bare words": ["[billing]", "[delivery, urgent]", "[]", "[login]"],
    "PostgreSQL": ["{billing}", "{delivery,urgent}", "{}", "{login}"],
    "marks": ['{"billing": 1}', '{"delivery": 1, "urgent": 1, "login": 0}', '{"login": 0}', '{"login": true}'],
}


def write_csv(path, header, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def targets(path, task, **columns):
    reader = task_type(task).reader
    rows = read_examples([path], reader=reader, columns=ColumnsConfig(**columns), on_bad_row=OnBadRow())
    return [example.target for example in rows]


def inferred(path, **columns):
    return infer_task({"train": [path], "columns": columns})[0]


@pytest.mark.parametrize("notation", NOTATIONS)
def test_lists_in_cells_are_labels(tmp_path, notation):
    rows = [(f"text {i}", cell) for i, cell in enumerate(NOTATIONS[notation])]
    path = write_csv(tmp_path / "a.csv", ["text", "label"], rows)
    assert targets(path, "multi_label") == [tuple(labels) for labels in SETS]
    assert inferred(path) == "multi_label"


@pytest.mark.parametrize("notation", ["JSON", "Python", "tuples", "NumPy", "marks"])
def test_lists_of_one_label_are_classes(tmp_path, notation):
    cells = [cell for cell, labels in zip(NOTATIONS[notation], SETS, strict=True) if len(labels) == 1]
    path = write_csv(tmp_path / "a.csv", ["text", "label"], [("text", cell) for cell in cells])
    assert targets(path, "classification") == ["billing", "login"]
    assert inferred(path) == "classification"
    assert targets(write_jsonl(tmp_path / "a.jsonl", [{"text": "t", "label": ["x"]}]), "classification") == ["x"]


def test_a_list_with_two_labels_is_found_after_many_with_one(tmp_path):
    rows = [{"text": "t", "label": ["a"]}] * 1500 + [{"text": "t", "label": ["a", "b"]}]
    assert inferred(write_jsonl(tmp_path / "a.jsonl", rows)) == "multi_label"
    assert inferred(write_jsonl(tmp_path / "b.jsonl", rows[:-1])) == "classification"


def test_names_in_brackets_and_texts_that_look_like_lists_stay(tmp_path):
    rows = [('["a", "b"]', "[urgent]"), ("[1, 2]", "{later}"), ("['x']", "(a)")]
    path = write_csv(tmp_path / "a.csv", ["text", "label"], rows)
    assert inferred(path) == "classification"
    assert "the texts are lists that are written as text" in infer_task({"train": [path]})[2]
    assert targets(path, "classification") == ["[urgent]", "{later}", "(a)"]
    examples = read_examples(
        [path], reader=task_type("classification").reader, columns=ColumnsConfig(), on_bad_row=OnBadRow()
    )
    assert [example.text for example in examples] == [text for text, _ in rows]


def test_a_label_delimiter(tmp_path):
    path = write_csv(tmp_path / "a.csv", ["text", "label"], [("t", "a; b"), ("t", "b"), ("t", "")])
    assert targets(path, "multi_label", label_delimiter=";") == [("a", "b"), ("b",), ()]
    assert inferred(path, label_delimiter=";") == "multi_label"
    path = write_csv(tmp_path / "b.csv", ["text", "label"], [("t", "a  b "), ("t", "b")])
    assert targets(path, "multi_label", label_delimiter=" ") == [("a", "b"), ("b",)]
    path = write_csv(tmp_path / "c.csv", ["text", "label"], [("t", "a,b,"), ("t", "[b, c]")])
    assert targets(path, "multi_label", label_delimiter=",") == [("a", "b"), ("b", "c")]
    with pytest.raises(DataError, match="column 'label' is empty"):
        targets(write_csv(tmp_path / "d.csv", ["text", "label"], [("t", "a,,b")]), "multi_label", label_delimiter=",")
    with pytest.raises(ConfigError, match=r"data\.columns\.label_delimiter: is for several labels"):
        targets(path, "classification", label_delimiter=";")


@pytest.mark.parametrize("cell", ['{"a": 0.9, "b": 0.1}', '[["a", 1]]', '[{"label": "a"}]', '{"label": "a"}'])
def test_other_structure_is_no_name(tmp_path, cell):
    files = [
        write_csv(tmp_path / "a.csv", ["text", "label"], [("t", cell)]),
        write_jsonl(tmp_path / "a.jsonl", [{"text": "t", "label": json.loads(cell)}]),
    ]
    for file in files:
        for task in ("classification", "multi_label"):
            with pytest.raises(
                DataError, match=r"a\.(csv:2|jsonl:1): column 'label'.* (an object|a list|a number|a string)"
            ) as caught:
                targets(file, task)
            assert "--task multi_label" not in str(caught.value)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@pytest.mark.parametrize("task", ["classification", "multi_label", "regression"])
def test_predictions_do_not_depend_on_labels_that_cannot_be_read(tmp_path, name, task):
    labels = ["[1, 0, 0]", '{"a": 0.5}', "x"]
    if name == "a.csv":
        path = write_csv(tmp_path / name, ["text", "label"], [(str(i), label) for i, label in enumerate(labels)])
    else:
        path = write_jsonl(tmp_path / name, [{"text": str(i), "label": label} for i, label in enumerate(labels)])
    found = read_examples(
        [path], reader=task_type(task).reader, columns=ColumnsConfig(), on_bad_row=OnBadRow(), labeled=False
    )
    assert [example.text for example in found] == ["0", "1", "2"]


@pytest.mark.parametrize(
    "cell",
    [
        "['a' 'b' ... 'z']",
        '["a", "b", ..., "z"]',
        "[1 2 ... 9]",
        "Labels(['a', 'b'])",
        '["a", "b"',
        "['a', b]",
        '["a"|"b"]',
    ],
)
def test_a_broken_list_is_no_name(tmp_path, cell):
    path = write_csv(tmp_path / "a.csv", ["text", "label"], [("t", cell)])
    for task in ("classification", "multi_label"):
        with pytest.raises(DataError, match=r"a\.csv:2: column 'label' begins like a list, but is none"):
            targets(path, task)


MATRIX = [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
NAMES = ("billing", "login", "urgent")
NAMED = [("billing",), ("login", "urgent"), ()]


@pytest.mark.parametrize("kind", [int, float, bool, str])
def test_a_row_of_a_matrix_is_no_set(tmp_path, kind):
    rows = [{"text": "t", "label": [kind(item) for item in row]} for row in MATRIX]
    if kind is bool:
        rows = [{"text": "t", "label": list(map(bool, row))} for row in MATRIX]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    cells = write_csv(tmp_path / "a.csv", ["text", "label"], [("t", json.dumps(row["label"])) for row in rows])
    joined = write_csv(tmp_path / "b.csv", ["text", "label"], [("t", "|".join(map(str, row))) for row in MATRIX])
    for file in (path, cells, joined):
        with pytest.raises(DataError, match="a row of an indicator matrix; name its labels in their order with --set"):
            targets(file, "multi_label")
    for file in (path, cells, joined):
        assert targets(file, "multi_label", labels=NAMES) == NAMED
        with pytest.raises(DataError, match=r"2 items of 0 and 1 are required, as of data\.columns\.labels"):
            targets(file, "multi_label", labels=NAMES[:2])
    named = write_jsonl(tmp_path / "c.jsonl", [{"text": "t", "label": list(names)} for names in NAMED])
    assert targets(named, "multi_label", labels=NAMES) == NAMED
    wrong = write_jsonl(tmp_path / "d.jsonl", [{"text": "t", "label": [1, 2, 0]}])
    with pytest.raises(DataError, match=r"3 items of 0 and 1 are required, as of data\.columns\.labels"):
        targets(wrong, "multi_label", labels=NAMES)


def test_a_matrix_of_two_columns_is_no_set(tmp_path):
    from mixling.data import Dataset

    path = write_jsonl(tmp_path / "a.jsonl", [{"text": "t", "label": [0, 1]}, {"text": "u", "label": [1, 0]}])
    task = task_type("multi_label")
    data = Dataset.from_examples(
        read_examples([path], reader=task.reader, columns=ColumnsConfig(), on_bad_row=OnBadRow())
    )
    with pytest.raises(DataError, match="as in an indicator matrix"):
        task.label_set(data)
    sets = write_jsonl(tmp_path / "b.jsonl", [{"text": "t", "label": [0, 1]}, {"text": "u", "label": [1]}])
    assert targets(sets, "multi_label") == [("0", "1"), ("1",)]


@pytest.mark.parametrize(("false", "true"), [("0", "1"), ("False", "True"), ("0.0", "1.0"), ("false", "TRUE")])
def test_a_column_for_each_label(tmp_path, false, true):
    rows = [("t", *(true if mark else false for mark in row)) for row in MATRIX]
    path = write_csv(tmp_path / "a.csv", ["text", *NAMES], rows)
    assert inferred(path, labels=NAMES) == "multi_label"
    assert targets(path, "multi_label", labels=NAMES) == NAMED
    with pytest.raises(DataError, match=r"no column 'urgnt'; did you mean 'urgent'\?.*data.columns.labels=COLUMN"):
        targets(path, "multi_label", labels=("billing", "urgnt"))
    with pytest.raises(DataError, match="with --label billing,login,urgent"):
        targets(path, "classification")
    path = write_jsonl(tmp_path / "b.jsonl", [{"text": "t", "id": 0, "annotation_id": 1, "topic": "x"}])
    with pytest.raises(DataError, match="no column 'label'") as caught:
        targets(path, "classification")
    assert "0 and 1" not in str(caught.value)


@pytest.mark.parametrize("value", ["", "-1", "2", "yes", "0.5"])
def test_other_values_than_marks(tmp_path, value):
    path = write_csv(tmp_path / "a.csv", ["text", "a", "b"], [("t", "1", "0"), ("u", value, "1")])
    with pytest.raises(DataError, match=r"a.csv:3: column 'a' is .*0 and 1 are allowed"):
        targets(path, "multi_label", labels=("a", "b"))


def test_words_and_tags_in_cells(tmp_path):
    cells = [("['to', 'New York']", "['O', 'B-city']"), ('["to"]', '["O"]'), ("to go", "O O")]
    path = write_csv(tmp_path / "a.csv", ["tokens", "slots"], cells)
    examples = list(
        read_examples([path], reader=task_type("tagging").reader, columns=ColumnsConfig(), on_bad_row=OnBadRow())
    )
    assert [example.text for example in examples] == [["to", "New York"], ["to"], ["to", "go"]]
    assert [example.target for example in examples] == [("O", "B-city"), ("O",), ("O", "O")]


@pytest.mark.parametrize(
    "cell",
    [
        '{"text": ["blue"], "answer_start": [11]}',
        "{'text': ['blue'], 'answer_start': [11]}",
        "{'text': array(['blue'], dtype=object), 'answer_start': array([11], dtype=int32)}",
        '[{"text": "blue", "answer_start": 11}]',
    ],
)
def test_answers_in_cells(tmp_path, cell):
    rows = [("What?", "The sky is blue.", cell), ("Who?", "The sky is blue.", "[]")]
    path = write_csv(tmp_path / "a.csv", ["question", "context", "answers"], rows)
    reader = task_type("question_answering").reader
    examples = list(read_examples([path], reader=reader, columns=ColumnsConfig(), on_bad_row=OnBadRow()))
    assert [example.answers.texts for example in examples] == [("blue",), ()]
    assert inferred(path) == "question_answering"
