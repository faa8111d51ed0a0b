"""The journal of a search: the same trials after a kill at any moment."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("optuna", reason="searches need optuna: pip install 'mixling[tune]'")

from mixling import ModelFileError, workers
from mixling.errors import StorageError
from mixling.tuning import Dimension
from mixling.tuning.study import Result, Studies, best
from mixling.tuning.tune import Search
from mixling.tuning.worker import Trained

SPACE = {
    "a": Dimension(low=0.001, high=0.1, log=True),
    "b": Dimension(choices=("x", "y", "z")),
    "c": Dimension(low=1, high=9),
}


def studies(path: Path, **options: object) -> Studies:
    return Studies(path, {"m": SPACE, "n": SPACE}, **{"less_is_better": False, "seed": 0, **options})  # type: ignore[arg-type]


def test_trials_do_not_depend_on_when_they_are_drawn_or_whether_the_search_was_killed(tmp_path: Path) -> None:
    whole = studies(tmp_path / "whole")
    wanted = [whole.ask("m").params for _ in range(5)]
    assert len({str(params) for params in wanted}) == 5
    assert whole.ask("n").params != wanted[0], "models draw different values"
    path = tmp_path / "journal"
    first = studies(path)
    first.ask("m")
    lines = path.read_bytes().splitlines(keepends=True)
    for kept in range(2, len(lines) + 1):  # killed after each write, the last of them only in part
        path.write_bytes(b"".join(lines[:kept]) + b'{"op_code": 4, "wor')
        again = studies(path)
        left = again.unfinished("m")
        assert [trial.number for trial in left] == [0] * len(left)
        found = [trial.params for trial in left] + [again.ask("m").params for _ in range(5 - len(left))]
        assert found == wanted
        assert again.count("m") == 5


def test_results_survive_and_failed_trials_have_their_error(tmp_path: Path) -> None:
    first = studies(tmp_path / "journal")
    trials = [first.ask("m") for _ in range(4)]
    first.complete(trials[1], value=0.9, loss=0.3, seconds=2.0)
    first.complete(trials[2], value=0.9, loss=0.2, seconds=2.0)
    first.fail(trials[0], "the loss is nan")
    first.spent = 12.5
    again = studies(tmp_path / "journal")
    results = again.results("m")
    assert [item.state for item in results] == ["failed", "complete", "complete", "running"]
    assert (results[0].error, results[1].value, results[1].seconds) == ("the loss is nan", 0.9, 2.0)
    assert [item.number for item in again.unfinished("m")] == [3]
    assert again.spent == 12.5
    chosen = best(results, less_is_better=False)
    assert chosen is not None
    assert chosen.number == 2, "of equal trials the one with the lower loss is the best"
    assert best(results[:1], less_is_better=False) is None


def test_the_default_configuration_is_no_trial(tmp_path: Path) -> None:
    first = studies(tmp_path / "journal")
    assert first.default("m") is None
    default = Result(model="m", number=None, params={}, state="running")
    first.complete(default, value=0.5, loss=1.0, seconds=1.0)
    again = studies(tmp_path / "journal")
    found = again.default("m")
    assert found is not None
    assert (found.number, found.value, found.state) == (None, 0.5, "complete")
    assert again.count("m") == 0


def test_a_damaged_journal_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    studies(path).ask("m")
    whole = path.read_bytes()
    for line in (b"nonsense", b"[" * 100_000, b"[" + b"[]," * 4_000_001 + b"[]]"):
        path.write_bytes(line + b"\n" + whole)
        with pytest.raises(ModelFileError, match="journal: is damaged"):
            studies(path)
    with path.open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(ModelFileError, match="journal: is damaged: has 3,221,225,472 bytes"):
        studies(path)


@pytest.mark.skipif(os.name == "nt", reason="links need rights there, and there are no such pipes")
def test_a_journal_is_no_pipe_and_no_link(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="pipe: is damaged: is not a regular file"):
        studies(tmp_path / "pipe")
    precious = tmp_path / "precious"
    (tmp_path / "link").symlink_to(precious)
    for _ in range(2):  # to nothing, and to a file
        with pytest.raises(StorageError, match="is a symbolic link, through which nothing is written"):
            studies(tmp_path / "link")
        assert not precious.exists() or precious.read_text() == "precious"
        precious.write_text("precious")


@pytest.mark.parametrize("kills", [1, 2])
def test_a_trial_whose_process_is_killed_is_trained_again_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    attempts: list[str] = []

    class Process(threading.Thread):
        """Looks like a process, and dies with trial 1."""

        exitcode = -9

        def __init__(self, target: Any, args: tuple[Any, ...], daemon: bool) -> None:
            self._connection = Connection(os.dup(args[0].fileno()))  # the parent closes its own
            super().__init__(daemon=daemon)

        def terminate(self) -> None:
            """Do nothing: a thread ends when its pipe is closed."""

        def run(self) -> None:
            with contextlib.suppress(EOFError), self._connection:
                while True:
                    attempts.append(self._connection.recv().folder.name)
                    if attempts[-1] == "0001" and attempts.count("0001") <= kills:
                        return
                    self._connection.send(Trained(value=1.0, loss=0.0, seconds=0.0))

    plan: Any = SimpleNamespace(
        bases={"m": SimpleNamespace(to_dict=dict)}, configure=lambda *_: SimpleNamespace(to_dict=dict),
        trials=3, time_budget=None, pruner="none", jobs=1, threads=1,
    )  # fmt: skip
    context = SimpleNamespace(Pipe=multiprocessing.get_context("spawn").Pipe, Process=Process)
    monkeypatch.setattr(workers, "SPAWN", context)
    found = Studies(tmp_path / "journal", {"m": SPACE}, less_is_better=False, seed=0)
    messages: list[str] = []
    Search(tmp_path, plan, found, log=messages.append).run()
    assert attempts == ["default", "0000", "0001", "0001", "0002"]
    assert [result.state for result in found.results("m")] == [
        "complete",
        "complete" if kills == 1 else "failed",
        "complete",
    ]
    (message,) = messages
    assert message.endswith("0001: its process was killed by signal 9; it is trained again")
