"""Noise as people, keyboards and scanners make it: changes of single words, and of texts at a given rate.

A word that has fewer than three characters or a digit keeps its spelling: a typo would make another short word or
number of it. Each function of `NOISES` returns the word itself where it has nothing to change.

Random numbers are made of those of `Random.random` alone, whose sequence is promised to stay as it is in all versions.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import TypeVar

from mixling.errors import ConfigError, near_miss
from mixling.text.encoder import Text
from mixling.text.words import word_spans

T = TypeVar("T")
Noise = Callable[[str, Random], str]
"""A word and random numbers to the word as it is written by mistake."""

_MIN_CHARS = 3

_KEY_ROWS = ("1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm")
# What optical character recognition takes one for the other, both ways: shapes that are alike in print.
_OCR_PAIRS = (
    ("l", "1"), ("l", "i"), ("o", "0"), ("s", "5"), ("b", "6"), ("g", "9"), ("z", "2"), ("e", "c"), ("h", "b"),
    ("a", "o"), ("u", "v"), ("f", "t"), ("n", "u"), ("rn", "m"), ("vv", "w"), ("cl", "d"), ("ri", "n"), ("li", "h"),
)  # fmt: skip
_EMOJI = tuple("😀😂😍😊😭😡👍👎🙏🔥🎉💔🤔😅❤✨")


def swap(word: str, rng: Random) -> str:
    """Exchange two neighbouring characters, which differ."""
    locations = [i for i in range(len(word) - 1) if word[i] != word[i + 1]]
    if not _is_misspelt(word) or not locations:
        return word
    i = _pick(locations, rng)
    return word[:i] + word[i + 1] + word[i] + word[i + 2 :]


def delete(word: str, rng: Random) -> str:
    """Leave out a character."""
    if not _is_misspelt(word):
        return word
    i = int(rng.random() * len(word))
    return word[:i] + word[i + 1 :]


def insert(word: str, rng: Random) -> str:
    """Write a character twice."""
    if not _is_misspelt(word):
        return word
    i = int(rng.random() * len(word))
    return word[: i + 1] + word[i:]


def keyboard(word: str, rng: Random) -> str:
    """Hit a key beside the right one, on a keyboard of the layout QWERTY; only its letters have neighbours."""
    locations = [i for i, letter in enumerate(word) if letter.lower() in _NEIGHBOURS]
    if not _is_misspelt(word) or not locations:
        return word
    i = _pick(locations, rng)
    hit = _pick(_NEIGHBOURS[word[i].lower()], rng)
    return word[:i] + (hit.upper() if word[i].isupper() else hit) + word[i + 1 :]


def ocr(word: str, rng: Random) -> str:
    """Take a character or two for others that look alike; letters A to Z and the digits that they are taken for."""
    lower = word.lower()
    found = [
        (i, part) for i in range(len(word)) for part in (lower[i : i + 1], lower[i : i + 2]) if part in _LOOKALIKES
    ]
    if not _is_misspelt(word) or len(lower) != len(word) or not found:
        return word
    i, part = _pick(found, rng)
    return word[:i] + _pick(_LOOKALIKES[part], rng) + word[i + len(part) :]


def case(word: str, rng: Random) -> str:
    """Write a word in capitals, with a capital first, or in small letters; lower-case models read no difference."""
    others = [other for other in (word.upper(), word.capitalize(), word.lower()) if other != word]
    return _pick(others, rng) if others else word


def accents(word: str, rng: Random) -> str:
    """Leave out all accents, as on a keyboard that has none; words without accents stay as they are."""
    if word.isascii():
        return word
    letters = unicodedata.normalize("NFD", word)
    if not any("a" <= letter.lower() <= "z" for letter in letters):  # marks of other scripts are no ornament
        return word
    return unicodedata.normalize("NFC", "".join(letter for letter in letters if not unicodedata.combining(letter)))


def emoji(word: str, rng: Random) -> str:
    """Write an emoji after the word."""
    return word + _pick(_EMOJI, rng)


NOISES: Mapping[str, Noise] = MappingProxyType(
    {
        "swap": swap,
        "delete": delete,
        "insert": insert,
        "keyboard": keyboard,
        "ocr": ocr,
        "case": case,
        "accents": accents,
        "emoji": emoji,
    }
)


@dataclass(frozen=True)
class NoiseLevel:
    """A noise of `NOISES`, and the fraction of the words that it changes.

    Raises:
        ConfigError: there is no such noise, or the rate is not from 0 to 1.
    """

    noise: str
    rate: float

    def __post_init__(self) -> None:
        if self.noise not in NOISES:
            raise ConfigError(f"noise: got {self.noise!r}; {near_miss(self.noise, NOISES)}")
        if not 0 <= self.rate <= 1:
            raise ConfigError(f"noise: got the rate {self.rate:g}; a fraction of the words from 0 to 1 is allowed")


def noisy(text: Text, level: NoiseLevel, rng: Random) -> Text:
    """Return a text whose words are each changed with the level's probability; all else stays as it is.

    Of words that were split before there are as many afterwards.
    """
    change, rate = NOISES[level.noise], level.rate
    if isinstance(text, list):
        return [change(word, rng) if rng.random() < rate else word for word in text]
    if isinstance(text, tuple):
        return _noisy(text[0], change, rate, rng), _noisy(text[1], change, rate, rng)
    return _noisy(text, change, rate, rng)


def noisy_texts(texts: Iterable[Text], level: NoiseLevel, *, first: int = 0, seed: int = 0) -> list[Text]:
    """Return texts as `noisy` changes them; what one becomes depends on its index, not on the texts before it.

    Args:
        first: the index of the first of the texts.
    """
    return [noisy(text, level, Random(f"{seed} {level.noise} {index}")) for index, text in enumerate(texts, first)]


def blend(words: Sequence[str], rng: Random) -> str:
    """Return the beginning of a word and the end of another as one word, which looks like a word of the language.

    Args:
        words: of four characters or more each.
    """
    first, second = _pick(words, rng), _pick(words, rng)
    return first[: _inside(first, rng)] + second[_inside(second, rng) :]


def blendable(words: Iterable[str]) -> list[str]:
    """Return the distinct words that `blend` takes, those of letters alone, in the order of their first appearance."""
    return [word for word in dict.fromkeys(words) if len(word) >= 4 and word.isalpha()]


def _is_misspelt(word: str) -> bool:
    return len(word) >= _MIN_CHARS and (word.isalpha() or not any(map(str.isdigit, word)))


def _pick(items: Sequence[T], rng: Random) -> T:
    return items[int(rng.random() * len(items))]


def _inside(word: str, rng: Random) -> int:
    """An index that leaves two characters or more on either side."""
    return 2 + int(rng.random() * (len(word) - 3))


def _noisy(text: str, change: Noise, rate: float, rng: Random) -> str:
    parts, done = [], 0
    for start, end in word_spans(text, len(text)):
        if rng.random() < rate and text[start].isalnum():
            parts += [text[done:start], change(text[start:end], rng)]
            done = end
    return "".join(parts) + text[done:]


def _neighbours() -> dict[str, str]:
    """Of each letter the letters on the keys around it; each row of keys is half a key to the right of the last."""
    out = {}
    for row, keys in enumerate(_KEY_ROWS):
        for column, key in enumerate(keys):
            around = [(row, column - 1), (row, column + 1), (row - 1, column), (row - 1, column + 1)]
            around += [(row + 1, column - 1), (row + 1, column)]
            near = [_KEY_ROWS[r][c] for r, c in around if 0 <= r < len(_KEY_ROWS) and 0 <= c < len(_KEY_ROWS[r])]
            out[key] = "".join(letter for letter in near if letter.isalpha())
    return {key: letters for key, letters in out.items() if key.isalpha()}


def _lookalikes() -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for first, second in _OCR_PAIRS:
        for one, other in ((first, second), (second, first)):
            if one.isalpha():  # digits are not looked for: a word with one is left alone
                out.setdefault(one, []).append(other)
    return out


_NEIGHBOURS = _neighbours()
_LOOKALIKES = _lookalikes()
