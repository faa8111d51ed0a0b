"""Models of more labels than a matrix of weights has room for: n-grams alone, with terms of each label's own."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from mixling import TextClassifier
from mixling.ngrams.many_labels import MANY_LABELS, _heaviest
from mixling.text import stored_bytes, term_bytes

pytest.importorskip("mixling.native._margins", reason="the native module is not built: run `make native`")


def rows_of(labels: int, each: int) -> tuple[list[str], list[str]]:
    draw = random.Random(0)
    common = ["find", "product", "in", "store", "now", "please"]
    pairs = [(f"{' '.join(draw.choices(common, k=3))} item{i} part{i * 7 % 2003}", f"sku{i}") for i in range(labels)]
    pairs = [(f"{text} {draw.choice(common)} {number}", label) for text, label in pairs for number in range(each)]
    return [text for text, _ in pairs], [label for _, label in pairs]


@pytest.mark.slow
def test_each_label_is_known_by_words_of_its_own(tmp_path: Path) -> None:
    texts, labels = rows_of(MANY_LABELS + 100, 3)
    model = TextClassifier(model="mixling-linear", verbose=0).fit(texts, labels)
    model.save(tmp_path / "model")
    assert np.mean(model.predict(texts) == np.array(labels)) > 0.98
    report = json.loads((tmp_path / "model" / "metrics.json").read_text())
    assert report["ngrams"]["mixture_network"] == 0
    assert report["validation"]["confusion"] == []
    assert report["file_bytes"] < 400_000
    assert len(report["validation"]["per_class"]) <= 2 * report["data"]["validation"]


def test_the_weights_that_are_kept_are_the_first_of_each_label_and_then_the_larger() -> None:
    rng = np.random.default_rng(0)
    outputs, each = 300, 7
    labels = np.repeat(np.arange(outputs), each).astype(np.int32)
    terms = rng.integers(0, 500, outputs * each).astype(np.int32)
    matters = rng.random(outputs * each).astype(np.float32)
    matters[labels == 3] = 0
    everything = _heaviest(matters, labels, terms, outputs, None)
    assert sorted(everything) == np.flatnonzero(matters).tolist()
    for size in (3000, 6000, 9000):
        kept = _heaviest(matters, labels, terms, outputs, size)
        assert kept.tolist() == everything[: len(kept)].tolist()

        def bytes_of(number: int) -> int:
            different = len(set(terms[everything[:number]]))
            return 8 * outputs + 200 + term_bytes(different) + stored_bytes(different, number, outputs)

        assert bytes_of(len(kept)) <= size < bytes_of(len(kept) + 1)
    rank = {}
    for index in everything:
        rank[labels[index]] = rank.get(labels[index], -1) + 1
        mine = np.sort(matters[labels == labels[index]])[::-1]
        assert matters[index] == mine[rank[labels[index]]]
