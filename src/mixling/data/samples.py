"""A data set for trying the library without a download: identify the language of a text.

Sentences in 60 languages and 21 scripts come from the message catalogues of packages that the user has installed
(`mixling.data.catalogues`), names and phrases from the locale data in the Babel package (CLDR). Those of territories,
languages, currencies, time zones, units and days supplement the languages with few sentences, and cover letters that
are missing from a language's sentences. Decided here:

- A hash of the English message assigns a sentence to training, validation or test (80/10/10), so a sentence and its
  translations are in the same part, also with newer packages. Names are assigned by their own hashes.
- A sentence that occurs in two languages, ignoring case, is ambiguous and therefore left out.
- Names are short, and many are the same in other languages ("Panama"), so rows are lists of two to eight of them,
  formatted as in the language ("Monday, Welsh, or hours", "Montag, Walisisch oder Stunden") or separated by spaces.
- Messages have few words for the first person and for questions. Stop words of the 13 languages for which Sphinx lists
  them are added in random sequences, in training only.
- Users also type less than a sentence: in training, a few consecutive words of each sentence are a further row.
- A language has at most `_MOST` sentences in training, so that the languages are not too unbalanced.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from mixling.data.catalogues import catalogue_sentences, function_words

_MOST = 1500  # sentences of a language in training
_LEAST, _FEW = 1000, 150  # sentences plus lists of a language in training; lists if there are enough sentences
_PASSES = 4  # maximum number of passes over the names of a language
_WORD_PASSES = 8  # passes over its function words

# fmt: off
LANGUAGES = {
    "am": "Amharic", "ar": "Arabic", "az": "Azerbaijani", "bg": "Bulgarian", "bn": "Bangla", "ca": "Catalan",
    "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "es": "Spanish",
    "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish",
    "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian",
    "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ka": "Georgian", "kk": "Kazakh",
    "kn": "Kannada", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "ml": "Malayalam", "mn": "Mongolian",
    "mr": "Marathi", "my": "Burmese", "nb": "Norwegian Bokmål", "nl": "Dutch", "pa": "Punjabi", "pl": "Polish",
    "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian",
    "sr": "Serbian", "sv": "Swedish", "sw": "Swahili", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tr": "Turkish",
    "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}
# fmt: on


def language_identification(seed: int = 0) -> dict[str, list[tuple[str, str]]]:
    """Return rows (text, language code of `LANGUAGES`) of "train", "validation" and "test", in a fixed order.

    Args:
        seed: determines which sentences and names are held out, and which names are listed together.

    Raises:
        MissingPackage: a required package is not installed.
        DataError: a file of such a package is damaged.
    """
    sentences = catalogue_sentences(LANGUAGES)
    num_languages = Counter(key for texts in sentences.values() for key in {text.casefold() for text in texts})
    rows: dict[str, list[tuple[str, str]]] = {"train": [], "validation": [], "test": []}
    for code, keys in sentences.items():
        texts: dict[str, list[str]] = {part: [] for part in rows}
        for text in sorted(keys, key=lambda text: _digest(text, seed)):
            if num_languages[text.casefold()] == 1:
                texts[_part(keys[text], seed)].append(text)
        names = _names_by_part(code, seed)
        for part, chosen in texts.items():
            del chosen[_MOST if part == "train" else _MOST // 8 :]
            listed: list[str] = []
            for number in range(_PASSES):
                if number == 0 or (part == "train" and len(chosen) + len(listed) < _LEAST):
                    listed += _lists(names[part], code, f"{seed}:{number}")
            if part == "train":
                del listed[max(_LEAST - len(chosen), _FEW) :]
                listed += _sequences(function_words(code), f"{seed}:{code}")
                fragments = _fragments(chosen, f"{seed}:{code}")
                listed += [text for text in fragments if text.casefold() not in num_languages]  # else may be held out
            rows[part] += [(text, code) for text in dict.fromkeys([*chosen, *listed])]
    return rows


def _fragments(sentences: list[str], seed: str) -> list[str]:
    """Return two to six consecutive words, but not all, of each sentence of four words or more."""
    rng = random.Random(seed)
    out = []
    for words in map(str.split, sentences):
        if len(words) >= 4:
            size = rng.randint(2, min(len(words) - 1, 6))
            first = rng.randint(0, len(words) - size)
            out.append(" ".join(words[first : first + size]))
    return out


def _names_by_part(code: str, seed: int) -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    for text in sorted(_names(code)):
        parts[_part(text, seed)].append(text)
    return parts


def _names(code: str) -> set[str]:
    """Return the names and phrases of a locale without their placeholders ("in {0} years": "in years").

    Aliases, which are elsewhere in each version of Babel, are not followed: Babel resolves one in data that all locales
    share, so that the Azerbaijani names, once read, appear in German, too.
    """
    from babel.localedata import load

    data: Any = load(code)
    lists = ("territories", "languages", "scripts", "variants", "currency_names", "currency_names_plural")
    tables = [_at(data, name) for name in lists]
    tables += [_at(data, "date_fields", name) for name in data["date_fields"] if not name.endswith("narrow")]
    tables += [_at(data, name, "format", "wide") for name in ("months", "days", "day_periods")]
    for name in ("unit_display_names", "unit_patterns", "meta_zones"):
        tables += [_at(data, name, item, "long") for item in data[name]]
    tables += [_at(data, "time_zones", zone, "city") for zone in data["time_zones"]]
    names = {" ".join(re.sub(r"\{\d\}", "", text).split()) for text in _texts(tables)}
    return {text for text in names if any(map(str.isalpha, text))}


def _at(table: Any, *names: str) -> Any:
    """Return an entry of nested tables; None if it is absent, or behind an alias."""
    for name in names:
        table = table.get(name) if isinstance(table, Mapping) else None
    return table


def _texts(table: Any) -> Iterator[str]:
    """Yield the strings of nested tables."""
    if isinstance(table, str):
        yield table
    elif isinstance(table, list | Mapping):
        for value in table.values() if isinstance(table, Mapping) else table:
            yield from _texts(value)


def _digest(text: str, seed: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed}:{text.casefold()}".encode(), digest_size=8).digest(), "big")


def _part(key: str, seed: int) -> str:
    tenth = _digest(key, seed) % 10
    return "train" if tenth < 8 else "validation" if tenth == 8 else "test"


def _lists(names: list[str], code: str, seed: str) -> list[str]:
    """Return all names in random order, in lists of two to eight."""
    from babel import Locale
    from babel.lists import format_list

    rng, locale = random.Random(f"{seed}:{code}"), Locale.parse(code)
    variants = (" ".join, partial(format_list, locale=locale), partial(format_list, style="or", locale=locale))
    return [rng.choice(variants)(items) for items in _groups(names, rng)]


def _sequences(words: list[str], seed: str) -> list[str]:
    rng = random.Random(f"{seed}:words")
    return [" ".join(group) for _ in range(_WORD_PASSES) for group in _groups(words, rng)]


def _groups(items: list[str], rng: random.Random) -> Iterator[list[str]]:
    """Yield all items in random order, two to eight at a time; a single remaining one is dropped."""
    shuffled = rng.sample(items, len(items))
    while len(shuffled) > 1:
        size = rng.randint(2, 8)
        yield shuffled[:size]
        shuffled = shuffled[size:]
