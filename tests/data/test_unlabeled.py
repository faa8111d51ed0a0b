"""Unlabeled text: what is read, what is drawn, and that no measured row is among it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mixling import ConfigError, DataError, Dataset, Example
from mixling.data import ColumnsConfig, choose_texts, fragments, read_unlabeled, split_sentences
from mixling.tasks import Classification, Tagging
from mixling.text import Text


def store(texts: Iterable[Text]) -> Dataset:
    return Dataset.from_examples(Example(text, "a", "x", i) for i, text in enumerate(texts))


def choose(texts: Iterable[Text], **options: Any) -> tuple[list[Text], int]:
    arguments: dict[str, Any] = {"split": "documents", "limit": 1000, "seed": 0, "evaluated": (), **options}
    return choose_texts(texts, store(["one of the rows", "another row"]), **arguments)


def test_no_row_of_train_validation_or_test_is_taken() -> None:
    texts = ["One  of the rows", "free", "a TEST row", "a test  row", "free"]
    assert choose(texts, evaluated=["A test row", "elsewhere"]) == (["free"], 1)
    pairs: list[Text] = [("a", "b"), ("b", "a")]
    assert choose(pairs, evaluated=[("A", "b")]) == ([("b", "a")], 1)


def test_the_draw_depends_on_the_texts_and_the_seed_alone() -> None:
    texts = [f"text number {i}" for i in range(500)]
    drawn, _ = choose(texts, limit=50)
    assert len(set(drawn)) == 50
    assert choose([*reversed(texts), *texts], limit=50)[0] == drawn
    assert set(choose(texts, limit=50, seed=1)[0]) != set(drawn)
    assert choose(texts, limit=20)[0] == drawn[:20]  # a smaller draw is the beginning of a larger one
    assert 150 < sum(int(str(text).split()[2]) for text in drawn) / 50 < 350  # from all of them


def test_texts_like_the_labeled_ones_are_preferred() -> None:
    alike = [f"one more of these rows , number {i}" for i in range(10)]
    others = [f"something about place {i} and about time {i}" for i in range(70)]
    lines: list[str] = []
    found, _ = choose([*others, *alike], limit=10, choice="similar", log=lines.append)
    assert set(found) == set(alike)
    assert lines == ["10 of 80 unlabeled texts, those most like the labeled ones"]
    assert choose([*reversed(alike), *others], limit=10, choice="similar")[0] == found
    assert set(choose([*others, *alike], limit=10)[0]) != set(alike)
    pairs: list[Text] = [("some", "place"), ("another", "row"), ("other", "time"), ("at", "noon")]
    assert choose(pairs, limit=1, choice="similar")[0] == [("another", "row")]


@pytest.mark.parametrize(("words", "number"), [(1, 6), (4, 6), (8, 3), (100, 2)])
def test_fewer_texts_are_chosen_where_they_are_long(words: int, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_FEWEST", 2), ("_MOST", 6), ("_MOST_WORDS", 24)):
        monkeypatch.setattr(f"mixling.data.unlabeled.{name}", value)
    texts = [f"text {i}" for i in range(9)]
    found, _ = choose_texts(texts, store(["word " * words]), (), split="documents", limit=None)
    assert len(found) == number


def test_fragments_are_spans_of_the_texts_and_each_is_there_once() -> None:
    texts: list[Text] = ["a b c d e f", "a b c d e f", "too short here", ("a b c d", "e f g h")]
    found = list(fragments(texts, 8))
    assert 8 < len(found) == len(set(found))
    assert all(f" {item} " in " a b c d e f " and 2 <= len(item.split()) < 6 for item in found)
    assert found == list(fragments(texts, 8))
    assert found != list(fragments(texts, 8, seed=1))


def test_long_texts_are_cut_to_sentences() -> None:
    document = "It was a good film. I saw it twice! Why?<br /><br />The end is bad, though. " * 3
    outputs: list[str] = []
    sentences, _ = choose([document], split="auto", log=outputs.append)
    assert sorted(map(str, sentences)) == ["I saw it twice!", "It was a good film.", "The end is bad, though."]
    assert outputs[0] == "unlabeled texts have 48 words, labeled ones 3: using their sentences"
    assert choose(["four words are here"], split="auto")[0] == ["four words are here"]
    assert choose([document], split="documents")[0] == [document]
    assert list(split_sentences('He said "no." Then he left for good.')) == ['He said "no."', "Then he left for good."]


def test_sentences_of_evaluated_documents_are_left_out() -> None:
    document = "It was a good film. I saw it twice! And nobody knows why."
    free = "Other words are here now. " * 9
    for evaluated in ([document], ["I SAW it twice!", "It was a good film.", "And nobody knows why."]):
        assert choose([document, free], split="sentences", evaluated=evaluated) == (["Other words are here now."], 3)
    with pytest.raises(ConfigError, match="pairs and lists of words have no sentences"):
        choose([("a", "b")], split="sentences")


def test_files_of_every_kind(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first line\n\nsecond, line\n")
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": "third", "label": 0.37}) + "\n")
    (tmp_path / "c.jsonl").write_text(json.dumps({"tokens": ["fourth", "row"]}) + "\n")
    (tmp_path / "d.jsonl").write_text(json.dumps({"text": "fifth", "other": "sixth"}) + "\n")
    columns = ColumnsConfig()
    files = [str(tmp_path / name) for name in ("a.txt", "b.jsonl")]
    texts = list(read_unlabeled(files, reader=Classification.reader, columns=columns))
    assert texts == ["first line", "second, line", "third"]
    files = [str(tmp_path / name) for name in ("a.txt", "b.jsonl", "c.jsonl")]
    words = list(read_unlabeled(files, reader=Tagging.reader, columns=columns))
    assert words == [["first", "line"], ["second", ",", "line"], ["third"], ["fourth", "row"]]
    pair = ColumnsConfig(text_pair="other")
    assert list(read_unlabeled([str(tmp_path / "d.jsonl")], reader=Classification.reader, columns=pair)) == [
        ("fifth", "sixth")
    ]
    with pytest.raises(DataError, match=r"a.txt: has no pairs"):
        list(read_unlabeled([str(tmp_path / "a.txt")], reader=Classification.reader, columns=pair))
