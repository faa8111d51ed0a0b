"""Figures, their files and names in any script; matplotlib is imported when one is drawn, and pyplot never."""

from __future__ import annotations

import io
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mixling.errors import ConfigError, MissingPackage
from mixling.storage import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 120
# By format, what would differ from one time to the next is left out.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
_MAX_NAME = 24
MAX_TICKS = 75  # names along an axis
# Of every character these have a box, or signs for formulas alone.
_NOT_FOR_TEXT = ("Last Resort", "STIX", "cm", "DejaVu Math")


def new_figure(width: float, height: float) -> Figure:
    """A figure of its own, width and height in inches, without pyplot and its list of open figures.

    Raises:
        MissingPackage: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackage('pictures need matplotlib; install it by pip install "mixling[train]"') from None
    figure = Figure(figsize=(width, height), dpi=_DPI, layout="compressed")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure in the format of the file's name, PNG where that says none; the same one has the same bytes.

    Raises:
        StorageError: the file cannot be written; what stood there still stands.
    """
    import matplotlib

    name = _suffix(path) if _suffix(path) in _METADATA else "png"
    picture = io.BytesIO()
    # The ids within an SVG file are random numbers but for this setting, which is put back.
    with warnings.catch_warnings(), matplotlib.rc_context({"svg.hashsalt": "mixling"}):
        # A script that the bundled font lacks is drawn as boxes; that is no reason to fail or to fill the terminal.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support .* natively")  # before 3.11
        figure.savefig(picture, format=name, metadata=_METADATA[name])
    write_atomic(path, picture.getvalue())


def check_name(path: str | Path) -> None:
    """Refuse a name that says no format of pictures, before the work for one begins.

    Raises:
        ConfigError: it does not.
    """
    if _suffix(path) not in _METADATA:
        allowed = ", ".join(f".{name}" for name in _METADATA)
        raise ConfigError(f"{path}: the name of a picture ends in one of {allowed}; got {Path(path).suffix!r}")


def _suffix(path: str | Path) -> str:
    return Path(path).suffix.lower().removeprefix(".")


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
        name = plot_text(name)
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


def plot_text(name: str) -> str:
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
