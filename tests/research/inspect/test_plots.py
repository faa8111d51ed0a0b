"""Pictures: PNG files of the expected size, with what they shall show."""

from __future__ import annotations

import itertools
import os
import re
import struct
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib.font_manager import fontManager

from mixling import DataError, UserError
from mixling.errors import MissingPackage, StorageError
from mixling.export import figures as fonts
from mixling.export import plots as run_plots
from mixling.research.inspect import LayerMap, plots


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert data[-8:-4] == b"IEND"
    return struct.unpack(">II", data[16:24])


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that are drawn, so that their parts can be looked at."""
    drawn: list[Any] = []
    make = plots.new_figure
    for module in (plots, run_plots):
        monkeypatch.setattr(module, "new_figure", lambda *size: drawn.append(make(*size)) or drawn[-1])
    return drawn


def test_a_small_matrix_has_its_counts_written(tmp_path: Path, figures: list[Any]) -> None:
    run_plots.confusion_matrix(np.array([[3, 1], [0, 2]]), ["no", "yes"], tmp_path / "confusion.png")
    axes = figures[0].axes[0]
    assert [text.get_text() for text in axes.texts] == ["3\n75%", "1\n25%", "2\n100%"]
    np.testing.assert_allclose(axes.images[0].get_array(), [[0.75, 0.25], [0.0, 1.0]])
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["no", "yes"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "true")
    assert axes.get_title(loc="left") == "83.3% of 6 are right"
    inches = figures[0].get_size_inches()
    assert png_size(tmp_path / "confusion.png") == tuple(round(side * 120) for side in inches)


@pytest.mark.slow
def test_of_150_classes_the_most_confused_pairs_are_drawn(tmp_path: Path, figures: list[Any]) -> None:
    matrix = 10 * np.eye(150, dtype=int)
    matrix[3] = 0  # a class without a row must not divide by zero
    matrix[np.arange(20, 40), np.arange(20)] = np.arange(20)
    run_plots.confusion_matrix(matrix, [f"intent_{i}" for i in range(150)], tmp_path / "confusion.png")
    axes = figures[0].axes[0]
    pairs = [(f"intent_{20 + i} as intent_{i}", f" {i} of {10 + i}, {i / (10 + i):.0%}") for i in range(19, 4, -1)]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [pair for pair, _ in pairs]
    assert [text.get_text() for text in axes.texts] == [share for _, share in pairs]
    # No two neighboring names overlap.
    boxes = [tick.get_window_extent() for tick in axes.get_yticklabels()]
    assert all(upper.y0 > lower.y1 for upper, lower in itertools.pairwise(boxes))


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 8, 20, 21])
def test_nothing_is_cut_off(n: int, tmp_path: Path, figures: list[Any]) -> None:
    names = [f"{i:02d} a very long name of a class" for i in range(n)]
    run_plots.confusion_matrix(8 * np.eye(n, dtype=int) + np.eye(n, k=1, dtype=int), names, tmp_path / "confusion.png")
    box = figures[0].get_tightbbox()  # inches
    width, height = figures[0].get_size_inches()
    assert min(box.x0, box.y0, width - box.x1, height - box.y1) >= 0
    assert len(figures[0].axes[0].images) == (n <= 20)


def test_a_large_matrix_without_mistakes_is_drawn(tmp_path: Path, figures: list[Any]) -> None:
    run_plots.confusion_matrix(np.eye(21, dtype=int), list("abcdefghijklmnopqrstu"), tmp_path / "confusion.png")
    assert figures[0].axes[0].get_title(loc="left") == "100.0% of 21 are right"


def test_without_matplotlib_a_matrix_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("matplotlib", "matplotlib.figure", "matplotlib.font_manager", "matplotlib.ft2font"):
        monkeypatch.setitem(sys.modules, module, None)
    fonts._family.cache_clear()
    with pytest.raises(MissingPackage, match="plots need matplotlib"):
        run_plots.confusion_matrix(np.eye(2, dtype=int), ["no", "yes"], tmp_path / "confusion.png")


def test_any_name_can_be_drawn(tmp_path: Path) -> None:
    names = ["中文", "العربية", "עברית", "हिन्दी", "$x_^$", "\\frac{", "日本\n\x00\x1b語", "\U0001f600", "%s{}", "-"]
    run_plots.confusion_matrix(np.eye(10, dtype=int), names, tmp_path / "confusion.png")
    assert (tmp_path / "confusion.png").stat().st_size > 0


@pytest.fixture
def japanese(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A font that has two characters beside the usual ones is installed."""
    builder = FontBuilder(1000, isTTF=True)
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0)), pen.lineTo((0, 700)), pen.lineTo((500, 700)), pen.closePath()
    outline = pen.glyph()
    builder.setupGlyphOrder([".notdef", "one", "two"])
    builder.setupCharacterMap({ord("日"): "one", ord("本"): "two"})
    builder.setupGlyf(dict.fromkeys((".notdef", "one", "two"), outline))
    builder.setupHorizontalMetrics(dict.fromkeys((".notdef", "one", "two"), (600, 0)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Noto Sans Test", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(tmp_path / "test.ttf")
    monkeypatch.setattr(fontManager, "ttflist", list(fontManager.ttflist))
    fontManager.addfont(tmp_path / "test.ttf")
    fonts._family.cache_clear()
    yield
    fonts._family.cache_clear()


@pytest.mark.slow
def test_names_are_drawn_by_whatever_font_has_them(
    tmp_path: Path, figures: list[Any], japanese: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fonts, "_NOT_FOR_TEXT", (*fonts._NOT_FOR_TEXT, "Noto Sans CJK", "Noto Sans Dev"))
    names = ["日本", "हिन्दी", "العربية", "\U0001f600", "plain", "日本語", "e\u200d", "a\tb"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_plots.confusion_matrix(np.eye(8, dtype=int), names, tmp_path / "c.png")
    axes = figures[0].axes[0]
    written = [tick.get_text() for tick in axes.get_yticklabels()]
    assert written == [tick.get_text() for tick in axes.get_xticklabels()]
    assert written[0] == "日本"
    assert written[2:5] == ["العربية", "\U0001f600", "plain"]  # matplotlib's own font has them
    assert written[6:] == ["e", "a\ufffdb"]
    assert "Noto Sans Test" in axes.get_yticklabels()[0].get_fontfamily()
    numbered = {n: name for n, name in enumerate(names, 1) if written[n - 1] == f"#{n}"}
    assert set(numbered) <= {2, 6}  # unless another font of the machine has them
    if numbered:
        assert axes.get_title(loc="left").endswith(" (#: names in c.png.txt)")
        legend = (tmp_path / "c.png.txt").read_text("utf-8")
        assert legend == "".join(f"#{n}\t{name}\n" for n, name in numbered.items())


def test_without_any_font_all_names_are_numbers(
    tmp_path: Path, figures: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fonts, "_family", lambda character: None)
    run_plots.confusion_matrix(
        np.eye(2, dtype=int), ["日本", "a long name of a class, cut in the picture"], tmp_path / "c.svg"
    )
    assert [tick.get_text() for tick in figures[0].axes[0].get_yticklabels()] == ["#1", "#2"]
    assert (tmp_path / "c.svg.txt").read_text("utf-8") == "#1\t日本\n#2\ta long name of a class, cut in the picture\n"


def test_names_that_all_can_be_drawn_need_no_legend(tmp_path: Path) -> None:
    run_plots.confusion_matrix(np.eye(2, dtype=int), ["no", "straße"], tmp_path / "c.png")
    assert [path.name for path in tmp_path.iterdir()] == ["c.png"]


def test_costs_have_plain_numbers_one_legend_and_their_device(tmp_path: Path, figures: list[Any]) -> None:
    models = {"a": [(64, 4e-4, 10**6), (400, 6e-1, 10**9)], "$b": [(64, 5e-4, 2 * 10**6)]}
    plots.cost_curves(models, tmp_path / "cost.png", caption="a $machine")
    (figure,) = figures
    assert figure.get_suptitle() == "a $machine"
    assert [axes.get_ylabel() for axes in figure.axes] == ["ms per batch", "peak memory, MB"]
    assert [text.get_text() for legend in figure.legends for text in legend.get_texts()] == ["a", "$b"]
    assert not any(axes.get_legend() for axes in figure.axes)
    figure.canvas.draw()
    for axes in figure.axes:
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["64", "400"]
        shown = [tick.get_text() for tick in axes.get_yticklabels()]
        assert all(re.fullmatch(r"[\d,]+(\.\d+)?", tick) for tick in shown), shown
    assert {"0.5", "1", "100"} <= {tick.get_text() for tick in figure.axes[0].get_yticklabels()}


@pytest.mark.parametrize("count", [5, 75, 76])
def test_layer_maps_have_tokens_where_they_are_known_and_fit(tmp_path: Path, figures: list[Any], count: int) -> None:
    tokens = tuple(f"w{i}$" for i in range(count))
    values = np.random.default_rng(0).random((3, count))
    plots.plot_layer_maps([LayerMap("encoder", 1, "attention", values, ("a", "b", "c"), tokens)], tmp_path / "maps.png")
    axes = figures[0].axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["a", "b", "c"]
    if count <= 75:
        assert [tick.get_text() for tick in axes.get_xticklabels()] == list(tokens)
        boxes = [tick.get_window_extent() for tick in axes.get_xticklabels()]
        assert all(left.x1 <= right.x0 + 1 for left, right in itertools.pairwise(boxes))
    else:
        assert "w0$" not in [tick.get_text() for tick in axes.get_xticklabels()]


RECORDS = [
    {
        "epoch": epoch,
        "train_loss": 1 / epoch,
        "val_loss": None if epoch == 2 else 1.5 / epoch,
        "val_accuracy": float("nan") if epoch == 3 else 1 - 1 / epoch,
        "learning_rate": 1e-3 / epoch,
        "seconds": 3.0,
    }
    for epoch in range(1, 5)
]


def curves(figure: Any) -> dict[str, dict[str, list[tuple[float, float]]]]:
    return {
        axes.get_title(loc="left"): {
            line.get_label(): [tuple(p) for p in line.get_xydata().tolist()] for line in axes.lines
        }
        for axes in figure.axes
        if axes.get_visible()
    }


def test_training_curves_draw_what_there_is(tmp_path: Path, figures: list[Any]) -> None:
    run_plots.training_curves(RECORDS, tmp_path / "curves.png")
    got = curves(figures[0])
    assert {title: list(panel) for title, panel in got.items()} == {
        "loss": ["train_loss", "val_loss"],
        "accuracy": ["val_accuracy"],
        "learning rate": ["learning_rate"],
    }
    assert got["loss"]["train_loss"] == [(1, 1), (2, 1 / 2), (3, 1 / 3), (4, 1 / 4)]
    assert [epoch for epoch, _ in got["loss"]["val_loss"]] == [1, 3, 4]
    assert [epoch for epoch, _ in got["accuracy"]["val_accuracy"]] == [1, 2, 4]
    assert png_size(tmp_path / "curves.png") == (1176, 2 * 300)  # two columns


def test_training_curves_of_one_epoch_and_one_number(tmp_path: Path, figures: list[Any]) -> None:
    run_plots.training_curves(
        [{"epoch": 1, "train_loss": 0.5, "val_name": "x", "val_flag": True}], tmp_path / "curves.png"
    )
    assert curves(figures[0]) == {"loss": {"train_loss": [(1, 0.5)]}}
    assert png_size(tmp_path / "curves.png") == (624, 300)


def test_perplexity_has_a_logarithmic_panel_of_its_own(tmp_path: Path, figures: list[Any]) -> None:
    records = [{**record, "val_perplexity": 10.0 ** (5 - record["epoch"])} for record in RECORDS]
    records = [{key: value for key, value in record.items() if key != "val_accuracy"} for record in records]
    run_plots.training_curves(records, tmp_path / "curves.png")
    got = curves(figures[0])
    assert list(got) == ["loss", "perplexity", "learning rate"]
    assert got["perplexity"] == {"val_perplexity": [(1, 1e4), (2, 1e3), (3, 1e2), (4, 1e1)]}
    assert [axes.get_yscale() for axes in figures[0].axes] == ["linear", "log", "linear", "linear"]


@pytest.mark.parametrize(("epochs", "location"), [((0.3, 0.9), "step"), ((0.5, 1.0), "epoch"), ((None, None), "step")])
def test_a_run_that_has_not_ended_an_epoch_is_drawn_over_its_steps(
    tmp_path: Path, figures: list[Any], epochs: tuple[Any, ...], location: str
) -> None:
    records = [{"epoch": x, "step": 50 * n, "train_loss": 1.0} for n, x in enumerate(epochs, 1)]
    run_plots.training_curves(records, tmp_path / "curves.png")
    assert figures[0].axes[-1].get_xlabel() == location
    assert [x for x, _ in curves(figures[0])["loss"]["train_loss"]] == [record[location] for record in records]


@pytest.mark.parametrize("records", [[], [{"epoch": 1}], [{"train_loss": 1.0}], [{"epoch": 1, "train_loss": None}]])
def test_no_curve_is_reported(records: list[dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no training curve"):
        run_plots.training_curves(records, tmp_path / "curves.png")
    assert not list(tmp_path.iterdir())


def test_the_same_picture_has_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one.png", "two.png"):
        run_plots.training_curves(RECORDS, tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_layer_maps_have_a_column_a_layer_and_a_row_a_kind(tmp_path: Path, figures: list[Any]) -> None:
    weights, negative = np.arange(6.0).reshape(2, 3), np.array([[1.0, -2.0], [0.0, np.nan]])
    maps = [
        LayerMap("encoder", 1, "attention", weights),
        LayerMap("encoder", 1, "softmax(H)", weights + 1),
        LayerMap("encoder", 3, "softmax(H)", weights + 2),
        LayerMap("decoder", 1, "cross $x_attention", negative),
    ]
    plots.plot_layer_maps(maps, tmp_path / "maps.png")
    drawn = [axes for axes in figures[0].axes if axes.images and axes.get_title()]
    titles = ["encoder layer 1: attention", "encoder layer 1: softmax(H)", "encoder layer 3: softmax(H)"]
    assert [axes.get_title() for axes in drawn] == [*titles, "decoder layer 1: cross $x_attention"]
    locations = [axes.get_subplotspec() for axes in drawn]
    assert [(location.rowspan.start, location.colspan.start) for location in locations] == [
        (0, 0),
        (1, 0),
        (1, 1),
        (2, 0),
    ]
    for axes, item in zip(drawn, maps, strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array().filled(np.nan), item.values)
    assert all(tick == round(tick) for axes in drawn for tick in [*axes.get_xticks(), *axes.get_yticks()])
    assert drawn[0].images[0].get_clim() == (0.0, np.quantile(weights, 0.99))
    limit = np.quantile([0.0, 1.0, 2.0], 0.99)  # of signed weights the sizes count, and zero is in the middle
    assert drawn[3].images[0].get_clim() == (-limit, limit)
    inches = figures[0].get_size_inches()
    assert png_size(tmp_path / "maps.png") == tuple(round(side * 120) for side in inches)
    visible = [axes for axes in figures[0].axes if axes.get_visible() and axes.get_subplotspec() is not None]
    assert {id(axes) for axes in drawn} <= {id(axes) for axes in visible}
    assert not [axes for axes in visible if not axes.images and not axes.collections]  # where a layer has none: nothing


def test_spatial_filters_are_middle_rows_and_whole_matrices(tmp_path: Path, figures: list[Any]) -> None:
    matrix = np.arange(25.0).reshape(5, 5) - 12
    filters = {"toeplitz": {1: matrix, 2: 2 * matrix}, "free": {2: 3 * matrix}}
    plots.spatial_filters(filters, tmp_path / "filters.png", matrices=["free"])
    shown = [axes for axes in figures[0].axes if axes.get_visible() and axes.get_subplotspec() is not None]
    shown = shown[:4]
    assert len([axes for axes in figures[0].axes if axes.get_visible()]) == 5, "the matrix has a color bar"
    assert [axes.get_xlabel() for axes in shown] == [*["input - output position"] * 3, "input position"]
    assert [axes.get_title() for axes in shown] == [f"{name}, layer {layer}" for name, layer in (
        ("toeplitz", 1), ("toeplitz", 2), ("free", 2), ("free", 2)
    )]  # fmt: skip
    for axes, factor in zip(shown, (1, 2, 3), strict=False):
        (line,) = axes.lines
        assert line.get_xdata().tolist() == [-2, -1, 0, 1, 2]
        assert line.get_ydata().tolist() == (factor * matrix[2]).tolist()
    np.testing.assert_array_equal(shown[3].images[0].get_array(), 3 * matrix)
    assert (tmp_path / "filters.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "curves.png"
    path.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"curves\.png: .*No space left"):
        run_plots.training_curves(RECORDS, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_none_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match=r"curves\.png"):
        run_plots.training_curves(RECORDS, tmp_path / "file" / "curves.png")


def test_pyplot_is_left_alone(tmp_path: Path) -> None:
    before = "matplotlib.pyplot" in sys.modules
    run_plots.training_curves(RECORDS, tmp_path / "curves.png")
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UserError, match=r"\[plots\]"):
        run_plots.training_curves(RECORDS, tmp_path / "curves.png")
    with pytest.raises(UserError, match=r"\[plots\]"):  # before the work for the plot
        fonts.check_plot(tmp_path / "curves.png")
