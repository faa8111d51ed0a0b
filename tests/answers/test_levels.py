"""Labels with levels, against loops over the labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixling.answers import (
    DecisionRule,
    LabelSet,
    LabelTree,
    answers_by_level,
    level_problems,
    targets_by_level,
)
from mixling.metrics import choose_abstention
from mixling.tasks import Classification
from mixling.text import Encoded

NAMES = ("card > lost", "card > stolen > abroad", "card > stolen > here", "hello", "loan > new", "loan > old")
SEPARATOR = " > "
READ = Encoded(np.zeros(1, np.int32), None, False, 0)


def path_by_loops(probabilities: list[float]) -> dict[str, float]:
    """Go down from the top: at each level to the part whose labels have most probability together."""
    left, path, level = list(range(len(NAMES))), {}, 0
    while not any(NAMES[i] in path for i in left):
        level += 1
        sums: dict[str, float] = {}
        for i in left:
            part = SEPARATOR.join(NAMES[i].split(SEPARATOR)[:level])
            sums[part] = sums.get(part, 0.0) + probabilities[i]
        best = max(sums, key=lambda part: sums[part])
        path[best] = sums[best]
        left = [i for i in left if (NAMES[i] + SEPARATOR).startswith(best + SEPARATOR)]
    return path


@given(st.lists(st.integers(1, 1000), min_size=6, max_size=6))
def test_the_path_decides(weights: list[int]) -> None:
    probabilities = np.array(weights) / sum(weights)
    task = Classification(LabelSet(NAMES, "single"))
    task.rule = DecisionRule(levels=SEPARATOR).of(NAMES)
    expected = path_by_loops(probabilities.tolist())
    for threshold in (None, 0.20001, 0.50001, 0.80001):
        task.threshold = threshold
        found = task.decode(np.log(probabilities), READ, "")
        assert found.path is not None
        assert list(found.path) == list(expected)
        assert list(found.path.values()) == pytest.approx(list(expected.values()))
        sure = [part for part in expected if threshold is None or expected[part] >= threshold]
        assert found.label == (sure or list(expected))[-1]
        assert found.abstained == (None if threshold is None else not sure)
        assert found.leaf == list(expected)[-1]
        assert found.probability == pytest.approx(expected[found.label])
        assert task.best(np.log(probabilities)) == NAMES.index(found.leaf or "")


def test_a_most_probable_label_below_a_less_probable_part() -> None:
    tree = LabelTree(NAMES, SEPARATOR)
    steps, sums = tree.descend(np.array([[0.3, 0.0, 0.0, 0.2, 0.25, 0.25]]))
    assert [tree.parts[level][node] for level, node in enumerate(steps[0])] == ["loan", "loan > new", "loan > new"]
    assert sums[0].tolist() == [0.5, 0.25, 0.25]


def test_metrics_of_levels_stand_beside_those_of_the_most_probable_labels() -> None:
    task = Classification(LabelSet(NAMES, "single"))
    task.rule = DecisionRule(levels=SEPARATOR).of(NAMES)
    task.threshold = 0.4
    rows = np.array([
        [0.30, 0.00, 0.00, 0.20, 0.26, 0.24],  # loan .5, loan > new .26; flat: card > lost
        [0.05, 0.45, 0.40, 0.05, 0.03, 0.02],  # card > stolen .85, abroad .45
        [0.20, 0.10, 0.05, 0.30, 0.20, 0.15],  # card .35: not answered
    ]) + 1e-9  # fmt: skip
    targets = task.targets(["loan > old", "card > stolen > here", "hello"])
    top, middle, whole = task.evaluate(list(np.log(rows)), targets).levels
    assert (top.labels, middle.labels, whole.labels) == (3, 5, 6)
    assert [level.accuracy for level in (top, middle, whole)] == pytest.approx([2 / 3, 1 / 3, 0])
    assert [level.flat_accuracy for level in (top, middle, whole)] == pytest.approx([2 / 3, 2 / 3, 1 / 3])
    assert [level.coverage for level in (top, middle, whole)] == pytest.approx([2 / 3, 1 / 3, 1 / 3])
    assert [level.accuracy_of_answered for level in (top, middle, whole)] == [1, 1, 0]
    metrics = task.evaluate(list(np.log(rows)), targets)
    assert metrics.coverage == pytest.approx(2 / 3)
    assert metrics.accuracy_of_answered == pytest.approx(1 / 2)  # "loan" is right, "card > stolen > abroad" is not
    assert "level 2: 5 labels, accuracy 0.3333 (flat 0.6667)" in metrics.summary()
    assert task.evaluate(list(np.log(rows)), targets).to_dict()["levels"][0]["labels"] == 3
    new = task.with_unknown(["card > new"])
    assert isinstance(new, Classification)
    found = new.evaluate(list(np.log(rows)), new.targets(["card > new"] * 3)).levels
    assert [level.accuracy for level in found] == pytest.approx([2 / 3, 0, 0])  # its top is known


@pytest.mark.parametrize("seed", range(4))
def test_the_threshold_counts_the_deepest_certain_answer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rule = DecisionRule(levels=SEPARATOR).of(NAMES)
    probabilities = rng.dirichlet(np.full(6, 0.5), 200)
    targets = np.array([rng.choice(6, p=row) for row in probabilities])
    answers, certainty = answers_by_level(probabilities, rule)
    right = answers == targets_by_level(targets, rule)
    found = choose_abstention(right, certainty, wanted=0.8)
    reached = {}
    for threshold in np.unique(certainty):
        depth = (certainty >= threshold).sum(1)
        answered = depth > 0
        hits = right[answered, depth[answered] - 1].sum()
        if hits / (answered.sum() + 1) >= 0.8:
            reached[answered.mean()] = hits / answered.sum()
    assert found.threshold is not None
    assert found.coverage == max(reached)
    depth = (certainty >= found.threshold).sum(1)
    answered = depth > 0
    assert right[answered, depth[answered] - 1].mean() == pytest.approx(found.accuracy)


@pytest.mark.parametrize(
    ("names", "label", "problem"),
    [
        (("card", "loan"), "card", "no label has ' > ' in it"),
        (("card > lost", "card"), "card", "above another label, 'card > lost'"),
        (("a > b > c", "a > b", "d"), "a > b", "'a > b > other'"),
        (("card > ", "loan > new"), "card > ", "a level has no name"),
        (("card >  > lost", "loan"), "card >  > lost", "a level has no name"),
        (("card >  lost", "loan > new"), "card >  lost", "blanks around"),
    ],
)
def test_labels_without_a_place(names: tuple[str, ...], label: str, problem: str) -> None:
    found = dict(level_problems(names, SEPARATOR))
    assert problem in found[label]
    assert not dict(level_problems(NAMES, SEPARATOR))
