"""A data set for trying the library without a download: which language is a text in?

It is made of the locale data that the Babel package ships (CLDR) in 60 languages and 21 scripts: names of territories,
languages, scripts, currencies, units, months and days, and phrases, which hold the function words and inflected forms
that names lack: "in 3 years", "3 kilometers per hour", "in the morning", time zones, plurals of currencies, variants of
languages, eras and quarters; their numbers are dropped ("in years"). What is decided here:

- A text that stands under two of the languages, letter case aside, has no right answer ("Panama", "September"), so it
  is never a row of its own. In the lists below each of its languages keeps it: dropped, English would lose most.
- A hash of the text says whether it is for training, dev or test (80/10/10), so no text stands in two of them and a
  newer Babel moves none. Forms of one word ("gram", "kilogram") may still be parted.
- People type sentences, while these are a few words: training also sees each of its texts, those of several languages
  and some dates written out ("Monday, May 4, 1998") twice more, in lists of two to eight written the language's own way
  ("Monday, Welsh, or hours", "Montag, Walisisch oder Stunden") or parted by spaces. Dev and test have no lists.
"""

from __future__ import annotations

import datetime
import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mixling.errors import UserError

if TYPE_CHECKING:
    from babel import Locale

_LIST_PASSES = 2
_DATES = 120  # drawn for a language

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
    """Rows (text, language code of `LANGUAGES`) under the keys "train", "dev" and "test", in a fixed order.

    Args:
        seed: changes which names are held out and which are listed together.

    Raises:
        UserError: the Babel package is not installed.
    """
    try:
        from babel import Locale
    except ImportError:
        raise UserError(
            'the sample data is read from the Babel package, which is not installed; pip install "mixling[demo]"'
        ) from None
    locales = {code: Locale.parse(code) for code in LANGUAGES}
    known = {code: sorted(_names(locale) | _phrases(locale)) for code, locale in locales.items()}
    spoken_in = Counter(key for texts in known.values() for key in {text.casefold() for text in texts})
    rows: dict[str, list[tuple[str, str]]] = {"train": [], "dev": [], "test": []}
    for code, texts in known.items():
        parts: dict[str, list[str]] = {part: [] for part in rows}
        shared = []
        for text in texts:
            part = _part(text, seed)
            if spoken_in[text.casefold()] == 1:
                parts[part].append(text)
            elif part == "train":
                shared.append(text)
        listed = [*parts["train"], *shared, *_dates(locales[code], seed)]
        parts["train"] += _lists(listed, locales[code], seed)
        for part, chosen in parts.items():
            rows[part] += [(text, code) for text in chosen]
    return rows


def _names(locale: Locale) -> set[str]:
    tables = [locale.territories, locale.languages, locale.scripts, locale.currencies]
    tables += [by_use[use]["wide"] for by_use in (locale.months, locale.days) for use in ("format", "stand-alone")]
    names = {name for table in tables for name in table.values()}
    names.update(unit["long"] for unit in locale.unit_display_names.values() if "long" in unit)
    return names


def _phrases(locale: Locale) -> set[str]:
    """Patterns of the locale without their places for numbers and names, and longer names."""
    from babel.localedata import LocaleDataDict, load

    content: Any = load(str(locale))
    data = LocaleDataDict(content)
    tables = [fields for name, fields in data["date_fields"].items() if not name.endswith("narrow")]
    tables += [unit.get("long", {}) for unit in data["unit_patterns"].values()]
    for name in ("day_periods", "quarters"):
        tables += [widths.get("wide", {}) for widths in data[name].values()]
    tables += [data["eras"].get("wide", {}), data["currency_names_plural"], data["variants"]]
    tables += [zone.get("long", {}) for zone in data["meta_zones"].values()]
    tables += [zone.get("city", {}) for zone in data["time_zones"].values()]
    phrases = {" ".join(re.sub(r"\{\d\}", "", text).split()) for text in _texts(tables)}
    return {text for text in phrases if any(letter.isalpha() for letter in text)}


def _texts(table: Any) -> Iterator[str]:
    """The strings of nested tables; an alias, which stands for texts given elsewhere, has none."""
    if isinstance(table, str):
        yield table
    elif isinstance(table, list) or hasattr(table, "values"):
        for value in table if isinstance(table, list) else table.values():
            yield from _texts(value)


def _dates(locale: Locale, seed: int) -> list[str]:
    from babel.dates import format_date

    chance = random.Random(f"{seed}:{locale.language}:dates")
    first = datetime.date(1990, 1, 1)
    days = (first + datetime.timedelta(days=chance.randrange(40 * 365)) for _ in range(_DATES))
    return sorted({format_date(day, chance.choice(("full", "long")), locale=locale) for day in days})


def _part(text: str, seed: int) -> str:
    digest = hashlib.blake2b(f"{seed}:{text.casefold()}".encode(), digest_size=8).digest()
    tenth = int.from_bytes(digest, "big") % 10
    return "train" if tenth < 8 else "dev" if tenth == 8 else "test"


def _lists(texts: list[str], locale: Locale, seed: int) -> list[str]:
    """Each text `_LIST_PASSES` times, in a random order, in lists of two to eight.

    A single text that is left at the end of a pass stays out.
    """
    from babel.lists import format_list

    chance = random.Random(f"{seed}:{locale.language}")
    out = []
    for _ in range(_LIST_PASSES):
        shuffled = chance.sample(texts, len(texts))
        while len(shuffled) > 1:
            size = chance.randint(2, 8)
            items, shuffled = shuffled[:size], shuffled[size:]
            forms = (" ".join(items), format_list(items, "standard", locale), format_list(items, "or", locale))
            out.append(chance.choice(forms))
    return list(dict.fromkeys(out))
