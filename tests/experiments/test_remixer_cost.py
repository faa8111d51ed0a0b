"""The costs of Remixer's Table 1: counts by the layers' formulas, and steps that take turns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def experiment(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("experiments/remixer_cost.py")


def test_counts_are_those_of_the_layers(experiment: ModuleType) -> None:
    """T5.1.1 base: 4 projections of width 768, scores and mixtures, 3 products with 2,048 channels, the output."""
    n, m, d, f, v = 512, 114, 768, 2048, 32_128
    encoder = n * 4 * d * d + 2 * n * n * d + n * 3 * d * f
    own, cross = m * 4 * d * d + 2 * m * m * d, (2 * m + 2 * n) * d * d + 2 * m * n * d
    macs = 12 * encoder + 12 * (own + cross + m * 3 * d * f) + m * d * v
    assert experiment.counted("t5-1.1") == {"parameters": 247_577_856, "flops": 2 * macs}
    # The matched Remixer has H and alpha beside, and one product with H in place of none.
    counted = experiment.counted("remixer")
    assert counted["parameters"] == 247_577_856 + 24 * (512**2 + 1)
    assert counted["flops"] == 2 * (macs + 12 * (n * n + m * m) * f)


def test_models_take_turns(experiment: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, calls = [0.0], []

    def step(name: str, seconds: list[float]) -> Callable[[], None]:
        def run() -> None:
            calls.append(name)
            clock[0] += seconds[calls.count(name) - 1]

        return run

    monkeypatch.setattr(experiment.time, "perf_counter", lambda: clock[0])
    speeds = experiment.per_second({"a": step("a", [9, 1, 2, 4]), "b": step("b", [9, 4, 5, 50])}, 3)
    assert calls == ["a", "b"] * 4
    assert speeds == {"a": 1 / 2, "b": 1 / 5}


@pytest.mark.slow
def test_a_small_run_is_written(experiment: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "cost.json"
    arguments = ["--models", "t5-1.1", "remixer-scaled", "--rounds", "1", "--batch-size", "1", "--vocabulary", "40"]
    monkeypatch.setattr("sys.argv", ["remixer_cost.py", *arguments, "--out", str(out)])
    experiment.main()
    models = json.loads(out.read_text())["models"]
    assert models["t5-1.1"]["relative_speed"] == 1
    row = models["remixer-scaled"]
    assert row["relative_speed"] == pytest.approx(row["steps_per_second"] / models["t5-1.1"]["steps_per_second"])
