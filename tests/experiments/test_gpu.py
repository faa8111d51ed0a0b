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
    monkeypatch.setattr("gpu_steps.MODELS", ("bert-tiny", "gmlp-tiny"))
    monkeypatch.setattr("gpu_steps.RIVAL", "bert-tiny")
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
    assert all(row["lengths"] > 0 and row["mask"] > 0 for row in report["padded"])
    assert report["borders"].keys() == {"FFT_FROM_ON_GPU", "GPU_OPERATIONS", "COMPILE_WEIGHTS"}


def test_borders_are_the_least_sizes_from_which_on_all_win(
    load_script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    borders = load_script("benchmarks/gpu.py").borders
    times = {"1024": (1, 3), "2048": (3, 2), "4096": (3, 4), "8192": (3, 2), "16384": (None, 2)}
    rates = {"a": (5, 10), "a, compiled": (5, 11), "b": (50, 10), "b, compiled": (50, 9), "c": (9, 1)}
    report = {
        "toeplitz": {name: {"matrix": one, "fft": other} for name, (one, other) in times.items()},
        "border": [{"operations": n, "tokens_per_second": {"cpu": 5, "cuda": 3 * n}} for n in (4, 1, 2)],
        "pretraining": {name: {"weights": n, "tokens_per_second": rate} for name, (n, rate) in rates.items()},
    }
    assert borders(report, "cuda") == {"FFT_FROM_ON_GPU": 8192, "GPU_OPERATIONS": 2, "COMPILE_WEIGHTS": None}
    report["pretraining"]["b, compiled"]["tokens_per_second"] = 11
    assert borders(report, "cuda")["COMPILE_WEIGHTS"] == 5


def test_without_a_card_it_says_so(load_script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    script = load_script("benchmarks/gpu.py")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit, match="error: no GPU; allowed without one: --tiny"):
        script.main([])
