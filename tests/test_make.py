"""tools/environment.py, which make calls: what it installs, and the one line about what a machine lacks."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def script(load_script: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with an empty folder as the current one."""
    found = load_script("tools/environment.py")
    monkeypatch.chdir(tmp_path)
    return found


def line(call: Callable[[], object]) -> str:
    """The line that a call ends with."""
    with pytest.raises(SystemExit) as ended:
        call()
    text = str(ended.value.code)
    assert text.startswith("error: ")
    assert "\n" not in text
    return text


def test_a_python_that_is_too_old_is_named(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    for arguments in (["base"], ["--base"], ["--active", "dev"]):
        text = line(lambda arguments=arguments: script.main(arguments))
        assert "needs Python 3.11 or later" in text
        assert "3.10.13" in text


def test_a_newer_python_is_taken_if_it_runs(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, code in (("python3.13", 1), ("python3.12", 0)):  # the first is there, but does not run, as pyenv's
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert script.newer_python() == str(tmp_path / "python3.12")


@pytest.mark.parametrize("module", ["venv", "ensurepip"])
def test_without_virtual_environments_the_package_is_named(
    script: ModuleType, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else object())
    assert line(lambda: script.environment(".venv")).endswith("sudo apt install python3-venv")


@pytest.mark.parametrize(("body", "fault"), [("exit 1", "does not run"), ('[ "$2" != "import pip" ]', "has no pip")])
def test_an_environment_that_cannot_be_used_is_not_replaced(
    script: ModuleType, body: str, fault: str, tmp_path: Path
) -> None:
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{body}\n")
    python.chmod(0o755)
    text = line(lambda: script.environment(".venv"))
    assert fault in text
    assert "remove the folder" in text
    assert python.exists()


def test_what_an_active_environment_lacks_is_named_with_the_command(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.main(["--active", "plots"])  # nothing: here are the tests' packages
    there = {"mixling", "msgspec", "torch"}
    monkeypatch.setattr(importlib.metadata, "distributions", lambda name: iter([name] if name in there else []))
    text = line(lambda: script.main(["--active", "plots"]))
    assert "lacks matplotlib" in text
    assert 'pip install -c constraints.txt "setuptools>=77" -e ".[plots]"' in text


def test_packages_are_installed_again_when_the_pins_change(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: list[str] = []
    (tmp_path / ".venv").mkdir()
    monkeypatch.setattr(script, "environment", lambda folder: "python")
    monkeypatch.setattr(script, "install_builders", lambda python: None)
    monkeypatch.setattr(script, "pip", lambda python, *arguments: installed.append(arguments[-1]))
    for extras in ("base", "base", "dev", "base", "dev", "dev,docs", "base"):
        script.install(extras)
    assert installed == [".", ".[dev]", ".[dev,docs]"]
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\n")
    script.install("base")
    script.install("dev")
    assert installed[3:] == [".", ".[dev]"]


def test_an_installation_that_fails_is_tried_again(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".venv").mkdir()
    monkeypatch.setattr(script, "environment", lambda folder: "false")
    for _ in range(2):
        assert "pip failed" in line(lambda: script.install("base"))
