"""Trainings on texts of one word each, at the defaults, for every task."""

from __future__ import annotations

import csv
import itertools
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Call

from mixling import TextClassifier

pytest.importorskip("torch")

ROWS = 300


def _pool(script: str) -> list[str]:
    chance = random.Random(3)
    if script == "digits":
        return [str(chance.randrange(1000)) for _ in range(90)]
    first, last = {"latin": (97, 122), "han": (0x4E00, 0x5000), "thai": (0xE01, 0xE2E), "emoji": (0x1F600, 0x1F64F)}[
        script
    ]
    length = 1 if script in ("han", "emoji") else 5
    return ["".join(chr(chance.randint(first, last)) for _ in range(length)) for _ in range(90)]


def _words(script: str = "latin") -> Iterator[str]:
    chance, pool = random.Random(4), _pool(script)
    while True:
        yield chance.choice(pool)


ROW_OF_TASK: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "multi_label": lambda word, other: {"text": word, "label": [sign for sign in "abc" if sign in word]},
    "regression": lambda word, other: {"text": word, "label": ord(word[0]) / 7},
    "tagging": lambda word, other: {"tokens": [word], "slots": ["B-early" if word < "m" else "O"]},
    "question_answering": lambda word, other: {
        "question": word,
        "context": other,
        "answers": {"text": [other], "answer_start": [0]},
    },
}


def _train(call: Call, source: Path, *options: str) -> None:
    done = call("train", source, "--epochs", 1, "-o", source.parent / "model", *options)
    assert done.code == 0, done.err
    assert "initialization: random, without word vectors: 0 distinct words" in done.err
    assert "nan" not in (done.err + done.out).lower()


@pytest.mark.parametrize("task", ROW_OF_TASK)
def test_every_task_trains(call: Call, tmp_path: Path, task: str) -> None:
    words = _words()
    rows = [ROW_OF_TASK[task](next(words), next(words)) for _ in range(ROWS)]
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _train(call, source, "--task", task)


@pytest.mark.parametrize("script", ["han", "thai", "digits"])
def test_every_script_trains(call: Call, tmp_path: Path, script: str) -> None:
    source = tmp_path / "rows.csv"
    with source.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["text", "label"])
        words = _words(script)
        table.writerows([word, "ab"[number % 2]] for number, word in zip(range(ROWS), words, strict=False))
    _train(call, source)


def test_pairs_of_words_train(call: Call, tmp_path: Path) -> None:
    source, words = tmp_path / "rows.jsonl", _words()
    rows = ({"a": (a := next(words)), "b": (b := next(words)), "label": "xy"[a < b]} for _ in range(ROWS))
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _train(call, source, "--text", "a", "--text-pair", "b")


def test_an_estimator_trains_and_is_sure_of_words_that_it_has_seen_often() -> None:
    texts = ["Mobaka", "Olena"] * 20 + [next(words) for words in [_words()] for _ in range(100)]
    labels = ["f", "m"] * 20 + ["f", "m"] * 50
    classifier = TextClassifier(epochs=2).fit(texts, labels)
    assert list(classifier.predict(["Mobaka", "Olena"])) == ["f", "m"]


def test_a_model_that_is_trained_further_keeps_its_lengths_of_n_grams(call: Call, tmp_path: Path) -> None:
    words = _words()
    rows = [(word, "early" if word < "m" else "late") for word in itertools.islice(words, ROWS)]
    source = tmp_path / "rows.csv"
    source.write_text("text,label\n" + "".join(f"{word},{label}\n" for word, label in rows))
    chosen = {}
    for name, options in (("first", ("--set", "ngrams.min_n=4", "--set", "ngrams.max_n=4")), ("usual", ())):
        assert call("train", source, "--epochs", 1, "-o", tmp_path / name, *options).code == 0
    done = call("train", source, "--epochs", 1, "-o", tmp_path / "further", "--from", tmp_path / "first")
    assert done.code == 0, done.err
    for name in ("first", "usual", "further"):
        ngrams = json.loads((tmp_path / name / "run.json").read_text())["config"]["ngrams"]
        chosen[name] = (ngrams["min_n"], ngrams["max_n"])
    assert chosen == {"first": (4, 4), "usual": (2, 5), "further": (4, 4)}
