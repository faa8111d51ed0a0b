"""Files of figures: their format is that of the name, and the same figure has the same bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from matplotlib.colors import to_rgba
from PIL import Image

from mixling import ConfigError
from mixling.export.figures import check_plot, new_figure, save

MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def draw(path: Path) -> None:
    figure = new_figure(2.0, 2.0)
    axes = figure.add_subplot()
    axes.plot([1, 2], [2, 1])
    axes.imshow([[0.0, 1.0]], clip_on=True)
    save(figure, path)


@pytest.mark.parametrize("kind", MAGIC)
def test_the_name_states_the_format_and_the_bytes_are_the_same(kind: str, tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    for name in ("one", "two"):
        draw(tmp_path / f"{name}.{kind.upper()}")
    first = (tmp_path / f"one.{kind.upper()}").read_bytes()
    assert first.startswith(MAGIC[kind])
    assert first == (tmp_path / f"two.{kind.upper()}").read_bytes()
    assert dict(matplotlib.rcParams) == before


@pytest.mark.slow
def test_another_process_writes_the_same_bytes_and_no_date(tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\nimport test_figures\n"
    code += (
        "from pathlib import Path\nfor kind in test_figures.MAGIC: test_figures.draw(Path(sys.argv[1] + '.' + kind))"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code, str(tmp_path / "other")], check=True, timeout=60)
    for kind in MAGIC:
        draw(tmp_path / f"own.{kind}")
        own = (tmp_path / f"own.{kind}").read_bytes()
        assert own == (tmp_path / f"other.{kind}").read_bytes()
        assert b"CreationDate" not in own
        assert b"<dc:date>" not in own


def test_a_name_without_a_format_is_png(tmp_path: Path) -> None:
    draw(tmp_path / "figure")
    assert (tmp_path / "figure").read_bytes().startswith(MAGIC["png"])


@pytest.mark.parametrize("name", ["maps.jpg", "maps", "png", "maps.png.txt"])
def test_a_name_of_no_picture_is_refused(name: str) -> None:
    check_plot("maps.PNG")
    with pytest.raises(ConfigError, match=rf"{name}: the name of a plot ends in one of \.png, \.svg, \.pdf; got "):
        check_plot(name)


def test_a_dark_name_makes_a_dark_picture(tmp_path: Path) -> None:
    for name in ("light", "of-dark"):
        figure = new_figure(2.0, 2.0)
        axes = figure.add_subplot()
        axes.imshow([[0.0, 1.0]], cmap="Blues")
        axes.text(0, 0, "on the image", color="black")
        axes.set_title("above")
        save(figure, tmp_path / f"{name}.png")
        if name == "of-dark":
            assert to_gray(figure.get_facecolor()) == to_gray(axes.get_facecolor()) < 0.1
            assert to_gray(axes.title.get_color()) == to_gray(axes.spines["left"].get_edgecolor()) > 0.9
            assert to_gray(axes.get_xticklabels()[0].get_color()) > 0.9
            assert to_gray(axes.texts[0].get_color()) == 0
    corners = [Image.open(tmp_path / f"{name}.png").convert("L").getpixel((0, 0)) for name in ("light", "of-dark")]
    assert corners[0] == 255
    assert corners[1] < 30


def to_gray(color: Any) -> float:
    red, green, blue, _ = to_rgba(color)
    assert red == green == blue
    return red
