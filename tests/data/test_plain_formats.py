"""Files in fastText's format, folders of texts, and files that are recognized by how they begin."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from mixling import DataError, read_examples
from mixling.artifacts import TRAINING
from mixling.data import ColumnsConfig, OnBadRow, read_rows, read_texts
from mixling.data.corpora import is_plain
from mixling.runs.resolve import infer_kind
from mixling.tasks import infer_task, task_type

LINES = "__label__billing my card\n\n__label__login, ok __label__x-y no\r\nthe end __label__billing of it\nno label\n"
ROWS = [
    (1, "my card", ["billing"]),
    (3, "ok no", ["login,", "x-y"]),
    (4, "the end of it", ["billing"]),
    (5, "no label", None),
]


def rows_of(path: Path) -> list[tuple[int, object, object]]:
    return [(row.line, row.values["text"], row.values["label"]) for row in read_rows(path, on_bad_row=OnBadRow())]


@pytest.mark.parametrize("name", ["a.txt", "a.train", "a.valid", "a.ft", "a.ft.txt", "a.csv", "a.tsv", "a.txt.gz"])
def test_fasttext_files_of_every_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(LINES.encode()) if name.endswith("gz") else LINES.encode())
    assert rows_of(path) == ROWS
    assert infer_task({"train": [str(path)]})[0] == "multi_label"
    assert not is_plain(str(path))
    assert list(read_texts([path])) == [text for _, text, _ in ROWS]


def test_labels_with_commas_between_them(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("__label__a,__label__b one\n__label__c,d two\n")
    assert rows_of(path) == [(1, "one", ["a", "b"]), (2, "two", ["c,d"])]


def test_what_is_wrong_in_a_fasttext_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("__label__a one\n__label__ two\n__label__b three\0\n__label__c\n")
    with pytest.raises(DataError, match=r"a\.txt:2: a label has no name; write __label__NAME"):
        rows_of(path)
    bad = OnBadRow("skip")
    assert [row.line for row in read_rows(path, on_bad_row=bad)] == [1, 4]
    assert bad.skipped == 2


def test_one_label_a_line_is_classification_and_labels_are_not_needed_to_predict(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("__label__a one\n__label__b two\n")
    assert infer_task({"train": [str(path)]})[0] == "classification"
    path.write_text("__label__a one\nno label\n")
    reader, columns = task_type("classification").reader, ColumnsConfig()
    found = read_examples([path], reader=reader, columns=columns, on_bad_row=OnBadRow(), labeled=False)
    assert [(example.text, example.target) for example in found] == [("one", "a"), ("no label", None)]
    with pytest.raises(DataError, match=r"a\.txt:2: column 'label' is empty"):
        list(read_examples([path], reader=reader, columns=columns, on_bad_row=OnBadRow()))


TAGGED = "EU NNP B-ORG\nrejects V O\n\nMia NNP B-PER\n"


@pytest.mark.parametrize("name", ["train.txt", "NER-de-train.tsv"])
def test_words_with_tags_are_recognized_by_the_first_lines(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(TAGGED.replace(" ", "\t") if name.endswith("tsv") else TAGGED)
    found = [row.values for row in read_rows(path, on_bad_row=OnBadRow())]
    assert found == [
        {"tokens": ["EU", "rejects"], "slots": ["B-ORG", "O"]},
        {"tokens": ["Mia"], "slots": ["B-PER"]},
    ]
    assert infer_task({"train": [str(path)]})[0] == "tagging"


@pytest.mark.parametrize(
    "content",
    [
        "to be\nor not\n",
        "one line\n",
        "what is __label__x in fastText?\nan option\nof lines\n",
        "a O\n",
        "\n\n",
        "B-a I-b\nx y\n",
    ],
)
def test_plain_text_stays_plain_text(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(content)
    assert is_plain(str(path))
    with pytest.raises(DataError, match=r"a\.txt: is plain text, without labels; allowed: lines with __label__NAME"):
        rows_of(path)


def test_a_table_of_labels_like_tags_stays_a_table(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\na\tO\nb\tB-x\n")
    assert rows_of(path) == [(2, "a", "O"), (3, "b", "B-x")]


@pytest.fixture
def news(tmp_path: Path) -> Path:
    for name, content in {
        "billing/2": "my card\n",
        "billing/10.txt": "the refund\nof it\n",
        "login/a.txt": "",
        "login/.hidden": "x",
        ".git/config": "x",
        "README.txt": "about",
    }.items():
        (tmp_path / "news" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "news" / name).write_text(content)
    return tmp_path / "news"


def test_a_folder_for_each_class(news: Path) -> None:
    bad = OnBadRow()
    found = [(row.path, row.line, row.values["text"], row.values["label"]) for row in read_rows(news, on_bad_row=bad)]
    assert found == [
        (str(news / "billing/10.txt"), 1, "the refund\nof it", "billing"),
        (str(news / "billing/2"), 1, "my card", "billing"),
        (str(news / "login/a.txt"), 1, "", "login"),
    ]
    assert bad.notes == [f"{news}: 1 files beside the folders of classes are not read, such as README.txt"]
    assert infer_kind(files=[str(news)]).name == TRAINING


def test_files_that_are_no_text_are_named_or_skipped(news: Path) -> None:
    (news / "login" / "b").write_bytes("fine\ncafé\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"login/b:2: byte 0xe9 \(byte 4 of the line\) is not UTF-8"):
        list(read_rows(news, on_bad_row=OnBadRow()))
    (news / "login" / "c").write_bytes(b"\x89PNG\r\n\x1a\n")
    (news / "login" / "d").write_text("a\nb\0")
    bad = OnBadRow("skip")
    assert len(list(read_rows(news, on_bad_row=bad))) == 3
    assert [message.split(": ")[0] for message in bad.messages] == [
        str(news / "login/b:2"), str(news / "login/c"), str(news / "login/d:2"),
    ]  # fmt: skip


def test_other_folders_are_refused_by_what_they_are(news: Path, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match="is a folder; name the files in it, or keep the texts of each class in a folder"
    ):
        list(read_rows(news / "billing", on_bad_row=OnBadRow()))
    with pytest.raises(
        DataError, match=r"tmp|has a folder in the folder of a class, billing; give the folder that holds"
    ):
        list(read_rows(tmp_path, on_bad_row=OnBadRow()))
    (news / "state.json").write_text("{}")
    with pytest.raises(DataError, match="is a data set that the library datasets saved; write hf:"):
        list(read_rows(news, on_bad_row=OnBadRow()))
    (tmp_path / "cats" / "tabby").mkdir(parents=True)
    (tmp_path / "cats" / "tabby" / "1.PNG").write_bytes(b"")
    assert infer_kind(files=[str(tmp_path / "cats")]).name == "images"
