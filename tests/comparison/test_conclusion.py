"""The sentence that a comparison ends with, and the table on a narrow terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mixling.answers import LabelSet
from mixling.comparison import Comparison, Failure, Failures, LabeledRows, TrainedSystem, chosen_systems
from mixling.comparison.conclusion import conclusion_of
from mixling.comparison.evaluation import evaluate_systems
from mixling.comparison.report import as_text
from mixling.comparison.speed import Speed
from mixling.data import Target
from mixling.errors import ConfigError
from mixling.tasks import Classification, Regression, Tagging, Task
from mixling.text import Text

LABELS = Classification(LabelSet(("a", "b"), "single"))
NUMBERS = Regression(LabelSet(("value",), "number", {"mean": 0.0, "deviation": 1.0}))


class Given:
    """Gives answers in the order of the rows."""

    def __init__(self, answers: Sequence[Target]) -> None:
        self._answers = list(answers)

    def predict(self, texts: Sequence[Text]) -> list[Target]:
        return self._answers[: len(texts)]

    def predict_one(self, text: Text) -> Target:
        return self._answers[0]

    def fresh(self) -> Given:
        return self


def comparison(task: Task, truth: Sequence[Target], failed: Sequence[Failure] = (), **answers: Any) -> Comparison:
    """What systems of these names and answers make."""
    systems = [
        TrainedSystem(
            name=name.replace("_", "-"), about="", options={}, tried=(), validation=(0.5,), parameters=1,
            file_bytes=480_000, seconds=(12.5,), answerers=(Given(given),),
        )
        for name, given in answers.items()
    ]  # fmt: skip
    rows = LabeledRows(["x"] * len(truth), list(truth))
    return Comparison(
        task=task, reference=systems[0].name, split="held-out", rows={}, seeds=(0,), systems=tuple(systems),
        failed=tuple(failed), fits_validation=True, held_out=rows,
        test=evaluate_systems(systems, task, rows, Failures(print)),
        speeds={one.name: Speed(1.0, 1.0, 0.00003) for one in systems}, noisy={}, few={}, remarks=("a remark " * 20,),
    )  # fmt: skip


def labels(right: int, number: int = 600) -> list[Target]:
    return ["a"] * right + ["b"] * (number - right)


def test_the_sentence_names_the_best_of_the_others_and_the_paired_interval() -> None:
    found = comparison(LABELS, labels(600), mixling=labels(540), tfidf=labels(510), majority=labels(330))
    said = conclusion_of(found)
    assert (said.rival, said.ahead) == ("tfidf", pytest.approx(0.05))
    assert said.interval is not None
    # 30 of 600 rows differ, all in favor of ours: the paired interval is that of this rate.
    reach = 1.96 * (0.05 * 0.95 / 600) ** 0.5
    assert said.interval.low == pytest.approx(0.05 - reach, abs=0.004)
    assert said.interval.high == pytest.approx(0.05 + reach, abs=0.004)
    low, high = 100 * said.interval.low, 100 * said.interval.high
    assert said.sentence == (
        f"mixling is better than tfidf, the best of the others, by 5.0 points of accuracy [{low:.1f}, {high:.1f}], on "
        "600 held-out rows."
    )
    turned = conclusion_of(comparison(LABELS, labels(600), mixling=labels(510), tfidf=labels(540)))
    assert turned.sentence.startswith("mixling is worse than tfidf by 5.0 points of accuracy [")
    assert (turned.ahead, turned.interval and turned.interval.low < turned.interval.high < 0) == (
        pytest.approx(-0.05),
        True,
    )


def test_a_difference_that_may_be_chance_is_none() -> None:
    rng = np.random.default_rng(0)
    one, other = (["ab"[int(hit)] for hit in rng.random(600) < 0.2] for _ in range(2))
    said = conclusion_of(comparison(LABELS, labels(600), mixling=one, tfidf=other))
    assert said.sentence.startswith(
        "Between mixling and tfidf there is no difference that 600 held-out rows could show: "
    )
    equal = conclusion_of(comparison(LABELS, labels(600), mixling=one, tfidf=one))
    assert equal.sentence.endswith("could show: +0.0 points of accuracy [+0.0, +0.0].")
    alone = conclusion_of(comparison(LABELS, labels(600), mixling=one))
    assert (alone.rival, alone.sentence) == (None, "mixling is alone: no other system answered.")


def test_a_lower_error_is_better() -> None:
    truth = [0.0] * 200
    found = comparison(NUMBERS, truth, mixling=[0.1] * 200, near=[0.3] * 200, far=[0.9] * 200)
    assert conclusion_of(found).sentence == (
        "mixling is better than near, the best of the others, by 0.2 of mae [0.2, 0.2], on 200 held-out rows."
    )


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_fits_the_width(width: int) -> None:
    missing = Failure("fasttext", "", "not installed; pip install fasttext-wheel")
    found = comparison(LABELS, labels(600), [missing], mixling=labels(540), transformer_matched=labels(510))
    lines = as_text(found, width).splitlines()
    assert max(map(len, lines)) <= width
    assert ("train s" in lines[0]) == (width == 100)
    assert lines[2].startswith("transformer-matched  .850 [.")
    assert lines[3] == "fasttext  not installed; pip install fasttext-wheel"


def test_systems_are_named_for_a_task() -> None:
    assert chosen_systems(Classification, ()) == ("tf-idf", "fasttext", "majority")
    assert chosen_systems(Tagging, ()) == ("words", "majority")
    assert chosen_systems(Regression, ["transformer-matched", "tf-idf", "tf-idf"]) == ("transformer-matched", "tf-idf")
    with pytest.raises(
        ConfigError, match="for regression there is no 'fasttext'; allowed: tf-idf, majority, transformer-matched"
    ):
        chosen_systems(Regression, ["fasttext"])


def test_the_majority_is_the_most_frequent_answer_and_the_median_of_numbers() -> None:
    assert Classification.constant(["b", "a", "b"])("any") == "b"
    assert Classification.constant([("x", "y"), ("x",), ("x", "y")])("any") == ("x", "y")
    assert Regression.constant([1.0, 9.0, 2.0])("any") == 2.0
    assert Tagging.constant([("O", "B-x"), ("B-x", "B-x")])(["three", "more", "words"]) == ("B-x",) * 3


def test_the_sentence_says_whether_the_best_of_the_others_reads_columns() -> None:
    found = comparison(LABELS, labels(600), mixling=labels(560), blind=labels(500), reader=labels(540))
    blind, reader = (replace(found.systems[place], reads_columns=place == 2) for place in (1, 2))
    said = conclusion_of(replace(found, systems=(found.systems[0], blind, reader))).sentence
    assert "better than reader, the best of the others that read the columns, by" in said
    swapped = replace(
        found, systems=(found.systems[0], replace(blind, reads_columns=True), replace(reader, reads_columns=False))
    )
    assert (
        "better than reader, the best of the others, although it reads no columns, by"
        in conclusion_of(swapped).sentence
    )
