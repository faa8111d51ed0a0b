"""The experiment on a few rows of a pair task, as it is called, and its rule for equal sizes."""

from __future__ import annotations

import argparse
import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mixling import RunConfig
from mixling.models import count

SCRIPT = Path(__file__).resolve().parents[2] / "experiments" / "mixer_family.py"


@pytest.fixture(scope="module")
def experiment(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("experiments/mixer_family.py")


@pytest.mark.parametrize("max_len", [64, 128])
def test_all_bodies_are_of_one_size(experiment: ModuleType, max_len: int) -> None:
    sizes = {name: count(experiment.matched(name, max_len), vocabulary=1).body for name in experiment.FREE}
    budget = sizes["transformer"]
    # FNet's mixing has no parameters; it has sinusoidal positions, and as post-norm no last norm.
    assert sizes.pop("fnet-512") == budget - 2 * 4 * (128**2 + 128) - 2 * 128
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
    monkeypatch.setattr("sys.argv", ["mixer_family.py", *map(str, arguments), "--chosen", "hypermixer=1e-3"])
    experiment.main()
    known = json.loads(out.read_text())["conjnli"]["models"]["hypermixer"]
    assert known["rates"] == {"0.001": found["rates"]["0.001"]}
    monkeypatch.setattr("sys.argv", ["mixer_family.py", *map(str, arguments), "--chosen", "hyper=1e-3"])
    with pytest.raises(SystemExit):
        experiment.main()
    assert "'hyper' is no model; allowed are no mixing" in capsys.readouterr().err


def test_an_interrupted_training_goes_on_if_its_configuration_is_the_same(
    experiment: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[bool] = []
    monkeypatch.setattr(experiment, "fit", lambda config, *data, folder, resume: given.append(resume))
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / experiment.RUN_FILE).write_text("{}")
    mine, other = RunConfig(), RunConfig.model_validate({"train": {"seed": 7}})
    for saved, finished in ((mine, False), (other, False), (other, True), (mine, True)):
        monkeypatch.setattr(experiment, "resumed_config", lambda folder, saved=(saved, finished): saved)
        assert experiment.complete(mine, (), tmp_path / "begun") == ((saved, finished) != (mine, True))
    assert experiment.complete(mine, (), tmp_path / "new")
    assert given == [True, False, False, False]


def test_more_epochs_are_a_result_of_their_own(
    experiment: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its differences are of the mean over seeds, and each training names its best epoch."""
    (tmp_path / "conjnli").mkdir()
    rows = [{"text": f"w{i % 7} and w{i % 5}", "text_pair": f"w{i % 5}", "label": "ab"[i % 2]} for i in range(60)]
    for name in ("train_adversarial", "dev"):
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        (tmp_path / "conjnli" / f"{name}.jsonl.gz").write_bytes(gzip.compress(content))
    monkeypatch.setattr(experiment, "DIM", 8)
    out = tmp_path / "result.json"
    arguments = ["conjnli", "--data", tmp_path, "--models", "no mixing", "hypermixer", "--rates", "1e-3"]
    arguments += ["--seeds", "2", "--epochs", "1", "--runs", tmp_path / "runs", "--out", out]
    monkeypatch.setattr("sys.argv", ["mixer_family.py", *map(str, arguments)])
    experiment.main()
    found = json.loads(out.read_text())["conjnli, 1 epochs"]
    assert found["epochs"] == 1
    ours, other = found["models"]["hypermixer"], found["models"]["no mixing"]
    assert ours["best_epochs"] == other["best_epochs"] == [1, 1]
    ahead = other["hypermixer_is_ahead"]
    assert ahead["difference"] == pytest.approx(sum(ours["test"]) / 2 - sum(other["test"]) / 2)
    assert ahead["low"] <= ahead["difference"] <= ahead["high"]


def test_rivals_have_the_feed_forward_of_the_others(experiment: ModuleType) -> None:
    for name in ("transformer", "mlp-mixer", "hypermixer", "gmlp-512", "fnet-512"):
        (layer,) = experiment.matched(name, 128).layers
        assert layer.feed_forward.ffn_dim == 256, name


def test_a_question_of_qnli_is_in_one_part_only(
    experiment: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a test file, a fifth of the questions is the test; those that choose are others, too."""
    rows = [{"text": f"q{i // 2}", "text_pair": f"s{i}", "label": "ab"[i % 2]} for i in range(200)]
    (tmp_path / "qnli").mkdir()
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (tmp_path / "qnli" / "dev.jsonl.gz").write_bytes(gzip.compress(content))
    seen: dict[str, set[str]] = {}

    class Asked:
        def __init__(self, folder: Path) -> None: ...

        def predict_stream(self, texts: list[tuple[str, str]]) -> list[Any]:
            seen["test"] = {question for question, _ in texts}
            return [SimpleNamespace(label="a") for _ in texts]

        def tokenize(self, texts: list[tuple[str, str]]) -> list[Any]:
            return [SimpleNamespace(words=["w"]) for _ in texts]

    def train(model: Any, epochs: int, data: tuple[Any, Any], rate: float, folder: Path) -> float:
        assert model.text.overlap == folder.is_relative_to(tmp_path / "qnli, overlap")
        seen.update(
            {name: {text[0] for text in part.texts} for name, part in zip(("train", "choose"), data, strict=True)}
        )
        return 0.5

    monkeypatch.setattr(experiment, "train", train)
    monkeypatch.setattr(experiment, "Predictor", Asked)
    options = argparse.Namespace(
        data=tmp_path,
        models=["no mixing"],
        rates=[1e-3],
        extend=False,
        chosen={},
        seeds=1,
        runs=tmp_path,
        epochs=None,
        overlap=False,
    )
    (row,) = experiment.run("qnli", options).values()
    assert row["test"] == [0.5]
    assert sum(map(len, seen.values())) == len(set.union(*seen.values())) == 100
    assert {name: len(part) for name, part in seen.items()} == pytest.approx(
        {"train": 72, "choose": 8, "test": 20}, abs=1
    )
    options.overlap = True
    assert experiment.called("qnli", options) == "qnli, overlap"
    experiment.run("qnli", options)


@pytest.mark.parametrize(
    ("highest", "rates"),
    [(2e-3, [5e-4, 1e-3, 4e-3]), (8e-3, [5e-4, 1e-3, 4e-3, 8e-3, 16e-3]), (2e-4, [12.5e-5, 25e-5, 5e-4, 1e-3, 4e-3])],
)
def test_the_grid_goes_on_where_the_best_rate_is_at_its_edge(
    experiment: ModuleType, highest: float, rates: list[float]
) -> None:
    def trained(rate: float) -> float:
        return -abs(math.log(rate / highest))

    best, found = experiment.best_rate(trained, [5e-4, 1e-3, 4e-3], extend=True)
    assert list(found) == rates
    assert found[best] == max(found.values())
    best, found = experiment.best_rate(trained, [5e-4, 1e-3, 4e-3], extend=False)
    assert list(found) == [5e-4, 1e-3, 4e-3]
