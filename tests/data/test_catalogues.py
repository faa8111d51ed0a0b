"""Sentences of message catalogues: cleaned, by language, with the English message that they stand for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mixling import DataError
from mixling.data import catalogue_sentences, catalogues
from mixling.data.catalogues import cleaned, function_words
from mixling.errors import MissingPackage

pytest.importorskip("babel", reason='needs the demo extra: pip install "mixling[train,demo]"')


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("%(count)d items were deleted from %(name)s.", "items were deleted from ."),
        ("You have %d new %-10.2f messages, 100%% read", "You have new messages, 100 read"),
        ("Hello {user_name}, <b class='x'>welcome</b>&nbsp;back", "Hello , welcome back"),
        ("See https://example.org/a?b=c or write to a@example.org now", "See or write to now"),
        ("the role :py:class:`Thing` and ``literal``\n  text", "the role and text"),
        ("Größe über 5 < 6", "Größe über 5 < 6"),
    ],
)
def test_what_is_not_text_goes(message: str, text: str) -> None:
    assert cleaned(message) == text


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with catalogues that these tests write, in place of the real ones."""
    (tmp_path / "translated").mkdir()
    (tmp_path / "translated" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(catalogues, "PACKAGES", {"babel": "Babel", "translated": "Translated"})
    return tmp_path / "translated"


def write(package: Path, variant: str, messages: dict[str | tuple[str, ...], str | tuple[str, ...]]) -> Path:
    from babel.messages import Catalog
    from babel.messages.mofile import write_mo

    catalogue = Catalog(locale=variant)
    for message, translation in messages.items():
        catalogue.add(message, translation)
    path = package / "locale" / variant / "LC_MESSAGES" / "messages.mo"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        write_mo(file, catalogue)
    return path


def test_sentences_stand_for_their_english_message(packages: Path) -> None:
    plural = ("%(number)d small house", "%(number)d small houses")
    write(packages, "de", {"Good morning": "Guten Morgen", plural: ("%(number)d kleines Haus", "%d kleine Häuser")})
    write(packages, "pt_BR", {"Good morning": "Bom dia, pessoal"})
    write(packages, "pt", {"Good morning": "Bom dia", "Sentry Django": "Sentry Django", "Save": "Ok"})
    write(packages, "sr_Latn", {"Good morning": "Dobro jutro"})
    write(packages, "fr", {"Good evening": "Bonsoir à tous"})
    assert catalogue_sentences(["en", "de", "pt", "sr"]) == {
        "en": {
            "Good morning": "Good morning",
            "small house": "small house",
            "small houses": "small house",
            "Sentry Django": "Sentry Django",
        },
        "de": {"Guten Morgen": "Good morning", "kleines Haus": "small house", "kleine Häuser": "small house"},
        "pt": {"Bom dia": "Good morning", "Bom dia, pessoal": "Good morning"},  # what is no translation is left out
        "sr": {},  # in Latin letters
    }


def test_a_package_without_its_catalogues_is_named(packages: Path) -> None:
    with pytest.raises(MissingPackage, match="pip install --force-reinstall Translated"):
        catalogue_sentences(["en"])


def test_a_damaged_catalogue_is_named(packages: Path) -> None:
    path = write(packages, "de", {"Good morning": "Guten Morgen"})
    for content in (b"no catalogue at all, but long enough", path.read_bytes()[:-10]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"messages\.mo: is not a readable message catalogue"):
            catalogue_sentences(["en", "de"])


def test_missing_packages_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogues, "PACKAGES", {"babel": "Babel", "sphinx": "Sphinx", "surely_absent": "Absent"})
    monkeypatch.setitem(sys.modules, "sphinx", None)
    with pytest.raises(MissingPackage, match=r"Sphinx, Absent are missing; run pip install .*\[train,demo"):
        catalogue_sentences(["en"])


def test_function_words_are_of_their_language() -> None:
    pytest.importorskip("sphinx", reason='needs the demo extra: pip install "mixling[train,demo]"')
    some = {"en": {"where", "my", "she"}, "de": {"wir", "nicht"}, "nb": {"ikke", "jeg"}, "ru": {"где", "она"}}
    for code, words in some.items():
        assert words <= set(function_words(code)), code
    assert function_words("zh") == function_words("tr") == []
