"""The experiment in small: it learns, writes what it must, and goes on where it was interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "experiments" / "hypermixer_shapes.py"
SMALL = "--models none hypermixer --sizes 8 16 --tune-size 16 --learning-rates 0.003 0.01 --seeds 0 1 --steps 8"
SMALL += " --validation 10 --test 20"


@pytest.fixture(scope="module")
def experiment(load_script: Callable[[str], ModuleType]) -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)
        return load_script("experiments/hypermixer_shapes.py")


def run(experiment: ModuleType, folder: Path, *options: str) -> None:
    folders = ["--out", str(folder), "--weights", str(folder / "weights")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", [str(SCRIPT), *SMALL.split(), *folders, *options])
        experiment.main()


@pytest.fixture(scope="module")
def folder(experiment: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shapes")
    run(experiment, folder)
    return folder


def test_the_rate_is_chosen_on_validation_and_only_its_runs_are_tested(folder: Path) -> None:
    report = json.loads((folder / "hypermixer_shapes.json").read_text("utf-8"))
    for name in ("none", "hypermixer"):
        runs = [run for run in report["runs"].values() if run["model"] == name]
        tuned = [run for run in runs if (run["size"], run["seed"]) == (16, 0)]
        assert {run["lr"] for run in tuned} == {0.003, 0.01}
        assert len(runs) == 2 * 2 + 1  # two sizes with two seeds, and another rate for one of them
        chosen = min(tuned, key=lambda run: run["val_mse"])["lr"]
        tested = [run for run in runs if "test_mse" in run]
        assert {(run["size"], run["seed"], run["lr"]) for run in tested} == {
            (size, seed, chosen) for size in (8, 16) for seed in (0, 1)
        }
        assert len({run["test_mse"] for run in tested}) == 4  # each is of its own weights
        errors = sorted(run["test_mse"] for run in tested if run["size"] == 16)
        assert report["test_mse"][name]["16"] == {
            "median": sum(errors) / 2,
            "min": errors[0],
            "max": errors[1],
            "runs": 2,
        }
    # Of nearly the same size; the identity's error is that of the heights alone.
    sizes = report["settings"]["parameters"].values()
    assert max(sizes) < 1.02 * min(sizes)
    assert 5 < report["identity_test_mse"] < 11
    assert {"command", "commit", "date", "hardware"} <= report["provenance"].keys()
    for picture in ("hypermixer_shapes.png", "hypermixer_shapes_maps.png"):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")


def test_a_rerun_trains_only_what_is_missing_to_the_same_numbers(
    experiment: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "hypermixer_shapes.json"
    before = json.loads(path.read_text("utf-8"))
    lost = next(key for key, run in before["runs"].items() if run["seed"] == 1)
    path.write_text(json.dumps({**before, "runs": {k: run for k, run in before["runs"].items() if k != lost}}))
    run(experiment, folder)
    assert len(capsys.readouterr().out.splitlines()) == 1
    after = json.loads(path.read_text("utf-8"))
    again, first = ({**report["runs"][lost], "cpu_seconds": 0} for report in (after, before))
    assert again == first
    assert after["test_mse"] == before["test_mse"]


def test_results_of_other_settings_are_not_overwritten(experiment: ModuleType, folder: Path) -> None:
    before = (folder / "hypermixer_shapes.json").read_bytes()
    with pytest.raises(SystemExit, match="made with other settings"):
        run(experiment, folder, "--batch-size", "4")
    assert (folder / "hypermixer_shapes.json").read_bytes() == before
