"""The readable reference of native/unicode.c: classes, lower case and composition (NFC) of characters.

The tables are in `unicode_tables.inc`, which the C core includes; tools/unicode_tables.py writes and describes them. Of
`unicodedata` nothing is used.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import mixling

# classes in the splitter
WORD = 0
SPACE = 1
SIGN = 2
# of a character beside a sigma
CASED = 1
IGNORED = 2
_SIGMA = "\u03a3"
_FINAL_SIGMA = "\u03c2"
# Hangul syllables are composed by arithmetic: of 19 leading, 21 middle and 27 (or no) closing letters.
_SYLLABLES = 0xAC00
_LEADING = 0x1100
_MIDDLE = 0x1161
_CLOSING = 0x11A7
_NUM_MIDDLE = 21
_NUM_CLOSING = 28
_NUM_SYLLABLES = 11172


@dataclass(frozen=True)
class Tables:
    """The content of the file.

    runs: first code point, one beyond the last, and properties (see the file's description), of all code points.
    lower: lower case, of the characters that have another one.
    decompositions: one step of a character's canonical decomposition, Hangul syllables apart.
    compositions: the character that two make.
    classes: combining classes that are not 0.
    """

    version: tuple[int, int, int]
    runs: list[tuple[int, int, int]]
    lower: dict[str, str]
    decompositions: dict[str, str]
    compositions: dict[str, str]
    classes: dict[str, int]

    def ranges(self, kind: int) -> str:
        """Return the code points of a class of the splitter as the inside of a regular expression's brackets."""
        return _brackets((first, end) for first, end, value in self.runs if value & 3 == kind)


@functools.cache
def tables() -> Tables:
    """Return the tables, which are read once."""
    text = (Path(mixling.__file__).parent / "native" / "unicode_tables.inc").read_text("ascii")
    numbers = list(map(int, text.partition("\n")[2].split(",")))
    version = (numbers[0], numbers[1], numbers[2])
    rest = iter(numbers[3:])
    properties, single, double, decomposed = (list(itertools.islice(rest, next(rest))) for _ in range(4))
    runs: list[tuple[int, int, int]] = []
    classes: dict[str, int] = {}
    end = 0
    for length, value in zip(*[iter(properties)] * 2, strict=True):
        runs.append((end, end + length, value))
        if value >> 4:
            classes.update((chr(code), value >> 4) for code in range(end, end + length))
        end += length
    lower = {chr(code): chr(first) + chr(second) for code, first, second in zip(*[iter(double)] * 3, strict=True)}
    end = 0
    for gap, count, step, delta in zip(*[iter(single)] * 4, strict=True):
        codes = range(end + gap, end + gap + (count - 1) * step + 1, step)
        lower.update((chr(code), chr(code + delta)) for code in codes)
        end = codes[-1] + 1
    decompositions: dict[str, str] = {}
    compositions: dict[str, str] = {}
    code = 0
    for gap, first, second in zip(*[iter(decomposed)] * 3, strict=True):
        code += gap
        decompositions[chr(code)] = parts = chr(first) + (chr(second >> 1) if second > 1 else "")
        if not second & 1:
            compositions[parts] = chr(code)
    return Tables(version, runs, lower, decompositions, compositions, classes)


def normalize(word: str, *, lowercase: bool) -> str:
    """Return a word in Unicode's composed form (NFC), optionally in lower case."""
    return compose(lower(word) if lowercase else word)


def lower(text: str) -> str:
    """Return the text in lower case, as `str.lower` of a Python with this Unicode version."""
    if text.isascii():
        return text.lower()
    if _SIGMA in text:
        text = _with_final_sigmas(text)
    return _capitals().sub(_lowered, text)


def compose(text: str) -> str:
    """Return the text in the composed form NFC."""
    if text.isascii() or not _not_composed().search(text):
        return text
    return _composed(_ordered(list(_decomposed(text))))


@functools.cache
def _capitals() -> re.Pattern[str]:
    return re.compile(f"[{_brackets(_each(tables().lower))}]")


def _lowered(match: re.Match[str]) -> str:
    return tables().lower[match[0]]


def _with_final_sigmas(text: str) -> str:
    """Replace each capital sigma that ends a word by the final one: a cased letter is before it and none after."""
    kinds = _cased_or_ignored()
    out = list(text)
    before = 0
    ends = [False] * len(text)
    for location, char in enumerate(text):
        ends[location] = before == CASED
        before = before if kinds.get(char) == IGNORED else kinds.get(char, 0)
    after = 0
    for location in range(len(text) - 1, -1, -1):
        if text[location] == _SIGMA and ends[location] and after != CASED:
            out[location] = _FINAL_SIGMA
        after = after if kinds.get(text[location]) == IGNORED else kinds.get(text[location], 0)
    return "".join(out)


@functools.cache
def _cased_or_ignored() -> dict[str, int]:
    return {chr(code): value >> 2 & 3 for a, b, value in tables().runs if value >> 2 & 3 for code in range(a, b)}


@functools.cache
def _not_composed() -> re.Pattern[str]:
    """Match characters that a composed text lacks, or may lack: Unicode's quick check, blind to the order of marks."""
    known = tables()
    kept = set(known.compositions.values())
    other = {char for char in known.decompositions if char not in kept} | {parts[1] for parts in known.compositions}
    hangul = {(_MIDDLE, _MIDDLE + _NUM_MIDDLE), (_CLOSING + 1, _CLOSING + _NUM_CLOSING)}
    marks = _brackets((first, end) for first, end, value in known.runs if value >> 4)
    return re.compile(f"[{_brackets(_each(other) | hangul)}]|[{marks}]{{2}}")


def _decomposed(text: str) -> Iterator[str]:
    known = tables().decompositions
    for char in text:
        number = ord(char) - _SYLLABLES
        if 0 <= number < _NUM_SYLLABLES:
            rest, closing = divmod(number, _NUM_CLOSING)
            yield chr(_LEADING + rest // _NUM_MIDDLE)
            yield chr(_MIDDLE + rest % _NUM_MIDDLE)
            if closing:
                yield chr(_CLOSING + closing)
        elif char in known:
            yield from _decomposed(known[char])
        else:
            yield char


def _ordered(chars: list[str]) -> list[str]:
    """Sort the marks between two characters of class 0 by their classes; marks of one class keep their order."""
    classes = tables().classes
    out: list[str] = []
    for _, group in itertools.groupby(chars, classes.__contains__):
        out += sorted(group, key=lambda char: classes.get(char, 0))
    return out


def _composed(chars: list[str]) -> str:
    """Join each character with the last one of class 0, unless one between them has the same class or a higher one."""
    known = tables()
    out: list[str] = []
    starter = -1
    last_class = 0
    for char in chars:
        kind = known.classes.get(char, 0)
        free = starter == len(out) - 1 or 0 < last_class < kind
        if starter >= 0 and free and (both := _pair(out[starter], char, known)) is not None:
            out[starter] = both
            continue
        if kind == 0:
            starter = len(out)
        last_class = kind
        out.append(char)
    return "".join(out)


def _pair(first: str, second: str, known: Tables) -> str | None:
    leading = ord(first) - _LEADING
    middle = ord(second) - _MIDDLE
    closing = ord(second) - _CLOSING
    if 0 <= leading < 19 and 0 <= middle < _NUM_MIDDLE:
        return chr(_SYLLABLES + (leading * _NUM_MIDDLE + middle) * _NUM_CLOSING)
    syllable = ord(first) - _SYLLABLES
    if 0 <= syllable < _NUM_SYLLABLES and syllable % _NUM_CLOSING == 0 and 0 < closing < _NUM_CLOSING:
        return chr(ord(first) + closing)
    return known.compositions.get(first + second)


def _brackets(ranges: Iterable[tuple[int, int]]) -> str:
    """Return ranges of code points, each with one beyond its last, as the inside of a regular expression's brackets."""
    parts: list[list[int]] = []
    for first, end in sorted(ranges):
        if parts and parts[-1][1] == first:
            parts[-1][1] = end
        else:
            parts.append([first, end])
    return "".join(f"\\U{first:08x}-\\U{end - 1:08x}" for first, end in parts)


def _each(characters: Iterable[str]) -> set[tuple[int, int]]:
    return {(ord(char), ord(char) + 1) for char in characters}
