"""The audit of tags: planted wrong spans come first, and each number is what a loop over words gives."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import numpy as np
import pytest

from mixling.data import Dataset, Example
from mixling.tasks import task_type

from ..cli.conftest import Call, call

__all__ = ["call"]


def test_the_worst_words_of_a_sentence_are_its_finding() -> None:
    from mixling.audit import tags_audit

    words = [["to", "New", "York"], ["in", "Rome"], ["at", "noon"]]
    given = [("O", "O", "O"), ("O", "B-city"), ("O", "O")]
    examples = Dataset.from_examples(
        Example(text, tags, "rows", row) for row, (text, tags) in enumerate(zip(words, given, strict=True), 1)
    )
    task = task_type("tagging")
    learned = task(task.label_set(examples))
    assert learned.labels.names == ("O", "B-city", "I-city")
    probabilities = [
        np.array([[0.9, 0.05, 0.05], [0.1, 0.85, 0.05], [0.02, 0.08, 0.9]]),
        np.array([[0.95, 0.03, 0.02], [0.4, 0.5, 0.1]]),
        np.array([[0.97, 0.02, 0.01], [0.8, 0.1, 0.1]]),
    ]
    found = tags_audit(
        learned, [np.asarray(tags) for tags in learned.targets(examples.targets)], probabilities, np.ones(3, bool),
        {"examples": examples, "names": learned.labels.names, "remarks": (), "conflicts": (), "test": None, "leaks": (),
         "leaks_complete": True, "metric": "word_accuracy", "baseline": 0.5, "rare": ()},
    )  # fmt: skip
    # The thresholds are .62 for O and .5 for B-city. No word is I-city: "York" is confidently counted as nothing.
    own = [[row[learned.labels.id(tag)] for row, tag in zip(rows, tags, strict=True)]
           for rows, tags in zip(probabilities, given, strict=True)]  # fmt: skip
    assert found.errors.tolist() == [True, False, False]
    assert found.quality.tolist() == [own[0][1], min(own[1]), min(own[2])]
    (finding,) = found.findings()
    assert finding == (0, own[0][1], "New: B-city", 0.85)
    assert found.label_of(0) == "New: O"
    assert found.mixed_up == (("O", "B-city", 1), ("O", "I-city", 1))


@pytest.mark.slow
def test_planted_wrong_spans_are_found(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("sample", "tags").code == 0
    rows = [json.loads(line) for line in Path("tags.jsonl").read_text("utf-8").splitlines()]
    draw = random.Random(0)
    wrong = draw.sample([number for number, row in enumerate(rows) if len(row["spans"]) > 1], 15)
    for number in wrong:
        spans = rows[number]["spans"]
        span = draw.choice(spans)
        if draw.random() < 0.5:
            spans.remove(span)
        else:
            span[2] = draw.choice(sorted({"product", "order", "date", "place"} - {span[2]}))
    Path("planted.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    done = call("audit", "planted.jsonl", "--folds", 2, "-o", "report/")
    assert done.code == 0, done.err
    assert "sentences with a tag that the models find improbable" in done.out
    assert "a linear model of words" in done.out
    with Path("report/rows.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert len(found) == len(rows)
    ranked = sorted((row for row in found if row["improbable"] == "1"), key=lambda row: float(row["label_probability"]))
    first = {int(row["line"]) - 1 for row in ranked[:30]}
    assert len(first & set(wrong)) >= 5, (ranked[:30], wrong)  # of 15; by chance it is 1.3
