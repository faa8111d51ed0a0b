"""Logits of the native engine are those of ONNX Runtime, for each preset and task, alone and in company."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from mixling import Predictor
from mixling.runtime import NativeEngine, open_native

OWN = ("mixling-tiny", "mixling-small", "mixling-mixer", "mixling-base")
PAPER = ("pnlp-mixer-x-small", "pnlp-mixer-small", "pnlp-mixer-base", "pnlp-mixer-large", "projection-only-w4")
TASKS = ("classification", "multi_label", "regression")


def both(content: bytes, texts: list, monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray, Predictor]:
    """The logits of both engines, and a predictor with the native one."""
    monkeypatch.setenv("MIXLING_ENGINE", "onnx")
    other = Predictor(content)
    encoded = other.tokenize(texts)
    expected = np.stack(other.logits(encoded))
    monkeypatch.setenv("MIXLING_ENGINE", "native")
    predictor = Predictor(content)
    assert predictor._inference.native is not None
    got, read = predictor._inference.native.logits(texts)
    assert [(item.truncated, item.is_empty) for item in read] == [(item.truncated, item.is_empty) for item in encoded]
    return got, expected, predictor


def check(content: bytes, texts: list, monkeypatch: pytest.MonkeyPatch, atol: float = 1e-5) -> None:
    got, expected, predictor = both(content, texts, monkeypatch)
    assert np.ptp(expected, axis=0).max() > 0.05, "all texts have the same answer: nothing is compared"
    alone = np.concatenate([predictor._inference.native.logits([text])[0] for text in texts])  # type: ignore[union-attr]
    assert np.array_equal(alone, got), "an answer depends on the texts beside it"
    if predictor.metadata.precision == "int8":  # the hidden layers have 8 bits as well, except with plain instructions
        np.testing.assert_allclose(got, expected, rtol=0, atol=0.015 * np.ptp(expected))
        return
    # float32 of other orders: 1e-5 of short texts, 1e-4 of long ones.
    long = np.array([len(str(text)) > 300 for text in texts])
    np.testing.assert_allclose(got[~long], expected[~long], rtol=0, atol=atol)
    np.testing.assert_allclose(got[long], expected[long], rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["mixling-tiny", "pnlp-mixer-x-small"])
@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_a_small_model(
    export: Callable[..., bytes], texts: list, monkeypatch: pytest.MonkeyPatch, preset: str, precision: str
) -> None:
    check(export(preset, precision=precision), texts, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["int8", "float32"])
@pytest.mark.parametrize("preset", [*OWN, *PAPER])
def test_every_preset(
    export: Callable[..., bytes], texts: list, monkeypatch: pytest.MonkeyPatch, preset: str, precision: str
) -> None:
    check(export(preset, precision=precision), texts[:300], monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("preset", ["mixling-small", "mixling-mixer", "pnlp-mixer-x-small"])
def test_every_task(
    export: Callable[..., bytes], texts: list, monkeypatch: pytest.MonkeyPatch, preset: str, task: str, pairs: bool
) -> None:
    asked = list(zip(texts, texts[5:], strict=False)) if pairs else texts
    check(export(preset, task=task, pairs=pairs), asked[:300], monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"embedding": {"bias": False, "window": 2}, "dim": 24},
        {"final_norm": True, "head": {"pooling": "max"}},
        {"head": {"pooling": "mean"}, "layers": [{"norm": "post", "mixers": [{"type": "token_mlp"}]}]},
        {"head": {"pooling": "attention"}, "layers": [{"feed_forward": {"bias": False, "ffn_dim": 40}}], "dim": 40},
        {"text": {"max_len": 1}},
    ],
)
def test_other_options(
    export: Callable[..., bytes], texts: list, monkeypatch: pytest.MonkeyPatch, changes: dict
) -> None:
    check(export("mixling-tiny", **changes), texts[:300], monkeypatch)


def test_pairs_that_share_words(export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [
        ("What a FILM", "what? ΟΔΟΣ"),
        ("", ""),
        ("οδος a", "ΟΔΟΣ A"),
        ("word " * 300, "b " * 3),
        ("a", "b " * 300),
    ]
    pairs += [("b " * 300, "word " * 300), ("x" * 5000 + "Σ", ("x" * 5000 + "Σ").lower()), ("\ud800", "\udfff \ufffd")]
    check(export("mixling-tiny", pairs=True), pairs, monkeypatch)


def test_predictions_are_the_same_objects(export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIXLING_ENGINE", "onnx")
    content = export("mixling-tiny", precision="float32")
    other = Predictor(content)
    monkeypatch.delenv("MIXLING_ENGINE")
    predictor = Predictor(content)
    assert predictor.engine.startswith("native (")
    assert other.engine == "onnx (MIXLING_ENGINE is onnx)"
    texts = ["what a film", "", "word " * 300, ["given", "as", "words"], "ça"]
    for got, expected in zip(predictor.predict(texts), other.predict(texts), strict=True):
        assert (got.label, got.truncated, got.empty) == (expected.label, expected.truncated, expected.empty)
        assert got.probabilities == pytest.approx(expected.probabilities, abs=1e-6)
    np.testing.assert_allclose(predictor.predict_proba(texts[:3]), other.predict_proba(texts[:3]), atol=1e-6)
    assert predictor.predict("what a film") == predictor.predict(["what a film"])[0]


def test_a_full_table_is_emptied_and_nothing_changes(export: Callable[..., bytes]) -> None:
    from mixling.native._core import Model

    content = export("mixling-tiny")
    large, small = NativeEngine(Model(content, 64 << 20, 1)), NativeEngine(Model(content, 0, 2))
    texts = [" ".join(f"w{(i * j) % 997}" for j in range(40)) for i in range(200)]
    assert np.array_equal(large.logits(texts)[0], small.logits(texts)[0])


def test_threads_share_a_model(export: Callable[..., bytes], texts: list) -> None:
    engine, _ = open_native(export("mixling-tiny"))
    assert engine is not None
    expected, wrong = engine.logits(texts)[0], []

    def run() -> None:
        for _ in range(3):
            if not np.array_equal(engine.logits(texts)[0], expected):
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
