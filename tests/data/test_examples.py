"""What rows become: texts, pairs, tokens; labels, sets of labels, slots; rows for prediction; several files."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mixling import ConfigError, DataError, Example, read_examples
from mixling.config import parse
from mixling.data import ColumnsConfig, OnBadRow
from mixling.tasks import task_type


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def read(*paths: Path, task: str = "classification", labeled: bool = True, **columns: str) -> list[Example]:
    columns_config = ColumnsConfig(**columns)
    return list(
        read_examples(
            paths, reader=task_type(task).reader, columns=columns_config, on_bad_row=OnBadRow(), labeled=labeled
        )
    )


def test_texts_pairs_and_tokens_of_several_files(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", {"a": " x ", "b": "y", "c": "L"}, {"a": "z", "b": "w", "c": " M "})
    two = tmp_path / "two.csv"
    two.write_text('c,b,a\n1,"q\nr",p\nTrue,s,t\n')
    assert read(one, two, text="a", label="c") == [
        Example(" x ", "L", str(one), 1),
        Example("z", "M", str(one), 2),
        Example("p", "1", str(two), 2),
        Example("t", "True", str(two), 4),
    ]
    assert [example.text for example in read(one, two, text="a", text_pair="b", label="c")] == [
        (" x ", "y"),
        ("z", "w"),
        ("p", "q\nr"),
        ("t", "s"),
    ]
    tokens = write(tmp_path / "tokens.jsonl", {"tokens": ["play", "jazz"], "intent": "music"})
    assert read(tokens, text="tokens", label="intent") == [Example(["play", "jazz"], "music", str(tokens), 1)]


@pytest.mark.parametrize(
    ("value", "label"),
    [("good", "good"), (" 1 ", "1"), (1, "1"), (1.0, "1"), (-3, "-3"), (True, "true"), (False, "false"), (0, "0")],
)
def test_labels(tmp_path: Path, value: object, label: str) -> None:
    [example] = read(write(tmp_path / "a.jsonl", {"text": "t", "label": value}))
    assert example.target == label


@pytest.mark.parametrize(
    ("value", "labels"),
    [([], ()), ("", ()), (" ", ()), (["a"], ("a",)), ("a", ("a",)), ("b | a|b", ("b", "a")), ([2, "x", 2], ("2", "x"))],
)
def test_sets_of_labels(tmp_path: Path, value: object, labels: tuple[str, ...]) -> None:
    [example] = read(write(tmp_path / "a.jsonl", {"text": "t", "label": value}), task="multi_label")
    assert example.target == labels


def test_sets_of_labels_in_csv(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\nt,x|y\nu,\n")
    assert [example.target for example in read(path, task="multi_label")] == [("x", "y"), ()]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_texts_without_words_are_texts_and_counted(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    texts = ["", "a", "  ", "b"]
    if name == "a.csv":
        path.write_text("text,label\n" + "".join(f"{text},x\n" for text in texts))
    else:
        write(path, *({"text": text, "label": "x"} for text in texts))
    bad = OnBadRow()
    found = read_examples([path], reader=task_type("classification").reader, columns=ColumnsConfig(), on_bad_row=bad)
    assert [example.text for example in found] == texts
    assert "2 texts have no words; they are read like any other" in bad.lines()


def test_halves_of_pairs_and_lists_may_have_no_words(tmp_path: Path) -> None:
    pairs = write(tmp_path / "a.jsonl", {"text": "", "b": "x", "label": 1}, {"text": "", "b": "", "label": 1})
    assert [example.text for example in read(pairs, text_pair="b")] == [("", "x"), ("", "")]
    [example] = read(write(tmp_path / "b.jsonl", {"text": [], "label": 1}))
    assert example.text == []


def test_slots(tmp_path: Path) -> None:
    slots = ["B-x", "I-x", "B-x", "O", "B-y z"]
    listed = write(tmp_path / "a.jsonl", {"tokens": list("abcde"), "slots": slots})
    assert read(listed, task="tagging") == [Example(list("abcde"), tuple(slots), str(listed), 1)]
    spaced = tmp_path / "a.csv"
    spaced.write_text("words,tags\na  b c,B-x I-x O\n")
    assert read(spaced, task="tagging", tokens="words", slots="tags") == [
        Example(["a", "b", "c"], ("B-x", "I-x", "O"), str(spaced), 2)
    ]


def test_rows_for_prediction_need_no_target(tmp_path: Path) -> None:
    bare = write(tmp_path / "bare.jsonl", {"text": "t"})
    some = write(tmp_path / "some.jsonl", {"text": "t", "label": "x"}, {"text": "u", "label": None}, {"text": "v"})
    assert [example.target for example in read(bare, some, labeled=False)] == [None, "x", None, None]
    slots = write(tmp_path / "slots.jsonl", {"tokens": ["a"], "slots": ["O"]}, {"tokens": ["b"]}, {"text": "c d"})
    got = read(slots, bare, task="tagging", labeled=False)
    wanted = [(["a"], None), (["b"], None), ("c d", None), ("t", None)]
    assert [(example.text, example.target) for example in got] == wanted
    with pytest.raises(DataError, match=r"bare\.jsonl:1: no column 'label'"):
        read(write(tmp_path / "whole.jsonl", {"text": "t", "label": "x"}), bare)
    with pytest.raises(DataError, match=r"bare\.jsonl:1: no column 'tokens'"):
        read(bare, task="tagging", labeled=False, text="words")


def test_no_file_and_unknown_column_option() -> None:
    with pytest.raises(ConfigError, match="name at least one file"):
        read()
    with pytest.raises(ConfigError, match=r"unknown key 'lable'; did you mean 'label'\?"):
        parse(ColumnsConfig, {"lable": "x"}, where="--set")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["O", "B-x", "I-x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


@settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    values=st.dictionaries(st.sampled_from(["text", "label", "tokens", "slots"]), VALUES),
    task=st.sampled_from(["classification", "multi_label", "tagging"]),
    labeled=st.booleans(),
)
def test_any_values_end_in_a_sound_example_or_a_data_error(
    tmp_path: Path, values: dict[str, Any], task: str, labeled: bool
) -> None:
    path = write(tmp_path / "a.jsonl", values)
    try:
        [example] = read(path, task=task, labeled=labeled)
    except DataError as error:
        named = str(path) in str(error)
        assert named
        return
    assert isinstance(example.text, str) or all(isinstance(token, str) and token.strip() for token in example.text)
    if example.target is None:
        assert not labeled
    elif task == "classification":
        assert isinstance(example.target, str)
        assert example.target == example.target.strip() != ""
    else:
        assert isinstance(example.target, tuple)
        assert task == "multi_label" or len(example.target) == len(example.text)


@pytest.mark.slow
def test_real_sets_hold_what_their_readme_states(shared_data: Path) -> None:
    """Read a second time with json alone."""
    path = shared_data / "mtop_en" / "train.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    got = read(path, task="tagging")
    assert [(example.text, list(example.target or ())) for example in got] == [
        (row["tokens"], row["slots"]) for row in rows
    ]
    assert len(got) == 15_667
    for part in ("dev", "test"):
        got += read(shared_data / "mtop_en" / f"{part}.jsonl.gz", task="tagging")
    assert len({slot[2:] for example in got for slot in example.target or () if slot != "O"}) == 75
    labels = Counter(
        example.target for example in read(shared_data / "snips" / "train.jsonl.gz", text="tokens", label="intent")
    )
    assert (len(labels), labels.total()) == (7, 13_084)
    validation = read(shared_data / "sst2_glue" / "dev.jsonl.gz")
    assert (len(validation), {example.target for example in validation}) == (872, {"0", "1"})
