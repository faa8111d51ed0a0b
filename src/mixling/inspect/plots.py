"""Pictures of a run, as PNG files; matplotlib is imported when one is drawn, and no global state of it is touched."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mixling.errors import DataError, MissingPackage
from mixling.storage import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 120
_MAX_COUNTED_CLASSES = 30  # more classes leave no room for a count in each cell
_MAX_TICKS = 75
_MAX_NAME = 24
_PERPLEXITY = "dev_perplexity"


def confusion_matrix(matrix: np.ndarray, names: Sequence[str], path: str | Path) -> None:
    """Draw counts (C, C), a row for each true class and a column for each predicted one, as a PNG file.

    The colour is the part of the row, so that rare classes are seen too; up to 30 classes have their counts written.

    Raises:
        StorageError: the file cannot be written; what stood there still stands.
        MissingPackage: matplotlib is not installed.
    """
    counts = np.asarray(matrix)
    n = len(names)
    assert counts.shape == (n, n), f"a matrix of shape {counts.shape} for {n} names"
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    size = min(4.5 + 0.4 * n, 16.0)
    figure = _figure(size, 0.9 * size)
    axes = figure.add_subplot()
    image = axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, interpolation="nearest")
    figure.colorbar(image, ax=axes, label="part of the true class", fraction=0.045, pad=0.02)
    shown = range(0, n, math.ceil(n / _MAX_TICKS))
    # A label is never a formula: "$" in a name would be parsed, and refused, as mathematics.
    text: dict[str, Any] = {"fontsize": 9 if n <= _MAX_COUNTED_CLASSES else 6, "parse_math": False}
    axes.set_xticks(shown, [_short(names[index]) for index in shown], rotation=90, **text)
    axes.set_yticks(shown, [_short(names[index]) for index in shown], **text)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    if n <= _MAX_COUNTED_CLASSES:
        for row, column in np.ndindex(n, n):
            colour = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, f"{counts[row, column]}", ha="center", va="center", color=colour, fontsize=7)
    _save(figure, path)


def cost_curves(models: Mapping[str, Sequence[tuple[int, float, int]]], path: str | Path) -> None:
    """Draw (tokens, seconds, peak bytes) of models, time and memory each over the length, as a PNG file.

    Raises:
        StorageError: the file cannot be written; what stood there still stands.
        MissingPackage: matplotlib is not installed.
    """
    figure = _figure(11.0, 4.5)
    for number, (title, column, scale) in enumerate([("ms a batch", 1, 1e3), ("peak MB", 2, 1e-6)], 1):
        axes = figure.add_subplot(1, 2, number)
        for name, rows in models.items():
            axes.plot([row[0] for row in rows], [row[column] * scale for row in rows], marker="o", label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("tokens")
        axes.set_ylabel(title)
        axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    _save(figure, path)


def training_curves(records: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Draw the records of metrics.jsonl, one for each evaluation, as a PNG file.

    Losses, dev metrics, perplexity and learning rate have a panel each, over the epoch, or over the step of a run that
    has not ended one. Reads `epoch`, `step`, `train_loss`, `dev_*` and `learning_rate`, and draws those that there are.

    Raises:
        DataError: no record holds an epoch or a step, and one of these numbers.
        StorageError: the file cannot be written; what stood there still stands.
        MissingPackage: matplotlib is not installed.
    """
    keys = dict.fromkeys(key for record in records for key in record)
    metrics = [key for key in keys if key.startswith("dev_") and key not in ("dev_loss", _PERPLEXITY)]
    panels = {
        "loss": ["train_loss", "dev_loss"],
        "dev metrics": metrics,
        "perplexity": [_PERPLEXITY],
        "learning rate": ["learning_rate"],
    }
    place = "epoch" if any(x >= 1 for x, _ in _points(records, "epoch", "epoch")) else "step"
    curves = {title: {key: _points(records, place, key) for key in panel} for title, panel in panels.items()}
    drawn = {title: {key: points for key, points in panel.items() if points} for title, panel in curves.items()}
    drawn = {title: panel for title, panel in drawn.items() if panel}
    if not drawn:
        raise DataError(
            "no training curve to draw: no record holds an epoch with a loss, a dev metric or a learning rate"
        )
    figure = _figure(8.0, 2.8 * len(drawn))
    from matplotlib.ticker import MaxNLocator

    all_axes = figure.subplots(len(drawn), sharex=True, squeeze=False)[:, 0]
    for axes, (title, panel) in zip(all_axes, drawn.items(), strict=True):
        for key, points in panel.items():
            axes.plot(*zip(*points, strict=True), label=key, marker=".")
        axes.set_ylabel(title)
        axes.grid(alpha=0.3, which="both")
        axes.legend()
        if title == "perplexity":  # it begins at the size of the vocabulary and ends at a few
            axes.set_yscale("log")
    all_axes[-1].set_xlabel(place)
    all_axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    _save(figure, path)


