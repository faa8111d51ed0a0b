"""Plots of what models do and cost, as PNG, SVG or PDF files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mixling.export.figures import MAX_TICKS, labels, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

    from mixling.research.inspect.weights import LayerMap

_MARKERS = "os^Dv*Px"


def cost_curves(models: Mapping[str, Sequence[tuple[int, float, int]]], path: str | Path, *, caption: str = "") -> None:
    """Plot time and memory of models by length.

    Args:
        models: by name, rows of (tokens, seconds, peak bytes).
        caption: on which hardware, and how, the numbers were measured; drawn above the curves.

    Raises:
        StorageError, MissingPackage: see `mixling.export.figures`.
    """
    figure = new_figure(11.0, 4.8)
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    drawn = labels(list(models))
    lengths = sorted({row[0] for rows in models.values() for row in rows})
    for number, (title, column, scale) in enumerate([("ms per batch", 1, 1e3), ("peak memory, MB", 2, 1e-6)], 1):
        axes = figure.add_subplot(1, 2, number)
        for name, rows, marker in zip(drawn.shown, models.values(), cycle(_MARKERS), strict=False):
            # Hollow markers of different shapes, so that both of two coinciding curves are visible.
            axes.plot(
                [row[0] for row in rows],
                [row[column] * scale for row in rows],
                marker=marker,
                markerfacecolor="none",
                label=name,
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths], rotation=90 if len(lengths) > 8 else 0)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("tokens")
        axes.set_ylabel(title)
        axes.grid(alpha=0.3)
    handles, names = axes.get_legend_handles_labels()
    legend = figure.legend(
        handles, names, loc="outside right center", prop={"family": drawn.families, "size": 8}, frameon=False
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    if caption:
        figure.suptitle(caption, fontsize=9, parse_math=False)
    save(figure, path)


def learning_curves(
    models: Mapping[str, Mapping[int, Sequence[float]]], path: str | Path, *, metric: str, levels: Mapping[str, float]
) -> None:
    """Plot results of models by number of training examples: the median, and the range of all runs.

    Args:
        models: by name, for each number of examples the results of all runs.
        metric: the name of the result, such as "test MSE".
        levels: results without training, by name, drawn as horizontal lines.

    Raises:
        StorageError, MissingPackage: see `mixling.export.figures`.
    """
    figure = new_figure(6.5, 4.5)
    axes = figure.add_subplot()
    for name, results in models.items():
        sizes = sorted(results)
        axes.plot(sizes, [float(np.median(results[size])) for size in sizes], marker="o", label=name)
        axes.fill_between(
            sizes, [min(results[size]) for size in sizes], [max(results[size]) for size in sizes], alpha=0.2
        )
    for name, level in levels.items():
        axes.axhline(level, linestyle=":", color="gray")
        axes.annotate(name, (0.01, level), xycoords=axes.get_yaxis_transform(), va="bottom", fontsize=8, color="gray")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("training examples")
    axes.set_ylabel(metric)
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, path)


def token_maps(models: Mapping[str, tuple[np.ndarray, Mapping[str, np.ndarray]]], path: str | Path) -> None:
    """Plot maps (M, N) from input to output tokens below their signals.

    Each map has its own scale, because the sizes of gradients differ; it ends at the 99th percentile, so that a few
    large entries do not hide the others.

    Args:
        models: by name, a map, and signals (N,) by name.

    Raises:
        StorageError, MissingPackage: see `mixling.export.figures`.
    """
    figure = new_figure(3.6 * len(models), 5.2)
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
    save(figure, path)


def plot_layer_maps(maps: Sequence[LayerMap], path: str | Path) -> None:
    """Plot maps of weights between tokens, with a column for each layer and a row for each kind of weights.

    Each map has its own scale, which ends at the 99th percentile of absolute values and is symmetric if there are
    negative weights. Missing entries (NaN) are gray. Axes show the tokens, if known and at most 75; tokens that no
    installed font has are shown as numbers.

    Raises:
        StorageError, MissingPackage: see `mixling.export.figures`.
    """
    rows = list(dict.fromkeys((item.stack, item.name) for item in maps))
    columns = sorted({item.layer for item in maps})
    most = max((len(names) for item in maps for names in (item.queries, item.keys) if _fits(names)), default=0)
    side = 2.8 if most == 0 else max(3.2, 1.6 + 0.14 * most)  # inches, with a line of small type for each token
    figure = new_figure(side * len(columns), (side + 0.1) * len(rows))
    all_axes = figure.subplots(len(rows), len(columns), squeeze=False)
    for axes in all_axes.flat:
        axes.set_visible(False)
    for item in maps:
        axes = all_axes[rows.index((item.stack, item.name)), columns.index(item.layer)]
        axes.set_visible(True)
        figure.colorbar(_matrix(axes, item.values), ax=axes, fraction=0.045, pad=0.02).ax.tick_params(labelsize=6)
        axes.set_title(f"{item.stack} layer {item.layer}: {item.name}", fontsize=8, parse_math=False)
        axes.tick_params(labelsize=6)
        if item.layer == columns[0]:
            axes.set_ylabel("output token", fontsize=7)
        if (item.stack, item.name) == rows[-1]:
            axes.set_xlabel("input token", fontsize=7)
        for axis, names, rotation in ((axes.xaxis, item.keys, 90), (axes.yaxis, item.queries, 0)):
            if _fits(names):
                drawn = labels(names)
                text: dict[str, Any] = {"fontsize": 6, "fontfamily": drawn.families, "parse_math": False}
                axis.set_ticks(range(len(names)), drawn.shown, rotation=rotation, **text)
    save(figure, path)


def _fits(names: Sequence[str]) -> bool:
    """Return whether tokens are known, and few enough to be readable."""
    return 0 < len(names) <= MAX_TICKS


def spatial_filters(
    filters: Mapping[str, Mapping[int, np.ndarray]], path: str | Path, *, matrices: Sequence[str]
) -> None:
    """Plot the middle rows (filters) of learned matrices (N, N) between positions.

    Source: gMLP, Figure 4 (filters) and Figure 9 (matrices).

    Args:
        filters: by name, the matrix of each layer. Each layer has a column, each name a row.
        matrices: names of those to draw as matrices as well, below the filters.

    Raises:
        StorageError, MissingPackage: see `mixling.export.figures`.
    """
    columns = sorted({layer for layers in filters.values() for layer in layers})
    rows = [*((name, False) for name in filters), *((name, True) for name in matrices)]
    figure = new_figure(3.2 * len(columns), 2.4 * len(rows))
    all_axes = figure.subplots(len(rows), len(columns), squeeze=False)
    for (name, as_matrix), row in zip(rows, all_axes, strict=True):
        for layer, axes in zip(columns, row, strict=True):
            axes.set_visible(layer in filters[name])
            if layer not in filters[name]:
                continue
            matrix = filters[name][layer]
            axes.set_title(f"{name}, layer {layer}", fontsize=9, parse_math=False)
            axes.tick_params(labelsize=7)
            across, up = ("input position", "output position") if as_matrix else ("input - output position", "weight")
            axes.set_xlabel(across, fontsize=8)
            if layer == columns[0]:
                axes.set_ylabel(up, fontsize=8)
            if as_matrix:
                image = _matrix(axes, matrix)
                figure.colorbar(image, ax=axes, fraction=0.045, pad=0.02).ax.tick_params(labelsize=6)
            else:
                middle = len(matrix) // 2
                axes.plot(np.arange(len(matrix)) - middle, matrix[middle], linewidth=1)
                axes.grid(alpha=0.3)
    save(figure, path)


def _matrix(axes: Axes, values: np.ndarray) -> AxesImage:
    from matplotlib.ticker import MaxNLocator

    signed = bool((values < 0).any())
    limit = float(np.nanquantile(np.abs(values), 0.99))
    axes.set_facecolor("0.85")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    return axes.imshow(
        values,
        cmap="RdBu" if signed else "viridis",
        vmin=-limit if signed else 0.0,
        vmax=limit,
        interpolation="nearest",
        aspect="auto",
    )
