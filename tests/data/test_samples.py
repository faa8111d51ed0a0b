"""The sample data: balanced enough, unambiguous, split without overlap, the same every time."""

from __future__ import annotations

import sys
import unicodedata
from collections import Counter

import pytest

from mixling.data.samples import LANGUAGES, language_identification
from mixling.errors import UserError

pytest.importorskip("babel", reason='needs the demo extra: pip install "mixling[demo]"')

Rows = dict[str, list[tuple[str, str]]]


@pytest.fixture(scope="module")
def rows() -> Rows:
    return language_identification()


def test_every_language_has_enough_names_in_every_part(rows: Rows) -> None:
    assert len(LANGUAGES) == 60
    assert list(rows) == ["train", "dev", "test"]
    for part, least in (("train", 300), ("dev", 30), ("test", 30)):
        counts = Counter(label for _, label in rows[part])
        assert set(counts) == set(LANGUAGES)
        assert min(counts.values()) >= least


def test_languages_are_named_as_babel_names_them() -> None:
    from babel import Locale

    assert {code: Locale.parse(code).english_name for code in LANGUAGES} == LANGUAGES


def test_the_parts_are_eighty_ten_ten(rows: Rows) -> None:
    held_out = len(rows["dev"]) + len(rows["test"])
    singles = language_names_by_hand()
    assert len(rows["dev"]) / len(singles) == pytest.approx(0.1, abs=0.01)
    assert held_out / len(singles) == pytest.approx(0.2, abs=0.01)


def test_names_are_those_of_one_language_only(rows: Rows) -> None:
    singles = language_names_by_hand()
    given = [row for part in rows.values() for row in part]
    assert singles <= set(given)
    assert set(rows["dev"]) | set(rows["test"]) <= singles
    names = {text for text, _ in given}
    assert {"Panama", "September", "Norge", "Slovensko"}.isdisjoint(names)
    assert ("Wednesday", "en") in given
    assert ("Mittwoch", "de") in given


@pytest.mark.parametrize("seed", [0, 7])
def test_no_text_stands_twice(seed: int) -> None:
    parts = language_identification(seed)
    texts = [text for rows in parts.values() for text, _ in rows]
    assert len(texts) == len(set(texts))
    keys = [{text.casefold() for text, _ in rows} for rows in parts.values()]
    assert sum(map(len, keys)) == len(set().union(*keys))


def test_training_alone_has_lists_and_only_of_its_own_names(rows: Rows) -> None:
    singles = language_names_by_hand()
    lists = [row for row in rows["train"] if row not in singles]
    alone = len(rows["train"]) - len(lists)
    assert alone / 5 <= len(lists) <= alone / 2
    # The English lists, taken apart by hand, are made of each English training name once.
    english = {text for text, label in rows["train"] if label == "en"} & {
        text for text, label in singles if label == "en"
    }
    left = " | ".join(text for text, label in lists if label == "en")
    for name in sorted(english, key=len, reverse=True):
        left = left.replace(name, "", 1)
    assert {letter for letter in left if letter.isalpha()} <= set("andor")
    held_out = {text for part in ("dev", "test") for text, label in rows[part] if label == "en" and len(text) > 25}
    assert held_out
    assert not any(name in text for text, label in lists if label == "en" for name in held_out)


def test_the_same_seed_gives_the_same_rows_and_another_does_not(rows: Rows) -> None:
    assert language_identification(0) == rows
    other = language_identification(1)
    assert {part: set(texts) for part, texts in other.items()} != {part: set(texts) for part, texts in rows.items()}


def test_many_scripts_are_there(rows: Rows) -> None:
    scripts = Counter(unicodedata.name(text[0], "?").split()[0] for text, _ in rows["test"])
    assert {"LATIN", "CYRILLIC", "GREEK", "ARABIC", "DEVANAGARI", "THAI", "HANGUL", "CJK", "ETHIOPIC"} <= set(scripts)


def test_without_babel_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(UserError, match=r'pip install "mixling\[demo\]"'):
        language_identification()


def language_names_by_hand() -> set[tuple[str, str]]:
    """All names, and of them those whose text, letter case aside, belongs to one language: with two nested loops."""
    from babel import Locale

    languages: dict[str, set[str]] = {}
    names: set[tuple[str, str]] = set()
    for code in LANGUAGES:
        locale = Locale.parse(code)
        found = [*locale.territories.values(), *locale.languages.values(), *locale.scripts.values()]
        found += [*locale.currencies.values(), *(unit.get("long") for unit in locale.unit_display_names.values())]
        for use in ("format", "stand-alone"):
            found += [*locale.months[use]["wide"].values(), *locale.days[use]["wide"].values()]
        for name in found:
            if name is not None:
                names.add((name, code))
                languages.setdefault(name.casefold(), set()).add(code)
    return {(name, code) for name, code in names if languages[name.casefold()] == {code}}
