"""Plot training curves, confusion matrices and reliability diagrams, as PNG, SVG or PDF by file extension."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixling.errors import DataError
from mixling.export.figures import labels, new_figure, plot_text, save
from mixling.metrics.base import ClassificationMetrics, metric_title
from mixling.metrics.intervals import wilson
from mixling.metrics.reliability import Reliability
from mixling.storage import write_atomic

_MAX_CLASSES, _MAX_PAIRS = 20, 15  # of a matrix; of the list in place of a larger one
LEGEND_SUFFIX = ".txt"  # of the legend's file next to a plot
_COLORS = ("#4269d0", "#d1602e")


def confusion_matrix(matrix: np.ndarray, names: Sequence[str], path: str | Path) -> None:
    """Plot counts (C, C), with a row for each true class and a column for each predicted one.

    Up to 20 classes are a matrix: the color is the percentage of the row, so that rare classes are visible. Of more
    classes, the fifteen pairs that are confused most often are bars. Names that no installed font can draw are replaced
    by numbers, explained in a text file: `path` plus ".txt".

    Raises:
        StorageError, MissingPackage: see `mixling.export.figures`.
    """
    counts = np.asarray(matrix)
    n, total = len(names), int(counts.sum())
    assert counts.shape == (n, n), f"a matrix of shape {counts.shape} for {n} names"
    drawn = labels(names)  # not formulas: "$" in a name would be parsed, and rejected, as mathematics
    text: dict[str, Any] = {"fontsize": 9, "fontfamily": drawn.families, "parse_math": False}
    draw = _matrix if n <= _MAX_CLASSES else _pairs
    figure, axes = draw(counts, drawn.shown, text)
    title = f"{np.trace(counts) / max(total, 1):.1%} of {total:,} are right"
    if drawn.numbered:
        legend = Path(path).with_name(Path(path).name + LEGEND_SUFFIX)
        title += f" (#: names in {legend.name})"
        write_atomic(legend, "".join(f"#{number}\t{plot_text(name)}\n" for number, name in drawn.numbered.items()))
    axes.set_title(title, loc="left", fontsize=11, parse_math=False)
    save(figure, path)


def _matrix(counts: np.ndarray, names: Sequence[str], text: Mapping[str, Any]) -> tuple[Any, Any]:
    """Draw a cell for each pair of classes, with its count and its percentage of the true class."""
    n = len(names)
    fractions = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    size = 4.5 + 0.45 * n
    figure = new_figure(size, 0.9 * size)
    axes = figure.add_subplot()
    axes.imshow(fractions, cmap="Blues", vmin=0.0, vmax=1.0, interpolation="nearest")
    axes.set_xticks(range(n), names, rotation=90, **text)
    axes.set_yticks(range(n), names, **text)
    axes.set(xlabel="predicted", ylabel="true")
    for row, column in zip(*np.nonzero(counts), strict=True):
        color = "white" if fractions[row, column] > 0.5 else "black"
        cell = f"{counts[row, column]}\n{fractions[row, column]:.0%}"
        axes.text(column, row, cell, ha="center", va="center", color=color, fontsize=7)
    return figure, axes


def _pairs(counts: np.ndarray, names: Sequence[str], text: Mapping[str, Any]) -> tuple[Any, Any]:
    """Draw a bar for each of the pairs of classes that are confused most often."""
    from matplotlib.ticker import MaxNLocator

    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MAX_PAIRS]
    pairs = [(int(i), int(j)) for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True) if wrong[i, j]]
    figure = new_figure(8.0, 1.4 + 0.32 * max(len(pairs), 3))
    axes = figure.add_subplot()
    axes.barh(range(len(pairs)), [wrong[pair] for pair in pairs], color=_COLORS[0], height=0.7)
    axes.set_yticks(range(len(pairs)), [f"{names[i]} as {names[j]}" for i, j in pairs], **text)
    for place, (i, j) in enumerate(pairs):
        share = f" {wrong[i, j]} of {counts[i].sum()}, {wrong[i, j] / counts[i].sum():.0%}"
        axes.annotate(share, (wrong[i, j], place), va="center", fontsize=9)
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(f"the pairs that are confused most often, of {len(names)} classes")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def plot_confusion(metrics: ClassificationMetrics, path: str | Path) -> None:
    """Plot the confusion matrix of metrics, see `confusion_matrix`."""
    confusion_matrix(np.array(metrics.confusion), [row.label for row in metrics.per_class], path)


def reliability_diagram(bins: Reliability, path: str | Path) -> None:
    """Plot the accuracy of each bin with its 95% interval against the mean probability, and the bins' sizes below.

    Raises:
        DataError: there are no decisions.
        StorageError, MissingPackage: see `mixling.export.figures`.
    """
    filled = [item for item in bins if item is not None]
    if not filled:
        raise DataError("there is no reliability diagram: nothing was decided")
    figure = new_figure(4.6, 5.0)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    above.plot([0, 1], [0, 1], color="0.6", linestyle=":", linewidth=1.2)
    for item in filled:
        interval = wilson(item.accuracy, item.count)
        above.plot([item.confidence] * 2, [interval.low, interval.high], color=_COLORS[0], linewidth=1)
    confidence, accuracy = ([getattr(item, name) for item in filled] for name in ("confidence", "accuracy"))
    above.plot(confidence, accuracy, color=_COLORS[0], marker="o", markersize=4)
    above.annotate("calibrated", (0.03, 0.03), (0.05, 0.01), color="0.5", fontsize=9)
    above.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy")
    counts = [0 if item is None else item.count for item in bins]
    below.bar(
        [number / len(bins) for number in range(len(bins))], counts, 1 / len(bins), align="edge", color=_COLORS[0]
    )
    below.set(xlabel="probability", ylabel="decisions")
    for axes in (above, below):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def training_curves(
    records: Sequence[Mapping[str, Any]], path: str | Path, *, exported: Mapping[str, Any] | None = None
) -> None:
    """Plot the records of metrics.jsonl, one for each evaluation.

    There are three panels: the two losses, the first validation metric (an accuracy, if there is one) and the learning
    rate, over the epoch, or over the step if no epoch is complete. A line marks the best evaluation, whose weights are
    kept. Uses `epoch`, `step`, `train_loss`, `val_*`, `learning_rate` and `best`, as far as they are present.

    Args:
        exported: metrics of the exported model, which is more than the network that the curves are of: it has n-grams,
            calibration and 8-bit weights. The one of the panel is drawn across it.

    Raises:
        DataError: no record has both an epoch or step and one of these values.
        StorageError, MissingPackage: see `mixling.export.figures`.
    """
    keys = dict.fromkeys(key for record in records for key in record)
    metrics = [key for key in keys if key.startswith("val_") and key != "val_loss"]
    metrics.sort(key=lambda key: "loss" in key or "calibration" in key)  # accuracies first
    shown = {metric_title(key.removeprefix("val_")): [key] for key in metrics[:1]}
    panels = {"loss": ["train_loss", "val_loss"], **shown}
    panels["learning rate"] = ["learning_rate"]
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
    columns = 1 if len(drawn) < 3 else 2
    rows = math.ceil(len(drawn) / columns)
    width = 4.6 * columns + 0.6
    height = 2.5 * rows
    figure = new_figure(width, height)
    # Margins in inches that all panels fit: to find the smallest ones takes longer than all the drawing.
    figure.set_layout_engine(None)
    figure.subplots_adjust(0.85 / width, 0.5 / height, 1 - 0.8 / width, 1 - 0.3 / height, wspace=0.35, hspace=0.3)
    from matplotlib.ticker import MaxNLocator

    all_axes = list(figure.subplots(rows, columns, sharex=True, squeeze=False).flat)
    best = [float(record[x_key]) for record in records if record.get("best") and _is_number(record.get(x_key))]
    for axes, (title, panel) in zip(all_axes, drawn.items(), strict=False):
        _draw_panel(axes, title, panel, best[-1] if best else None)
        value = (exported or {}).get(next(iter(panel)).removeprefix("val_"))
        if title in shown and _is_number(value):
            axes.axhline(value, color="0.35", linestyle="--", linewidth=1.2)
            axes.annotate(f"exported model {value:.4g}", (0.02, value), (0, 3), xycoords=axes.get_yaxis_transform(),
                          textcoords="offset points", fontsize=9, color="0.35")  # fmt: skip
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    for axes in all_axes[len(drawn) :]:
        axes.set_visible(False)
    for axes in all_axes[max(0, len(drawn) - columns) : len(drawn)]:
        axes.set_xlabel(x_key)
        axes.xaxis.set_tick_params(labelbottom=True)
    save(figure, path)


def _draw_panel(axes: Any, title: str, curves: Mapping[str, list[tuple[float, float]]], best: float | None) -> None:
    """Draw one quantity, its best evaluation, and its curves' names at their ends if there are several."""
    highest = max(curves, key=lambda key: curves[key][-1][1])
    for (key, points), color in zip(curves.items(), _COLORS, strict=False):
        xs, ys = zip(*points, strict=True)
        axes.plot(xs, ys, color=color, marker=".", markersize=4, label=key)
        if len(curves) > 1:
            name = "training" if key.startswith("train") else "validation"
            side = "bottom" if key == highest else "top"  # names of curves that end close together are apart
            axes.annotate(f" {name}", (xs[-1], ys[-1]), color=color, fontsize=9, va=side, annotation_clip=False)
        elif best is not None and best in xs and key.startswith("val_"):
            value = ys[xs.index(best)]
            axes.plot([best], [value], color=color, marker="o", markersize=7, fillstyle="none")
            axes.annotate(f"{value:.4g}", (best, value), (0, 8), textcoords="offset points", ha="center", fontsize=9)
    if best is not None:
        axes.axvline(best, color="0.6", linestyle=":", linewidth=1.2)
    axes.margins(y=0.18)
    axes.yaxis.set_major_formatter("{x:g}")  # no factor where the title is
    axes.set_title(title, loc="left", fontsize=10, y=1.0)
    axes.grid(alpha=0.3, which="both")
    axes.spines[["top", "right"]].set_visible(False)
    if title == "perplexity":  # from the size of the vocabulary down to a few
        axes.set_yscale("log")


def _points(records: Sequence[Mapping[str, Any]], x_key: str, key: str) -> list[tuple[float, float]]:
    """Return the points of a curve, from the records that have both values as finite numbers."""
    pairs = [(record.get(x_key), record.get(key)) for record in records]
    return [(float(x), float(y)) for x, y in pairs if _is_number(x) and _is_number(y)]  # type: ignore[arg-type]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
