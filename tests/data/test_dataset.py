"""A data set gives back what went in, in memory and from its file, whole and as a view, and stays small."""

from __future__ import annotations

import doctest
import gc
import hashlib
import os
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixling import DataError, Dataset, Example
from mixling.answers import Answers
from mixling.data import Target, columns
from mixling.data import dataset as dataset_module
from mixling.data.columns import Schema
from mixling.errors import StorageError

PAIR, TOKENS = ("a", "b"), ["a", "b"]
MIXED = [
    Example("plain é😀\n", "x", "one.csv", 2),
    Example("", "y", "one.csv", 5),
    Example(TOKENS, None, "two.csv", 2),
    Example("half \ud800", "x", "one.csv", 9),
    Example("nul \0", "z", "one.csv", 2**40),
]
TAGGED = [
    Example(["q"], None, "a", 1),
    Example(["a", "b"], ("O", "B-x"), "a", 2),
    Example("t", (), "a", 3),
    Example(["a", "b", "c"], ("B-x", "I-x", "O"), "a", 4),
]
PAIRS = [
    Example(PAIR, None, "a", 1),
    Example(("é", "half \ud800"), 2.5, "a", 2),
    Example(("", "b"), None, "a", 3),
    Example(("c", "b"), -1.0, "b", 1),
]
CONTEXT = "Ann has a cat."
QUESTIONS = [
    Example((question, CONTEXT), None, "a", line, answers=answers)
    for line, (question, answers) in enumerate(
        [("Who?", Answers(("Ann",), (0,))), ("When?", Answers((), ())), ("What?", Answers(("a cat", "cat"), (8, 10)))]
    )
]
QUESTIONS.append(replace(QUESTIONS[0], path="b"))
LIMITS = pytest.mark.parametrize("limit", [1 << 20, 150, 0], ids=["memory", "part of the way", "file"])


@LIMITS
@pytest.mark.parametrize(
    ("examples", "schema"),
    [
        (MIXED, Schema(texts=1, targets="label")),
        (TAGGED, Schema(texts=1, targets="labels")),
        (PAIRS, Schema(texts=2, targets="number")),
        (QUESTIONS, Schema(texts=2, targets="answers")),
    ],
    ids=["labels", "tuples", "numbers", "questions"],
)
def test_what_went_in_comes_out(tmp_path: Path, examples: list[Example], schema: Schema, limit: int) -> None:
    store = Dataset.from_examples(iter(examples), spool_dir=tmp_path, memory_limit=limit)
    assert store.spooled == (limit < 1 << 20)
    assert store.schema == schema
    for view, wanted in [
        (store, examples),
        (store.subset([3, 0, 0]), [examples[3], examples[0], examples[0]]),
        (store.subset(np.array([3, 2, 1])).subset([2, 0]), [examples[1], examples[3]]),
        (store.subset([]), []),
    ]:
        assert len(view) == len(wanted)
        assert list(view) == [view[i] for i in range(len(view))] == list(view[:]) == wanted
        assert list(view.texts) == view.texts[:] == [example.text for example in wanted]
        assert list(view.targets) == [example.target for example in wanted]
        assert [view.where(i) for i in range(len(view))] == [(example.path, example.line) for example in wanted]
        assert list(view[1:]) == wanted[1:]
        if schema.targets == "answers":
            assert list(view.answers) == [example.answers for example in wanted]
        for column in (view, view.texts, view.targets):
            with pytest.raises(IndexError):
                column[len(wanted)]
        assert not wanted or view[-1] == wanted[-1]
    store.close()


@LIMITS
def test_counts_and_class_ids(tmp_path: Path, limit: int) -> None:
    labels = Dataset.from_examples(MIXED, spool_dir=tmp_path, memory_limit=limit)
    assert list(labels.label_counts().items()) == [("x", 2), ("y", 1), ("z", 1)]
    assert labels.subset([4, 1, 1]).label_counts() == {"y": 2, "z": 1}
    ids = labels.class_ids()
    assert ids is not None
    assert ids.tolist() == [0, 1, -1, 0, 2]
    slots = Dataset.from_examples(TAGGED, spool_dir=tmp_path, memory_limit=limit)
    assert list(slots.label_counts().items()) == [("O", 2), ("B-x", 2), ("I-x", 1)]
    assert slots.subset([0, 1]).label_counts() == {"O": 1, "B-x": 1}
    assert slots.class_ids() is None


def test_hashes_are_those_of_the_text_alone() -> None:
    examples = [
        Example(text, label, "f", 1) for text, label in [("é", "x"), ("é", "y"), ("e", "x"), (PAIR, "x"), (TOKENS, "x")]
    ]
    hashes = np.concatenate([Dataset.from_examples([example]).text_hashes() for example in examples])
    assert hashes.dtype == np.uint64
    assert hashes[0] == hashes[1]
    assert len(set(hashes.tolist())) == 4
    digest = hashlib.blake2b('"é"'.encode(), digest_size=8).digest()  # of the text as JSON
    assert int(hashes[0]) == int.from_bytes(digest, "little")


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    st.lists(st.text() | st.lists(st.text()), max_size=5) | st.lists(st.tuples(st.text(), st.text()), max_size=5),
    st.sampled_from([0, 300]),
)
def test_any_text_survives(texts: list[str], limit: int) -> None:
    store = Dataset.from_examples([Example(text, None, "f", 1) for text in texts], memory_limit=limit)
    assert list(store.texts) == texts
    assert store.label_counts() == {}


