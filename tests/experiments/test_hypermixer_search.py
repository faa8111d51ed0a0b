"""The searches of HyperMixer's Figures 3 and 4: what they are given, and what is made of their trials."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mixling import model_config
from mixling.tuning import read_space

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"
ACCURACIES = {"transformer": [0.7, 0.9, 0.8], "hypermixer": [0.85, 0.6, 0.8]}


@pytest.fixture
def experiment(load_script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    yield load_script("experiments/hypermixer_search.py")
    sys.modules.pop("mixer_family", None)


def test_each_size_has_a_search_and_smaller_data_are_part_of_larger(
    experiment: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "sst2_glue"
    data.mkdir()
    rows = [json.dumps({"text": f"w{i}", "label": "ab"[i % 2]}) for i in range(40)]
    (data / "train.jsonl.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    given: dict[str, list[str]] = {}

    def search(folder: Path, options: Sequence[str]) -> None:
        given[folder.name] = list(options)
        lines = ["model,trial,state,accuracy"]
        lines += [f"{model},default,complete,0.99" for model in ACCURACIES]
        lines += [
            f"{model},{i},complete,{value}" for model, values in ACCURACIES.items() for i, value in enumerate(values)
        ]
        folder.mkdir()
        (folder / "trials.csv").write_text("\n".join([*lines, "hypermixer,3,failed,"]) + "\n")

    monkeypatch.setattr(experiment, "search", search)
    out = tmp_path / "found.json"
    arguments = ["--data", tmp_path, "--runs", tmp_path / "runs", "--models", *ACCURACIES, "--fractions", 0.25, 1.0]
    monkeypatch.setattr("sys.argv", ["x", *map(str, arguments), "--trials", "3", "--out", str(out)])
    experiment.main()
    found = json.loads(out.read_text())["fractions"]
    assert {name: item["examples"] for name, item in found.items()} == {"0.25": 10, "1": 40}
    assert str(tmp_path / "sst2_glue" / "dev.jsonl.gz") in given["search-0.25"]
    for model, values in ACCURACIES.items():
        rng = np.random.default_rng(0)
        draws = rng.choice(values, (100_000, 2)).max(1)
        item = found["1"]["models"][model]
        assert item["trials"] == values  # neither the default nor the failed one
        assert item["expected"][0] == pytest.approx(np.mean(values))
        assert item["expected"][1] == pytest.approx(draws.mean(), abs=2e-3)
        assert item["deviation"][1] == pytest.approx(draws.std(), abs=2e-3)
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    parts = [set(Path(given[f"search-{name}"][0]).read_text().split("\n")) for name in ("0.25", "1")]
    assert parts[0] < parts[1]
    assert parts[1] - {""} == set(rows)
    options = given["search-1"]
    files = [options[i + 1] for i, option in enumerate(options) if option == "--model"]
    for name, path in zip(ACCURACIES, files, strict=True):
        assert Path(path).stem == name
        assert model_config(path) == experiment.matched(name, 64)
    space = read_space(options[options.index("--space") + 1])
    assert space["train.optim.lr"].log
    assert (space["model.layers.0.dropout"].low, space["model.layers.0.dropout"].high) == (0, 0.5)
    assert "100%, 40 examples, hypermixer" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["x", *map(str, arguments[:-3]), "--fractions", "0.5", "--out", str(out)])
    experiment.main()
    assert list(json.loads(out.read_text())["fractions"]) == ["0.25", "0.5", "1"]  # the others are kept
    data.rename(tmp_path / "snips")
    monkeypatch.setattr(experiment, "__file__", str(tmp_path / "search.py"))
    (tmp_path / "results").mkdir()
    changed = ["--task", "snips", "--runs", str(tmp_path / "other"), "--fractions", "1"]
    monkeypatch.setattr("sys.argv", ["x", *map(str, arguments[:-3]), *changed])
    experiment.main()
    assert (
        json.loads((tmp_path / "results" / "hypermixer_search-snips-paper.json").read_text())["settings"]["epochs"] == 6
    )
    assert {"data.columns.text=tokens", "data.columns.label=intent", "train.epochs=6"} < set(given["search-1"])
    changed = ["--task", "snips", "--runs", str(tmp_path / "third"), "--fractions", "1", "--epochs", "8"]
    monkeypatch.setattr("sys.argv", ["x", *map(str, arguments[:-3]), *changed])
    experiment.main()
    assert (
        json.loads((tmp_path / "results" / "hypermixer_search-snips-paper.json").read_text())["settings"]["epochs"] == 8
    )
    assert "train.epochs=8" in given["search-1"]
