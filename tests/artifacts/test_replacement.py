"""A run that replaces a finished one: at every moment the folder answers with the old files or the new, whole."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixling import Dataset, Example, RunConfig, fit, model_config
from mixling.artifacts import NEXT, RUN_FILE, read_folder, unfinished_run
from mixling.artifacts.files import COMPLETE, CONFIG_FILE, METRICS_FILE, WEIGHTS_FILE
from mixling.artifacts.replacement import commit, complete, link_folder
from mixling.config import parse
from mixling.errors import Interrupted, StorageError, TrainingError
from mixling.research import load_model
from mixling.runs.record import held
from mixling.runtime import ONNX_FILE
from mixling.storage import append, locked
from mixling.training import CHECKPOINT, HISTORY, Callback, Step

# Of the old run and of the new one: some in both, some in one, one in a folder.
OLD = (RUN_FILE, CONFIG_FILE, WEIGHTS_FILE, ONNX_FILE, "vocab.txt", "confusion.png", "corpus/train.rows")
NEW = (RUN_FILE, CONFIG_FILE, WEIGHTS_FILE, ONNX_FILE, "tokenizer.json", METRICS_FILE, "teacher/self-1/model.onnx")


class Killed(BaseException):
    """Stands for kill -9."""


def two_runs(folder: Path) -> Path:
    """A folder with a finished run, one that is to replace it, and a file of the user's."""
    for location, names, content in ((folder, OLD, "old"), (folder / NEXT, NEW, "new")):
        for name in names:
            (location / name).parent.mkdir(parents=True, exist_ok=True)
            (location / name).write_text(f'{{"config": {{}}, "finished": true, "of": "{content}"}}')
    (folder / "notes.txt").write_text("mine")
    return folder


def content(folder: Path) -> dict[str, str]:
    """Which run each file is of, without what is hidden."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    names = {path: path.relative_to(folder).as_posix() for path in found}
    return {name: path.read_text()[-5:-2] for path, name in names.items() if not name.startswith((".", "notes"))}


def all_of(names: tuple[str, ...], run: str) -> dict[str, str]:
    return dict.fromkeys(names, run)


def read(folder: Path) -> dict[str, str]:
    return {name: of for name, of in content(folder).items() if name not in (COMPLETE, CHECKPOINT)}


def killed_at(number: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each change of the file system is counted, and instead of the one with that number the process is killed."""
    calls: list[str] = []

    def counted(name: str, change: Callable[..., Any]) -> Callable[..., Any]:
        def change_or_kill(*arguments: Any, **options: Any) -> Any:
            calls.append(name)
            if len(calls) >= number:
                raise Killed
            return change(*arguments, **options)

        return change_or_kill

    for name in ("replace", "rename", "link", "unlink", "rmdir", "mkdir", "fsync"):
        monkeypatch.setattr(os, name, counted(name, getattr(os, name)))
    return calls


def test_a_kill_at_every_change_leaves_the_old_run_or_the_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for number in range(1, 1000):
        folder = two_runs(tmp_path / str(number))
        with monkeypatch.context() as patch:
            calls = killed_at(number, patch)
            with contextlib.suppress(Killed):
                commit(folder)
        found = read_folder(folder, read)
        assert found in (all_of(OLD, "old"), all_of(NEW, "new")), f"after {calls}"
        committed = found == all_of(NEW, "new")
        assert (folder / ONNX_FILE).exists()
        seen.add(committed)
        with held(folder, is_main=True):
            assert read_folder(folder, read).items() >= found.items()
        assert (content(folder) == all_of(NEW, "new")) == committed
        if not committed:
            assert content(folder) == all_of(OLD, "old")
            assert (folder / NEXT / RUN_FILE).exists(), "there is a run to resume"
        assert (folder / "notes.txt").read_text() == "mine"
        if len(calls) < number:  # it came to its end
            break
    assert seen == {True, False}
    assert number > 30


