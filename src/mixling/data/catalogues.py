"""Sentences in many languages, from the message catalogues of Python packages that the user has installed.

Packages with a translated interface carry `locale/LANGUAGE/LC_MESSAGES/*.mo`: for each English message its translation,
by people who speak the language. Nothing of it is copied into the project: the files are read where pip put them
(Django, Django REST framework: BSD-3-Clause, django-allauth: MIT, Sphinx: BSD-2-Clause).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mixling.errors import DataError, MissingPackage

if TYPE_CHECKING:
    from babel.messages import Message

# What pip installs, by the name that Python imports.
PACKAGES = {
    "allauth": "django-allauth",
    "babel": "Babel",
    "django": "Django",
    "rest_framework": "djangorestframework",
    "sphinx": "Sphinx",
}
_CATALOGUES = "locale/*/LC_MESSAGES/*.mo"
_WITHOUT_CATALOGUES = "babel"  # it has names and phrases instead, and reads the others' files
_MIN_LETTERS = 6
# Serbian in Latin letters differs from Croatian in few words: a sentence of it has no certain answer.
_LEFT_OUT = {"sr_Latn"}
# Sphinx's names of the languages with stop words of their own; those of Chinese are English.
_STOP_WORDS = {code: code for code in ("da", "de", "en", "es", "fi", "fr", "hu", "it", "nl", "pt", "ru", "sv")}
_STOP_WORDS["nb"] = "no"

_PLACEHOLDER = re.compile(
    r"%\(\w+\)[-#0-9.+ ]*[a-zA-Z]|%[-#0-9.+]*[a-zA-Z%]|\{[^{}]*\}"  # %(name)s, %d, {name}
    r"|<[^<>]*>|&#?\w+;|\w+://\S+|\S+@\S+"  # tags and entities, addresses
    r"|:[\w:]+:`[^`]*`|`+[^`]*`+"  # reStructuredText's roles and literals
)
_WORD = re.compile(r"[^\W\d_]+")


def check_packages() -> None:
    """Raise an error unless all packages are installed.

    Raises:
        MissingPackage: it names those that are not.
    """
    missing = [project for name, project in PACKAGES.items() if find_spec(name) is None]
    if missing:
        raise MissingPackage(
            f"the sample data is read from installed packages, of which {', '.join(missing)} "
            f'{"is" if len(missing) == 1 else "are"} missing; install them by pip install "mixling[train,demo]"'
        )


def catalogue_sentences(languages: Collection[str]) -> dict[str, dict[str, str]]:
    """Read the catalogues' sentences.

    Placeholders, tags, addresses and literals are left out of them, and translations that have no word which the
    English lacks. The messages themselves, and their plurals, are the English sentences.

    Args:
        languages: codes of two letters, "en" among them; a catalogue of a variant, such as "pt_BR", counts as its
            language's.

    Returns:
        by language for each sentence the English message that it stands for, the same for all its translations.

    Raises:
        MissingPackage: a package is not installed, or was installed without its catalogues.
        DataError: a catalogue is damaged.
    """
    check_packages()
    sentences: dict[str, dict[str, str]] = {code: {} for code in languages}
    for name, project in PACKAGES.items():
        if name == _WITHOUT_CATALOGUES:
            continue
        paths = sorted(path for folder in _folders(name) for path in folder.rglob(_CATALOGUES))
        if not paths:
            raise MissingPackage(
                f"{project} is installed without its translations ({_CATALOGUES}); install it anew by "
                f"pip install --force-reinstall {project}"
            )
        for path in paths:
            variant = path.parts[-3]
            code = re.split("[_@.-]", variant)[0]
            if code not in sentences or variant in _LEFT_OUT:
                continue
            for message in _messages(path):
                english = _forms(message.id)
                key = cleaned(english[0])
                for text in map(cleaned, english):
                    if _is_long_enough(text):
                        sentences["en"].setdefault(text, key)
                if code == "en":
                    continue
                known = _words(" ".join(english))
                for text in map(cleaned, _forms(message.string)):
                    if _is_long_enough(text) and not _words(text) <= known:
                        sentences[code].setdefault(text, key)
    return sentences


def function_words(code: str) -> list[str]:
    """Return the stop words by which Sphinx searches a language, Snowball's: "where", "my", "she" and others, or none.

    Messages have few of them in the first person.
    """
    from sphinx.search import languages

    found = languages[_STOP_WORDS[code]] if code in _STOP_WORDS else ""
    if isinstance(found, str) and found:
        module, _, name = found.rpartition(".")
        found = getattr(import_module(module), name)
    return sorted(getattr(found, "stopwords", ()))


def cleaned(text: str) -> str:
    """Return a message without what is not text, and with single spaces."""
    return " ".join(_PLACEHOLDER.sub(" ", text).split())


def _folders(name: str) -> list[Path]:
    spec = find_spec(name)
    return [Path(folder) for folder in (spec.submodule_search_locations or [] if spec else [])]


def _messages(path: Path) -> Iterator[Message]:
    """All messages but the header, whose id is empty."""
    from babel.messages.mofile import read_mo

    try:
        with path.open("rb") as file:
            catalogue = read_mo(file)
    except Exception as error:  # Babel has no common type for what can be wrong in a file
        raise DataError(f"is no message catalogue that can be read: {error}", path=path) from None
    return (message for message in catalogue if message.id)


def _forms(text: str | list[str] | tuple[str, ...] | None) -> list[str]:
    """The singular and the plurals."""
    return [text] if isinstance(text, str) else list(text or ())


def _is_long_enough(text: str) -> bool:
    return sum(map(str.isalpha, text)) >= _MIN_LETTERS


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))
