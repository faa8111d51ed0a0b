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
    singles = names_by_hand()
    given = {part: len(singles & set(rows[part])) for part in rows}
    total = sum(given.values())
    assert total > 0.97 * len(singles)  # the others are a phrase of another language
    assert given["dev"] / total == pytest.approx(0.1, abs=0.01)
    assert given["test"] / total == pytest.approx(0.1, abs=0.01)


def test_rows_are_texts_of_one_language_only(rows: Rows) -> None:
    given = [row for part in rows.values() for row in part]
    languages: dict[str, set[str]] = {}
    for name, code in names_by_hand(shared=True):
        languages.setdefault(name.casefold(), set()).add(code)
    assert all(languages.get(text.casefold(), {code}) == {code} for text, code in given)
    assert {"Panama", "September", "Norge", "Slovensko"}.isdisjoint(text for text, _ in given)
    assert ("Wednesday", "en") in given
    assert ("Mittwoch", "de") in given


def test_phrases_are_there_without_their_places_for_numbers(rows: Rows) -> None:
    given = {row for part in rows.values() for row in part}
    assert {("in the morning", "en"), ("years ago", "en"), ("kilometers per hour", "en")} <= given
    assert {("vor Jahren", "de"), ("Kilometer pro Stunde", "de"), ("hace años", "es"), ("yıl önce", "tr")} <= given
    assert not any("{" in text for text, _ in given)


@pytest.mark.parametrize("seed", [0, 7])
def test_no_text_stands_twice(seed: int) -> None:
    parts = language_identification(seed)
    texts = [text for rows in parts.values() for text, _ in rows]
    assert len(texts) == len(set(texts))
    keys = [{text.casefold() for text, _ in rows} for rows in parts.values()]
    assert sum(map(len, keys)) == len(set().union(*keys))


def test_training_alone_has_lists_and_only_of_its_own_texts(rows: Rows) -> None:
    english = [text for text, label in rows["train"] if label == "en"]
    alone = {text for text, label in names_by_hand() if label == "en"} & set(english)
    all_text = "\n".join(english)
    rare = [text for text in alone if all_text.count(text) < 3]  # itself and two lists
    assert len(rare) <= 2  # one may be left at the end of each pass
    assert "September" in all_text
    lists = [text for text in english if " or " in text and ", " in text]
    assert len(lists) > 100
    for part in ("dev", "test"):
        names = set(names_by_hand()) & set(rows[part])
        held_out = {text for text, label in names if label == "en" and len(text) > 25}
        assert held_out
        assert not any(name in text for text in lists for name in held_out)
        assert max(len(text) for text, _ in rows[part]) < max(len(text) for text in lists)


def test_dates_are_written_out_in_training(rows: Rows) -> None:
    texts = [text for text, label in rows["train"] if label == "es"]
    assert any(f" de septiembre de {year}" in text for text in texts for year in range(1990, 2031))


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


def names_by_hand(*, shared: bool = False) -> set[tuple[str, str]]:
    """Names whose text, letter case aside, is a name in one language alone, or all names: with two nested loops."""
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
    return {(name, code) for name, code in names if shared or languages[name.casefold()] == {code}}
