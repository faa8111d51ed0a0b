"""Create figures, save them, and draw names in any script; imports matplotlib on demand, and never pyplot."""

from __future__ import annotations

import io
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mixling.errors import ConfigError, MissingPackage
from mixling.installation import install_command
from mixling.storage import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 120
# Metadata to omit, by format, because they would differ each time.
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
# of dark pictures
_DARKEST = 0.06
_BRIGHTEST = 0.94
_MAX_NAME = 24
MAX_TICKS = 75  # names along an axis
# These fonts have only boxes, or symbols for formulas.
_NOT_FOR_TEXT = ("Last Resort", "STIX", "cm", "DejaVu Math")


def new_figure(width: float, height: float) -> Figure:
    """Return a figure, width and height in inches, that is not registered in pyplot's list of open figures.

    Raises:
        MissingPackage: matplotlib is not installed.
    """
    _check_installed()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=_DPI, layout="compressed")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure in the format of the file's extension (PNG if unknown); equal figures give equal bytes.

    If the name ends in "-dark", such as maps-dark.svg, gray on white becomes gray on black, for dark pages.

    Raises:
        StorageError: the file cannot be written; an existing file is unchanged.
    """
    import matplotlib

    if Path(path).stem.lower().endswith("-dark"):
        _darken(figure)
    name = _suffix(path) if _suffix(path) in _METADATA else "png"
    content = io.BytesIO()
    # Without this setting, the ids in SVG files are random.
    with warnings.catch_warnings(), matplotlib.rc_context({"svg.hashsalt": "mixling"}):
        # Characters missing from the font are drawn as boxes; that is no reason to fail or to flood the terminal.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support .* natively")  # before 3.11
        figure.savefig(content, format=name, metadata=_METADATA[name])
    write_atomic(path, content.getvalue())


def _darken(figure: Figure) -> None:
    """Invert gray colors for dark mode, except in images and their labels."""
    from matplotlib.artist import Artist
    from matplotlib.colors import to_rgba

    def turned(color: Any) -> Any:
        if isinstance(color, str) and color == "none":
            return color
        red, green, blue, alpha = to_rgba(color)
        if not red == green == blue:
            return color
        gray = _DARKEST + (1 - red) * (_BRIGHTEST - _DARKEST)
        return (gray, gray, gray, alpha)

    left: set[Artist] = {text for axes in figure.axes if axes.images for text in axes.texts}
    left |= {figure, *figure.axes}  # their colors are their patches'
    for artist in figure.findobj():
        if artist not in left:
            for name in ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor"):
                get = getattr(artist, f"get_{name}", None)
                put = getattr(artist, f"set_{name}", None)
                if get is not None and put is not None and (isinstance(color := get(), str) or np.ndim(color) == 1):
                    put(turned(color))


def check_plot(path: str | Path) -> None:
    """Check that a plot can be drawn to a file of this name, before the work for the plot begins.

    Raises:
        ConfigError: the extension names no supported format.
        MissingPackage: matplotlib is not installed.
    """
    if _suffix(path) not in _METADATA:
        allowed = ", ".join(f".{name}" for name in _METADATA)
        raise ConfigError(f"{path}: the name of a plot ends in one of {allowed}; got {Path(path).suffix!r}")
    _check_installed()


def _check_installed() -> None:
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingPackage(f"plots need matplotlib; run {install_command('plots')}") from None


def _suffix(path: str | Path) -> str:
    return Path(path).suffix.lower().removeprefix(".")


class Labels(NamedTuple):
    """Names as drawn in a plot.

    Attributes:
        shown: each name, shortened; or "#" and its number, from 1, if no installed font has all of its characters.
        families: the fonts to draw them with.
        numbered: the names that are shown as numbers.
    """

    shown: list[str]
    families: list[str]
    numbered: Mapping[int, str]


def labels(names: Sequence[str]) -> Labels:
    """Return the names as they can be drawn with the installed fonts.

    Raises:
        MissingPackage: matplotlib is not installed.
    """
    _check_installed()
    families: dict[str, None] = {}
    shown = []
    numbered = {}
    for number, name in enumerate(names, 1):
        name = plot_text(name)
        name = name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 1] + "…"
        used = [_family(character) for character in name if not _invisible(character)]
        if None in used:
            numbered[number] = names[number - 1]
            name = f"#{number}"
        else:
            families.update(dict.fromkeys(family for family in used if family))
            name = "".join(character for character in name if not _invisible(character) or _family(character))
        shown.append(name)
    return Labels(shown, [*_default(), *families], numbered)


def plot_text(name: str) -> str:
    """Replace characters that are neither printable nor joiners."""
    return "".join(c if c.isprintable() or _invisible(c) else "\N{REPLACEMENT CHARACTER}" for c in name)


def _invisible(character: str) -> bool:
    """Whether a character only affects how others are drawn: joiners, marks of direction, variation selectors."""
    return unicodedata.category(character) == "Cf" or "\ufe00" <= character <= "\ufe0f"


def _default() -> list[str]:
    import matplotlib

    return list(matplotlib.rcParams["font.family"])


@cache
def _family(character: str) -> str | None:
    """Return the installed font family for a character, "" for the default one; None if there is none."""
    from matplotlib.font_manager import FontProperties, findfont, fontManager

    if ord(character) in _characters(findfont(FontProperties())):
        return ""
    fonts = [font for font in fontManager.ttflist if not font.name.startswith(_NOT_FOR_TEXT)]
    # Upright and regular fonts first, then those for all scripts, then by name.
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
    """Return the characters that a font file has outlines of; none for bitmaps and unreadable files."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path)
        return frozenset(font.get_charmap()) if font.scalable else frozenset()
    except (OSError, RuntimeError, ValueError):
        return frozenset()
