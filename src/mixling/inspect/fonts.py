"""Names in any script: the installed fonts that can draw them, and numbers in place of what none can."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

_MAX_NAME = 24
# Of every character these have a box, or signs for formulas alone.
_NOT_FOR_TEXT = ("Last Resort", "STIX", "cm", "DejaVu Math")


class Labels(NamedTuple):
    """Names as a picture has them.

    shown: each name, shortened, or "#" and its number, from 1, where no installed font has all of its characters.
    families: the fonts to draw them with.
    numbered: the names that have a number.
    """

    shown: list[str]
    families: list[str]
    numbered: Mapping[int, str]


def labels(names: Sequence[str]) -> Labels:
    """Return the names as they can be drawn with the fonts that are installed."""
    families: dict[str, None] = {}
    shown, numbered = [], {}
    for number, name in enumerate(names, 1):
        name = printable(name)
        name = name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 1] + "…"
        found = [_family(character) for character in name if not _invisible(character)]
        if None in found:
            numbered[number] = names[number - 1]
            name = f"#{number}"
        else:
            families.update(dict.fromkeys(family for family in found if family))
            name = "".join(character for character in name if not _invisible(character) or _family(character))
        shown.append(name)
    return Labels(shown, [*_default(), *families], numbered)


def printable(name: str) -> str:
    """Return a name whose characters are all printable, or join others."""
    return "".join(c if c.isprintable() or _invisible(c) else "\N{REPLACEMENT CHARACTER}" for c in name)


def _invisible(character: str) -> bool:
    """Whether a character only says how others are drawn: joiners, marks of direction, variation selectors."""
    return unicodedata.category(character) == "Cf" or "\ufe00" <= character <= "\ufe0f"


def _default() -> list[str]:
    import matplotlib

    return list(matplotlib.rcParams["font.family"])


@cache
def _family(character: str) -> str | None:
    """The installed font family to draw a character with, "" for the default one; None: there is none."""
    from matplotlib.font_manager import FontProperties, findfont, fontManager

    if ord(character) in _characters(findfont(FontProperties())):
        return ""
    fonts = [font for font in fontManager.ttflist if not font.name.startswith(_NOT_FOR_TEXT)]
    # Upright and of usual weight first, then those made for all scripts; else in the order of their names.
    fonts.sort(
        key=lambda f: (
            f.style != "normal",
            f.weight not in (400, "normal", "regular"),
            "Noto Sans" not in f.name,
            f.name,
        )
    )
    return next((font.name for font in fonts if ord(character) in _characters(font.fname)), None)


@cache
def _characters(path: str) -> frozenset[int]:
    """The characters that a font file has outlines of; none of one of bitmaps, or that cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path)
        return frozenset(font.get_charmap()) if font.scalable else frozenset()
    except (OSError, RuntimeError, ValueError):
        return frozenset()
