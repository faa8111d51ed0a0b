"""Words, offsets, normal forms and features in C are those in Python."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from mixling import Predictor, TextConfig, TextEncoder
from mixling.errors import ModelFileError
from mixling.native._core import Hasher, Model, Splitter
from mixling.text import (
    MinHash,
    Projector,
    StringSplitter,
    train_vocabulary,
    tsp_features,
)
from mixling.text.clean import clean
from mixling.text.splitting import SplitTexts

from ..references.unicode import normalize, tables
from ..references.words import split_words, word_spans

# SHA-256 over all code points: code point, properties, lower case, NFC, and NFC of the lower case, in hexadecimal. It
# belongs to the file format: another digest is another hash version.
DIGEST = "cd6040188ce1e4978dadc3e1e475466e3b9b98b16ce3405220f6ae4dfc21f149"


def native(content: bytes) -> Model:
    return Model(content, 1 << 20, 1)


def features_in_python(encoder: TextEncoder, words: Sequence[str]) -> npt.NDArray[np.int32]:
    """The features of words, without what the encoder computes in C."""
    config = encoder.config
    normal = [normalize(word[: config.max_word_chars], lowercase=config.lowercase) for word in words]
    return Projector(config.projection, encoder.vocabulary).bags(normal, encoder.vocabulary.subwords(normal)).features


def split_in_python(text: str, rules: StringSplitter) -> tuple[list[str], bool]:
    """The words of a text that are read, and whether anything was cut."""
    text, cut = clean(text, rules.max_chars)
    words = split_words(text, contractions=rules.contractions)
    read = words[: rules.max_words]
    return read, cut or len(words) > len(read) or max(map(len, read), default=0) > rules.max_word_chars


@pytest.mark.slow
def test_all_characters_have_the_digest_that_python_has(export: Callable[..., bytes]) -> None:
    model, digest = native(export("mixling-tiny")), hashlib.sha256()
    for code in range(0x110000):
        found = [model.normalize(code, how) for how in (1, 2, 3)]
        texts = [" ".join(f"{part:x}" for part in np.frombuffer(data, np.uint32)) for _, data in found]
        digest.update(f"{code:x};{found[0][0]:x};{';'.join(texts)}\n".encode())
    assert digest.hexdigest() == DIGEST


@pytest.mark.parametrize("preset", ["mixling-tiny", "pnlp-mixer-x-small"])
def test_words_and_offsets(export: Callable[..., bytes], texts: list[str], preset: str) -> None:
    content = export(preset)
    model, config = native(content), Predictor(content).text_config
    assert config.contractions == (preset == "mixling-tiny")
    for text in texts:
        cleaned, cut = clean(text, config.max_chars)
        spans = word_spans(cleaned, config.max_len + 1, contractions=config.contractions)
        cut |= len(spans) > config.max_len
        spans = spans[: config.max_len]
        cut |= any(end - start > config.max_word_chars for start, end in spans)
        assert model.words(text) == (spans, cut | 2 * (not spans)), ascii(text[:80])


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"text": {"lowercase": False, "max_word_chars": 5}},
        {"text": {"projection": {"num_features": 1000, "num_hashes": 7, "word_hashes": 3, "seed": 4_000_000_000}}},
        {"text": {"projection": {"num_hashes": 7, "letter_hashes": 4}}},
        {"text": {"projection": {"num_hashes": 7, "word_hashes": 3, "letter_hashes": 64}}},
    ],
)
def test_features(export: Callable[..., bytes], texts: list[str], changes: dict) -> None:
    content = export("mixling-tiny", **changes)
    model, encoder = native(content), Predictor(content).encoder
    words = sorted({word for text in texts for word in encoder._split(text, False)[0]})
    assert len(words) > 2000
    together = encoder.bags(np.array(encoder.rows(words))).features
    for word, expected, found in zip(words, features_in_python(encoder, words), together, strict=True):
        assert np.array_equal(np.frombuffer(model.features(word), np.uint32), expected), ascii(word)
        assert np.array_equal(found, expected), ascii(word)


@pytest.mark.parametrize("num_features", [1024, 63, 2**16])
def test_ternary_features(export: Callable[..., bytes], texts: list[str], num_features: int) -> None:
    projection = {"type": "tsp", "num_features": num_features}
    content = export("mixling-tiny", dim=4, text={"projection": projection})
    model, encoder = native(content), Predictor(content).encoder
    some = texts[:40] if num_features > 1024 else texts
    words = ["", "ÿ" * 9, *{word for text in some for word in encoder._split(text, False)[0]}]
    most = encoder.config.max_word_chars
    normal = [normalize(word[:most], lowercase=True) for word in words]
    for word, expected in zip(words, tsp_features(normal, num_features), strict=True):
        found = np.frombuffer(model.features(word), np.uint32)
        signs = np.zeros(num_features, np.int8)
        signs[found & 0x7FFFFFFF] = np.where(found >> 31, -1, 1)
        assert np.array_equal(signs, expected), ascii(word[:80])


def test_long_words_are_not_spelled_and_other_marks_are_composed(export: Callable[..., bytes]) -> None:
    content = export("mixling-tiny", text={"max_word_chars": 1000})
    model, encoder = native(content), Predictor(content).encoder
    words = ["a" * 1000, "İ" * 600, "ǰ\u0323\u0301" * 300, "\u0390" * 999, "ᄀ" + "ᅡᆨ" * 400]
    expected = features_in_python(encoder, words)
    assert np.array_equal(encoder.bags(np.array(encoder.rows(words))).features, expected)
    for word, row in zip(words, expected, strict=True):
        assert np.array_equal(np.frombuffer(model.features(word), np.uint32), row), ascii(word[:10])


def test_final_sigmas(export: Callable[..., bytes]) -> None:
    """Of each kind of character beside a sigma."""
    model, encoder = native(export("mixling-tiny")), Predictor(export("mixling-tiny")).encoder
    kinds = {properties >> 2 & 3: chr(first) for first, _, properties in reversed(tables().runs) if first > 0xFF}
    assert set(kinds) == {0, 1, 2}
    for before in ("", *kinds.values()):
        for after in ("", *kinds.values()):
            for word in (f"{before}Σ{after}", f"A{before}Σ{after}", f"{before}Σ{after}B"):
                (expected,) = features_in_python(encoder, [word])
                assert np.array_equal(np.frombuffer(model.features(word), np.uint32), expected), ascii(word)


@pytest.mark.parametrize(("word_hashes", "letter_hashes"), [(0, 0), (3, 0), (3, 2)])
def test_words_of_odd_forms_have_their_features_together(word_hashes: int, letter_hashes: int) -> None:
    """Empty ones, those that no vocabulary spells, and longer and longer ones."""
    vocabulary = train_vocabulary(["the cat sat on the mat"] * 3, TextConfig(vocabulary_size=100))
    hashes = {"num_hashes": 9, "word_hashes": word_hashes, "letter_hashes": letter_hashes}
    projection = MinHash(num_features=500, seed=7, **hashes)
    words = ["", "a", "##", "##s", "##cat", "cats", "京都", "a" * 99, "é" * 101, "the" * 500, "x" * 1001, "ᄀ" * 7000]
    for given in (words, words[::-1]):
        projector = Projector(projection, vocabulary)
        assert np.array_equal(
            projector.bags_of_words(given).features, projector.bags(given, vocabulary.subwords(given)).features
        )
    with pytest.raises(ModelFileError, match="surrogates"):
        projector.bags_of_words(["cat", "c\ud800t"])
    again = pickle.loads(pickle.dumps(projector))
    assert np.array_equal(again.bags_of_words(words).features, projector.bags_of_words(words).features)


def test_a_hasher_refuses_what_it_cannot_hash() -> None:
    with pytest.raises(ValueError, match="UNK"):
        Hasher("the\ncat\n", 10, 2, 0, 0, 0)
    for numbers in ((0, 0, 0), (2, -1, 0), (2, 0, -1), (2, 0, 2**40)):
        with pytest.raises(ValueError, match="out of range"):
            Hasher("[UNK]\n", 10, *numbers, 0)
    hasher = Hasher("[UNK]\nthe\n", 10, 2, 0, 0, 0)
    with pytest.raises(TypeError):
        hasher.features(["the", 1])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="too long"):
        hasher.features(["x" * 2_000_000])
    assert len(hasher.features(["the"])) == 8
    assert hasher.features([]) == b""


@pytest.mark.parametrize("contractions", [False, True])
@pytest.mark.parametrize("limits", [(6464, 64, 100), (1 << 24,), (40, 3, 5), (18, 3, 5), (0, 0, 0)])
def test_texts_are_split_together_as_one_by_one(texts: list[str], contractions: bool, limits: tuple[int, ...]) -> None:
    splitter = StringSplitter(contractions, *limits)
    found = splitter(texts)
    expected = SplitTexts.of(split_in_python(text, splitter) for text in texts)
    assert found.words == expected.words
    assert len(set(found.words)) == len(found.words) > (0 if limits[0] else -1)
    for name in ("index", "lengths", "cut"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_many_distinct_words_keep_their_order() -> None:
    words = [f"{number * 7919 % 100_003}x" for number in range(100_003)]
    found = StringSplitter(False, 1 << 24)([" ".join(words), " ".join(words[::-1]), ""])
    assert found.words == words
    assert found.index.tolist() == [*range(len(words)), *range(len(words))[::-1]]
    assert found.lengths.tolist() == [len(words), len(words), 0]


def test_only_strings_are_split() -> None:
    with pytest.raises(TypeError):
        StringSplitter(False, 100)(["a text", ["a", "list"]])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="limit"):
        Splitter(contractions=False, max_chars=-1, max_words=1, max_word_chars=1)
