"""Which model is chosen for which rows."""

from __future__ import annotations

from typing import Any

import pytest

from mixling.config import parse
from mixling.data.dataset import Dataset
from mixling.data.examples import Example
from mixling.models.presets import PRESETS, model_config
from mixling.runs import RunConfig, choose_model


def rows(count: int, words: int) -> Dataset:
    return Dataset.from_examples(Example(" ".join(["word"] * words), "ab"[i % 2], "x", i) for i in range(count))


def config(**values: Any) -> RunConfig:
    return parse(RunConfig, values, where="test")


@pytest.mark.parametrize(
    ("values", "count", "name"),
    [
        ({}, 100, "mixling-small"),
        ({}, 20_000, "mixling-base"),
        ({"start": {"texts": ["more.txt"]}}, 100, "mixling-base"),
        ({"distill": {"teacher": "run"}}, 100, "mixling-base"),
        ({"task": "tagging", "distill": {"teacher": "run"}}, 100, "mixling-mixer"),
    ],
)
def test_by_rows_text_and_teacher(values: dict[str, Any], count: int, name: str) -> None:
    choice = choose_model(rows(count, 3), config(**values))
    assert choice.name == name
    assert choice.values["model"]["preset"] == name
    assert model_config(choice.name, choice.changes).text.max_len == 64


def test_many_pairs_take_token_mixing() -> None:
    for count, name in ((4_999, "mixling-small"), (5_000, "mixling-mixer")):
        pairs = Dataset.from_examples(Example(("a", "b c"), "ab"[i % 2], "x", i) for i in range(count))
        choice = choose_model(pairs, config())
        assert (choice.name, choice.changes) == (name, {"text": {"max_len": 64, "overlap": True}})


def test_many_labels_take_the_larger_one() -> None:
    many = Dataset.from_examples(Example("a text", str(i % 20), "x", i) for i in range(40))
    assert choose_model(many, config()).name == "mixling-base"


@pytest.mark.parametrize(("words", "max_len"), [(1, 64), (64, 64), (65, 96), (300, 320), (5000, 1024)])
def test_the_length_is_that_of_the_rows(words: int, max_len: int) -> None:
    assert choose_model(rows(30, words), config()).changes == {"text": {"max_len": max_len}}


def test_a_few_long_texts_do_not_decide() -> None:
    few = [Example("a " * 900, "a", "x", i) for i in range(4)]
    many = [Example("a b c", "b", "x", i) for i in range(96)]
    assert choose_model(Dataset.from_examples([*few, *many]), config()).changes == {"text": {"max_len": 64}}


def test_our_models_have_a_defaults_and_the_papers_none() -> None:
    assert {name for name, preset in PRESETS.items() if preset.defaults} == {
        "mixling-tiny", "mixling-small", "mixling-base", "mixling-mixer",
    }  # fmt: skip
