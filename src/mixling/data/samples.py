"""A data set for trying the library without a download: which language is a text in?

It is made of the locale data that the Babel package ships (CLDR: names of territories, languages, scripts, currencies,
units, months and days) in 60 languages and 21 scripts. What is decided here:

- A name that stands under two of the languages, letter case aside, is dropped from both: "Panama" and "September"
  have no right answer, and a classifier of single labels can learn nothing from it.
- A hash of the name says whether it is for training, dev or test (80/10/10), so no text stands in two of them and a
  newer Babel moves none. Forms of one word ("gram", "kilogram") may still be parted.
- People type sentences, while these are names of one or two words: training also sees each of its names once more, in
  lists of two to five written the language's own way ("Monday, Welsh, or hours", "Montag, Walisisch oder Stunden")
  or parted by spaces. Dev and test are names alone.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from typing import TYPE_CHECKING

from mixling.errors import UserError

if TYPE_CHECKING:
    from babel import Locale

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
    names = {code: _names(locale) for code, locale in locales.items()}
    spoken_in = Counter(key for texts in names.values() for key in {text.casefold() for text in texts})
    rows: dict[str, list[tuple[str, str]]] = {"train": [], "dev": [], "test": []}
    for code, texts in names.items():
        parts: dict[str, list[str]] = {part: [] for part in rows}
        for text in texts:
            if spoken_in[text.casefold()] == 1:
                parts[_part(text, seed)].append(text)
        parts["train"] += _lists(parts["train"], locales[code], seed)
        for part, chosen in parts.items():
            rows[part] += [(text, code) for text in chosen]
    return rows


def _names(locale: Locale) -> list[str]:
    tables = [locale.territories, locale.languages, locale.scripts, locale.currencies]
    tables += [by_use[use]["wide"] for by_use in (locale.months, locale.days) for use in ("format", "stand-alone")]
    names = {name for table in tables for name in table.values()}
    names.update(unit["long"] for unit in locale.unit_display_names.values() if "long" in unit)
    return sorted(names)


def _part(text: str, seed: int) -> str:
    digest = hashlib.blake2b(f"{seed}:{text.casefold()}".encode(), digest_size=8).digest()
    tenth = int.from_bytes(digest, "big") % 10
    return "train" if tenth < 8 else "dev" if tenth == 8 else "test"


def _lists(names: list[str], locale: Locale, seed: int) -> list[str]:
    """Each name once, in a random order, in lists of two to five (a single name that is left at the end stays out)."""
    from babel.lists import format_list

    chance = random.Random(f"{seed}:{locale.language}")
    shuffled = chance.sample(names, len(names))
    out = []
    while len(shuffled) > 1:
        size = chance.randint(2, 5)
        items, shuffled = shuffled[:size], shuffled[size:]
        forms = (" ".join(items), format_list(items, "standard", locale), format_list(items, "or", locale))
        out.append(chance.choice(forms))
    return out
