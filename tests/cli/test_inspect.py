"""`mixling inspect` as a user meets it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from .conftest import Call

SMALL = ("--set", "model.dim=16", "--set", "model.num_layers=2", "--set", "model.text.max_len=12")
TEXTS = ["a great film", "what a dull plot, row 3"]


@pytest.fixture(scope="module")
def attending(call: Call, reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of a model with attention and the Remixer's block in each of two layers."""
    folder = tmp_path_factory.mktemp("attending")
    (folder / "mine.toml").write_text(
        'preset = "pnlp-mixer-x-small"\ndim = 16\nnum_layers = 2\n[[layers]]\n'
        '[[layers.mixers]]\ntype = "attention"\nnum_heads = 2\n[[layers.mixers]]\ntype = "remixing"\n'
    )
    options = ["--text", "review", "--label", "stars", "--epochs", 1, "--model", folder / "mine.toml"]
    done = call("train", reviews / "train.csv", *options, "-o", folder / "model")
    assert done.code == 0, done.err
    return folder / "model"


@pytest.fixture(scope="module")
def pretrained(call: Call, reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of `mixling pretrain`, of a gMLP."""
    folder = tmp_path_factory.mktemp("pretrained") / "pre"
    options = [
        "--text",
        "review",
        "--model",
        "gmlp-tiny",
        "--set",
        "train.steps=3",
        "--set",
        "train.batch_size=8",
        *SMALL,
    ]
    done = call("pretrain", reviews / "train.csv", *options, "-o", folder)
    assert done.code == 0, done.err
    return folder


def test_maps_of_a_trained_model(call: Call, attending: Path, tmp_path: Path) -> None:
    out = tmp_path / "maps.png"
    done = call("inspect", attending, "--maps", *TEXTS, "-o", out)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{out}: encoder attention of 2 layers, encoder softmax(H) of 2 layers; 2 texts\n"
    width, height = struct.unpack(">II", out.read_bytes()[16:24])
    assert (width, height) == (2 * 336, 2 * 348)
    one = call("inspect", attending, "--maps", TEXTS[0], "-o", tmp_path / "one.svg")
    assert one.code == 0, one.err
    drawn = (tmp_path / "one.svg").read_text()
    for word in TEXTS[0].split():  # a comment of the file, for each axis and layer
        assert drawn.count(f"<!-- {word} -->") == 4 * 2
    again = call("inspect", attending, "-", "--maps", "-o", tmp_path / "again.png", stdin="\n".join(TEXTS).encode())
    assert again.code == 0, again.err
    assert (tmp_path / "again.png").read_bytes() == out.read_bytes()


def test_maps_and_filters_of_a_pretrained_model(call: Call, pretrained: Path, tmp_path: Path) -> None:
    done = call("inspect", pretrained, "--maps", TEXTS[0], "-o", tmp_path / "maps.svg")
    assert done.out == f"{tmp_path / 'maps.svg'}: encoder spatial weights of 2 layers; 1 text\n", done.err
    assert (tmp_path / "maps.svg").read_bytes().startswith(b"<?xml")
    done = call("inspect", pretrained, "--filters", "-o", tmp_path / "filters.pdf")
    assert done.out == f"{tmp_path / 'filters.pdf'}: encoder spatial weights of 2 layers\n", done.err
    assert (tmp_path / "filters.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["--maps", "-o", "{out}"], "--maps: no text; give some, or - to read one per line from standard input"),
        (["--maps", "-", "-o", "{out}"], "--maps: no text"),
        (["a text", "-o", "{out}"], "give one of --maps TEXT... and --filters"),
        (["--maps", "--filters", "-o", "{out}"], "give one of --maps TEXT... and --filters"),
        (["--filters", "a text", "-o", "{out}"], "--filters: got the text 'a text'; filters do not depend on texts"),
        (["--maps", "a text", "-o", "maps.jpg"], "maps.jpg: the name of a plot ends in one of .png, .svg, .pdf"),
        (["--maps", "{rows}", "-o", "{out}"], "is a file; pass its lines as texts: cat FILE | mixling inspect"),
        (["--maps", "gone.txt", "-o", "{out}"], "gone.txt: no such file"),
        (["--maps", "a text"], "'--out'"),
    ],
)
def test_what_cannot_be_asked_is_reported(
    call: Call, attending: Path, reviews: Path, tmp_path: Path, arguments: list[str], reported: str
) -> None:
    given = [item.format(out=tmp_path / "maps.png", rows=reviews / "test.csv") for item in arguments]
    done = call("inspect", attending, *given)
    assert done.code == 2
    assert reported in done.err
    assert (done.out, list(tmp_path.iterdir())) == ("", [])


def test_mixers_without_a_matrix_are_drawn_and_what_is_drawn_is_explained(
    call: Call, reviews: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = tmp_path_factory.mktemp("hypermixing") / "model"
    options = ["--text", "review", "--label", "stars", "--epochs", 1, "--model", "hypermixer", *SMALL]
    done = call("train", reviews / "train.csv", *options, "-o", model)
    assert done.code == 0, done.err
    done = call("inspect", model, "--maps", *TEXTS, "-o", tmp_path / "maps.png")
    assert done.code == 0, done.err
    assert done.out == (
        f"{tmp_path / 'maps.png'}: encoder pseudo-attention of 2 layers; 2 texts\n"
        "pseudo-attention: norm of the gradient of an output token with respect to an input token\n"
    )
    done = call("inspect", model, "--filters", "-o", tmp_path / "filters.png")
    assert done.code == 2
    assert done.err.endswith(
        "have one: remixing, spatial_gating, synthesizer, token_linear; use --maps for the others\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["maps.png"]


def test_a_model_without_token_mixing_is_refused_with_models_that_mix(call: Call, model: Path, tmp_path: Path) -> None:
    done = call("inspect", model, "--maps", TEXTS[0], "-o", tmp_path / "maps.png")
    assert done.code == 2
    assert f"error: {model}: the model has no token mixing" in done.err
    assert "models that mix tokens: mixling-mixer, " in done.err
    assert not list(tmp_path.iterdir())


def test_a_folder_of_no_run_is_reported(call: Call, attending: Path, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "gone", attending / "model.onnx"):
        done = call("inspect", folder, "--filters", "-o", tmp_path / "maps.png")
        assert done.code == 2
        assert f"error: {folder}: is not the folder of a finished run; give one that `mixling train` or" in done.err
