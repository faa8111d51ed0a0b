"""The benchmark of a GPU, on sizes that a processor takes: that each of its parts runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow


def test_every_part_runs(
    load_script: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")  # it imports other scripts
    script = load_script("benchmarks/gpu.py")
    monkeypatch.setattr(script, "MODELS", ("bert-tiny", "gmlp-tiny"))
    monkeypatch.setattr(script, "RIVAL", "bert-tiny")
    script.main(["--tiny", "--out", str(tmp_path / "gpu.json")])
    report = json.loads((tmp_path / "gpu.json").read_text("utf-8"))
    assert report["tiny"]
    assert report["left_out"] == []
    assert len(report["pretraining"]) == 5
    for row in (*report["mixers"], *report["compiled"]):
        assert row["forward"].keys() >= {"sdpa", "hypermixing", "attention", "spatial gating"}
        assert all(time > 0 for way in ("forward", "with backward") for time in row[way].values())
    assert all(part["output"] == part["gradient"] == 0 for part in report["exactness"].values())
    assert report["toeplitz"].keys() == {"8", "16"}
    assert [row["batch"] for row in report["border"]] == [1, 2]


def test_without_a_card_it_says_so(load_script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    script = load_script("benchmarks/gpu.py")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit, match="error: no GPU; allowed without one: --tiny"):
        script.main([])
