"""Find labels that a person reads as the same: different strings that look alike, or nearly so."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

_GROUPS = 5  # groups of labels that a line names
_MEMBERS = 8  # labels of a group that it names
# What has no width on the screen: marks of direction and joining (Cf), variation selectors, and fillers.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_DASHES = str.maketrans(dict.fromkeys("‐‑‒–—―−﹣－", "-"))
_QUOTES = str.maketrans({**dict.fromkeys("‘’‚‛′`´ʼ", "'"), **dict.fromkeys("“”„‟″«»", '"')})
# Letters of other alphabets that fonts draw like the letters of the first line, from Unicode's confusables (UTS 39).
_LATIN = "ABCEHIJKMNOPSTXYZaceijopsxyvudh"
_LETTERS = {
    "АВСЕНІЈКМ ОРЅТХҮ асеіјорѕхуѵ ԁһ": _LATIN,  # Cyrillic; a space: there is none
    "ΑΒϹΕΗΙͿΚΜΝΟΡ ΤΧΥΖαϲ ιϳορ  γνυ  ": _LATIN,  # Greek
}
_ALIKE = {ord(other): latin for row, letters in _LETTERS.items() for other, latin in zip(row, letters, strict=True)}
_ALIKE = {key: value for key, value in _ALIKE.items() if key != ord(" ")} | {
    ord("У"): "Y", ord("Ν"): "N", ord("ı"): "i", ord("ɑ"): "a", ord("ɡ"): "g",
    ord("ك"): "ک", ord("ي"): "ی", ord("ى"): "ی",
}  # fmt: skip
_DIGITS = str.maketrans("01|I", "Olll")  # 0 and O, and 1, I, l and | are alike in many fonts


def is_invisible(sign: str) -> bool:
    """Return whether a character has no width on the screen, or is a control character."""
    return unicodedata.category(sign) in ("Cf", "Cc") or bool(_INVISIBLE.match(sign))


def _seen(label: str) -> str:
    if label.isascii() and label.isprintable():
        return label
    return "".join(sign for sign in label if not is_invisible(sign) or sign.isspace()) or label


def _unquoted(label: str) -> str:
    label = label.translate(_QUOTES)
    pairs = ('""', "''", "[]", "()", "{}", "<>")
    return label[1:-1] if len(label) > 2 and label[0] + label[-1] in pairs else label


def _spaced(label: str) -> str:
    return re.sub(r"\s*([/,;:&+|])\s*", r"\1", " ".join(label.split()))


def _separated(label: str) -> str:
    joined = re.sub(r"(?<=[^\W\d_])[-_\s]+(?=[^\W\d_])", "", label.strip("_") or label)
    return re.sub(r"(?<=[^\W_])[-_\s]+(?=[^\W_])", " ", joined)


_Change = Callable[[str], str]
_INVISIBLY: tuple[tuple[str, _Change], ...] = (
    ("invisible characters", _seen),
    ("white space", _spaced),
    ("the Unicode form of a character", lambda label: unicodedata.normalize("NFC", label)),
    ("the width or style of characters", lambda label: unicodedata.normalize("NFKC", label)),
)
_CASE: tuple[str, _Change] = ("case", lambda label: label.lower().replace("i\u0307", "i"))  # of the Turkish capital
_ALPHABETS: tuple[str, _Change] = ("letters of another alphabet that look alike", lambda s: s.translate(_ALIKE))
_SIGNS: tuple[str, _Change] = ("signs that look alike", lambda label: label.translate(_DIGITS))
_PUNCTUATION: tuple[tuple[str, _Change], ...] = (
    ("dashes", lambda label: label.translate(_DASHES)),
    ("quotes or brackets", _unquoted),
    ("ß and ss", lambda label: label.replace("ß", "ss")),
    ("& and the word and", lambda label: re.sub(r"\s*&\s*", " and ", label)),
    ("hyphens, underscores and blanks", _separated),
    ("punctuation at the end", lambda label: label.rstrip(".,:; ") or label),
    ("+ or 0 in front of a number", lambda label: re.sub(r"^\+?(-?)0*(?=\d)", r"\1", label)),
    (".0 at the end", lambda label: re.sub(r"^([+-]?\d+)\.0+$", r"\1", label)),
)
_PLAIN = {"case", "& and the word and", "hyphens, underscores and blanks", "punctuation at the end", ".0 at the end"}
# Labels are alike if one of these makes them equal; 1 and l are not compared in lower case, where l and I differ.
_WAYS = (
    (*_INVISIBLY, _ALPHABETS, _CASE, *_PUNCTUATION),
    (*_INVISIBLY, _CASE, *_PUNCTUATION),
    (*_INVISIBLY, _ALPHABETS, _SIGNS, *_PUNCTUATION),
)


def similar_labels(counts: Mapping[str, int]) -> list[str]:
    """Return lines on labels that a person reads as the same, one for each way in which they differ.

    Args:
        counts: the number of examples of each label.
    """
    groups: dict[str, list[list[str]]] = defaultdict(list)
    order = sorted(counts, key=lambda name: (-counts[name], name))
    number = {name: index for index, name in enumerate(order)}
    group = list(range(len(order)))  # of each label, as the number of its first one

    def first(index: int) -> int:
        while group[index] != index:
            index = group[index]
        return index

    for way in _WAYS:
        known: dict[str, int] = {}
        for name in order:
            one, other = sorted((first(number[name]), first(known.setdefault(_changed(name, way), number[name]))))
            group[other] = one
    members: dict[int, list[str]] = defaultdict(list)
    for name in order:
        members[first(number[name])].append(name)
    for names in members.values():
        if len(names) > 1:
            groups[_difference(names)].append(names)
    return [_line(difference, found, counts) for difference, found in groups.items()]


def _changed(label: str, way: Iterable[tuple[str, _Change]]) -> str:
    for _, change in way:
        label = change(label)
    return label


def _difference(names: Sequence[str]) -> str:
    """Return what labels differ in: the fewest changes that make all of them equal."""
    for way in _WAYS:
        if len({_changed(name, way) for name in names}) > 1:
            continue
        left = list(way)
        for change in reversed(way):
            fewer = [item for item in left if item is not change]
            if len({_changed(name, fewer) for name in names}) == 1:
                left = fewer
        return " and ".join(name for name, _ in left)
    return "signs that look alike"


def _line(difference: str, groups: Sequence[Sequence[str]], counts: Mapping[str, int]) -> str:
    plain = difference in _PLAIN
    foreign = _ALPHABETS[0] in difference
    parts = []
    for names in groups[:_GROUPS]:
        listed = names[:_MEMBERS]
        more = f" and {len(names) - len(listed)} more" if len(names) > len(listed) else ""
        named = ", ".join(
            with_escapes(name) if plain else f"'{with_escapes(name, foreign=foreign)}'" for name in listed
        )
        parts.append(f"{named}{more} ({', '.join(f'{counts[name]:,}' for name in listed)} examples)")
    more = f"; and {len(groups) - _GROUPS} more groups" if len(groups) > _GROUPS else ""
    return f"labels that differ only in {difference}: {'; '.join(parts)}{more}"


def with_escapes(label: str, *, foreign: bool = False) -> str:
    """Return a label with what cannot be seen, or not be told from another character, as an escape such as \\u00a0.

    Args:
        foreign: escape all letters that look like Latin ones; by default, only those between Latin ones.
    """
    if label.isascii() and label.isprintable():
        return label
    out = []
    for at, sign in enumerate(label):
        category = unicodedata.category(sign)
        hidden = category[0] in "CZ" and sign != " "
        hidden = hidden or (category == "Mn" and unicodedata.normalize("NFC", label[max(at - 1, 0) : at + 1])[1:] == "")
        hidden = hidden or bool(_INVISIBLE.match(sign)) or unicodedata.normalize("NFKC", sign) != sign
        out.append(sign.encode("unicode_escape").decode() if hidden else sign)
    latin = foreign or any("LATIN" in unicodedata.name(sign, "") for sign in label if sign.isalpha())
    return "".join(sign.encode("unicode_escape").decode() if latin and ord(sign[0]) in _ALIKE else sign for sign in out)
