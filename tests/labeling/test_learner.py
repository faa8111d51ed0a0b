"""What the process beside the page learns."""

from __future__ import annotations

import queue
import random

import pytest

from mixling.labeling import Learned, Lesson, Pupil, learn

pytestmark = pytest.mark.slow
WORDS = {"refund": "money back refund", "parcel": "where is my parcel", "account": "password login account"}


def test_labels_that_are_wrong_are_found_and_unsure_texts_chosen() -> None:
    draw = random.Random(0)
    labels = [draw.choice([*WORDS]) for _ in range(120)]
    texts = [f"{WORDS[label]} please {number}" for number, label in enumerate(labels)]
    unsure = [f"money password parcel {number}" for number in range(5)]
    said = dict(enumerate(labels[:90]))
    wrong = {7: "parcel" if labels[7] != "parcel" else "refund", 31: "account" if labels[31] != "account" else "refund"}
    lesson = Lesson(
        said={**said, **wrong}, tests=dict(zip(range(90, 110), labels[90:110], strict=True)),
        pool=range(110, 125), guessed=[110], strategy="uncertain", review=True,
    )  # fmt: skip
    found = learn([*texts, *unsure], "classification", lesson, [])
    assert found.contradicted is not None
    assert set(found.contradicted[:2]) == set(wrong)
    assert found.labels == 90
    assert (found.right, found.of) == (20, 20)
    assert found.baseline == labels[90:110].count(max(WORDS, key=[*({**said, **wrong}).values()].count))
    assert set(found.chosen[:3]) & set(range(120, 125))
    assert found.guesses[110] == labels[110]


def test_another_process_follows_one_that_was_killed() -> None:
    found: queue.Queue[Learned] = queue.Queue()
    pupil = Pupil(["one text", "other text"], "classification", found.put)
    lesson = Lesson(said={0: "a", 1: "a"}, tests={}, pool=[])
    try:
        killed = pupil._worker.process
        killed.kill()
        pupil.learn(lesson, 2)
        assert found.get(timeout=60).problem.startswith("the training was killed by signal 9")
        pupil.learn(lesson, 2)
        assert "at least two" in found.get(timeout=120).problem  # it has the texts, and only one label
        assert not pupil.busy
    finally:
        pupil.close()
    assert not killed.is_alive()


def test_spans_are_learned() -> None:
    texts = [f"fly to {city} now {number}" for number, city in enumerate(["Rome", "Paris", "Oslo", "Bonn"] * 10)]
    lesson = Lesson(
        said={number: [[2, 3, "city"]] for number in range(30)}, tests={30: [[2, 3, "city"]]}, pool=range(31, 40)
    )
    found = learn(texts, "tagging", lesson, [])
    assert (found.right, found.of) == (1, 1)
    assert len(found.chosen) == 9
    assert all(value == [[2, 3, "city"]] for value in found.guesses.values())
