"""Noise as people, keyboards and scanners make it: changes of single words, and of texts at a given rate.

Words with fewer than three characters or with a digit keep their spelling, because a typo would make another short word
or number of them. The functions of `NOISES` return the word itself if there is nothing to change.

All random numbers come from `random()`, the only method of `random.Random` whose sequence Python guarantees across
versions.
"""

from __future__ import annotations

import functools
import string
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mixling.errors import ConfigError, near_miss
from mixling.features.cells import cells_of, with_cells
from mixling.native import _core
from mixling.text.encoder import Text
from mixling.text.words import word_spans

T = TypeVar("T")


class RandomNumbers(Protocol):
    """A source of random numbers, such as `random.Random`."""

    def random(self) -> float:
        """Return a number from 0 to below 1."""


class WordNumbers:
    """The random numbers of a word, SplitMix64's: `random.Random` takes ten times as long to be made as a typo.

    Args:
        number: of the sequence; each has other numbers.
    """

    def __init__(self, word: str, number: int) -> None:
        self._state = zlib.crc32(word.encode()) << 32 | number

    def random(self) -> float:
        """Return the next number from 0 to below 1."""
        self._state = z = (self._state + 0x9E3779B97F4A7C15) & _BITS
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & _BITS
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & _BITS
        return ((z ^ z >> 31) >> 11) * 2.0**-53


Noise = Callable[[str, RandomNumbers], str]
"""Maps a word and random numbers to the changed word."""

_BITS = (1 << 64) - 1

_MIN_CHARS = 3

_KEY_ROWS = ("1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm")
# Characters that optical character recognition confuses, in both directions.
_OCR_PAIRS = (
    ("l", "1"), ("l", "i"), ("o", "0"), ("s", "5"), ("b", "6"), ("g", "9"), ("z", "2"), ("e", "c"), ("h", "b"),
    ("a", "o"), ("u", "v"), ("f", "t"), ("n", "u"), ("rn", "m"), ("vv", "w"), ("cl", "d"), ("ri", "n"), ("li", "h"),
)  # fmt: skip
_EMOJI = tuple("😀😂😍😊😭😡👍👎🙏🔥🎉💔🤔😅❤✨")


def swap(word: str, rng: RandomNumbers) -> str:
    """Swap two neighboring characters that differ."""
    locations = [i for i in range(len(word) - 1) if word[i] != word[i + 1]]
    if not _can_be_misspelled(word) or not locations:
        return word
    i = _pick(locations, rng)
    return word[:i] + word[i + 1] + word[i] + word[i + 2 :]


def delete(word: str, rng: RandomNumbers) -> str:
    """Delete a character."""
    if not _can_be_misspelled(word):
        return word
    i = int(rng.random() * len(word))
    return word[:i] + word[i + 1 :]


def insert(word: str, rng: RandomNumbers) -> str:
    """Double a character."""
    if not _can_be_misspelled(word):
        return word
    i = int(rng.random() * len(word))
    return word[: i + 1] + word[i:]


def keyboard(word: str, rng: RandomNumbers) -> str:
    """Replace a letter by a neighboring one on a QWERTY keyboard."""
    locations = [i for i, letter in enumerate(word) if letter.lower() in _NEIGHBORS]
    if not _can_be_misspelled(word) or not locations:
        return word
    i = _pick(locations, rng)
    hit = _pick(_NEIGHBORS[word[i].lower()], rng)
    return word[:i] + (hit.upper() if word[i].isupper() else hit) + word[i + 1 :]


def ocr(word: str, rng: RandomNumbers) -> str:
    """Replace one or two characters by similar ones: letters A to Z, and digits that resemble them."""
    lower = word.lower()
    found = [
        (i, part) for i in range(len(word)) for part in (lower[i : i + 1], lower[i : i + 2]) if part in _LOOKALIKES
    ]
    if not _can_be_misspelled(word) or len(lower) != len(word) or not found:
        return word
    i, part = _pick(found, rng)
    return word[:i] + _pick(_LOOKALIKES[part], rng) + word[i + len(part) :]


def case(word: str, rng: RandomNumbers) -> str:
    """Change to upper case, title case or lower case; models that lower-case texts see no difference."""
    others = [other for other in (word.upper(), word.capitalize(), word.lower()) if other != word]
    return _pick(others, rng) if others else word


def accents(word: str, rng: RandomNumbers) -> str:
    """Remove all accents of Latin letters, as on a keyboard without them."""
    if word.isascii():
        return word
    letters = unicodedata.normalize("NFD", word)
    if not any("a" <= letter.lower() <= "z" for letter in letters):  # marks of other scripts are essential
        return word
    return unicodedata.normalize("NFC", "".join(letter for letter in letters if not unicodedata.combining(letter)))


def emoji(word: str, rng: RandomNumbers) -> str:
    """Append an emoji."""
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


