"""Tags of words and answers to questions: those of the other engine, and of the algorithms in Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from mixling import Prediction, Predictor
from mixling.runtime import NativeEngine, load_native

from .test_ngrams import PLAIN, changed, metadata, with_branch

TAGS = {"kind": "iob", "names": ["O", "B-a", "I-a"]}
TAGGERS: list[dict[str, Any]] = [
    {"preset": "mixling-tiny"},
    {"preset": "mixling-tiny", "text": {"max_len": 5, "contractions": True}, "final_norm": True, "dim": 24},
    {"preset": "pnlp-mixer-x-small"},
    {"preset": "projection-only"},
]


SUBWORDS = {"tokens": "subwords", "projection": {"type": "subwords", "num_features": None}}


def predictors(content: bytes, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[Predictor, Predictor]:
    """One with the native engine, one with the other."""
    monkeypatch.setenv("MIXLING_ENGINE", "onnx")
    other = Predictor(content, **options)
    monkeypatch.setenv("MIXLING_ENGINE", "native")
    predictor = Predictor(content, **options)
    assert predictor.engine.startswith("native (")
    return predictor, other


def native_of(predictor: Predictor) -> NativeEngine:
    assert predictor._inference.native is not None
    return predictor._inference.native


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["int8", "float32"])
@pytest.mark.parametrize("changes", TAGGERS, ids=str)
def test_taggers(
    export: Callable[..., bytes], texts: list[str], monkeypatch: pytest.MonkeyPatch, changes: dict, precision: str
) -> None:
    predictor, other = predictors(export(task="tagging", precision=precision, **changes), monkeypatch)
    chosen = texts[: 300 if changes is TAGGERS[0] else 100]
    found = list(predictor.predict_stream(chosen))
    expected = list(other.predict_stream(chosen))
    logits, read = native_of(predictor).logits(chosen)
    # An empty text has one row of the other engine, of no word.
    wanted = [row[: len(own)] for row, own in zip(other.logits(other.tokenize(chosen)), logits, strict=True)]
    scale = float(np.ptp(np.concatenate(wanted)))
    np.testing.assert_allclose(
        np.concatenate(logits), np.concatenate(wanted), rtol=0, atol=1e-4 if precision == "float32" else 0.015 * scale
    )
    different = words = 0
    for text, one, two, row, item in zip(chosen, found, expected, logits, read, strict=True):
        assert (one.tokens, one.truncated, one.empty) == (two.tokens, two.truncated, two.empty)
        assert one == predictor.predict_one(text), "an answer depends on the texts beside it"
        if len(row):
            assert item.tags.tolist() == predictor.task.best_tags(row).tolist()  # type: ignore[attr-defined, union-attr]
        different += sum(a != b for a, b in zip(one.tags or (), two.tags or (), strict=True))
        words += len(one.tags or ())
        if one.tags == two.tags:
            spans = [[(span.label, span.start, span.end) for span in item.spans or ()] for item in (one, two)]
            assert spans[0] == spans[1]
    assert different <= (0 if precision == "float32" else 0.02 * words), f"{different} of {words} tags"
    assert len({tag for item in found for tag in item.tags or ()}) > 2


def split_texts(texts: list[str]) -> list[Any]:
    """Lists of words, some of which no text has: of spaces and signs, empty, long, of characters that are none."""
    odd = [
        "",
        " ",
        "a film",
        "\x00",
        "x\x00y",
        "\ufeffa",
        "\ud800",
        "a\udfffb",
        "it's",
        "x" * 300,
        "Ça",
        "é\u0301 ",
        "ΟΔΟΣ",
    ]
    chance = np.random.default_rng(1)
    lists = [
        list(chance.choice(np.array([*odd, "what", "film"], object), size)) for size in (1, 1, 2, 5, 6, 30, 70) * 4
    ]
    return [[], [""], ["", ""], [""] * 20, ["\x00"], *lists, *(text.split(" ") for text in texts[:60])]


@pytest.mark.parametrize(
    "changes",
    [
        {"task": "tagging"},
        {"task": "tagging", "text": {"max_len": 5}, "too_long": "truncate"},
        {"task": "tagging", "text": SUBWORDS | {"max_len": 9}},
        {"text": {"max_len": 7}},
        {"text": {"max_len": 7}, "branch": True},
        {"text": SUBWORDS | {"max_len": 6}},
        {"preset": "pnlp-mixer-x-small", "task": "regression"},
    ],
    ids=str,
)
def test_lists_of_words_are_read_as_by_the_other_engine(
    export: Callable[..., bytes], texts: list[str], monkeypatch: pytest.MonkeyPatch, changes: dict
) -> None:
    options = {"preset": "mixling-tiny", "precision": "float32"} | changes
    branch, too_long = options.pop("branch", False), options.pop("too_long", "windows")
    content = export(**options)
    content = with_branch(content, PLAIN, 3) if branch else content
    predictor, other = predictors(content, monkeypatch, too_long=too_long)
    chosen = [*split_texts(texts), *texts[:20]]
    for text, one, two in zip(chosen, predictor.text_logits(chosen), other.text_logits(chosen), strict=True):
        np.testing.assert_allclose(one, two[: len(one)], rtol=0, atol=1e-5, err_msg=ascii(text))
        assert len(one) == len(two) or not "".join(text).strip()
    for text, one, two in zip(chosen, predictor.predict_stream(chosen), other.predict_stream(chosen), strict=True):
        assert (one.tokens, one.tags, one.truncated, one.empty) == (two.tokens, two.tags, two.truncated, two.empty)
        if one.spans is not None:
            spans = [[(span.label, span.start, span.end) for span in item.spans or ()] for item in (one, two)]
            assert spans[0] == spans[1], ascii(text)


def test_lists_of_words_of_more_than_a_million_characters_are_cut(
    export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor, other = predictors(export(preset="mixling-tiny", task="tagging"), monkeypatch)
    words = ["what"] * (1 << 20) + [""] * 3
    for number in (209_714, 209_715, 209_716):
        text = words[:number]
        one, two = predictor.predict_one(text), other.predict_one(text)
        assert (one.truncated, len(one.tags or ())) == (two.truncated, len(two.tags or ()))


def test_a_tagger_refuses_pairs(export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    from mixling import DataError

    for predictor in predictors(export(preset="mixling-tiny", task="tagging"), monkeypatch):
        with pytest.raises(DataError, match="pair of texts"):
            predictor.predict_one(("what", "a film"))


@pytest.mark.parametrize("precision", ["int8", "float32"])
@pytest.mark.parametrize("pairs", [False, True])
def test_vectors_of_texts(
    export: Callable[..., bytes], texts: list[str], monkeypatch: pytest.MonkeyPatch, precision: str, pairs: bool
) -> None:
    content = export(preset="mixling-tiny", precision=precision, pairs=pairs, text={"max_len": 9})
    predictor, other = predictors(content, monkeypatch)
    chosen: list[Any] = [*texts[:100], *([] if pairs else split_texts(texts)[:30])]
    chosen = list(zip(chosen, chosen[3:], strict=False)) if pairs else chosen
    found, expected = predictor.encode(chosen), other.encode(chosen)
    assert found.shape == expected.shape
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=(1e-6 if precision == "float32" else 2e-3) * np.ptp(expected)
    )


def test_a_branch_is_of_texts(export: Callable[..., bytes]) -> None:
    engine, reason = load_native(with_branch(export(preset="mixling-tiny", task="tagging"), PLAIN, 6))
    assert engine is None
    assert reason == "it has an n-gram branch for a task that is not built here"


@pytest.mark.parametrize("names", [["B-a", "O", "I-a"], ["O", "B-a", "B-a"], ["O", "B-a\0", "I-a"]])
def test_labels_that_are_no_tags_are_refused(export: Callable[..., bytes], names: list[str]) -> None:
    content = changed(export(preset="mixling-tiny"), metadata(None, task="tagging", labels={**TAGS, "names": names}))
    engine, reason = load_native(content)
    assert engine is None
    assert "tag" in reason or "NUL" in reason


@pytest.mark.parametrize(
    "reading", [None, {}, {"max_question": 0, "max_answer": 1}, {"max_question": 1, "max_answer": 1001}]
)
def test_readings_that_are_none_are_refused(export: Callable[..., bytes], reading: dict | None) -> None:
    content = changed(export(preset="mixling-tiny", task="question_answering"), metadata(None, reading=reading))
    engine, reason = load_native(content)
    assert engine is None
    assert "reading configuration" in reason or "how questions are answered" in reason


def test_answers_of_huge_logits_have_probabilities(
    export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def enlarge(model: Any) -> None:
        plan = json.loads(next(item.value for item in model.metadata_props if item.key == "native"))
        name = plan["output"][1][0]
        bias = next(item for item in model.graph.initializer if item.name == name)
        bias.CopyFrom(numpy_helper.from_array(np.full(2, 1e30, np.float32), name))

    content = export(preset="mixling-tiny", task="question_answering", precision="float32")
    predictor, other = predictors(changed(content, enlarge), monkeypatch)
    for pair in contexts()[5:8]:
        found, expected = predictor.predict_one(pair).answer, other.predict_one(pair).answer
        assert found is not None
        assert expected is not None
        assert 0 < found.score <= 1
        assert found.score == pytest.approx(expected.score)


def contexts() -> list[tuple[str, str]]:
    """Questions and contexts of no words, of many windows, with words that are too long, and of hard characters."""
    rng = np.random.default_rng(0)
    words = ["what", "a", "film", "un", "be", "lievable", "ça", "alors", "don't", "ΟΔΟΣ", "quick", "你好", "é"]
    long = [" ".join(rng.choice(words, size)) for size in (3, 40, 41, 42, 300)]
    return [
        ("", ""), ("what", ""), ("", "what a film"), ("?", " \x00"), ("who " * 90, "what a film " * 30),
        *(("what film?", text) for text in long), ("what " * 5, "x" * 1000 + " " + "y" * 250 + "é"),
        ("a\ud800", "\udfff b\u0301 🫨🙂"), ("ΟΔΟΣ isn't", "οδος it isn't, n't" * 9),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"preset": "mixling-tiny", "text": {"max_len": 32}},
        {
            "preset": "mixling-tiny",
            "text": {"max_len": 8},
            "reading": {"stride": 1, "max_question": 2, "max_answer": 2},
        },
        {"preset": "mixling-mixer", "text": {"max_len": 40, "contractions": True}, "pairs": True},
    ],
    ids=str,
)
def test_answers(export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, changes: dict) -> None:
    predictor, other = predictors(export(task="question_answering", **changes), monkeypatch)
    pairs = contexts()
    answers = set()
    for pair, one, two in zip(pairs, predictor.predict_stream(pairs), other.predict_stream(pairs), strict=True):
        assert one.answer is not None
        assert two.answer is not None
        assert (one.truncated, one.answer.start, one.answer.end) == (two.truncated, two.answer.start, two.answer.end)
        assert one.answer.text == two.answer.text
        assert one.answer.score == pytest.approx(two.answer.score, rel=1e-4)
        assert one == predictor.predict_one(pair)
        answers.add(one.answer.text)
    assert len(answers) > 6


def test_a_context_of_many_windows_does_not_grow_the_table(export: Callable[..., bytes]) -> None:
    from mixling.native._core import Model

    content = export(preset="mixling-tiny", task="question_answering", text={"max_len": 32})
    context = " ".join(f"w{i % 997}" for i in range(5000))
    small, large = (NativeEngine(Model(content, size, 1)).answer(("w1 w2?", context)) for size in (0, 64 << 20))
    assert small == large


def test_predictions_are_complete(export: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    predictor, other = predictors(export(preset="mixling-tiny", task="tagging"), monkeypatch)
    text = "what a film, un be lievable!"
    one, two = predictor.predict(text), other.predict(text)
    assert isinstance(one, Prediction)
    assert isinstance(two, Prediction)
    assert one.spans
    for a, b in zip(one.spans, two.spans or (), strict=True):
        assert (a.label, a.start, a.end) == (b.label, b.start, b.end)
        assert a.score == pytest.approx(b.score, abs=1e-5)
