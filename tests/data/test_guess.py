"""The columns of a table are guessed from names and rows, or the guess says that the rows do not tell."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mixling import DataError
from mixling.data import guess_columns

WORDS = [
    "the",
    "parcel",
    "that",
    "I",
    "ordered",
    "last",
    "week",
    "has",
    "not",
    "come",
    "yet",
    "and",
    "nobody",
    "answers",
]


def text(number: int) -> str:
    return " ".join([*WORDS[number % 7 :], f"word{number}"])


def table(path: Path, columns: dict[str, Sequence[Any]]) -> str:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return str(path)


def guessed(path: str, **known: str) -> tuple[list[str], list[str], str | None]:
    found = guess_columns(path, **known)
    assert found is not None
    pair = found.text_pair
    return [one.name for one in found.text], [one.name for one in found.label], pair and pair.name


ROWS = range(60)
REVIEWS: dict[str, Sequence[Any]] = {
    "id": [*ROWS],
    "created_at": [f"2026-01-{n % 5 + 1:02d}" for n in ROWS],
    "link": [f"https://example.com/{n}" for n in ROWS],
    "title": [f"good {n}" for n in ROWS],
    "reviewText": [text(n) for n in ROWS],
    "price": [f"{n}.99" for n in ROWS],
    "stars": [n % 5 + 1 for n in ROWS],
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, (["reviewText"], ["stars"], None)),
        ({"language": ["en", "de"] * 30}, (["reviewText"], ["stars"], None)),  # `stars` has the name of a label
        ({"category": list("abc") * 20}, (["reviewText"], ["stars", "category"], None)),  # so has `category`
        ({"category": list("abc") * 20, "Label": list("xyz") * 20}, (["reviewText"], ["Label"], None)),
        ({"stars": None, "score": [n / 7 for n in ROWS]}, (["reviewText"], ["score"], None)),  # numbers, by its name
        ({"stars": None}, (["reviewText"], [], None)),
        ({"notes": [text(n + 1) for n in ROWS]}, (["reviewText"], ["stars"], None)),  # `review` is the name of a text
        ({"answer_one": [text(n) for n in ROWS], "reviewText": None, "zwei": [text(n + 1) for n in ROWS]},
         (["answer_one", "zwei"], ["stars"], None)),
        ({"reviewText": None, "sentence1": [text(n) for n in ROWS], "sentence2": [text(n + 1) for n in ROWS]},
         (["sentence1"], ["stars"], "sentence2")),
        ({"reviewText": None, "title": None}, ([], ["stars"], None)),
    ],
)  # fmt: skip
def test_columns_of_a_table(change: dict[str, Any], expected: tuple[list[str], list[str], str], tmp_path: Path) -> None:
    columns = {name: values for name, values in (REVIEWS | change).items() if values is not None}
    found = guessed(table(tmp_path / "a.csv", columns))
    assert (sorted(found[0]), sorted(found[1]), found[2]) == (sorted(expected[0]), sorted(expected[1]), expected[2])


def test_what_is_known_is_not_guessed(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", REVIEWS)
    assert guessed(path, text="title") == (["title"], ["stars"], None)
    assert guessed(path, label="title") == (["reviewText"], ["title"], None)
    path = table(tmp_path / "b.csv", {"text": ["yes", "no"] * 30, **REVIEWS})
    assert guessed(path) == (["text"], ["stars"], None)


def test_rows_of_json_in_other_languages(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"Nachricht": f"Wo ist mein Paket {n}", "Thema": ["Lieferung", "Konto"][n % 2]} for n in ROWS]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    assert guessed(str(path)) == (["Nachricht"], ["Thema"], None)


@pytest.mark.parametrize(
    "content",
    ["text,label\na b,x\n", "question,context,answers\na b,c d,\n", "tokens,slots\na b,O O\n"],
    ids=["default names", "questions", "tags"],
)
def test_nothing_is_guessed(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert guess_columns(str(tmp_path / "a.csv")) is None


def test_a_first_line_that_may_have_names_is_seen(tmp_path: Path) -> None:
    rows = [f"{text(n)},{['good', 'bad'][n % 2]}" for n in ROWS]
    for header, has_names in (("words,bad", False), ("message,mood", True)):
        (tmp_path / "a.csv").write_text("\n".join([header, *rows]))
        found = guess_columns(str(tmp_path / "a.csv"))
        assert found is not None
        assert found.has_header is has_names


def test_lists_are_labels(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"body": text(n), "labels": ["a", "b", "c"][: n % 4]}) for n in ROWS))
    assert guessed(str(path)) == (["body"], ["labels"], None)


def test_a_column_that_is_not_there_is_not_replaced(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", REVIEWS)
    assert guess_columns(path, text="revew") is None
    assert guess_columns(path, text="title", label="star") is None


@pytest.mark.parametrize("content", [b"", b"text\n", b'"a\n', b"a,b\ncaf\xe9,x\n"])
def test_a_file_that_cannot_be_read_is_an_error_at_once(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.csv"):
        guess_columns(str(tmp_path / "a.csv"))


@pytest.mark.parametrize("name", ["target", "question", "source"])
def test_a_column_of_another_task_alone_does_not_matter(name: str, tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", {"tweet": [text(n) for n in ROWS], name: ["yes", "no"] * 30})
    assert guessed(path) == (["tweet"], [name], None)


def test_a_pair_is_found_beside_longer_columns(tmp_path: Path) -> None:
    columns = {f"sentence{n}{end}": [text(row + n) * (5 if end else 1) for row in ROWS]
               for end in ("_parse", "") for n in (1, 2)}  # fmt: skip
    assert guessed(table(tmp_path / "a.csv", columns | {"gold_label": list("abc") * 20}))[2] == "sentence2"


@pytest.mark.parametrize("value", [text, lambda n: f"word{n}"], ids=["sentences", "single words"])
def test_the_usual_names_of_a_pair_are_one(value: Any, tmp_path: Path) -> None:
    columns = {"text": [value(n) for n in ROWS], "text_pair": [value(n + 1) for n in ROWS], "label": list("ab") * 30}
    path = table(tmp_path / "a.csv", columns)
    assert guessed(path) == (["text"], ["label"], "text_pair")
    assert guess_columns(path, text="text") is None  # all is said
    for name, expected in (("text_pair", (["text"], ["label"], None)), ("text", (["text_pair"], ["label"], None))):
        assert guessed(table(tmp_path / "b.csv", {**columns, name: [""] * len(ROWS)})) == expected


def test_annotations_are_not_guessed_at(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"body": text(n), "annotation": [{"start": 0, "end": 3, "label": "A"}]} for n in ROWS]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert guess_columns(str(path)) is None