_IN_C = ("swap", "delete", "insert", "keyboard", "ocr")  # noises, in the order of native/texts/typos.c


def misspell(words: Sequence[str], kinds: Sequence[str], numbers: npt.NDArray[np.integer]) -> list[str]:
    """Return each word with a noise of its own, by the random numbers `WordNumbers(word, number)` of the word.

    Computed in C for words in ASCII.

    Args:
        kinds: of `NOISES`, one for each word.
        numbers: (W,) of the words' sequences.
    """
    made: Sequence[str | None] = [None] * len(words)
    if set(kinds) <= set(_IN_C):
        codes = bytes(map(_IN_C.index, kinds))
        made = _core.misspell(list(words), np.asarray(numbers, np.uint32).tobytes(), codes, *_tables())
    return [
        NOISES[kind](word, WordNumbers(word, int(number))) if item is None else item
        for item, word, kind, number in zip(made, words, kinds, numbers, strict=True)
    ]


@functools.cache
def _tables() -> tuple[tuple[bytes, ...], tuple[tuple[bytes, tuple[bytes, ...]], ...]]:
    """Return the neighbors of the letters a to z on the keyboard, and the lookalikes, in bytes."""
    neighbors = tuple(_NEIGHBORS[letter].encode() for letter in string.ascii_lowercase)
    return neighbors, tuple(
        (part.encode(), tuple(other.encode() for other in others)) for part, others in _LOOKALIKES.items()
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


def noisy(text: Text, level: NoiseLevel, rng: RandomNumbers) -> Text:
    """Return a text with each word changed at the rate of the level; the characters between words stay the same.

    A text that is already split keeps its number of words.
    """
    return _noisy(text, NOISES[level.noise], level.rate, rng)


def noisy_texts(texts: Iterable[Text], level: NoiseLevel, *, first: int = 0, seed: int = 0) -> list[Text]:
    """Return texts with noise; the result for a text depends on its index, not on the other texts.

    Args:
        first: the index of the first of the texts.
    """
    return [noisy(text, level, Random(f"{seed} {level.noise} {index}")) for index, text in enumerate(texts, first)]


def mixed_noise(texts: Iterable[Text], kinds: Sequence[str], rate: float, *, seed: int = 0) -> list[Text]:
    """Return texts with each word changed at a rate, by one of several kinds of noise, all equally frequent.

    Args:
        kinds: of `NOISES`.
    """
    noises = [NOISES[kind] for kind in kinds]

    def change(word: str, rng: RandomNumbers) -> str:
        return _pick(noises, rng)(word, rng)

    return [_noisy(text, change, rate, Random(f"{seed} {index}")) for index, text in enumerate(texts)]


def blend(words: Sequence[str], rng: RandomNumbers) -> str:
    """Return a pseudo-word: the beginning of a random word and the end of another.

    Args:
        words: words of at least four characters.
    """
    first = _pick(words, rng)
    second = _pick(words, rng)
    return first[: _inside(first, rng)] + second[_inside(second, rng) :]


def blendable(words: Iterable[str]) -> list[str]:
    """Return the distinct words that `blend` accepts and that have letters only, in order of first appearance."""
    return [word for word in dict.fromkeys(words) if len(word) >= 4 and word.isalpha()]


def _can_be_misspelled(word: str) -> bool:
    return len(word) >= _MIN_CHARS and (word.isalpha() or not any(map(str.isdigit, word)))


def _pick(items: Sequence[T], rng: RandomNumbers) -> T:
    return items[int(rng.random() * len(items))]


def _inside(word: str, rng: RandomNumbers) -> int:
    """Return a random index with at least two characters on either side."""
    return 2 + int(rng.random() * (len(word) - 3))


def _noisy(text: Text, change: Noise, rate: float, rng: RandomNumbers) -> Text:
    if isinstance(text, list):
        return [change(word, rng) if rng.random() < rate else word for word in text]
    cells = cells_of(text)
    if isinstance(text, tuple):
        return with_cells(tuple(_noisy_string(part, change, rate, rng) for part in text), cells)
    return with_cells(_noisy_string(text, change, rate, rng), cells)


def _noisy_string(text: str, change: Noise, rate: float, rng: RandomNumbers) -> str:
    parts = []
    done = 0
    for start, end in word_spans(text, len(text)):
        if rng.random() < rate and text[start].isalnum():
            parts += [text[done:start], change(text[start:end], rng)]
            done = end
    return "".join(parts) + text[done:]


def _neighbors() -> dict[str, str]:
    """Return the letters around each letter; each row of keys is half a key to the right of the row above."""
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
            if one.isalpha():  # words with digits stay unchanged
                out.setdefault(one, []).append(other)
    return out


_NEIGHBORS = _neighbors()
_LOOKALIKES = _lookalikes()
