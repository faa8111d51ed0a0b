"""Plot a run's training curves and confusion matrix, as PNG, SVG or PDF by file extension."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixling.errors import DataError
from mixling.export.figures import MAX_TICKS, labels, new_figure, plot_text, save
from mixling.storage import write_atomic

_MAX_COUNTED_CLASSES = 30  # with more classes, cells have no room for counts
LEGEND_SUFFIX = ".txt"  # of the legend's file next to a plot
_PERPLEXITY = "val_perplexity"


def confusion_matrix(matrix: np.ndarray, names: Sequence[str], path: str | Path) -> None:
    """Plot counts (C, C), with a row for each true class and a column for each predicted one.

    The color is the fraction of the row, so that rare classes are visible; up to 30 classes have their counts written.
    Names that no installed font can draw are replaced by numbers, explained in a text file: `path` plus ".txt".

    Raises:
        StorageError: the file cannot be written; an existing file is unchanged.
        MissingPackage: matplotlib is not installed.
    """
    counts = np.asarray(matrix)
    n = len(names)
    assert counts.shape == (n, n), f"a matrix of shape {counts.shape} for {n} names"
    fractions = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    size = min(4.5 + 0.4 * n, 16.0)
    figure = new_figure(size, 0.9 * size)
    axes = figure.add_subplot()
    image = axes.imshow(fractions, cmap="Blues", vmin=0.0, vmax=1.0, interpolation="nearest")
    figure.colorbar(image, ax=axes, label="fraction of true class", fraction=0.045, pad=0.02)
    shown = range(0, n, math.ceil(n / MAX_TICKS))
    # Labels are not formulas: "$" in a name would be parsed, and rejected, as mathematics.
    drawn = labels(names)
    text: dict[str, Any] = {
        "fontsize": 9 if n <= _MAX_COUNTED_CLASSES else 6,
        "fontfamily": drawn.families,
        "parse_math": False,
    }
    axes.set_xticks(shown, [drawn.shown[index] for index in shown], rotation=90, **text)
    axes.set_yticks(shown, [drawn.shown[index] for index in shown], **text)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    if n <= _MAX_COUNTED_CLASSES:
        for row, column in np.ndindex(n, n):
            color = "white" if fractions[row, column] > 0.5 else "black"
            axes.text(column, row, f"{counts[row, column]}", ha="center", va="center", color=color, fontsize=7)
    if drawn.numbered:
        legend = Path(path).with_name(Path(path).name + LEGEND_SUFFIX)
        axes.set_title(f"#: names in {legend.name}", fontsize=8, parse_math=False)
        write_atomic(legend, "".join(f"#{number}\t{plot_text(name)}\n" for number, name in drawn.numbered.items()))
    save(figure, path)


def training_curves(records: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Plot the records of metrics.jsonl, one for each evaluation.

    Losses, validation metrics, perplexity and learning rate have a panel each, over the epoch, or over the step if no
    epoch is complete. Uses `epoch`, `step`, `train_loss`, `val_*` and `learning_rate`, as far as they are present.

    Raises:
        DataError: no record has both an epoch or step and one of these values.
        StorageError: the file cannot be written; an existing file is unchanged.
        MissingPackage: matplotlib is not installed.
    """
    keys = dict.fromkeys(key for record in records for key in record)
    metrics = [key for key in keys if key.startswith("val_") and key not in ("val_loss", _PERPLEXITY)]
    panels = {
        "loss": ["train_loss", "val_loss"],
        "validation metrics": metrics,
        "perplexity": [_PERPLEXITY],
        "learning rate": ["learning_rate"],
    }
    x_key = "epoch" if any(x >= 1 for x, _ in _points(records, "epoch", "epoch")) else "step"
    drawn = {
        title: curves
        for title, panel in panels.items()
        if (curves := {key: points for key in panel if (points := _points(records, x_key, key))})
    }
    if not drawn:
        raise DataError(
            "there is no training curve: no record has an epoch with a loss, a validation metric or a learning rate"
        )
    figure = new_figure(8.0, 2.8 * len(drawn))
    from matplotlib.ticker import MaxNLocator

    all_axes = figure.subplots(len(drawn), sharex=True, squeeze=False)[:, 0]
    for axes, (title, panel) in zip(all_axes, drawn.items(), strict=True):
        for key, points in panel.items():
            axes.plot(*zip(*points, strict=True), label=key, marker=".")
        axes.set_ylabel(title)
        axes.grid(alpha=0.3, which="both")
        axes.legend()
        if title == "perplexity":  # from the size of the vocabulary down to a few
            axes.set_yscale("log")
    all_axes[-1].set_xlabel(x_key)
    all_axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    save(figure, path)


def _points(records: Sequence[Mapping[str, Any]], x_key: str, key: str) -> list[tuple[float, float]]:
    """Return the points of a curve, from the records that have both values as finite numbers."""
    pairs = [(record.get(x_key), record.get(key)) for record in records]
    return [(float(x), float(y)) for x, y in pairs if _is_number(x) and _is_number(y)]  # type: ignore[arg-type]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
