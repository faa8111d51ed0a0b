"""Exact match and F1 against cases by hand and against the definition written out in another way."""

from __future__ import annotations

import gzip
import json
import random
import re
import string
from pathlib import Path

import pytest

from mixling import DataError
from mixling.answers import Answers, Found
from mixling.metrics import format_table
from mixling.metrics.squad import answer_report, choose_threshold, normalize_answer, score_answer


def right(*texts: str) -> Answers:
    return Answers(texts, (0,) * len(texts))


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Panthers'\tdefense!", "panthers defense"),
        ("an A, the THE", ""),
        ("Theatre and Ana", "theatre and ana"),
        ("the-end", "theend"),  # punctuation goes first, so that no article is left
        ("Straße №5½", "straße №5½"),
        ("«les années»", "«les années»"),  # only ASCII punctuation
        ("四次。", "四次。"),
    ],
)
def test_normalizing(text: str, normal: str) -> None:
    assert normalize_answer(text) == normal


@pytest.mark.parametrize(
    ("text", "golds", "exact", "f1"),
    [
        ("The Denver Broncos", ["Denver Broncos"], 1, 1),
        ("Broncos of Denver", ["Denver Broncos"], 0, 4 / 5),  # 2 of 3 and 2 of 2
        ("Broncos", ["Carolina Panthers", "Denver Broncos", "Broncos!"], 1, 1),
        ("to be or not to be", ["to be to"], 0, 2 * 3 / (6 + 3)),  # two "to" and one "be" are common
        ("Paris", ["London"], 0, 0),
        ("", ["London"], 0, 0),
        ("", [], 1, 1),
        ("London", [], 0, 0),
        ("the", [], 1, 1),  # nothing is left of it
        ("", ["the", "London"], 0, 0),  # a right answer of which nothing is left does not count
        ("", ["the"], 1, 1),  # unless there is no other
    ],
)
def test_one_answer(text: str, golds: list[str], exact: float, f1: float) -> None:
    assert score_answer(text, right(*golds)) == pytest.approx((exact, f1))


def by_definition(text: str, golds: list[str]) -> tuple[float, float]:
    """SQuAD 2.0's definition, step by step: words are taken out one by one as they are met."""

    def words(value: str) -> list[str]:
        value = "".join(c for c in value.lower() if c not in string.punctuation)
        return re.sub(r"\b(a|an|the)\b", " ", value).split()

    best = (0.0, 0.0)
    for gold in [gold for gold in golds if words(gold)] or [""]:
        given, wanted = words(text), words(gold)
        left, common = list(wanted), 0
        for word in given:
            if word in left:
                left.remove(word)
                common += 1
        if not given or not wanted:
            f1 = float(given == wanted)
        elif not common:
            f1 = 0.0
        else:
            precision, recall = common / len(given), common / len(wanted)
            f1 = 2 * precision * recall / (precision + recall)
        best = (max(best[0], float(given == wanted)), max(best[1], f1))
    return best


def test_random_answers() -> None:
    chance = random.Random(0)
    words = ["the", "a", "An", "cat", "Cat,", "dog", "dog's", "--", "über", "猫", "1,000"]
    for _ in range(500):
        text, *golds = (" ".join(chance.choices(words, k=chance.randrange(5))) for _ in range(1 + chance.randrange(4)))
        assert score_answer(text, right(*golds)) == pytest.approx(by_definition(text, golds)), (text, golds)


@pytest.mark.parametrize("language", ["en", "zh", "th", "ar"])
def test_real_questions(shared_data: Path, language: str) -> None:
    """Answers of other questions, parts of the context and the right ones themselves."""
    chance = random.Random(1)
    with gzip.open(shared_data / "xquad" / f"{language}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file][::10]
    for row in rows:
        golds = row["answers"]["text"]
        start = row["answers"]["start"][0]
        part = row["context"][max(0, start - chance.randrange(20)) : start + chance.randrange(1, 40)]
        for text in (golds[0], part, chance.choice(rows)["answers"]["text"][0], ""):
            assert score_answer(text, right(*golds)) == pytest.approx(by_definition(text, golds))
        assert score_answer(golds[0], right(*golds)) == (1, 1)


def test_the_report_parts_questions_with_and_without_answers() -> None:
    report = answer_report(["cat", "a cat and dog", "", "dog"], [right("cat"), right("cat"), right(), right()])
    assert (report.n, report.n_unanswerable) == (4, 2)
    assert report.exact_match == pytest.approx(2 / 4)
    assert report.f1 == pytest.approx((1 + 2 / 4 + 1 + 0) / 4)
    assert report.answerable_exact_match == pytest.approx(1 / 2)
    assert report.answerable_f1 == pytest.approx((1 + 2 / 4) / 2)
    assert report.unanswerable_accuracy == pytest.approx(1 / 2)
    assert "2 without answer" in format_table(report)
    assert "class" not in format_table(report)


def test_the_report_of_questions_that_all_have_answers_or_none() -> None:
    report = answer_report(["cat"], [right("cat")])
    assert report.numbers() == {"exact_match": 1.0, "f1": 1.0}
    assert answer_report(["", "x"], [right(), right()]).numbers() == {
        "exact_match": 0.5, "f1": 0.5, "unanswerable_accuracy": 0.5,
    }  # fmt: skip
    with pytest.raises(DataError, match="nothing to evaluate"):
        answer_report([], [])


def test_the_threshold_is_the_best_of_all() -> None:
    """Against trying every place between two margins; questions without words in their context have no margin."""
    chance = random.Random(2)
    for _ in range(200):
        margins = [chance.choice([-2.0, -1.0, 0.5, 0.5, 1.0, 3.0]) for _ in range(chance.randrange(1, 8))]
        found = [Found(span=(0, 1), margin=margin, probability=0.5, no_answer=0.5) for margin in margins]
        found.append(Found(span=None, margin=float("inf"), probability=0.0, no_answer=1.0))
        reported = [chance.choice(["cat", "dog", "cat dog"]) for _ in margins] + [""]
        golds = [right(*chance.choice([["cat"], ["dog"], []])) for _ in reported]

        def mean(threshold: float, found: list = found, reported: list = reported, golds: list = golds) -> float:
            texts = ["" if item.margin > threshold else text for item, text in zip(found, reported, strict=True)]
            return answer_report(texts, golds).f1

        best = max(mean(cut) for cut in (-3, -1.5, 0, 0.75, 2, 4))
        assert mean(choose_threshold(found, reported, golds)) == pytest.approx(best)
    nothing = [Found(span=None, margin=float("inf"), probability=0.0, no_answer=1.0)]
    assert choose_threshold(nothing, [""], [right()]) == 0
