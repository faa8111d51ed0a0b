"""What the native engine makes of logits by itself: windows of long texts, predictions, lines of JSON."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

from mixling import PRESETS, ModelFileError, Prediction, Predictor, Vocabulary, build_model
from mixling.answers import LabelSet
from mixling.answers.decoding import LabelDecoder
from mixling.export import export_onnx
from mixling.models import TorchNetwork
from mixling.native._core import Model
from mixling.runtime import NativeEngine

from .test_ngrams import PLAIN, with_branch

MAX_LEN = 7


def engines(content: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[Predictor, Predictor]:
    """Predictors with the native engine and with the other one."""
    monkeypatch.setenv("MIXLING_ENGINE", "onnx")
    other = Predictor(content)
    monkeypatch.setenv("MIXLING_ENGINE", "native")
    return Predictor(content), other


def long_texts(texts: list[str]) -> list[str]:
    """Texts of a few windows, which end at contractions, long words, characters that are none, and in white space."""
    rng = np.random.default_rng(0)
    short = [text for text in texts if len(text) < 200]
    made = [" ".join(rng.choice(np.array(short, object), rng.integers(1, 6))) for _ in range(150)]
    endings = [
        "don't " * 5,
        "n't " * 20,
        "it's we'll " * 9,
        "x" * 300 + " a" * 30,
        "a " * 30 + "x" * 300,
        "\ud800 " * 20,
    ]
    spaces = [" " * 5000 + "a b " * 20, "a b " * 3 + " " * 5000 + "c d " * 6, "a " * MAX_LEN, "a " * (MAX_LEN + 1)]
    return made + endings + spaces


@pytest.mark.parametrize("contractions", [False, True])
@pytest.mark.parametrize("branch", [False, True])
def test_long_texts_are_read_in_the_windows_of_the_other_engine(
    export: Callable[..., bytes], texts: list[str], monkeypatch: pytest.MonkeyPatch, contractions: bool, branch: bool
) -> None:
    content = export("mixling-tiny", text={"max_len": MAX_LEN, "contractions": contractions})
    native, other = engines(with_branch(content, PLAIN, 3) if branch else content, monkeypatch)
    chosen = long_texts(texts)
    assert native._inference.native is not None
    np.testing.assert_allclose(native.text_logits(chosen), other.text_logits(chosen), rtol=0, atol=1e-5)
    found, expected = native.predict(chosen), other.predict(chosen)
    assert [(item.truncated, item.empty) for item in found] == [(item.truncated, item.empty) for item in expected]
    assert 2 < sum(item.truncated for item in found) < len(found) / 2
    assert [item.truncated for item in Predictor(content, too_long="truncate").predict(chosen)] != [
        item.truncated for item in found
    ]


def test_a_text_of_more_than_a_million_characters_is_cut(export: Callable[..., bytes]) -> None:
    content = export("mixling-tiny")
    text = "what a film " * 87_382  # 1,048,584 characters
    found, shorter = Predictor(content).predict([text, text[: 1 << 20]])  # type: ignore[misc]
    assert found.truncated
    assert not shorter.truncated
    assert found.probabilities == shorter.probabilities


SUBWORDS = {"tokens": "subwords", "projection": {"type": "subwords", "num_features": None}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"pairs": True, "text": {"max_len": MAX_LEN}},
        {"pairs": True, "text": {"max_len": 8}},
        {"pairs": True, "text": SUBWORDS | {"max_len": 9}},
        {"text": SUBWORDS | {"max_len": 7}},
        {"text": {"max_len": 1}},
    ],
    ids=str,
)
def test_long_pairs_and_subwords(
    export: Callable[..., bytes], texts: list[str], monkeypatch: pytest.MonkeyPatch, changes: dict
) -> None:
    native, other = engines(export("mixling-tiny", precision="float32", **changes), monkeypatch)
    chosen: list = [*long_texts(texts), *(f"{'unbelievable ' * (i % 5)} a {'x' * i}" for i in range(40))]
    if changes.get("pairs"):
        chosen = [*zip(chosen, chosen[7:], strict=False), *zip(chosen[90:], chosen, strict=False)]
    np.testing.assert_allclose(native.text_logits(chosen), other.text_logits(chosen), rtol=0, atol=1e-5)
    found, expected = ([(item.truncated, item.empty) for item in one.predict(chosen)] for one in (native, other))
    assert found == expected
    if changes.get("pairs"):
        assert len(set(found)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"max_len": 8}, {"max_len": 12, "contractions": True}, SUBWORDS | {"max_len": 9}])
def test_long_texts_are_tagged_in_windows(
    export: Callable[..., bytes], texts: list[str], monkeypatch: pytest.MonkeyPatch, changes: dict
) -> None:
    native, other = engines(export("mixling-tiny", task="tagging", precision="float32", text=changes), monkeypatch)
    chosen, length = long_texts(texts), 0
    for text, one, two in zip(chosen, native.text_logits(chosen), other.text_logits(chosen), strict=True):
        if text.strip():
            np.testing.assert_allclose(one, two[: len(one)], rtol=0, atol=1e-5)
    for one, two in zip(native.predict_stream(chosen), other.predict_stream(chosen), strict=True):
        assert (one.tokens, one.tags, one.truncated, one.empty) == (two.tokens, two.tags, two.truncated, two.empty)
        length = max(length, len(one.tokens or ()))
    assert length > 50


def test_predictions_are_those_of_the_decoder(export: Callable[..., bytes], texts: list[str]) -> None:
    predictor = Predictor(export("mixling-tiny"))
    native = predictor._inference.native
    assert native is not None
    logits, read = native.logits(texts, to_end=True)
    decoder = LabelDecoder(native.labels)
    expected = decoder.decode_many(list(np.asarray(logits)), read)
    found = predictor.predict(texts)
    for item, other in zip(found, expected, strict=True):
        assert item.to_dict() == other.to_dict() | {"probabilities": pytest.approx(other.probabilities, rel=1e-14)}
    assert {(item.truncated, item.empty) for item in found} == {(False, False), (True, False), (False, True)}
    restored = pickle.loads(pickle.dumps(predictor.predict(texts)))
    assert restored == found
    assert [repr(item) for item in restored] == [repr(item) for item in predictor.predict(texts)]
    assert [predictor.predict_one(text) for text in texts[:20]] == found[:20]
    assert predictor.json_lines(texts) == decoder.json_lines(np.asarray(logits), read)
    assert predictor.predict([]) == []
    assert all(type(item) is Prediction for item in found)


def test_probabilities_of_lines_have_the_digits_of_python(export: Callable[..., bytes]) -> None:
    model = Model(with_branch(export("mixling-tiny"), PLAIN, 3), 0, 1)
    count = 0
    for text in (f"{a} {b}" for a in PLAIN for b in PLAIN):
        logits = np.frombuffer(model.predict([text], True)[0], np.float32).astype(float)
        values = np.exp(logits - logits.max())
        expected = "".join(f"|{value:.6f}" for value in values / values.sum())
        assert model.lines([text], True, (b"",) * 3, (b"|",) * 3, (b"",) * 4) == [expected]
        count += 1
    assert count > 20


def scaled(precision: str, factors: dict[str, float]) -> bytes:
    """A tiny model of which the parameters whose names end so are multiplied."""
    import torch

    config = PRESETS["mixling-tiny"].config
    model = build_model(config, num_outputs=3, output="text", seed=3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter *= next((factor for end, factor in factors.items() if name.endswith(end)), 1.0)
    return export_onnx(
        TorchNetwork(model), text=config.text, task="classification", labels=LabelSet(("a", "b", "c"), "single"),
        vocabulary=Vocabulary.train(" ".join(PLAIN).split() * 3, size=100), precision=precision,
    )  # fmt: skip


def test_logits_that_are_not_finite_are_refused() -> None:
    predictor = Predictor(scaled("float32", {"spread": 1e30, "output.weight": 1e30}))
    assert predictor.engine.startswith("native (")
    for call in (
        predictor.predict_one,
        lambda text: predictor.predict([text]),
        lambda text: predictor.json_lines([text]),
    ):
        with pytest.raises(ModelFileError, match="not finite"):
            call("what a film")


@pytest.mark.parametrize(
    "factors",
    [
        {"expand.weight": 1e6, "expand.bias": 1e6, "contract.weight": 1e-6},
        {"embedding.weight": 1e6, "embedding.bias": 1e6, "contract.weight": 1e6},
        {"embedding.weight": 1e-4, "embedding.bias": 1e-4, "contract.weight": 1e-4},
    ],
)
def test_values_beyond_the_range_of_half_precision(
    texts: list[str], monkeypatch: pytest.MonkeyPatch, factors: dict[str, float]
) -> None:
    native, other = engines(scaled("int8", factors), monkeypatch)
    expected = np.stack(other.text_logits(texts[:200]))
    np.testing.assert_allclose(native.text_logits(texts[:200]), expected, rtol=0, atol=0.015 * np.ptp(expected))


def test_arguments_of_the_module_are_checked(export: Callable[..., bytes]) -> None:
    model = Model(export("mixling-tiny"), 0, 1)
    for kind, message in ((3, "must be type"), (str, "has no attribute 'label'")):
        with pytest.raises((TypeError, AttributeError), match=message):
            model.decider(kind, False)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="with slots"):
        model.decider(type("Named", (), {"label": 1}), False)
    decide = model.decider(Prediction, False)
    for other in (3, None, ("a", "b"), b"a", ["a", 3], [["a"]], ["a"] * 4097, np.str_("a"), [np.str_("a")]):
        assert decide(other) is None
    assert decide([]) == []
    for arguments in ((), ("a", "b")):
        with pytest.raises(TypeError):
            decide(*arguments)
    assert decide("a\udcff") == decide(["a\udcff"] * 2)[1]
    make = decide("a")._make
    for number in (-1, 1):
        with pytest.raises(IndexError, match="no such row"):
            make(number)
    for wrong in ((), ("a",) * 3):
        with pytest.raises((TypeError, IndexError)):
            model.lines(["a"], False, wrong, (b"",) * 3, (b"",) * 4)  # type: ignore[arg-type]


@pytest.mark.parametrize("kept", [30, 300])
def test_words_that_are_met_again_are_kept(export: Callable[..., bytes], kept: int) -> None:
    """Tables of some sizes, which have to forget words, give the answers of one that does not."""
    content = with_branch(export("mixling-tiny", precision="int8", text={"max_len": 20}), PLAIN, 3)
    large = NativeEngine(Model(content, 64 << 20, 1))
    texts = [" ".join(["what", f"w{i}", "a", f"w{i // 7}", *(f"x{i * j % 97}" for j in range(9))]) for i in range(500)]
    expected = large.logits(texts)[0]
    for size in (0, kept << 10, kept << 11):
        assert np.array_equal(NativeEngine(Model(content, size, 2)).logits(texts)[0], expected)
