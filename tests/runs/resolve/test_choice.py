"""Which model is chosen for which rows."""

from __future__ import annotations

from typing import Any

import pytest

from mixling import PRESETS, Dataset, Example, RunConfig, model_config
from mixling.config import parse
from mixling.runs.resolve import LABELS, choose_model, resolve


def rows(count: int, words: int) -> Dataset:
    return Dataset.from_examples(Example(" ".join(["word"] * words), "ab"[i % 2], "x", i) for i in range(count))


def config(**values: Any) -> RunConfig:
    return parse(RunConfig, values, where="test")


@pytest.mark.parametrize(
    ("values", "count", "name"),
    [
        ({}, 100, "mixling-small"),
        ({}, 20_000, "mixling-base"),
        ({"init": {"texts": ["more.txt"]}}, 100, "mixling-base"),
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
        assert (choice.name, choice.changes) == (name, {"text": {"max_len": 64, "segments": 2, "overlap": True}})


def test_many_labels_take_the_larger_one() -> None:
    many = Dataset.from_examples(Example("a text", str(i % 20), "x", i) for i in range(40))
    assert choose_model(many, config()).name == "mixling-base"


@pytest.mark.parametrize(("words", "max_len"), [(1, 64), (64, 64), (65, 96), (300, 320), (5000, 1024)])
def test_the_length_is_that_of_the_rows(words: int, max_len: int) -> None:
    assert choose_model(rows(30, words), config()).changes == {"text": {"max_len": max_len}}


@pytest.mark.parametrize(
    ("count", "words", "size"), [(4_999, 3, 64), (5_000, 3, 256), (5_000, 64, 256), (5_000, 65, 64), (20_000, 3, 256)]
)
def test_many_short_texts_are_trained_in_large_batches(count: int, words: int, size: int) -> None:
    train = resolve({"task": "classification"}, spec=LABELS).for_examples(rows(count, words)).config.train
    assert (train.batch_size, train.optim.lr) == (size, {64: 0.002, 256: 0.003}[size])


@pytest.mark.parametrize(
    ("options", "size", "rate"),
    [
        ({"train": {"batch_size": 32}}, 32, 0.002),
        ({"train": {"optim": {"lr": 0.001}}}, 64, 0.001),
        ({"train": {"optim": {"lr": None}, "epochs": 3}}, 256, 0.003),
        ({"model": "mixling-small"}, 256, 0.003),
        ({"model": "pnlp-mixer-base"}, 64, 0.002),
        ({"model": "pnlp-mixer-base", "task": "tagging"}, 128, 0.004),
        ({"model": "pnlp-mixer-x-large", "task": "tagging"}, 64, 0.002),
        ({"model": "gmlp", "task": "tagging"}, 64, 0.002),
        ({"model": "pnlp-lstm", "task": "tagging"}, 64, 0.002),
        ({"task": "tagging"}, 128, 0.004),
        ({"task": "tagging", "distill": {"teacher": "run"}}, 64, 0.002),
        ({"init": {"texts": ["more.txt"]}}, 64, 0.002),
        ({"model": "mixling-small", "init": {"texts": ["more.txt"]}}, 64, 0.002),
        ({"task": "multi_label"}, 64, 0.002),
        ({"distill": {"teacher": "run"}}, 256, 0.003),
    ],
)
def test_what_is_given_has_priority_over_large_batches(options: dict[str, Any], size: int, rate: float) -> None:
    resolved = resolve({"task": "classification", **options}, spec=LABELS).for_examples(rows(5_000, 3))
    assert (resolved.config.train.batch_size, resolved.config.train.optim.lr) == (size, rate)


def test_a_few_long_texts_do_not_decide() -> None:
    few = [Example("a " * 900, "a", "x", i) for i in range(4)]
    many = [Example("a b c", "b", "x", i) for i in range(96)]
    assert choose_model(Dataset.from_examples([*few, *many]), config()).changes == {"text": {"max_len": 64}}


def test_our_models_have_defaults_and_the_papers_see_the_words_as_they_are() -> None:
    own = {"mixling-tiny", "mixling-small", "mixling-base", "mixling-mixer", "mixling-linear"}
    for name, preset in PRESETS.items():
        chosen = resolve({"task": "classification", "model": name}, spec=LABELS).config.train.augmentation
        if name in own:
            assert chosen is None, name  # by the task
            assert preset.defaults["ngrams"] == {"use": "alone" if name == "mixling-linear" else "auto"}
        else:
            assert chosen is not None, name
            assert chosen.rate == 0, name


@pytest.mark.parametrize(("words", "lengths"), [(1, (2, 5)), (2, (2, 5)), (3, (3, 4))])
def test_a_word_or_two_have_other_character_ngrams(words: int, lengths: tuple[int, int]) -> None:
    for given in ({}, {"model": {"preset": "mixling-tiny"}}):
        found = resolve({"task": "classification", **given}, spec=LABELS).for_examples(rows(30, words)).config.ngrams
        assert (found.min_n, found.max_n) == lengths
    own = resolve({"task": "classification", "ngrams": {"max_n": 3}}, spec=LABELS).for_examples(rows(30, words))
    assert own.config.ngrams.max_n == 3
