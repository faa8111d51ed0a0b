"""The sample data: balanced enough, unambiguous, split without leaks, the same every time."""

from __future__ import annotations

import unicodedata
from collections import Counter

import pytest

from mixling.data import LANGUAGES, catalogue_sentences
from mixling.data.catalogues import PACKAGES
from mixling.data.samples import language_identification

for package in PACKAGES:
    pytest.importorskip(package, reason='needs the demo extra: pip install "mixling[train,demo]"')

pytestmark = pytest.mark.slow  # the sentences of all catalogues are read

Rows = dict[str, list[tuple[str, str]]]


@pytest.fixture(scope="module")
def rows() -> Rows:
    return language_identification()


@pytest.fixture(scope="module")
def sentences() -> dict[str, dict[str, str]]:
    return catalogue_sentences(LANGUAGES)


def test_every_language_has_enough_rows_in_every_part(rows: Rows) -> None:
    assert len(LANGUAGES) == 60
    assert list(rows) == ["train", "validation", "test"]
    for part, least, most in (("train", 1000, 3600), ("validation", 30, 300), ("test", 30, 300)):
        counts = Counter(label for _, label in rows[part])
        assert set(counts) == set(LANGUAGES)
        assert least <= min(counts.values())
        assert max(counts.values()) <= most


def test_languages_are_named_as_babel_names_them() -> None:
    from babel import Locale

    assert {code: Locale.parse(code).english_name for code in LANGUAGES} == LANGUAGES


def test_english_is_sentences(rows: Rows) -> None:
    words = Counter(word for text, label in rows["train"] if label == "en" for word in text.lower().split())
    assert min(words[word] for word in ("the", "to", "is", "you", "a", "this", "not", "your", "it")) > 50


def test_english_has_the_words_of_everyday(rows: Rows) -> None:
    words = Counter(word for text, label in rows["train"] if label == "en" for word in text.lower().split())
    assert min(words[word] for word in ("i", "we", "my", "she", "where", "what", "how")) >= 6
    held_out = Counter(word for text, label in rows["test"] if label == "en" for word in text.lower().split())
    assert held_out["she"] == 0  # stop words are in training alone


def test_a_sentence_and_its_translations_are_in_one_part(rows: Rows, sentences: dict[str, dict[str, str]]) -> None:
    parts: dict[str, set[str]] = {}
    whole = 0
    for part, given in rows.items():
        for text, label in given:
            if text in sentences[label]:
                parts.setdefault(sentences[label][text].casefold(), set()).add(part)
                whole += 1
    assert whole > 50_000
    assert max(map(len, parts.values())) == 1


def test_what_training_cuts_out_is_of_its_own_sentences(rows: Rows, sentences: dict[str, dict[str, str]]) -> None:
    english = {text for text, label in rows["train"] if label == "en"}
    whole = english & set(sentences["en"])
    fragments = [text for text in english - whole if any(f" {text} " in f" {sentence} " for sentence in whole)]
    assert len(fragments) > 500
    assert {len(text.split()) for text in fragments} >= {2, 3, 4, 5, 6}
    for part in ("validation", "test"):
        held_out = [text for text, label in rows[part] if label == "en" and text in sentences["en"]]
        assert len(held_out) > 100
        assert not any(text in english for text in held_out)


def test_the_parts_are_eighty_ten_ten(rows: Rows, sentences: dict[str, dict[str, str]]) -> None:
    given = Counter(part for part in rows for text, label in rows[part] if label == "de" and text in sentences["de"])
    assert given["validation"] / given.total() == pytest.approx(0.1, abs=0.03)
    assert given["test"] / given.total() == pytest.approx(0.1, abs=0.03)


def test_sentences_of_two_languages_are_left_out(rows: Rows, sentences: dict[str, dict[str, str]]) -> None:
    spoken_in: dict[str, set[str]] = {}
    for code, texts in sentences.items():
        for text in texts:
            spoken_in.setdefault(text.casefold(), set()).add(code)
    ambiguous = {text for text, codes in spoken_in.items() if len(codes) > 1}
    assert len(ambiguous) > 100
    assert not ambiguous & {text.casefold() for given in rows.values() for text, _ in given}


def test_few_sentences_are_filled_up_with_all_names(rows: Rows) -> None:
    texts = {code: "\n".join(text for text, label in rows["train"] if label == code) for code in ("sw", "gu")}
    assert "Jumatano" in texts["sw"]
    assert "Afrika Kusini" in texts["sw"]
    assert len({char for char in texts["gu"] if "GUJARATI" in unicodedata.name(char, "")}) > 55
    assert not any("{" in text for part in rows.values() for text, _ in part)


def test_no_locale_has_another_ones_names(rows: Rows) -> None:
    for _, given in rows.items():
        assert not [text for text, label in given if label == "de" and "yanvar" in text.split()]  # Azerbaijani
    gujarati = [text for text, label in rows["train"] if label == "gu"]
    assert not any("ETHIOPIC" in unicodedata.name(char, "") for text in gujarati for char in text)


def test_the_same_seed_gives_the_same_rows_and_another_does_not(rows: Rows) -> None:
    assert language_identification(0) == rows
    other = language_identification(1)
    assert {part: set(texts) for part, texts in other.items()} != {part: set(texts) for part, texts in rows.items()}


def test_many_scripts_are_there(rows: Rows) -> None:
    scripts = Counter(unicodedata.name(text[0], "?").split()[0] for text, _ in rows["test"])
    assert {"LATIN", "CYRILLIC", "GREEK", "ARABIC", "DEVANAGARI", "THAI", "HANGUL", "CJK", "ETHIOPIC"} <= set(scripts)
