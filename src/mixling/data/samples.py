"""A data set for trying the library without a download: which language is a text in?

Sentences in 60 languages and 21 scripts come from the message catalogues of packages that the user has installed
(`mixling.data.catalogues`), names and phrases from the locale data that the Babel package ships (CLDR). These, of
territories, languages, currencies, time zones, subwords and days, fill up the languages with few sentences, and show
the letters that a language's sentences lack. What is decided here:

- A hash of the English message says whether a sentence is for training, validation or test (80/10/10): a sentence and
  its translations are in one part, and a newer package moves none. A name's own hash decides for it.
- A sentence that occurs in two of the languages, letter case aside, has no right answer, so it is left out.
- Names are short, and many are the same in other languages ("Panama"): rows are lists of two to eight of them, written
  the language's own way ("Monday, Welsh, or hours", "Montag, Walisisch oder Stunden") or parted by spaces.
- Messages have few words of the first person and of questions: those of 13 languages for which Sphinx has lists of stop
  words come in random sequences, in training alone.
- People type less than a sentence, too: in training a few words, cut out of each sentence at random, are a row more.
- Of a language with many sentences `_MOST` are for training, so that the languages are not too unequal.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from mixling.data.catalogues import catalogue_sentences, function_words

_MOST = 1500  # sentences of a language in training
_LEAST, _FEW = 1000, 150  # sentences and lists of a language in training; lists where sentences are many
_PASSES = 4  # over the names of a language, at most
_WORD_PASSES = 8  # over its function words

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
    """Make rows (text, language code of `LANGUAGES`) under the keys "train", "validation" and "test", in a fixed order.

    Args:
        seed: changes which sentences and names are held out, and which names are listed together.

    Raises:
        MissingPackage: a package that they are read from is not installed.
        DataError: a file of such a package is damaged.
    """
    sentences = catalogue_sentences(LANGUAGES)
    spoken_in = Counter(key for texts in sentences.values() for key in {text.casefold() for text in texts})
    rows: dict[str, list[tuple[str, str]]] = {"train": [], "validation": [], "test": []}
    for code, keys in sentences.items():
        texts: dict[str, list[str]] = {part: [] for part in rows}
        for text in sorted(keys, key=lambda text: _digest(text, seed)):
            if spoken_in[text.casefold()] == 1:
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
                cut = _fragments(chosen, f"{seed}:{code}")
                listed += [text for text in cut if text.casefold() not in spoken_in]  # else it may be held out
            rows[part] += [(text, code) for text in dict.fromkeys([*chosen, *listed])]
    return rows


def _fragments(sentences: list[str], seed: str) -> list[str]:
    """Of each sentence of four words or more, two to six words in a row, never all."""
    chance = random.Random(seed)
    out = []
    for words in map(str.split, sentences):
        if len(words) >= 4:
            size = chance.randint(2, min(len(words) - 1, 6))
            first = chance.randint(0, len(words) - size)
            out.append(" ".join(words[first : first + size]))
    return out


def _names_by_part(code: str, seed: int) -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    for text in sorted(_names(code)):
        parts[_part(text, seed)].append(text)
    return parts


def _names(code: str) -> set[str]:
    """The names and phrases of a locale without their places for numbers and names ("in {0} years": "in years").

    Of tables that refer to each other, such as those of eras, none is read: what Babel finds for one locale, it writes
    into the data of all; asked for Azerbaijani names of months that stand alone, it has these for German, too.
    """
    from babel.localedata import load

    data: Any = load(code)
    tables = [data[name] for name in ("territories", "languages", "scripts", "variants")]
    tables += [data["currency_names"], data["currency_names_plural"]]
    tables += [fields for name, fields in data["date_fields"].items() if not name.endswith("narrow")]
    tables += [data[name]["format"]["wide"] for name in ("months", "days", "day_periods")]
    for name in ("unit_display_names", "unit_patterns", "meta_zones"):
        tables += [widths.get("long") for widths in data[name].values()]
    tables += [zone.get("city") for zone in data["time_zones"].values()]
    names = {" ".join(re.sub(r"\{\d\}", "", text).split()) for text in _texts(tables)}
    return {text for text in names if any(map(str.isalpha, text))}


def _texts(table: Any) -> Iterator[str]:
    """The strings of nested tables."""
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
    """All names in a random order, in lists of two to eight."""
    from babel.lists import format_list

    chance = random.Random(f"{seed}:{code}")
    out = []
    for items in _groups(names, chance):
        forms = (" ".join(items), format_list(items, "standard", code), format_list(items, "or", code))
        out.append(chance.choice(forms))
    return out


def _sequences(words: list[str], seed: str) -> list[str]:
    chance = random.Random(f"{seed}:words")
    return [" ".join(group) for _ in range(_WORD_PASSES) for group in _groups(words, chance)]


def _groups(items: list[str], chance: random.Random) -> Iterator[list[str]]:
    """All items in a random order, two to eight at a time; a single one that is left at the end stays out."""
    shuffled = chance.sample(items, len(items))
    while len(shuffled) > 1:
        size = chance.randint(2, 8)
        yield shuffled[:size]
        shuffled = shuffled[size:]
