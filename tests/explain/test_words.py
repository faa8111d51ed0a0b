"""Effects of words against predictions for the texts without them, on both engines and for each task."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from mixling import PRESETS, ConfigError, DataError, ModelConfig, Predictor, Vocabulary, build_model  # noqa: E402
from mixling.answers import LabelSet  # noqa: E402
from mixling.config import merge, parse  # noqa: E402
from mixling.export import export_onnx  # noqa: E402
from mixling.models import TorchNetwork  # noqa: E402
from mixling.tasks import task_type  # noqa: E402
from mixling.text import ReadingConfig  # noqa: E402

VOCABULARY = Vocabulary.train(
    ["book", "a", "table", "for", "two", "in", "paris", ",", "don", "'", "t", "be", "late", "!", "naïve", "東", "京"]
    * 3,
    size=100,
)
LABELS = {
    "classification": LabelSet(("bad", "good", "über"), "single"),
    "multi_label": LabelSet(("a", "b", "c"), "multi"),
    "regression": LabelSet(("value",), "number", {"mean": 2.0, "deviation": 1.5}),
    "tagging": LabelSet(("O", "B-x", "I-x"), "iob"),
    "question_answering": LabelSet(("start", "end"), "span"),
}
TEXT = "Book a table, don't be late!"
Make = Callable[..., Predictor]


@pytest.fixture(params=["native", "onnx"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "onnx":
        monkeypatch.setenv("MIXLING_ENGINE", "onnx")
    return str(request.param)


@pytest.fixture(scope="module")
def content() -> Callable[..., bytes]:
    """The bytes of a model with random weights, made once for each task and configuration."""
    made: dict[str, bytes] = {}

    def make(task: str = "classification", *, pairs: bool = False, **text: Any) -> bytes:
        key = repr((task, pairs, text))
        if key not in made:
            changes = {"text": {"max_len": 16, **text}}
            values = merge(PRESETS["pnlp-mixer-x-small"].config.to_dict(), changes)
            values["embedding"]["window"] = values["embedding"]["window"] if task != "question_answering" else 0
            config = parse(ModelConfig, values, where="test")
            output = "tokens" if task in ("tagging", "question_answering") else "text"
            model = build_model(config, num_outputs=len(LABELS[task]), output=output, seed=3)
            made[key] = export_onnx(
                TorchNetwork(model), text=config.text, task=task, labels=LABELS[task],
                vocabulary=VOCABULARY, precision="float32",
                pairs=pairs, reading=ReadingConfig() if task_type(task).windows else None,
            )  # fmt: skip
        return made[key]

    return make


def log_odds(predictor: Predictor, text: Any, label: str) -> float:
    found = predictor.predict_one(text).probabilities
    assert found is not None
    return float(np.log(found[label] / (1 - found[label])))


def test_leaving_a_word_out_is_predicting_the_text_without_it(content: Callable[..., bytes], engine: str) -> None:
    predictor = Predictor(content())
    assert predictor.engine.startswith(engine)
    explanation = predictor.explain(TEXT, method="leave_one_out")
    label = predictor.predict_one(TEXT).label
    assert label is not None
    assert (explanation.target, explanation.method, explanation.truncated) == (label, "leave_one_out", False)
    assert [word.word for word in explanation.words] == ["Book", "a", "table", ",", "don", "'", "t", "be", "late", "!"]
    assert all(TEXT[word.start : word.end] == word.word for word in explanation.words)
    assert explanation.score == pytest.approx(log_odds(predictor, TEXT, label), abs=1e-5)
    assert explanation.probability == pytest.approx(predictor.predict_one(TEXT).probabilities[label])  # type: ignore[index]
    assert explanation.base == pytest.approx(log_odds(predictor, "", label), abs=1e-5)
    for word in explanation.words:
        without = log_odds(predictor, f"{TEXT[: word.start]} {TEXT[word.end :]}", label)
        assert word.effect == pytest.approx(explanation.score - without, abs=1e-5)


def test_exact_values_equal_brute_force_and_sum_to_the_difference(content: Callable[..., bytes], engine: str) -> None:
    predictor, text = Predictor(content()), "book late for paris"
    words, n = text.split(), 4
    value = {
        chosen: log_odds(predictor, " ".join(words[i] for i in chosen), "bad")
        for size in range(n + 1)
        for chosen in itertools.combinations(range(n), size)
    }
    expected = np.zeros(n)
    for order in itertools.permutations(range(n)):
        for rank, player in enumerate(order):
            before, after = tuple(sorted(order[:rank])), tuple(sorted(order[: rank + 1]))
            expected[player] += (value[after] - value[before]) / 24
    explanation = predictor.explain(text, target="bad", method="shapley")
    assert explanation.method == "shapley"
    np.testing.assert_allclose([word.effect for word in explanation.words], expected, atol=1e-5)
    total = sum(word.effect for word in predictor.explain(TEXT, target="bad", method="shapley").words)
    difference = log_odds(predictor, TEXT, "bad") - log_odds(predictor, "", "bad")
    assert total == pytest.approx(difference, abs=1e-5)


def test_longer_texts_are_sampled(content: Callable[..., bytes], engine: str) -> None:
    predictor, text = Predictor(content()), f"{TEXT} {TEXT[:6]}"
    first, again = (predictor.explain(text, method="shapley", evaluations=200) for _ in range(2))
    other = predictor.explain(text, method="shapley", evaluations=200, seed=1)
    assert first == again != other
    assert first.method == "sampled_shapley"
    assert sum(word.effect for word in first.words) == pytest.approx(first.score - first.base, abs=1e-5)


def test_the_method_is_chosen_by_the_number_of_words(content: Callable[..., bytes]) -> None:
    predictor = Predictor(content(max_len=80))
    methods = {count: predictor.explain("late " * count, evaluations=1).method for count in (10, 11, 64, 65)}
    assert methods == {10: "shapley", 11: "sampled_shapley", 64: "sampled_shapley", 65: "leave_one_out"}


def test_engines_agree(content: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    native = Predictor(content()).explain(TEXT)
    monkeypatch.setenv("MIXLING_ENGINE", "onnx")
    onnx = Predictor(content()).explain(TEXT)
    assert [word.word for word in native.words] == [word.word for word in onnx.words]
    np.testing.assert_allclose(
        [word.effect for word in native.words], [word.effect for word in onnx.words], atol=1e-4
    )  # fmt: skip


@pytest.mark.parametrize("changes", [{}, {"tokens": "subwords"}], ids=["words", "subwords"])
def test_words_beyond_the_models_length_never_move_into_it(content: Callable[..., bytes], changes: Any) -> None:
    predictor = Predictor(content(**changes), too_long="truncate")
    text = " ".join(["book", "late"] * 10)
    explanation = predictor.explain(text, method="leave_one_out")
    read = len(explanation.words)
    assert explanation.truncated
    assert 1 < read <= 16
    label = str(explanation.target)
    assert explanation.score == pytest.approx(log_odds(predictor, text, label), abs=1e-5)
    without_first = log_odds(predictor, " ".join(text.split()[1:read]), label)
    assert explanation.words[0].effect == pytest.approx(explanation.score - without_first, abs=1e-5)


def windows_of(words: list[str], size: int) -> list[range]:
    """The windows of a text of words: one after the other, the last one up to the end."""
    firsts = [*range(0, len(words) - size, size), len(words) - size]
    return [range(first, first + size) for first in firsts]


@pytest.mark.parametrize("form", ["text", "pair", "number"])
def test_long_texts_are_explained_to_the_end(content: Callable[..., bytes], engine: str, form: str) -> None:
    task = "regression" if form == "number" else "classification"
    predictor = Predictor(content(task, pairs=form == "pair", max_len=5 if form == "pair" else 4))
    words = ["book", "a", "table", "for", "two", "in", "paris", ",", "late"]
    # Of a pair, each window has both words of the shorter text, and a separator.
    windows = windows_of(words, 2 if form == "pair" else 4)

    def score(kept: tuple[int, ...]) -> float:
        texts: list[Any] = [" ".join(words[i] for i in window if i in kept) for window in windows]
        if form == "pair":
            texts = [("be late", text) for text in texts]
        pooled = np.mean(predictor.text_logits(texts), axis=0)
        if task == "regression":
            return float(pooled[0] * 1.5 + 2.0)
        others = np.delete(pooled, 1)
        return float(pooled[1] - np.logaddexp.reduce(others))

    text: Any = ("be late", "  " + "  ".join(words)) if form == "pair" else " \n ".join(words)
    target = None if task == "regression" else "good"
    explanation = predictor.explain(text, target, method="leave_one_out")
    assert not explanation.truncated
    found = [word for word in explanation.words if form != "pair" or word.part == 1]
    whole = text[1] if form == "pair" else text
    assert [word.word for word in found] == words == [whole[word.start : word.end] for word in found]
    everything = tuple(range(9))
    assert explanation.score == pytest.approx(score(everything), abs=1e-5)
    for index, word in enumerate(found):
        without = score((*everything[:index], *everything[index + 1 :]))
        assert word.effect == pytest.approx(explanation.score - without, abs=1e-5)
    if form == "pair":
        assert [(word.word, word.part) for word in explanation.words[:2]] == [("be", 0), ("late", 0)]
        return
    shapley = predictor.explain(text, target, method="shapley")
    value = {kept: score(kept) for size in range(10) for kept in itertools.combinations(range(9), size)}
    expected = [
        sum(
            (value[tuple(sorted((*kept, player)))] - gain) / (9 * math.comb(8, len(kept)))
            for kept, gain in value.items()
            if player not in kept
        )
        for player in range(9)
    ]
    np.testing.assert_allclose([word.effect for word in shapley.words], expected, atol=1e-5)
    answer = predictor.predict_one(text)
    assert shapley.score == pytest.approx(
        answer.value if form == "number" else log_odds(predictor, text, "good"), abs=1e-5
    )
    with pytest.raises(DataError, match="is longer than the model reads at a time, 4 words"):
        Predictor(predictor.content, too_long="error").explain(text)
    assert len(Predictor(predictor.content, too_long="truncate").explain(text).words) == 4


@pytest.mark.parametrize("form", ["text", "words"])
def test_a_tag_is_explained_in_the_window_that_it_is_from(content: Callable[..., bytes], form: str) -> None:
    predictor = Predictor(content("tagging", max_len=8))
    words = ["book", "a", "table", "for", "two", "in", "paris", "late", "be", "don", "t", "book"]
    text: Any = words if form == "words" else " ".join(words)
    # The windows are the words 0 to 7 and 4 to 11; the words from 6 on are nearer to the middle of the second.
    for word, first in ((1, 0), (9, 4)):
        window = words[first : first + 8]
        explanation = predictor.explain(text, "B-x", method="leave_one_out", word=word)
        assert [item.word for item in explanation.words] == words
        inside = predictor.explain(window, "B-x", method="leave_one_out", word=word - first)
        assert (explanation.score, explanation.base) == pytest.approx((inside.score, inside.base), abs=1e-5)
        expected = np.zeros(12)
        expected[first : first + 8] = [item.effect for item in inside.words]
        np.testing.assert_allclose([item.effect for item in explanation.words], expected, atol=1e-5)
    tags = predictor.predict_one(text).tags or ()
    found = [predictor.explain(text, word=word, method="leave_one_out").target for word in range(12)]
    assert found == list(tags)
    assert predictor.explain(text).word == [tag != "O" for tag in tags].index(True)


def test_the_tag_that_is_explained_is_the_predicted_one(content: Callable[..., bytes], engine: str) -> None:
    """Also where it is not the most probable one, because tags are a legal sequence."""
    predictor, changed = Predictor(content("tagging")), 0
    for text in ("book a table late", "for two in paris", "late , late", "a table for two be late", "paris in a book"):
        tags = predictor.predict_one(text).tags or ()
        found = [predictor.explain(text, word=word, method="leave_one_out").target for word in range(len(tags))]
        assert found == list(tags)
        best = predictor.text_logits([text])[0].argmax(1).tolist()
        changed += sum(predictor.labels.names[i] != tag for i, tag in zip(best, tags, strict=False))
    assert changed > 0


def test_a_text_of_too_many_words_is_refused_with_a_remedy(content: Callable[..., bytes]) -> None:
    with pytest.raises(DataError, match=r"the text has 10,001 words; texts of up to 10,000 .* too_long='truncate'"):
        Predictor(content()).explain("late " * 10_001)


def test_contractions_are_left_out_as_the_words_they_are(content: Callable[..., bytes]) -> None:
    predictor, text = Predictor(content(contractions=True)), "it's late, isn't it?"
    explanation = predictor.explain(text, method="leave_one_out")
    assert [word.word for word in explanation.words] == ["it", "'s", "late", ",", "is", "n't", "it", "?"]
    assert explanation.score == pytest.approx(log_odds(predictor, text, str(explanation.target)), abs=1e-5)
    without = log_odds(predictor, "it's late, n't it?", str(explanation.target))
    assert explanation.words[4].effect == pytest.approx(explanation.score - without, abs=1e-5)


def test_offsets_count_characters_of_the_text_as_given(content: Callable[..., bytes]) -> None:
    text = "\x00naïve  東京!"
    words = Predictor(content()).explain(text).words
    assert [(word.word, word.start, word.end) for word in words] == [
        ("naïve", 1, 6), ("東", 8, 9), ("京", 9, 10), ("!", 10, 11),
    ]  # fmt: skip


def test_a_text_without_words(content: Callable[..., bytes]) -> None:
    explanation = Predictor(content()).explain("  ")
    assert explanation.words == ()
    assert explanation.score == explanation.base


def test_a_list_of_words(content: Callable[..., bytes]) -> None:
    predictor = Predictor(content())
    explanation = predictor.explain(["New York", "late"], method="leave_one_out")
    assert [(word.word, word.start, word.end) for word in explanation.words] == [("New York", 0, 8), ("late", 9, 13)]
    without = log_odds(predictor, ["late"], str(explanation.target))
    assert explanation.words[0].effect == pytest.approx(explanation.score - without, abs=1e-5)


def test_pairs_have_the_words_of_both_texts(content: Callable[..., bytes], engine: str) -> None:
    predictor = Predictor(content(pairs=True, segments=True, overlap=True))
    explanation = predictor.explain(("a table", "late table"), method="leave_one_out")
    assert [(word.part, word.word, word.start) for word in explanation.words] == [
        (0, "a", 0), (0, "table", 2), (1, "late", 0), (1, "table", 5),
    ]  # fmt: skip
    label = str(explanation.target)
    for word, shorter in zip(
        explanation.words,
        [("table", "late table"), ("a", "late table"), ("a table", "table"), ("a table", "late")],
        strict=True,
    ):
        assert word.effect == pytest.approx(explanation.score - log_odds(predictor, shorter, label), abs=1e-5)


def test_labels_of_multi_label_are_chosen(content: Callable[..., bytes]) -> None:
    predictor = Predictor(content("multi_label"))
    explanation = predictor.explain("book late", target="b", method="leave_one_out")
    assert explanation.score == pytest.approx(log_odds(predictor, "book late", "b"), abs=1e-5)
    assert explanation.words[0].effect == pytest.approx(explanation.score - log_odds(predictor, "late", "b"), abs=1e-5)


def test_regression_is_explained_in_the_unit_of_the_number(content: Callable[..., bytes]) -> None:
    predictor = Predictor(content("regression"))
    explanation = predictor.explain("book late", method="leave_one_out")
    value = predictor.predict_one("book late").value
    assert explanation.score == pytest.approx(value)
    assert explanation.words[1].effect == pytest.approx(value - predictor.predict_one("book").value, abs=1e-5)  # type: ignore[operator]
    assert (explanation.target, explanation.probability) == (None, None)
    with pytest.raises(ConfigError, match="a number a text, so there is no label to choose"):
        predictor.explain("book", target="value")


@pytest.mark.parametrize("changes", [{}, {"tokens": "subwords"}], ids=["words", "subwords"])
def test_the_tag_of_a_word_is_explained_by_the_other_words(content: Callable[..., bytes], changes: Any) -> None:
    predictor, text = Predictor(content("tagging", **changes)), "book a table late"
    explanation = predictor.explain(text, word=2, method="leave_one_out")

    def score(words: list[str], index: int) -> float:
        logits = predictor.logits(predictor.tokenize([words]))[0][index].astype(float)
        others = np.delete(logits, label)
        return float(logits[label] - np.log(np.exp(others).sum()))

    label = predictor.labels.id(str(explanation.target))
    assert explanation.target == predictor.predict_one(text).tags[2]  # type: ignore[index]
    assert explanation.word == 2
    assert explanation.score == pytest.approx(score(text.split(), 2), abs=1e-5)
    assert explanation.base == pytest.approx(score(["table"], 0), abs=1e-5)
    effects = [word.effect for word in explanation.words]
    assert effects[2] == 0
    assert effects[0] == pytest.approx(explanation.score - score(["a", "table", "late"], 1), abs=1e-5)
    assert effects[3] == pytest.approx(explanation.score - score(["book", "a", "table"], 2), abs=1e-5)
    tags = predictor.predict_one(text).tags or ()
    assert predictor.explain(text).word == next((i for i, tag in enumerate(tags) if tag != "O"), 0)


def test_mistakes_are_refused_with_what_is_allowed(content: Callable[..., bytes]) -> None:
    predictor = Predictor(content())
    with pytest.raises(ConfigError, match=r"no label 'goood'; did you mean 'good'\?"):
        predictor.explain("a", target="goood")
    with pytest.raises(ConfigError, match="method: got 'shaply'; did you mean 'shapley'"):
        predictor.explain("a", method="shaply")
    with pytest.raises(ConfigError, match="seed: got -1; allowed: whole numbers from 0"):
        predictor.explain("a", seed=-1)
    with pytest.raises(ConfigError, match="evaluations: got 0; allowed: whole numbers from 1"):
        predictor.explain("a", evaluations=0)
    with pytest.raises(ConfigError, match="word is for models that tag words"):
        predictor.explain("a", word=0)
    with pytest.raises(DataError, match="item 0 is of type int"):
        predictor.explain(3)  # type: ignore[arg-type]
    tagger = Predictor(content("tagging"))
    with pytest.raises(ConfigError, match="the model read 2 words: 0 to 1 are allowed"):
        tagger.explain("a table", word=2)
    with pytest.raises(DataError, match="pair of texts"):
        tagger.explain(("a", "table"))
    with pytest.raises(ConfigError, match="no words, so there is no tag"):
        tagger.explain("")
    with pytest.raises(ConfigError, match="an answer a question, which cannot be explained"):
        Predictor(content("question_answering", max_len=64)).explain(("a", "b"))


def test_values_for_json(content: Callable[..., bytes]) -> None:
    explanation = Predictor(content()).explain("book late", target="bad")
    values = explanation.to_dict()
    assert values["target"] == "bad"
    assert values["words"][1] == {"word": "late", "start": 5, "end": 9, "effect": explanation.words[1].effect}
    assert {"score", "base", "probability", "method", "truncated"} <= values.keys()
    assert "word" not in values
    top = explanation.top(1)[0]
    assert abs(top.effect) == max(abs(word.effect) for word in explanation.words)
