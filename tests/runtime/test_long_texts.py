"""Texts above the maximum: windows one by one through the model, pooled and stitched by loops."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from mixling import PRESETS, ConfigError, DataError, Dataset, Example, ModelConfig, Predictor, Vocabulary, build_model
from mixling.answers import LabelSet
from mixling.config import merge, parse
from mixling.data import TextSet
from mixling.export import export_onnx
from mixling.models import Model, TorchNetwork
from mixling.training import predict_logits
from mixling.training.long_texts import find_long_texts

MAX_LEN = 8
WORDS = "play some music by the beatles what is weather in paris tomorrow book a table for two".split()  # noqa: SIM905
LABELS = {
    "classification": LabelSet(("a", "b", "c"), "single"),
    "multi_label": LabelSet(("a", "b", "c"), "multi"),
    "regression": LabelSet(("value",), "number", {"mean": 2.0, "deviation": 1.5}),
    "tagging": LabelSet(("O", "B-x", "I-x", "B-y", "I-y"), "iob"),
}


def export(task: str, *, pairs: bool = False, **text: Any) -> bytes:
    return build(task, pairs=pairs, **text)[1]


def build(task: str, *, pairs: bool = False, **text: Any) -> tuple[Model, bytes]:
    per_word = task == "tagging"
    preset = "mixling-mixer" if per_word else "mixling-tiny"
    config = parse(
        ModelConfig, merge(PRESETS[preset].config.to_dict(), {"text": {"max_len": MAX_LEN, **text}}), where=preset
    )
    output = "tokens" if per_word else "text"
    model = build_model(config, num_outputs=len(LABELS[task]), output=output, seed=3)
    vocabulary = Vocabulary.train(WORDS * 3, size=100)
    return model, export_onnx(
        TorchNetwork(model), text=config.text, task=task, labels=LABELS[task],
        vocabulary=vocabulary, precision="float32", pairs=pairs
    )  # fmt: skip


@pytest.fixture(scope="module")
def classifier() -> bytes:
    return export("classification")


@pytest.fixture(params=["native", "onnx"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MIXLING_ENGINE", request.param)
    return request.param


def texts() -> list[str]:
    """Of 0 to 40 words, half of them above the maximum."""
    random = np.random.default_rng(1)
    return [" ".join(random.choice(WORDS, size)) for size in (3, 8, 9, 15, 16, 17, 40, 0, 25)]


def windows(text: str) -> list[str]:
    words = text.split()
    firsts = [*range(0, max(len(words) - MAX_LEN, 0), MAX_LEN), max(len(words) - MAX_LEN, 0)]
    return [" ".join(words[first : first + MAX_LEN]) for first in firsts]


@pytest.mark.parametrize("task", ["classification", "multi_label", "regression"])
def test_windows_are_pooled(task: str, engine: str) -> None:
    content = export(task)
    predictor, truncating = Predictor(content), Predictor(content, too_long="truncate")
    rows = texts()
    expected = []
    for text in rows:
        parts = np.stack(truncating.text_logits(windows(text)))
        expected.append(parts.mean(0))
    np.testing.assert_allclose(predictor.text_logits(rows), expected, rtol=1e-5, atol=1e-6)
    assert not np.allclose(truncating.text_logits(rows), expected, atol=1e-3)
    answers = [predictor.predict(rows), list(map(predictor.predict_one, rows))]
    assert not any(answer.truncated for some in answers for answer in some)
    if task == "classification":
        assert [answer.label for answer in answers[0]] == ["abc"[row.argmax()] for row in expected]
        assert predictor.json_lines(rows)[6].startswith(f'{{"label": "{answers[0][6].label}"')
    for one, other in zip(*answers, strict=True):
        assert (one.probabilities or {}) == pytest.approx(other.probabilities or {}, abs=1e-6)
        assert one.value == pytest.approx(other.value, abs=1e-6)
    again = pickle.loads(pickle.dumps(truncating))
    assert again.predict_one(rows[6]).truncated


def test_tags_are_stitched() -> None:
    content = export("tagging")
    predictor, truncating = Predictor(content), Predictor(content, too_long="truncate")
    for text in texts():
        words = text.split()
        answer = predictor.predict_one(text)
        assert answer.tokens == tuple(words)
        assert len(answer.tags or ()) == len(words)
        found = predictor.text_logits([words])[0]
        if len(words) <= MAX_LEN:
            continue
        # Windows overlap by two words; each word is read where it is furthest from the ends.
        firsts = [0]
        while firsts[-1] + MAX_LEN < len(words):
            firsts.append(firsts[-1] + MAX_LEN - 2)
        firsts[-1] = len(words) - MAX_LEN
        parts = [truncating.text_logits([words[first : first + MAX_LEN]])[0] for first in firsts]
        for word, row in enumerate(found):
            inside = [(first, part) for first, part in zip(firsts, parts, strict=True) if 0 <= word - first < MAX_LEN]
            distance = [
                min(word - first if first else 99, first + MAX_LEN - 1 - word if first != firsts[-1] else 99)
                for first, _ in inside
            ]
            candidates = [
                part[word - first] for (first, part), far in zip(inside, distance, strict=True) if far == max(distance)
            ]
            assert any(np.allclose(row, candidate, atol=1e-5) for candidate in candidates)
        for span in answer.spans or ():
            assert text[span.start : span.end].strip() == text[span.start : span.end]
        assert len(truncating.predict_one(text).tokens or ()) == MAX_LEN


def test_pairs_are_read_to_the_end() -> None:
    predictor = Predictor(export("classification", pairs=True))
    truncating = Predictor(predictor.content, too_long="truncate")
    pair = (" ".join(WORDS), "what is")
    parts = truncating.text_logits([(" ".join(WORDS[first : first + 5]), "what is") for first in (0, 5, 10, 12)])
    np.testing.assert_allclose(predictor.text_logits([pair])[0], np.mean(parts, axis=0), atol=1e-5)


def test_long_texts_can_be_refused(classifier: bytes, engine: str) -> None:
    predictor = Predictor(classifier, too_long="error")
    rows = texts()
    assert predictor.predict_one(rows[0]).label is not None
    with pytest.raises(
        DataError, match=r"item 2 is longer than the model reads at a time, 8 words.*too_long='windows'"
    ):
        predictor.predict(rows)
    with pytest.raises(DataError, match="item 0 is longer"):
        predictor.predict_one(rows[2])
    with pytest.raises(ConfigError, match="too_long: got 'cut'; allowed: windows, truncate, error"):
        Predictor(classifier, too_long="cut")


def test_a_word_that_is_too_long_is_still_cut(classifier: bytes, engine: str) -> None:
    text = "play " + "x" * 300
    one, other = (Predictor(classifier, too_long=value).predict_one(text) for value in ("windows", "truncate"))
    assert one.truncated
    assert one.probabilities == pytest.approx(other.probabilities)


@pytest.mark.parametrize(
    ("task", "form", "tokens"),
    [
        ("classification", "text", "words"),
        ("classification", "text", "subwords"),
        ("regression", "text", "words"),
        ("classification", "pair", "words"),
        ("tagging", "words", "words"),
        ("tagging", "words", "subwords"),
    ],
)
def test_training_evaluates_what_a_predictor_reads(task: str, form: str, tokens: str) -> None:
    model, content = build(task, pairs=form == "pair", tokens=tokens)
    network = TorchNetwork(model)
    predictor = Predictor(content)
    rows: list[Any] = [text for text in texts() if text]
    rows = [(text, "what is") if form == "pair" else text.split() if form == "words" else text for text in rows]
    data = Dataset.from_examples(
        (Example(text, None, "rows", i) for i, text in enumerate(rows)), texts=1 + (form == "pair")
    )
    read = TextSet(data, predictor.encoder)
    long = find_long_texts(read, predictor.task)
    assert len(long.owners) >= 4
    expected = predictor.text_logits(rows)
    for chosen in (np.arange(len(rows)), np.array([6, 0, 7]), np.array([0])):
        found = long.complete(
            predict_logits(network, read, chosen), chosen, predictor.task,
            lambda windows, numbers: predict_logits(network, windows, numbers),
        )  # fmt: skip
        assert len(found) == len(chosen)
        for ours, index in zip(found, chosen.tolist(), strict=True):
            np.testing.assert_allclose(ours, expected[index], atol=1e-5)
    whole = long.complete(
        predict_logits(network, read), None, predictor.task, lambda a, b: predict_logits(network, a, b)
    )
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(whole, expected, strict=True))
