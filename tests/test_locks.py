"""One writer for a folder: processes and threads exclude each other, and nothing is left of a lock."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mixling.errors import StorageError, command_line
from mixling.storage import LOCK_FILE, OWNER_FILE, locked


@contextmanager
def another_process(folder: Path) -> Iterator[int]:
    """A process that holds the folder until it is killed."""
    code = "import sys; from pathlib import Path; from mixling.storage import locked\n"
    code += "with locked(Path(sys.argv[1])): print(flush=True); sys.stdin.read()"
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], env=environment(), **streams) as process:  # type: ignore[call-overload]
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}


def test_it_is_held_more_than_once_by_its_thread_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with locked(folder):
        with locked(folder), locked(tmp_path / "other"):
            assert json.loads((folder / OWNER_FILE).read_text())["pid"] == os.getpid()
        assert (folder / LOCK_FILE).exists()
    assert list(tmp_path.iterdir()) == []
    with locked(folder):
        (folder / "file").write_text("")
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_another_process_is_refused_by_name_until_it_is_killed(tmp_path: Path) -> None:
    with another_process(tmp_path) as child:
        message = f"process {child} on .* has been writing to this folder since 2"
        with pytest.raises(StorageError, match=message), locked(tmp_path):
            pytest.fail("both hold the folder")
        (tmp_path / OWNER_FILE).write_text("{")  # half written
        with pytest.raises(StorageError, match="another process is writing"), locked(tmp_path):
            pytest.fail("both hold the folder")
    with locked(tmp_path):
        assert json.loads((tmp_path / OWNER_FILE).read_text())["pid"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_another_thread_is_refused(tmp_path: Path) -> None:
    refused = []

    def work() -> None:
        try:
            with locked(tmp_path):
                pass
        except StorageError as error:
            refused.append(error)

    with locked(tmp_path):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(refused) == 1


def test_an_error_releases_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mistake"), locked(tmp_path):
        raise ValueError("mistake")
    with locked(tmp_path):
        pass


def test_a_folder_that_cannot_be_made_is_a_clean_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file/run: could not be written"), locked(tmp_path / "file" / "run"):
        pytest.fail("there is no folder")


def test_a_printed_command_can_be_pasted() -> None:
    words = ["mixling", "train", "my file.csv", "-o", "it's $HOME"]
    assert shlex.split(command_line(*words)) == words
    assert command_line("mixling", "show", Path("run")) == "mixling show run"