def learning_curves(
    models: Mapping[str, Mapping[int, Sequence[float]]], path: str | Path, *, metric: str, levels: Mapping[str, float]
) -> None:
    """Draw results of models over the number of training examples, as a PNG file: medians, in bands of all runs.

    Args:
        models: by name, for each number of examples, the result of each run.
        metric: what the results are, such as "test MSE".
        levels: results without training, by name, drawn as level lines.

    Raises:
        StorageError: the file cannot be written; what stood there still stands.
        MissingPackage: matplotlib is not installed.
    """
    figure = _figure(6.5, 4.5)
    axes = figure.add_subplot()
    for name, results in models.items():
        sizes = sorted(results)
        axes.plot(sizes, [float(np.median(results[size])) for size in sizes], marker="o", label=name)
        axes.fill_between(
            sizes, [min(results[size]) for size in sizes], [max(results[size]) for size in sizes], alpha=0.2
        )
    for name, level in levels.items():
        axes.axhline(level, linestyle=":", color="grey")
        axes.annotate(name, (0.01, level), xycoords=axes.get_yaxis_transform(), va="bottom", fontsize=8, color="grey")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("training examples")
    axes.set_ylabel(metric)
    axes.grid(alpha=0.3)
    axes.legend()
    _save(figure, path)


def token_maps(models: Mapping[str, tuple[np.ndarray, Mapping[str, np.ndarray]]], path: str | Path) -> None:
    """Draw maps (M, N) from input to output tokens below the signals that they belong to, as a PNG file.

    Args:
        models: by name, a map and signals (N,) by name. Each map has its own scale, as the sizes of gradients differ;
            it ends at the 99th percentile, so that a few large entries do not hide the rest.

    Raises:
        StorageError: the file cannot be written; what stood there still stands.
        MissingPackage: matplotlib is not installed.
    """
    figure = _figure(3.6 * len(models), 5.2)
    all_axes = figure.subplots(2, len(models), squeeze=False, sharex=True, height_ratios=(2, 5))
    for (above, below), (name, (token_map, signals)) in zip(all_axes.T, models.items(), strict=True):
        for label, signal in signals.items():
            above.plot(signal, label=label, linewidth=1)
        above.set_title(name, parse_math=False)
        image = below.imshow(
            token_map,
            cmap="viridis",
            vmin=0.0,
            vmax=np.quantile(token_map, 0.99),
            interpolation="nearest",
            aspect="auto",
        )
        figure.colorbar(image, ax=below, orientation="horizontal", extend="max")
        below.set_xlabel("input token")
    all_axes[0, 0].legend(fontsize=7)
    all_axes[1, 0].set_ylabel("output token")
    _save(figure, path)


def _points(records: Sequence[Mapping[str, Any]], place: str, key: str) -> list[tuple[float, float]]:
    """The pairs (place, value) of the records that hold both as finite numbers."""
    pairs = [(record.get(place), record.get(key)) for record in records]
    return [(float(x), float(y)) for x, y in pairs if _is_number(x) and _is_number(y)]  # type: ignore[arg-type]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _short(name: str) -> str:
    name = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name)
    return name if len(name) <= _MAX_NAME else name[: _MAX_NAME - 1] + "…"


def _figure(width: float, height: float) -> Figure:
    """A figure of its own, width and height in inches, without pyplot and its list of open figures."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackage('pictures need matplotlib; install it by pip install "mixling[train]"') from None
    figure = Figure(figsize=(width, height), dpi=_DPI, layout="compressed")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, path: str | Path) -> None:
    picture = io.BytesIO()
    with warnings.catch_warnings():
        # A script that the bundled font lacks is drawn as boxes; that is no reason to fail or to fill the terminal.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support .* natively")  # before 3.11
        figure.savefig(picture, format="png", metadata={"Software": None})
    write_atomic(path, picture.getvalue())
