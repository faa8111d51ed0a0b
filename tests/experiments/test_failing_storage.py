"""Calls of the file system that fail, by the benchmark that lets each one fail: some of each command."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="needs fork and /proc")]
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)  # it imports another script
        yield load_script("benchmarks/failing_storage.py")


@pytest.fixture(scope="module")
def commands(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return script.make_commands(tmp_path_factory.mktemp("failing"))


def test_an_export_leaves_the_older_file_or_the_new(script: ModuleType, commands: Any, tmp_path: Path) -> None:
    found = script.fail_each(commands["export"], tmp_path / "victim", every=3)
    assert found["faults"] == []
    assert {"write", "rename", "fsync", "open to write", "mkdir"} <= found["kinds"].keys()
    assert found["trials"] == 6


def test_a_run_that_replaces_another_is_whole_when_its_files_cannot_be_moved(
    script: ModuleType, commands: Any, tmp_path: Path
) -> None:
    calls = script.count_calls(commands["overwrite"], tmp_path / "victim")
    last = len(calls) - calls[::-1].index("rename")
    ended = script.attempt(commands["overwrite"], tmp_path / "victim", last, errno.EIO, lasting=False)
    assert ended["wrong"] == "", ended
    assert (ended["code"], ended["left"]) == (2, "new")


def test_a_write_over_the_older_file_is_found(
    script: ModuleType, commands: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_in_place(path: Path, content: bytes) -> None:
        with open(path, "wb") as file:
            file.write(content)

    monkeypatch.setattr("mixling.storage.write_atomic", write_in_place)
    found = script.fail_each(commands["export"], tmp_path / "victim")
    assert {item["wrong"] for item in found["faults"]} == {"neither the old state nor the new"}


def test_a_failed_call_raises_the_error_and_no_other(script: ModuleType, tmp_path: Path) -> None:
    failure = script.Failure(tmp_path, at=2, number=errno.EIO)
    failure._called("write", None)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        failure._called("write", None)
    failure._called("write", None)
    assert failure.calls == ["write"] * 3
