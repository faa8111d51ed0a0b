"""The command that installs an extra, for every way in which mixling is installed."""

from __future__ import annotations

import importlib.metadata
import json
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mixling.installation import install_command

ROOT = Path(__file__).parents[1]


def test_extras_that_documents_name_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), ROOT / "Makefile", *(ROOT / "docs").rglob("*.ipynb")]
    named = {
        extra
        for page in pages
        for group in re.findall(r"pip install[^\n`]*\[([a-z, ]+)\]", page.read_text("utf-8"))
        for extra in group.split(",")
    }
    assert len(named) > 5
    assert sorted(named - extras.keys()) == []


def installed(monkeypatch: pytest.MonkeyPatch, record: dict[str, Any] | str | None) -> None:
    """Let pip have recorded this."""
    text = record if isinstance(record, str | None) else json.dumps(record)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: SimpleNamespace(read_text=lambda file: text))


def test_from_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, None)
    assert install_command("serve") == 'pip install "mixling[serve]"'
    assert install_command("torch", "hf") == 'pip install "mixling[torch,hf]"'


@pytest.mark.parametrize("editable", ["-e ", ""])
def test_from_a_clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, editable: str) -> None:
    clone = tmp_path / "a clone"
    clone.mkdir()
    record = {"url": clone.as_uri(), "dir_info": {"editable": True} if editable else {}}
    installed(monkeypatch, record)
    monkeypatch.chdir(tmp_path)
    assert install_command("serve") == f'pip install {editable}"{clone}[serve]"'
    monkeypatch.chdir(clone)
    assert install_command("serve") == f'pip install {editable}".[serve]"'
    monkeypatch.chdir(tmp_path)
    clone.rmdir()  # as after a build of an image
    assert install_command("serve") == 'pip install "mixling[serve]"'


def test_from_a_wheel_or_a_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheel = tmp_path / "mixling-0.1.0-py3-none-any.whl"
    wheel.touch()
    installed(monkeypatch, {"url": wheel.as_uri(), "archive_info": {}})
    assert install_command("serve") == f'pip install "{wheel}[serve]"'
    installed(monkeypatch, {"url": "https://example.org/mixling.git", "vcs_info": {"vcs": "git", "commit_id": "0"}})
    assert install_command("serve") == 'pip install "mixling[serve] @ git+https://example.org/mixling.git"'


def test_not_installed_but_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", fail)
    clone = Path(__file__).parents[1]
    monkeypatch.chdir(clone)
    assert install_command("serve") == 'pip install ".[serve]"'
    monkeypatch.undo()
    installed(monkeypatch, "damaged {")
    assert "[serve]" in install_command("serve")