def test_a_kill_while_a_killed_replacement_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = two_runs(tmp_path / "run")
    (folder / NEXT / COMPLETE).write_text("")
    for number in range(1, 200):  # each attempt comes a change further
        with monkeypatch.context() as patch:
            calls = killed_at(number, patch)
            with contextlib.suppress(Killed):
                complete(folder)
        assert read_folder(folder, read) == all_of(NEW, "new")
        if len(calls) < number:
            break
    assert content(folder) == all_of(NEW, "new")
    assert not (folder / NEXT).exists()


def test_what_is_replaced_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    folder = two_runs(tmp_path / "run")
    moments: list[Callable[[], None]] = [lambda: (folder / NEXT / COMPLETE).touch(), lambda: complete(folder)]
    read_from: list[Path] = []

    def slowly(location: Path) -> set[str]:
        first = (location / CONFIG_FILE).read_text()
        read_from.append(location)
        if moments:
            moments.pop(0)()
        return {first, (location / WEIGHTS_FILE).read_text()}  # which may be gone

    (found,) = read_folder(folder, slowly)
    assert '"new"' in found
    assert read_from == [folder, folder / NEXT, folder]


def test_an_error_of_a_reader_is_raised_once(tmp_path: Path) -> None:
    calls = []

    def fails(folder: Path) -> None:
        calls.append(folder)
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        read_folder(tmp_path, fails)
    assert calls == [tmp_path]


def test_a_file_system_without_links_has_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*arguments: object, **options: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    folder = two_runs(tmp_path / "run")
    link_folder(folder / "corpus", folder / NEXT / "corpus")
    assert (folder / NEXT / "corpus" / "train.rows").read_text() == (folder / "corpus" / "train.rows").read_text()
    shutil.rmtree(folder / NEXT / "corpus")
    commit(folder)
    assert content(folder) == all_of(NEW, "new")


