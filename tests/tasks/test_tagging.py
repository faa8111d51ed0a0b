"""Tags are the most probable legal sequence, found by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mixling.tasks import Tagging
from mixling.text import Encoded, LabelSet

TASK = Tagging(Tagging.tags(["B-city", "B-time"]))
NAMES = TASK.labels.names  # O, B-city, B-time, I-city, I-time


def legal(tags: tuple[str, ...]) -> bool:
    return all(
        not tag.startswith("I-") or (i > 0 and tags[i - 1] in (f"B-{tag[2:]}", tag)) for i, tag in enumerate(tags)
    )


@pytest.mark.parametrize("words", [0, 1, 2, 5])
def test_the_best_legal_sequence_is_that_of_brute_force(words: int) -> None:
    chance = np.random.default_rng(words)
    sequences = [ids for ids in itertools.product(range(5), repeat=words) if legal(tuple(NAMES[i] for i in ids))]
    changed = 0
    for _ in range(60):
        logits = chance.normal(size=(words, 5)).astype(np.float32)
        logits[:, 3:] += 1  # tags within spans are likely
        expected = max(sequences, key=lambda ids: sum(float(logits[i, tag]) for i, tag in enumerate(ids)))
        found = TASK.best_tags(logits)
        assert tuple(found) == expected
        changed += tuple(logits.argmax(-1)) != expected
    assert changed > 10 or words == 0


def test_predictions_and_metrics_have_the_legal_tags() -> None:
    # The greatest logits are O, I-city; the sum of B-city, I-city is greater than that of O, O.
    logits = np.array([[2.0, 1.9, 0, 0, 0], [0.5, 0, 0, 2.0, 0]], np.float32)
    encoded = Encoded(np.array([5, 6], np.int32), [(0, 3), (4, 8)], truncated=False, generation=0)
    found = TASK.decode(logits, encoded, "new york")
    assert found.tags == ("B-city", "I-city")
    assert [(span.label, span.start, span.end) for span in found.spans or ()] == [("city", 0, 8)]
    probabilities = TASK.probabilities(logits)
    assert (found.spans or ())[0].score == pytest.approx((probabilities[0, 1] + probabilities[1, 3]) / 2)
    targets = TASK.targets([("B-city", "I-city")])
    assert TASK.evaluate([logits], targets).span_f1 == 1
    gate = TASK.compare_quantized([logits], [logits + np.array([[0.2, 0, 0, 0, 0], [0] * 5], np.float32)], targets)
    assert gate.changed == 0


def test_a_type_without_a_beginning_is_unconstrained() -> None:
    task = Tagging(LabelSet(("O", "B-a", "I-a", "I-b"), "iob"))
    assert task.best_tags(np.eye(4)[[0, 3, 2]]).tolist() == [0, 3, 0]


def test_unseen_tags_have_no_logits() -> None:
    task = TASK.with_unknown([("B-more", "I-more")])
    assert isinstance(task, Tagging)
    assert task.best_tags(np.eye(5)[[1, 3]]).tolist() == [1, 3]
