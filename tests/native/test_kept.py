"""Logits of the texts that keep some of the words of one are those of these texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mixling.runtime import NativeEngine, load_native

from .test_ngrams import PLAIN, with_branch

WORDS = "what a film un be lievable ça alors the quick brown fox jumps over lazy dogs 你 好 οδος xyz".split()  # noqa: SIM905


def engine_of(content: bytes) -> NativeEngine:
    engine, reason = load_native(content)
    assert engine is not None, reason
    return engine


def compare(engine: NativeEngine, words: list[str], kept: np.ndarray) -> None:
    found = engine.kept_logits(" ".join(words), kept)
    assert found is not None
    shortened = [" ".join(word for word, is_kept in zip(words, row, strict=True) if is_kept) for row in kept.tolist()]
    expected = np.asarray(engine.logits(shortened)[0])
    assert np.ptp(expected, axis=0).max() > 0.01
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def all_rows(n: int) -> np.ndarray:
    return (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)


def random_rows(m: int, n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.random((m, n)) < rng.random((m, 1))


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize(
    "changes",
    [
        {"preset": "mixling-small"},
        {"preset": "mixling-tiny", "embedding": {"window": 0}, "head": {"pooling": "mean"}},
        {"preset": "mixling-tiny", "embedding": {"window": 2}, "head": {"pooling": "max"}},
        {"preset": "mixling-tiny", "head": {"pooling": "max"}},
        {"preset": "mixling-tiny", "embedding": {"norm": True}, "head": {"pooling": "attention"}, "final_norm": True},
        {"preset": "pnlp-mixer-x-small"},
        {"preset": "pqrnn", "dim": 40},
    ],
    ids=str,
)
def test_all_texts_of_some_words(export: Callable[..., bytes], changes: dict[str, Any], precision: str) -> None:
    engine = engine_of(export(precision=precision, **changes))
    compare(engine, WORDS[:8], all_rows(8))
    compare(engine, ["a", "film", "a", "film", "a"], all_rows(5))


@pytest.mark.parametrize("labels", [2, 5])
def test_with_a_branch(export: Callable[..., bytes], labels: int) -> None:
    engine = engine_of(with_branch(export(preset="mixling-tiny", classes=labels), PLAIN, 1 if labels == 2 else labels))
    compare(engine, [*WORDS[:6], "a", "film", "a"], all_rows(9))
    for n in (20, 70):  # by what texts have in common, and one after another
        compare(engine, [["a", "film", *WORDS][i % 7 * (i % 3)] for i in range(n)], random_rows(60, n))


def test_more_words_than_are_computed_at_a_time(export: Callable[..., bytes]) -> None:
    engine = engine_of(export(preset="mixling-tiny", precision="float32", text={"max_len": 700}))
    words = [f"{word}{i}" for i in range(50) for word in WORDS[:14]]
    compare(engine, words, random_rows(6, 700))
    compare(engine, words[:40], random_rows(1500, 40))


def test_a_text_whose_scores_are_far_below_those_of_others(export: Callable[..., bytes]) -> None:
    from onnx import ModelProto, numpy_helper

    from mixling.runtime.onnx import seal

    content = export(preset="mixling-tiny", precision="float32", head={"pooling": "attention"})
    proto = ModelProto.FromString(content)
    proto.metadata_props.pop()  # the seal
    (score,) = (item for item in proto.graph.initializer if "score.weight" in item.name)
    score.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(score) * 1000, score.name))
    compare(engine_of(seal(proto.SerializeToString(deterministic=True))), WORDS[:9], all_rows(9))


def test_what_is_left_to_whole_texts(export: Callable[..., bytes]) -> None:
    kept = np.ones((3, 2), bool)
    engine = engine_of(export(preset="mixling-tiny"))
    assert engine.kept_logits("what a", kept) is not None
    assert engine.kept_logits("what a film", kept) is None
    assert engine.kept_logits("", kept) is None
    subwords = {"tokens": "subwords", "projection": {"type": "subwords", "num_features": None}}
    for changes in ({"task": "tagging"}, {"pairs": True}, {"text": subwords}):
        assert engine_of(export(preset="mixling-tiny", **changes)).kept_logits("what a", kept) is None
