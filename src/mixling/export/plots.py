"""Plots of a run: its training curves and its confusion matrix, as PNG, SVG or PDF files by their name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixling.errors import DataError
from mixling.export.figures import MAX_TICKS, labels, new_figure, printable, save
from mixling.storage import write_atomic

_MAX_COUNTED_CLASSES = 30  # more classes leave no room for a count in each cell
LEGEND_SUFFIX = ".txt"  # of the file beside a picture
_PERPLEXITY = "val_perplexity"


def confusion_matrix(matrix: np.ndarray, names: Sequence[str], path: str | Path) -> None:
    """Draw counts (C, C), a row for each true class and a column for each predicted one, as a picture file.

    The colour is the share of the row, so that rare classes are seen too; up to 30 classes have their counts written.
    Names that no installed font can draw are numbers, and a text file beside the picture has them: `path` and ".txt".

    Raises:
        StorageError: the file cannot be written; what stood there still stands.
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
    figure.colorbar(image, ax=axes, label="share of the true class", fraction=0.045, pad=0.02)
    shown = range(0, n, math.ceil(n / MAX_TICKS))
    # A label is never a formula: "$" in a name would be parsed, and refused, as mathematics.
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
            colour = "white" if fractions[row, column] > 0.5 else "black"
            axes.text(column, row, f"{counts[row, column]}", ha="center", va="center", color=colour, fontsize=7)
    if drawn.numbered:
        legend = Path(path).with_name(Path(path).name + LEGEND_SUFFIX)
        axes.set_title(f"#: names in {legend.name}", fontsize=8, parse_math=False)
        write_atomic(legend, "".join(f"#{number}\t{printable(name)}\n" for number, name in drawn.numbered.items()))
    save(figure, path)


def training_curves(records: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Draw the records of metrics.jsonl, one for each evaluation, as a picture file.

    Losses, validation metrics, perplexity and learning rate have a panel each, over the epoch, or over the step of a
    run that has not ended one. Reads `epoch`, `step`, `train_loss`, `validation_*` and `learning_rate`, and draws those
    that there are.

    Raises:
        DataError: no record holds an epoch or a step, and one of these numbers.
        StorageError: the file cannot be written; what stood there still stands.
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
    location = "epoch" if any(x >= 1 for x, _ in _points(records, "epoch", "epoch")) else "step"
    curves = {title: {key: _points(records, location, key) for key in panel} for title, panel in panels.items()}
    drawn = {title: {key: points for key, points in panel.items() if points} for title, panel in curves.items()}
    drawn = {title: panel for title, panel in drawn.items() if panel}
    if not drawn:
        raise DataError(
            "no training curve to draw: no record holds an epoch with a loss, a validation metric or a learning rate"
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
        if title == "perplexity":  # it begins at the size of the vocabulary and ends at a few
            axes.set_yscale("log")
    all_axes[-1].set_xlabel(location)
    all_axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    save(figure, path)


def _points(records: Sequence[Mapping[str, Any]], location: str, key: str) -> list[tuple[float, float]]:
    """The pairs (place, value) of the records that hold both as finite numbers."""
    pairs = [(record.get(location), record.get(key)) for record in records]
    return [(float(x), float(y)) for x, y in pairs if _is_number(x) and _is_number(y)]  # type: ignore[arg-type]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