def test_texts_in_memory_are_the_objects_that_were_given() -> None:
    """No copies, and what questions and sentences have in common is held once."""
    text = "a text " * 100
    assert Dataset.from_examples([Example(text, None, "f", 1)]).texts[0] is text
    contexts = ["".join(["a con", "text"]) for _ in range(2)]
    questions = [Example(("q", context), None, "f", 1, answers=Answers((), ())) for context in contexts]
    first, second = (pair[1] for pair in Dataset.from_examples(questions).texts)
    assert first is second


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (
            Example(PAIR, "x", "f", 2),
            "f:2: got a pair of texts, but the first example is one text; give each example as many texts",
        ),
        (
            Example("b", ("x",), "f", 2),
            "f:2: got a tuple of labels, but .* a label; use one kind of target",
        ),
        (Example("b", 0.5, "f", 2), "f:2: got a number, but"),
        (Example("b", None, "f", 2, answers=Answers((), ())), "f:2: got answers to a question, but"),
        (Example("b", "x", "f", 2, group="g"), "f:2: some examples have a group, others have none"),
    ],
)
def test_another_schema_is_refused(second: Example, message: str) -> None:
    for unlabeled in ([], [Example("c", None, "f", 3)]):
        with pytest.raises(DataError, match=message):
            Dataset.from_examples([Example("a", "x", "f", 1), *unlabeled, second])
    with pytest.raises(DataError, match="f:1: got one text, but the first example is a pair"):
        Dataset.from_examples([Example("a", "x", "f", 1)], texts=2)


def test_the_documented_example() -> None:
    assert doctest.testmod(dataset_module) == (0, 3)


def test_sampled_texts() -> None:
    examples = [Example(f"text {i:03d}", "x", "f", i) for i in range(100)]
    store = Dataset.from_examples([*examples, Example(TOKENS, "x", "f", 1)])
    everything = [*(str(example.text) for example in examples), "a b"]
    assert Dataset.from_examples([Example(PAIR, "x", "f", 1)]).sample_texts(10, seed=1) == ["a", "b"]
    assert store.sample_texts(10_000, seed=1) == everything
    sample = store.sample_texts(200, seed=1)  # a text takes ten bytes with its quotes
    assert 15 <= len(sample) <= 22
    assert sample == [text for text in everything if text in sample]
    assert sample == store.sample_texts(200, seed=1) != store.sample_texts(200, seed=2)
    assert len(store.subset(range(50)).sample_texts(0, seed=1)) == 1


def many(count: int) -> Iterator[Example]:
    return (Example(f"{i} " + "word " * 200, str(i % 7), f"file{i * 2 // count}.csv", i) for i in range(count))


def test_memory_stays_bounded(tmp_path: Path) -> None:
    count, limit = 20_000, 1 << 20  # 20 MB of text
    tracemalloc.start()
    store = Dataset.from_examples(many(count), spool_dir=tmp_path, memory_limit=limit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert store.spooled
    assert peak < 2 * limit + 60 * count
    for index in (0, 1, 999, count - 1):
        assert store.texts[index] == f"{index} " + "word " * 200
        assert store.targets[index] == str(index % 7)
        assert store.where(index) == (f"file{index * 2 // count}.csv", index)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files by /proc")
def test_the_file_has_no_name_and_goes_with_the_last_view(tmp_path: Path) -> None:
    gc.collect()  # of what other tests left
    before = open_files()
    view = Dataset.from_examples(many(10), spool_dir=tmp_path, memory_limit=0).subset([3])
    gc.collect()
    assert open_files() == before + 1
    assert list(tmp_path.iterdir()) == []
    assert str(view.texts[0]).startswith("3 ")
    del view
    gc.collect()
    assert open_files() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("count", [3, 3000], ids=["found when finishing", "found on the way"])
def test_a_full_disk_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(columns.tempfile, "TemporaryFile", lambda dir: open("/dev/full", "w+b"))  # noqa: SIM115
    with pytest.raises(StorageError) as caught:
        Dataset.from_examples(many(count), spool_dir=tmp_path, memory_limit=0)
    assert str(caught.value).startswith(f"{tmp_path}: the texts cannot be spooled: No space left on device; free space")
    gc.collect()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="absent: the texts cannot be spooled: No such file"):
        Dataset.from_examples(many(3), spool_dir=tmp_path / "absent", memory_limit=0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("a", "b"), ("b", "a")),
        ((("a", "b"), ("a",)), (("a",), ("a", "b"))),
        ((("B-x", "O"), ("O", "B-x")), (("O", "B-x"), ("B-x", "O"))),
        ((1.0, 2.0), (2.0, 1.0)),
        ((1.0, 2.0), (1.0, 2.5)),
    ],
)
def test_content_differs_where_targets_do(before: tuple[Target, ...], after: tuple[Target, ...]) -> None:
    first, same, other = (
        Dataset.from_examples(Example(f"text {i}", target, "a", i) for i, target in enumerate(targets))
        for targets in (before, before, after)
    )
    assert b"".join(first.content()) == b"".join(same.content())
    assert b"".join(first.content()) != b"".join(other.content())