def test_a_full_disk_at_the_end_names_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    folder = two_runs(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", full)
        patch.setattr(shutil, "copyfileobj", full)
        with pytest.raises(StorageError, match="No space left on device; the new model is complete"):
            commit(folder)
    assert read_folder(folder, read) == all_of(NEW, "new")
    complete(folder)
    assert content(folder) == all_of(NEW, "new")


# ---- real runs


class Stop(Callback):
    """Raises at a step."""

    def __init__(self, error: BaseException, step: int = 5) -> None:
        self.error, self.step = error, step

    def stepped(self, step: Step) -> None:
        if step.number == self.step:
            raise self.error


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Finished runs with seed 1 and seed 2."""
    found = {}
    for seed in (1, 2):
        folder = tmp_path_factory.mktemp("finished") / f"seed {seed}"
        fit(seeded(seed), rows(24), rows(8), folder=folder)
        found[f"seed {seed}"] = folder
    return found


def rows(count: int) -> Dataset:
    return Dataset.from_examples(
        Example(f"{'good' if i % 2 else 'bad'} text", "ab"[i % 2], "x", i) for i in range(count)
    )


def seeded(seed: int, **train: Any) -> RunConfig:
    small = model_config("pnlp-mixer-x-small", {"dim": 8, "num_layers": 1})
    values = {"epochs": 3, "batch_size": 8, "precision": "float32", "checkpoint_seconds": 1e-9, "seed": seed, **train}
    return parse(
        RunConfig, {"model": small.to_dict(), "decisions": {"precision": "float32"}, "train": values}, where="test"
    )


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    "error",
    [Interrupted("stopped", signum=15), TrainingError("diverged"), StorageError("full"), Killed(), RuntimeError("bug")],
    ids=lambda error: type(error).__name__,
)
def test_a_run_that_fails_leaves_the_old_model_and_can_be_resumed(
    finished: dict[str, Path], tmp_path: Path, error: BaseException
) -> None:
    folder = tmp_path / "my model"
    shutil.copytree(finished["seed 1"], folder)
    message = str(error)
    with pytest.raises(type(error)) as caught:
        fit(seeded(2), rows(24), rows(8), folder=folder, callback=Stop(error))
    assert files(folder) == files(finished["seed 1"])
    assert load_model(folder)[1].vocabulary.serialize() == load_model(finished["seed 1"])[1].vocabulary.serialize()
    run = unfinished_run(folder)
    assert run is not None
    assert (run.folder, run.step) == (folder / NEXT, 4)
    if message and not isinstance(error, RuntimeError):
        assert f"{folder}: its model is unchanged" in str(caught.value)
        assert f"rm -r '{folder / NEXT}'" in str(caught.value)
        assert f"mixling train --resume -o '{folder}'" in str(caught.value) or isinstance(error, Interrupted)
    fit(seeded(2), rows(24), rows(8), folder=folder, resume=True)
    assert files(folder) == files(finished["seed 2"])
    assert {path.name for path in folder.iterdir()} == {path.name for path in finished["seed 2"].iterdir()}


def test_a_divergence_leaves_the_old_model(finished: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished["seed 1"], folder)
    with pytest.raises(TrainingError, match="its model is unchanged"):
        fit(seeded(2), rows(24), rows(8), folder=folder, weights=np.full(24, np.inf, np.float32))
    assert files(folder) == files(finished["seed 1"])


def test_a_second_replacement_begins_anew(finished: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished["seed 1"], folder)
    with pytest.raises(TrainingError):
        fit(seeded(3), rows(24), rows(8), folder=folder, callback=Stop(TrainingError("stopped")))
    fit(seeded(2), rows(24), rows(8), folder=folder)
    assert files(folder) == files(finished["seed 2"])
    assert not (folder / NEXT).exists()


def test_a_finished_run_is_not_begun_anew_by_resuming(finished: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished["seed 1"], folder)
    with pytest.raises(TrainingError, match="no checkpoint to resume from"):
        fit(seeded(1), rows(24), rows(8), folder=folder, resume=True)
    assert files(folder) == files(finished["seed 1"])


def test_a_shared_folder_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a").write_text("1")
    link_folder(tmp_path / "old", tmp_path / "new")
    assert (tmp_path / "new" / "a").samefile(tmp_path / "old" / "a")
    link_folder(tmp_path / "none", tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_a_link_in_the_place_of_a_file_that_is_moved_stays_a_link(finished: dict[str, Path], tmp_path: Path) -> None:
    """A second name of what it points to would be written by whoever adds lines to the file, such as --resume."""
    folder, precious = tmp_path / "run", tmp_path / "precious.txt"
    shutil.copytree(finished["seed 1"], folder)
    shutil.copytree(finished["seed 2"], folder / NEXT)
    precious.write_text("precious")
    (folder / NEXT / HISTORY).unlink()
    (folder / NEXT / HISTORY).symlink_to(precious)
    (folder / NEXT / COMPLETE).touch()
    with locked(folder):
        complete(folder)
    assert (folder / HISTORY).is_symlink()
    assert precious.stat().st_nlink == 1
    with locked(folder), pytest.raises(StorageError, match="is a symbolic link"):
        append(folder / HISTORY, "more")
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_folder_is_kept_with_its_links_as_they_are(tmp_path: Path, kind: str) -> None:
    old, elsewhere = tmp_path / "run" / "old", tmp_path / "elsewhere"
    old.mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "precious.txt").write_text("precious")
    (old / "link").symlink_to(elsewhere if kind == "folder" else elsewhere / "precious.txt")
    (old / "file").write_text("a")
    with locked(tmp_path / "run"):
        link_folder(old, tmp_path / "run" / "new")
    assert (tmp_path / "run" / "new" / "link").is_symlink()
    assert (tmp_path / "run" / "new" / "file").samefile(old / "file")
    assert (elsewhere / "precious.txt").stat().st_nlink == 1
