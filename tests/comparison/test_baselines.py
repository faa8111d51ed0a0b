"""The baselines beside directly written scikit-learn; fastText's package is played by a stand-in."""

from __future__ import annotations

import gzip
import json
import random
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline

from mixling import DataError
from mixling.comparison import choose, fast_text, fit_tfidf
from mixling.comparison.embeddings import embeddings
from mixling.comparison.word_tags import fit_word_tags
from mixling.tasks import Classification, MultiLabel, Tagging
from mixling.text import Text

WORDS = {"good": ["great", "lovely", "fine", "superb", "nice"], "bad": ["awful", "boring", "poor", "dull", "weak"]}


def rows(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts, and labels that mostly follow from a word."""
    chance = random.Random(seed)
    labels = [chance.choice(["good", "bad"]) for _ in range(count)]
    names = [label if chance.random() < 0.8 else chance.choice(["good", "bad"]) for label in labels]
    nouns = ["film", "plot", "cast", "music", "scene"]
    return [f"What a {chance.choice(WORDS[name])} {chance.choice(nouns)}!" for name in names], labels


def words() -> TfidfVectorizer:
    return TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\w+", sublinear_tf=True, dtype=np.float32)


def letters() -> TfidfVectorizer:
    return TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), min_df=2, sublinear_tf=True, dtype=np.float32)


def test_tfidf_is_scikit_learns_pipeline_with_each_option() -> None:
    texts, labels = rows(120)
    others, _ = rows(60, seed=1)
    seen = set()
    for found in fit_tfidf(Classification, texts, labels, seed=0):
        parts: list[tuple[str, Any]] = [("word", words())]
        parts += [("char", letters())] * (found.options["features"] == "word+char")
        direct = make_pipeline(FeatureUnion(parts), LogisticRegression(C=found.options["C"], max_iter=1000))
        direct.fit(texts, labels)
        assert found.predict(others) == direct.predict(others).tolist()
        terms = [term for _, part in direct[0].transformer_list for term in part.vocabulary_]
        weights = np.float32(np.concatenate([direct[1].coef_.ravel(), direct[1].intercept_]))
        assert found.parameters == len(weights) == len(terms) + 1
        idf = [part.idf_.astype(np.float32) for _, part in direct[0].transformer_list]
        text = "".join(f"{term}\n" for term in terms)
        assert found.size() == len(text.encode()) + weights.nbytes + sum(part.nbytes for part in idf)
        seen.add((found.options["features"], found.options["C"]))
    assert seen == {(features, c) for features in ("word", "word+char") for c in (1.0, 3.0, 10.0, 30.0)}


def test_of_equal_metrics_the_first_and_smallest_wins() -> None:
    fits = [SimpleNamespace(options={"C": c}, seconds=0.0) for c in (1, 3, 10, 30)]
    best, tried = choose(fits, lambda fit: {1: 0.5, 3: 0.7, 10: 0.7, 30: 0.6}[fit.options["C"]])  # type: ignore[arg-type, attr-defined]
    assert best.options == {"C": 3}
    assert [row.validation for row in tried] == [0.5, 0.7, 0.7, 0.6]


def test_a_pair_has_the_features_of_each_text() -> None:
    firsts, labels = rows(80)
    seconds, _ = rows(80, seed=2)
    pairs = list(zip(firsts, seconds, strict=True))
    found = next(fit_tfidf(Classification, pairs, labels, seed=0))
    sides = words().fit(firsts), words().fit(seconds)
    blocks = hstack([sides[0].transform(firsts), sides[1].transform(seconds)])
    direct = LogisticRegression(C=1.0, max_iter=1000).fit(blocks, labels)
    assert found.predict(pairs) == direct.predict(blocks).tolist()
    assert found.options["columns"] == blocks.shape[1]
    swapped = [(second, first) for first, second in pairs]
    assert found.predict(swapped) != found.predict(pairs)


def test_words_that_were_split_before_are_joined() -> None:
    texts, labels = rows(40)
    whole, split = (
        next(fit_tfidf(Classification, given, labels, seed=0)) for given in (texts, [text.split() for text in texts])
    )
    assert whole.predict(texts) == split.predict([text.split() for text in texts])


def test_several_labels_have_a_regression_each() -> None:
    texts, labels = rows(80)
    targets = [
        ("all", label, "film") if "film" in text else ("all", label) for text, label in zip(texts, labels, strict=True)
    ]
    found = next(fit_tfidf(MultiLabel, texts, targets, seed=0))
    features = words().fit_transform(texts)
    asked = {}
    for name in ("good", "bad", "film"):
        asked[name] = LogisticRegression(C=1.0, max_iter=1000).fit(features, [name in target for target in targets])
    expected = [("all", *sorted(name for name, one in asked.items() if one.predict(row)[0])) for row in features]
    assert [tuple(sorted(answer or ())) for answer in found.predict(texts)] == [tuple(sorted(row)) for row in expected]
    assert found.parameters == 3 * (features.shape[1] + 1)  # none for the label that all have


def test_labels_that_all_texts_have_are_always_given() -> None:
    texts, _ = rows(10)
    found = next(fit_tfidf(MultiLabel, texts, [("a", "b")] * 10, seed=0))
    assert found.predict(["other"]) == [("a", "b")]
    assert found.parameters == 0


def test_texts_without_words_have_characters() -> None:
    with pytest.raises(DataError, match=r"TF-IDF finds no terms \(word\+char\) in the training texts"):
        next(fit_tfidf(Classification, ["?", "!"], ["a", "b"], seed=0))
    texts, labels = ["?!?!", "\N{CAT FACE}!", "...", "...-"] * 5, ["a", "a", "b", "b"] * 5
    for found in fit_tfidf(Classification, texts, labels, seed=0):
        assert found.options["features"] == "word+char"
        direct = make_pipeline(letters(), LogisticRegression(C=found.options["C"], max_iter=1000)).fit(texts, labels)
        assert found.predict(texts) == direct.predict(texts).tolist() == labels
    pairs = [(text, f"word {label}") for text, label in zip(texts, labels, strict=True)]
    assert next(fit_tfidf(Classification, pairs, labels, seed=0)).predict(pairs) == labels


def test_a_word_is_tagged_by_itself_its_affixes_and_its_neighbours() -> None:
    chance = random.Random(0)
    cities, sentences, tags = ["oslo", "rome", "lima"], [], []
    for number in range(200):
        side = chance.choice(["to", "from"])
        sentences.append(["fly", side, chance.choice(cities), f"at{number}"])
        tags.append(("O", "O", f"B-{side}", "B-time"))
    best, tried = choose(
        fit_word_tags(Tagging, sentences, tags, seed=0), lambda one: float(one.predict(sentences) == tags)
    )
    assert len(tried) == 4
    # The city was never seen, and only the prefix of the time.
    assert best.predict([["fly", "from", "paris", "at999"], ["oslo"]])[0] == ("O", "O", "B-from", "B-time")
    assert [len(row or ()) for row in best.predict([["a"], ["b", "c"]])] == [1, 2]
    assert 0 < best.size() < 4 * best.parameters + 1_000_000


class StandIn:
    """A fastText that counts words of each label, whatever its options."""

    calls: ClassVar[list[dict[str, Any]]] = []
    lines: ClassVar[list[str]] = []

    def __init__(self, file: str, **options: Any) -> None:
        with open(file, encoding="utf-8") as lines:
            type(self).lines = lines.read().splitlines()
        self.calls.append(options)
        self.f = self
        self.counts: dict[str, list[str]] = {}
        for line in self.lines:
            label, *words = line.split()
            self.counts.setdefault(label, []).extend(words)

    def predict(self, line: str, k: int, threshold: float, on_unicode_error: str) -> list[tuple[float, str]]:
        known = {
            label: sum(found.count(word) / len(found) for word in line.split()) for label, found in self.counts.items()
        }
        return [(1.0, max(known, key=lambda label: known[label]))]

    def getInputMatrix(self) -> np.ndarray:
        return np.zeros((7, 100), np.float32)

    def getOutputMatrix(self) -> np.ndarray:
        return np.zeros((2, 100), np.float32)

    def save_model(self, path: str) -> None:
        with open(path, "wb") as file:
            file.write(b"0" * 123)


def test_fasttext_is_tuned_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("fasttext")
    module.__spec__ = ModuleSpec("fasttext", None)
    module.train_supervised = StandIn  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fasttext", module)
    monkeypatch.setattr(StandIn, "calls", [])
    assert fast_text.is_installed("fasttext")
    texts, labels = rows(60)
    named = [f"very {label}" for label in labels]
    best, tried = choose(fast_text.fit_fasttext(Classification, texts, named, seed=3), lambda one: float(np.mean(
        [a == b for a, b in zip(one.predict(texts), named, strict=True)]
    )))  # fmt: skip
    assert len(tried) == 12
    assert {(call["thread"], call["seed"], call["loss"]) for call in StandIn.calls} == {(1, 3, "softmax")}
    assert {call["bucket"] > 0 for call in StandIn.calls if call["wordNgrams"] == 1} == {False}
    words = [line.split()[1:] for line in StandIn.lines]
    expected = [fast_text.as_line(text).split() for text in texts]
    assert words != expected  # a file sorted by label would be learned badly
    assert sorted(words) == sorted(expected)
    assert set(best.predict(texts)) == {"very good", "very bad"}
    assert (best.parameters, best.size()) == (900, 123)


@pytest.mark.parametrize("fit", [fit_tfidf, fit_word_tags], ids=["tf-idf", "words"])
def test_a_fit_is_repeated_with_its_options(fit: Any) -> None:
    texts, labels = rows(40)
    task, targets = (Classification, labels) if fit is fit_tfidf else (Tagging, [("O", "B-x")] * 40)
    inputs = texts if fit is fit_tfidf else [text.split()[:2] for text in texts]
    for found in fit(task, inputs, targets, seed=0):
        (again,) = fit(task, inputs, targets, seed=0, only=(found.options,))
        assert again.options == found.options


def test_fasttext_reads_pairs_as_words_apart() -> None:
    assert fast_text.as_line(("It's A film", "a Film\n\ud800")) == "it ' s a film 2:a 2:film 2:?"
    assert fast_text.as_line(["Two", "words"]) == "two words"


ODD = st.text() | st.sampled_from(["__label__x", "/label/0", "</s>", "a\nb", "\0", "\x0b", "\u2028", "2:b"])


@given(st.lists(ODD).map(" ".join) | st.tuples(ODD, ODD) | st.lists(ODD))
def test_no_text_changes_what_fasttext_is_trained_on(text: Text) -> None:
    line = fast_text.as_line(text)
    assert len(line.splitlines()) <= 1
    for word in line.split(" "):
        assert not word.startswith(fast_text._LABEL)  # or it were a label
        assert word != "</s>"  # or it were the end of a line
    assert line == line.encode("utf-8").decode("utf-8")


def test_fasttext_learns_from_texts_without_labels_and_survives_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(StandIn):
        def __init__(self, file: str, **options: Any) -> None:
            if options["lr"] == 1.0:
                raise RuntimeError("Encountered NaN.")
            super().__init__(file, **options)

        def predict(self, line: str, k: int, threshold: float, on_unicode_error: str) -> list[tuple[float, str]]:
            return [(0.9, f"{fast_text._LABEL}{number}") for number in range(len(self.counts))]

    module = ModuleType("fasttext")
    module.train_supervised = Failing  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fasttext", module)
    targets: list[tuple[str, ...]] = [("__label__a", "b c"), (), ("b c",)]
    fits = list(fast_text.fit_fasttext(MultiLabel, ["x", "y", "z"], targets, seed=0))
    assert [fit.options["lr"] for fit in fits] == [0.1, 0.5] * 4
    assert {call["label"] for call in Failing.calls[-8:]} == {fast_text._LABEL}
    lines = sorted(line.split() for line in Failing.lines)
    assert lines == [["/label/0", "/label/1", "x"], ["/label/1", "z"], ["/label/2", "y"]]
    assert fits[0].predict(["x"]) == [("__label__a", "b c")]  # not the third
    with pytest.raises(RuntimeError, match="NaN"):
        list(
            fast_text.fit_fasttext(
                MultiLabel, ["x"], [("a",)], seed=0, only=({"wordNgrams": 1, "epoch": 5, "lr": 1.0},)
            )
        )


def test_an_encoder_embeds_each_text_once() -> None:
    asked: list[str] = []

    class Encoder:
        parameters = 8

        def embed(self, texts: list[str]) -> np.ndarray:
            asked.extend(texts)
            return np.array([[text.count("a"), text.count("b")] for text in texts], np.float32)

    kind = embeddings("DIR", Encoder())  # type: ignore[arg-type]
    texts, targets = ["aa", "ab", "bb", "aa"], ["x", "x", "y", "x"]
    for baseline in kind.fit(Classification, texts, targets, seed=0):
        assert baseline.predict(["bb", "aaa"]) == ["y", "x"]
    assert asked == ["aa", "ab", "bb", "aaa"]


@pytest.mark.slow
def test_on_real_data_it_is_as_accurate_as_scikit_learns_pipeline(shared_data: Path) -> None:
    parts = {}
    for name in ("train", "test"):
        with gzip.open(shared_data / "snips" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            parts[name] = [json.loads(line) for line in lines][:1500]
    texts, others = ([" ".join(row["tokens"]) for row in part] for part in parts.values())
    labels, targets = ([row["intent"] for row in part] for part in parts.values())
    (found,) = fit_tfidf(Classification, texts, labels, seed=0, only=({"features": "word+char", "C": 10.0},))
    direct = make_pipeline(FeatureUnion([("word", words()), ("char", letters())]), LogisticRegression(C=10.0))
    expected = np.mean(direct.fit(texts, labels).predict(others) == targets)
    assert expected > 0.9
    assert np.mean(np.array(found.predict(others)) == targets) == pytest.approx(expected, abs=0.002)
