"""Examples whose labels no model knows: errors in every metric that counts answers, and nothing to the loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

from mixling.answers import LabelSet
from mixling.tasks import NO_TARGET, Classification, MultiLabel, Regression, Tagging, Task
from mixling.training.dataset_adapter import mean_loss

RNG = np.random.default_rng(0)
SINGLE = Classification(LabelSet(("a", "b", "c"), "single"))
MULTI = MultiLabel(LabelSet(("a", "b", "c"), "multi"))
TAGS = Tagging(LabelSet(("O", "B-x", "I-x"), "iob"))


def logits(count: int, words: int | None = None) -> list[Any]:
    shape = (3,) if words is None else (words, 3)
    return [RNG.normal(size=shape).astype(np.float32) for _ in range(count)]


def test_a_class_that_is_unseen_is_never_right() -> None:
    names, outputs = ["a", "new", "c", "b", "newer", "a"], logits(6)
    task = SINGLE.with_unknown(names)
    assert task.labels.names == ("a", "b", "c", "new", "newer")
    targets = task.targets(names)
    found = task.evaluate(outputs, targets)
    guesses = [SINGLE.labels.names[int(row.argmax())] for row in outputs]
    assert found.n == 6
    assert found.accuracy == np.mean([a == b for a, b in zip(names, guesses, strict=True)])
    assert found.macro_f1 == pytest.approx(f1_score(names, guesses, average="macro", zero_division=0))
    known = [i for i, name in enumerate(names) if name in "abc"]
    alone = SINGLE.evaluate([outputs[i] for i in known], SINGLE.targets([names[i] for i in known]))
    assert found.log_loss == pytest.approx(alone.log_loss)
    assert sum(row.support for row in found.per_class if row.label.startswith("new")) == 2
    assert mean_loss(SINGLE, outputs, targets) == pytest.approx(
        mean_loss(SINGLE, [outputs[i] for i in known], SINGLE.targets([names[i] for i in known])), rel=1e-5
    )
    changed = [row + np.float32(i in known) for i, row in enumerate(outputs)]
    quantization = task.compare_quantized(outputs, changed, targets)
    assert (quantization.changed, quantization.decisions) == (0, 6)


def test_a_set_with_an_unseen_label_is_never_right() -> None:
    sets, outputs = [("a",), ("a", "new"), ()], [np.array([9, -9, -9], np.float32)] * 2 + [np.full(3, -9, np.float32)]
    task = MULTI.with_unknown(sets)
    targets = task.targets(sets)
    found = task.evaluate(outputs, targets)
    assert found.subset_accuracy == pytest.approx(2 / 3)
    assert found.micro_f1 == pytest.approx(4 / 5)
    known = [tuple(name for name in names if name != "new") for names in sets]
    assert mean_loss(MULTI, outputs, targets) == pytest.approx(mean_loss(MULTI, outputs, MULTI.targets(known)))
    assert task.compare_quantized(outputs, outputs, targets).decisions == 9


def test_a_word_with_an_unseen_tag_is_never_right() -> None:
    tags, outputs = [("O", "B-new", "B-x", "I-x"), ("B-x", "I-x", "I-new")], [*logits(1, 4), *logits(1, 3)]
    task = TAGS.with_unknown(tags)
    targets = task.targets(tags)
    found = task.evaluate(outputs, targets)
    guesses = [[TAGS.labels.names[i] for i in TAGS.best_tags(row)] for row in outputs]
    right = [a == b for gold, guess in zip(tags, guesses, strict=True) for a, b in zip(gold, guess, strict=True)]
    assert found.word_accuracy == np.mean(right)
    learned, fractions = TAGS.learnable(targets)
    assert fractions is None
    assert [row.tolist() for row in learned] == [[0, NO_TARGET, 1, 2], [1, 2, NO_TARGET]]
    surprises = [np.log(np.exp(row).sum(1, keepdims=True)) - row for row in outputs]
    known = [(surprises[i][j], tag) for i, ids in enumerate(learned) for j, tag in enumerate(ids) if tag != NO_TARGET]
    smoothed = [0.9 * of_tags[tag] + 0.1 * of_tags.mean() for of_tags, tag in known]
    assert mean_loss(TAGS, outputs, targets) == pytest.approx(np.mean(smoothed), rel=1e-5)


@pytest.mark.parametrize(("task", "targets"), [(SINGLE, ["a"]), (MULTI, [("a", "c"), ()]), (TAGS, [("O",)])])
def test_a_task_that_knows_all_labels_is_itself(task: Task, targets: list[Any]) -> None:
    assert task.with_unknown(targets) is task
    ids = task.targets(targets)
    learned, fractions = task.learnable(ids)
    assert fractions is None
    assert [np.asarray(row).tolist() for row in learned] == [np.asarray(row).tolist() for row in ids]


def test_numbers_are_never_unseen() -> None:
    task = Regression(LabelSet(("value",), "number", {"mean": 0.0, "deviation": 1.0}))
    assert task.with_unknown([1.5, -3.0]) is task
