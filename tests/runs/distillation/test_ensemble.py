"""Members of an ensemble, trained in processes of their own or one after another."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from mixling import Dataset, Example, RunConfig, UserError, errors, fit, use_workers, workers
from mixling.runs.distillation import distill, ensemble

# A module, because processes import what they run.
MEMBERS = """
import os
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Any

from mixling import DataError

def num_threads():
    import torch
    from threadpoolctl import threadpool_info

    return max(torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info()))

@dataclass
class Scripted:
    "Does with each seed what `what` says of it."

    what: dict[int, str]
    record: list[Any] = field(default_factory=lambda: ["scripted"])
    counts: bool = False

    def __call__(self, seed, folder, log):
        log(f"process {os.getpid()}" + (f", {num_threads()} threads" if self.counts else ""))
        match self.what.get(seed):
            case "fails":
                raise DataError("no such row", path="rows.csv", line=7)
            case "dies":
                os.kill(os.getpid(), 9)
            case "breaks":
                os._exit(3)
            case "sleeps":
                sleep(100)
        folder.mkdir(exist_ok=True)
        (folder / "model").write_text(f"seed {seed}")
"""
ROWS = Dataset.from_examples(Example(f"{'good' if i % 2 else 'bad'} {i % 5}", "ny"[i % 2], "x", i) for i in range(40))


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "scripted_members.py").write_text(MEMBERS)
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module("scripted_members").Scripted


@pytest.fixture
def four_threads(monkeypatch: pytest.MonkeyPatch) -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def train(member: ensemble.TrainMember, folder: Path, seeds: int, log: Any = lambda line: None) -> list[Path]:
    folders = {folder / f"model-{seed}": seed for seed in range(seeds)}
    ensemble.train_ensemble(member, folders, ROWS, ROWS, name="teacher", log=log)
    return list(folders)


@pytest.mark.slow
def test_processes_train_the_models_of_one_process(tmp_path: Path, four_threads: None) -> None:
    model = {"layers": [], "dim": 8, "text": {"projection": {"type": "minhash", "num_hashes": 8}}}
    values = {"train": {"epochs": 2}, "model": model, "init": {"training_texts": False}, "ngrams": {"use": "always"}}
    config = RunConfig.model_validate({**values, "distill": {"teacher": "self"}})
    contents, lines = [], []
    for number in (1, 2):
        with use_workers(number):
            member = distill.Member(config, ROWS, ROWS, None, fit)
            folders = train(member, tmp_path / str(number), 3, lines.append)
        contents.append([(folder / "model.onnx").read_bytes() for folder in folders])
    assert contents[0] == contents[1]
    assert len(set(contents[0])) == 3
    assert sorted(lines[:6]) == sorted(lines[6:])
    assert lines[0] == "teacher, model 1 of 3: training on 40 examples"


@pytest.mark.slow
def test_each_has_its_part_of_the_threads(scripted: Any, tmp_path: Path, four_threads: None) -> None:
    processes = []
    for number in (1, 2):
        lines: list[str] = []
        with use_workers(number):
            train(scripted({}, counts=True), tmp_path / str(number), 4, lines.append)
        assert all(line.endswith(", 1 threads") for line in lines)
        processes.append({int(re.findall(r"process (\d+)", line)[0]) for line in lines})
    assert processes[0] == {os.getpid()}
    assert len(processes[1] - processes[0]) == 2
    assert torch.get_num_threads() == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("fails", UserError, r"^rows\.csv:7: no such row$"),
        (
            "dies",
            errors.TrainingError,
            "^teacher, model 4 of 4: .* killed by signal 9; .* with OMP_NUM_THREADS=1$",
        ),
        (
            "breaks",
            errors.TrainingError,
            "^teacher, model 4 of 4: .* ended with exit code 3; its error is printed",
        ),
    ],
)
def test_what_was_trained_before_a_failure_is_kept(
    scripted: Any, tmp_path: Path, what: str, error: type[Exception], message: str
) -> None:
    with use_workers(2), pytest.raises(error, match=message):
        train(scripted({0: "sleeps", 3: what}), tmp_path, 4)
    assert multiprocessing.active_children() == []
    assert [path.name for path in sorted(tmp_path.glob("model-*.json"))] == ["model-1.json"]
    lines: list[str] = []
    folders = train(scripted({}), tmp_path, 4, lines.append)
    assert lines[0] == f"teacher, model 2 of 4: reusing {tmp_path / 'model-1'}, trained before"
    assert [(folder / "model").read_text() for folder in folders] == [f"seed {i}" for i in range(4)]
    (folders[2] / "model").write_text("changed")
    shutil.rmtree(folders[3])
    lines.clear()
    train(scripted({}), tmp_path, 4, lines.append)
    again = [line.split(":")[0] for line in lines if "reusing" not in line]
    assert again == ["teacher, model 3 of 4", "teacher, model 4 of 4"]


@pytest.mark.slow
def test_an_interruption_ends_the_processes(scripted: Any, tmp_path: Path) -> None:
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with use_workers(2), pytest.raises(KeyboardInterrupt):
        train(scripted({0: "sleeps", 1: "sleeps"}), tmp_path, 2, interrupt)
    assert multiprocessing.active_children() == []


def test_a_single_model_is_trained_in_this_process(scripted: Any, tmp_path: Path) -> None:
    lines: list[str] = []
    with use_workers(2):
        train(scripted({}, counts=True), tmp_path, 1, lines.append)
    assert lines == [f"teacher: process {os.getpid()}, {torch.get_num_threads()} threads"]


def test_workers_are_those_of_the_innermost_block() -> None:
    assert workers.num_workers() == 1
    with use_workers(3):
        with use_workers(2):
            assert workers.num_workers() == 2
        assert workers.num_workers() == 3
