"""`mixling models` and `mixling cost`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mixling.models.presets import PRESETS

from .conftest import Call


def test_models_lists_every_preset(call: Call) -> None:
    done = call("models")
    assert done.code == 0, done.err
    lines = done.out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(PRESETS)
    assert "357,283,696" in next(line for line in lines if line.startswith("gmlp-144"))
    rows = json.loads(call("models", "--json").out)
    assert [row["name"] for row in rows] == list(PRESETS)
    assert rows[0]["parameters"] == 4_338_432
    assert rows[0]["source"] == "pNLP-Mixer, Table 5"


def test_cost_prints_writes_and_draws(call: Call, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('preset = "pnlp-mixer-x-small"\ndim = 8\n')
    out, plot = tmp_path / "cost.json", tmp_path / "cost.png"
    done = call("cost", "pnlp-mixer-x-small", mine, "--lengths", "4:16", "--repeats", 1, "-o", out, "--plot", plot)
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 1 + 2 * 3
    rows = json.loads(out.read_text())["rows"]
    assert [row["length"] for row in rows] == [4, 4, 8, 8, 16, 16]
    assert {row["model"] for row in rows} == {"pnlp-mixer-x-small", str(mine)}
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["no-such-model"], "unknown preset 'no-such-model'"),
        (["gmlp", "--lengths", "8:x"], "--lengths: got '8:x'; allowed: FROM:TO"),
        (["gmlp", "--lengths", "9:8"], "--lengths: got '9:8'"),
        (["gmlp", "--lengths", "0,4"], "--lengths: got '0,4'"),
        (["gmlp", "--device", "tpu"], "--device: got 'tpu'"),
    ],
)
def test_what_cannot_be_measured_is_told(call: Call, arguments: list[str], told: str) -> None:
    done = call("cost", *arguments)
    assert done.code == 2
    assert told in done.err
