"""The experiment on a few rows of a pair task, as it is called, and its rule for equal sizes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from mixling.cost import count

SCRIPT = Path(__file__).resolve().parents[2] / "experiments" / "mixer_family.py"


@pytest.fixture(scope="module")
def experiment(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("experiments/mixer_family.py")


@pytest.mark.parametrize("max_len", [64, 128])
def test_all_bodies_are_of_one_size(experiment: ModuleType, max_len: int) -> None:
    sizes = {name: count(experiment.matched(name, max_len), vocabulary=1).body for name in experiment.FREE}
    budget = sizes["transformer"]
    # 2 layers of attention with biases, a feed-forward of twice the width, two norms each, and the last norm.
    assert budget == 2 * (4 * (128**2 + 128) + 2 * 128 * 256 + 256 + 128 + 4 * 128) + 2 * 128
    assert all(0.99 * budget < size <= budget for size in sizes.values()), sizes


def test_a_small_run_is_written_and_not_repeated(
    experiment: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "conjnli"
    data.mkdir()
    rows = [{"text": f"w{i % 7} and w{i % 5}", "text_pair": f"w{i % 5}", "label": "ab"[i % 2]} for i in range(80)]
    for name, some in {"train_adversarial": rows, "dev": rows[:9]}.items():
        content = "".join(json.dumps(row) + "\n" for row in some).encode()
        (data / f"{name}.jsonl.gz").write_bytes(gzip.compress(content))
    out = tmp_path / "result.json"
    monkeypatch.setattr(experiment, "DIM", 8)
    arguments = ["conjnli", "--data", tmp_path, "--models", "no mixing", "hypermixer", "--rates", "1e-3", "3e-3"]
    arguments += ["--seeds", "1", "--runs", tmp_path / "runs", "--out", out]
    monkeypatch.setattr("sys.argv", ["mixer_family.py", *map(str, arguments)])
    experiment.main()
    first = json.loads(out.read_text())["conjnli"]
    assert list(first["models"]) == ["no mixing", "hypermixer"]
    found = first["models"]["hypermixer"]
    assert found["rates"][f"{found['rate']:g}"] == max(found["rates"].values())
    assert 0 <= found["test"][0] <= 1
    assert "conjnli" in capsys.readouterr().out
    monkeypatch.setattr(experiment, "fit", None)
    experiment.main()
    again = json.loads(out.read_text())["conjnli"]["models"]
    assert again["hypermixer"]["test"] == found["test"]
