"""Read sentences in many languages from the message catalogues of Python packages that the user has installed.

Packages with a translated interface include `locale/LANGUAGE/LC_MESSAGES/*.mo`, with a translation of each English
message by speakers of the language. Nothing is copied into this project: the files are read from where pip put them
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
from mixling.installation import install_command

if TYPE_CHECKING:
    from babel.messages import Message

# Names of pip packages by the names under which they are imported.
PACKAGES = {
    "allauth": "django-allauth",
    "babel": "Babel",
    "django": "Django",
    "rest_framework": "djangorestframework",
    "sphinx": "Sphinx",
}
_CATALOGUES = "locale/*/LC_MESSAGES/*.mo"
_WITHOUT_CATALOGUES = "babel"  # it provides names and phrases, and the parser for the others' files
_MIN_LETTERS = 6
# Serbian in Latin letters is too similar to Croatian: the language of a sentence would be ambiguous.
_EXCLUDED = {"sr_Latn"}
# Sphinx's names of the languages with stop words; its stop words for Chinese are English.
_STOP_WORDS = {code: code for code in ("da", "de", "en", "es", "fi", "fr", "hu", "it", "nl", "pt", "ru", "sv")}
_STOP_WORDS["nb"] = "no"

_PLACEHOLDER = re.compile(
    r"%\(\w+\)[-#0-9.+ ]*[a-zA-Z]|%[-#0-9.+]*[a-zA-Z%]|\{[^{}]*\}"  # %(name)s, %d, {name}
    r"|<[^<>]*>|&#?\w+;|\w+://\S+|\S+@\S+"  # tags and entities, addresses
    r"|:[\w:]+:`[^`]*`|`+[^`]*`+"  # reStructuredText's roles and literals
)
_WORD = re.compile(r"[^\W\d_]+")


def check_packages() -> None:
    """Check that all packages are installed.

    Raises:
        MissingPackage: some are not; the message names them.
    """
    missing = [project for name, project in PACKAGES.items() if find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise MissingPackage(
            f"the sample data is read from installed packages, but {', '.join(missing)} {verb} missing; run "
            f"{install_command('train', 'demo')}"
        )


def catalogue_sentences(languages: Collection[str]) -> dict[str, dict[str, str]]:
    """Read the sentences of the catalogues.

    Placeholders, tags, addresses and literals are removed from them, and translations without a word that is not in the
    English message are dropped. The messages and their plurals are the English sentences.

    Args:
        languages: codes of two letters, including "en"; the catalogue of a variant, such as "pt_BR", counts for its
            language.

    Returns:
        for each language, a mapping from sentences to the English messages that they translate.

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
                f"{project} is installed without its translations ({_CATALOGUES}); run "
                f"pip install --force-reinstall {project}"
            )
        for path in paths:
            variant = path.parts[-3]
            code = re.split("[_@.-]", variant)[0]
            if code not in sentences or variant in _EXCLUDED:
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
    """Return Sphinx's (Snowball's) stop words of a language, such as "where", "my", "she"; empty if there are none.

    They complement messages, which have few words in the first person.
    """
    from sphinx.search import languages

    language = languages[_STOP_WORDS[code]] if code in _STOP_WORDS else ""
    if isinstance(language, str) and language:
        module, _, name = language.rpartition(".")
        language = getattr(import_module(module), name)
    return sorted(getattr(language, "stopwords", ()))


def cleaned(text: str) -> str:
    """Return a message without placeholders and markup, and with single spaces."""
    return " ".join(_PLACEHOLDER.sub(" ", text).split())


def _folders(name: str) -> list[Path]:
    spec = find_spec(name)
    return [Path(folder) for folder in (spec.submodule_search_locations or [] if spec else [])]


def _messages(path: Path) -> Iterator[Message]:
    """Return all messages except the header, whose id is empty."""
    from babel.messages.mofile import read_mo

    try:
        with path.open("rb") as file:
            catalogue = read_mo(file)
    except Exception as error:  # Babel's errors about damaged files have no common base class
        raise DataError(f"is not a readable message catalogue: {error}", path=path) from None
    return (message for message in catalogue if message.id)


def _forms(text: str | list[str] | tuple[str, ...] | None) -> list[str]:
    """Return the singular and the plurals of a message."""
    return [text] if isinstance(text, str) else list(text or ())


def _is_long_enough(text: str) -> bool:
    return sum(map(str.isalpha, text)) >= _MIN_LETTERS


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))
