"""`mixling models` and `mixling cost`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from torch import Tensor

from mixling import PRESETS
from mixling.research.cost import timing
from mixling.research.seq2seq import SEQ2SEQ_PRESETS
from mixling.research.vision import IMAGE_PRESETS

from .conftest import Call


def test_models_lists_every_preset(call: Call) -> None:
    done = call("models")
    assert done.code == 0, done.err
    first, second = done.out.split("\n\n")
    lines, pairs = first.splitlines()[1:], second.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [*PRESETS, *IMAGE_PRESETS]
    assert [line.split()[0] for line in pairs] == [*SEQ2SEQ_PRESETS]
    base = next(line for line in pairs if line.startswith("t5-1.1-base "))
    assert "247,577,856" in base
    assert " 512+512 " in base
    assert base.endswith("  T5.1.1, 32,128 subwords")
    assert "gMLP, Table 1 (images)" in next(line for line in lines if line.startswith("gmlp-ti "))
    assert "357,283,696" in next(line for line in lines if line.startswith("gmlp-144"))
    assert next(line for line in lines if line.startswith("mixling-mixer ")).endswith(
        "  words to tag, many pairs of texts"
    )
    assert all(preset.use or preset.source != "mixling" for preset in PRESETS.values())
    small = next(line for line in lines if line.startswith("pnlp-mixer-x-large "))
    assert "4,338,432" in small


def test_cost_prints_writes_and_draws(call: Call, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('preset = "pnlp-mixer-x-small"\ndim = 8\n')
    out, plot = tmp_path / "cost.json", tmp_path / "cost.png"
    done = call("cost", "pnlp-mixer-x-small", mine, "--lengths", "4:16", "-o", out, "--plot", plot)
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 1 + 2 * 3 + 1
    assert done.out.splitlines()[-1].startswith(
        "FLOPs: 2 for each multiply-add of a matrix product, 5 L log2 L for an FFT"
    )
    rows = json.loads(out.read_text())["rows"]
    assert [row["length"] for row in rows] == [4, 4, 8, 8, 16, 16]
    assert {row["model"] for row in rows} == {"pnlp-mixer-x-small", str(mine)}
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_ffts_are_counted_as_is_stated(call: Call) -> None:
    """Six layers of FNet: products of 256 by 512 channels, and an FFT of all 16 x 256 numbers."""
    done = call("cost", "fnet-512", "--lengths", 16)
    flops = 6 * (2 * 16 * 2 * 256 * 512 + 5 * 16 * 256 * 12)
    assert done.out.splitlines()[1].split()[3] == f"{flops / 1e9:.4f}"


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["no-such-model"], "unknown preset 'no-such-model'"),
        (["gmlp-ti"], "'gmlp-ti' is a model of images"),
        (["gmlp", "--lengths", "8:x"], "--lengths: got '8:x'; allowed: FROM:TO"),
        (["gmlp", "--lengths", "9:8"], "--lengths: got '9:8'"),
        (["gmlp", "--lengths", "0,4"], "--lengths: got '0,4'"),
        (["gmlp", "--device", "tpu"], "--device: got 'tpu'"),
        (["gmlp", "--plot", "costs.jpg"], "costs.jpg: the name of a plot ends in one of .png"),
    ],
)
def test_what_cannot_be_evaluated_is_reported(call: Call, arguments: list[str], reported: str) -> None:
    done = call("cost", *arguments)
    assert done.code == 2
    assert reported in done.err


def test_a_model_out_of_memory_leaves_the_rows_of_the_others(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peak = timing._peak

    def scarce(model: timing.Encoder, x: Tensor, mask: Tensor) -> int:
        if model.dim == 256 and x.shape[1] > 4:
            # As torch says it of a CPU; the file must be there already.
            assert [row["length"] for row in json.loads((tmp_path / "cost.json").read_text())["rows"]][:2] == [4, 4]
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")
        return peak(model, x, mask)

    monkeypatch.setattr(timing, "_peak", scarce)
    arguments = ["hypermixer", "pnlp-mixer-x-small", "--lengths", "4:16", "-o", tmp_path / "cost.json"]
    done = call("cost", *arguments)
    assert done.code == 0, done.err
    rows = json.loads((tmp_path / "cost.json").read_text())["rows"]
    assert [(row["model"], row["length"]) for row in rows] == [
        ("hypermixer", 4), *(("pnlp-mixer-x-small", length) for length in (4, 8, 16))
    ]  # fmt: skip
    assert done.err == "hypermixer: out of memory at 8 tokens; this length and longer texts are left out\n"
    done = call("cost", "hypermixer", "--lengths", "8")
    assert done.code == 2
    assert "no model could be measured at 8 tokens" in done.err


def test_another_problem_of_a_model_is_not_taken_for_memory(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> int:
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(timing, "_peak", broken)
    with pytest.raises(RuntimeError, match="shapes"):
        call("cost", "hypermixer", "--lengths", "8")


def test_training_an_image_model_on_texts_is_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\na,b\n")
    done = call("train", tmp_path / "a.csv", "--model", "gmlp-b", "-o", tmp_path / "run")
    assert done.code == 2
    assert "a.csv: is neither a folder with a folder of images for each label" in done.err
