"""What the plots of a run show: each quantity by itself, the best evaluation, and what is confused most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binomtest

pytest.importorskip("matplotlib")

from mixling import DataError
from mixling.export import plots
from mixling.metrics import ReliabilityBin

RECORDS: list[dict[str, Any]] = [
    {"epoch": epoch, "step": 10 * epoch, "train_loss": 1 / epoch, "val_loss": 0.5, "val_log_loss": 0.4,
     "val_macro_f1": 0.1 * epoch, "learning_rate": 0.01, "best": epoch in (1, 3)}
    for epoch in (1, 2, 3, 4)
]  # fmt: skip


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that are saved."""
    found: list[Any] = []
    save = plots.save
    monkeypatch.setattr(plots, "save", lambda figure, path: found.append(figure) or save(figure, path))
    return found


def test_each_quantity_has_a_panel_with_a_readable_name(figures: list[Any], tmp_path: Path) -> None:
    plots.training_curves(RECORDS, tmp_path / "curves.svg")
    shown = [axes for axes in figures[0].axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in shown] == ["loss", "macro F1", "learning rate"]
    texts = [[text.get_text().strip() for text in axes.texts] for axes in shown]
    assert texts == [["training", "validation"], ["0.3"], []]


def test_the_metric_of_the_exported_model_is_drawn_across_its_panel(figures: list[Any], tmp_path: Path) -> None:
    plots.training_curves(RECORDS, tmp_path / "curves.png", exported={"macro_f1": 0.75, "log_loss": 0.1})
    shown = [axes for axes in figures[0].axes if axes.get_visible()]
    across = [[line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"] for axes in shown]
    assert across == [[], [0.75], []]
    assert "exported model 0.75" in [text.get_text() for text in shown[1].texts]


def test_the_last_best_evaluation_is_marked_in_every_panel(figures: list[Any], tmp_path: Path) -> None:
    plots.training_curves(RECORDS, tmp_path / "curves.png")
    for axes in (axes for axes in figures[0].axes if axes.get_visible()):
        assert [list(line.get_xdata()) for line in axes.lines if line.get_linestyle() == ":"] == [[3, 3]]


def test_numbers_of_any_size_are_inside_the_picture(figures: list[Any], tmp_path: Path) -> None:
    records = [
        {"step": 10**6 * n, "train_loss": 0.5, "val_loss": 0.5 + 1e-5 * n, "val_perplexity": 10.0 ** (9 - n),
         "val_mse": 123456.7 * n, "learning_rate": 1.2345e-6 / n}
        for n in (1, 2, 3)
    ]  # fmt: skip
    plots.training_curves(records, tmp_path / "curves.png")
    (figure,) = figures
    figure.canvas.draw()
    for axes in (axes for axes in figure.axes if axes.get_visible()):
        across, up = (axes.yaxis.get_ticklabels(), axes.xaxis.get_ticklabels())  # some are of ticks beyond the axes
        for item in (axes._left_title, *axes.texts, *across):
            box = item.get_window_extent()
            assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1, item
        for item in (axes._left_title, *axes.texts, *up):
            box = item.get_window_extent()
            assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1, item
        assert not axes.yaxis.get_offset_text().get_text(), "it would be where the title is"


def test_the_names_of_curves_that_end_close_together_do_not_overlap(figures: list[Any], tmp_path: Path) -> None:
    losses = [{"epoch": epoch, "train_loss": 1 / epoch + 1e-3, "val_loss": 1 / epoch} for epoch in (1.0, 2.0)]
    plots.training_curves(losses, tmp_path / "c.png")
    figures[-1].canvas.draw()
    upper, lower = (text.get_window_extent() for text in figures[-1].axes[0].texts)
    assert upper.y0 > lower.y1 - 1  # pixels


def test_a_reliability_diagram_has_each_bin_with_its_interval_and_its_size(figures: list[Any], tmp_path: Path) -> None:
    bins = (None, ReliabilityBin(40, 0.5, 0.25), ReliabilityBin(10, 0.75, 0.875), None)
    plots.reliability_diagram(bins, tmp_path / "reliability.png")
    above, below = figures[-1].axes
    calibrated, first, second, curve = above.lines
    assert calibrated.get_xydata().tolist() == [[0, 0], [1, 1]]
    assert curve.get_xydata().tolist() == [[0.5, 0.25], [0.75, 0.875]]
    assert first.get_ydata() == pytest.approx(tuple(binomtest(10, 40).proportion_ci(method="wilson")))
    assert list(second.get_xdata()) == [0.75, 0.75]
    assert [(bar.get_x(), bar.get_height()) for bar in below.patches] == [(0, 0), (0.25, 40), (0.5, 10), (0.75, 0)]
    with pytest.raises(DataError, match="nothing was decided"):
        plots.reliability_diagram((None,), tmp_path / "reliability.png")
