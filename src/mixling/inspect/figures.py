"""Figures and their files; matplotlib is imported when one is drawn, and pyplot with its open figures never."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

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
