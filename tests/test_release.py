"""tools/release.py and the conda recipe: wheels of other systems are whole, and versions are those of the project."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def script(load_script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    return load_script("tools/release.py")


def test_a_wheel_of_another_system_has_its_modules_tag_and_digests(script: ModuleType, tmp_path: Path) -> None:
    about = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-abi3-linux_x86_64\n\n"
    files = {
        "mixling/__init__.py": "x = 1\n",
        "mixling/native/_core.abi3.so": "of Linux",
        "mixling-1.2.dist-info/WHEEL": about,
        "mixling-1.2.dist-info/RECORD": "mixling/native/_core.abi3.so,sha256=old,8\n",
    }
    with zipfile.ZipFile(tmp_path / "mixling-1.2-cp311-abi3-linux_x86_64.whl", "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    made = script.with_modules(Path(wheel.filename or ""), "win_amd64", {"_core.pyd": b"of Windows"})
    assert made.name == "mixling-1.2-cp311-abi3-win_amd64.whl"
    with zipfile.ZipFile(made) as wheel:
        found = {name: wheel.read(name) for name in wheel.namelist()}
    assert found.keys() == {*files, "mixling/native/_core.pyd"} - {"mixling/native/_core.abi3.so"}
    assert b"\nTag: cp311-abi3-win_amd64\n" in found["mixling-1.2.dist-info/WHEEL"]
    record = found.pop("mixling-1.2.dist-info/RECORD").decode()
    lines = {name: (digest, size) for name, digest, size in csv.reader(io.StringIO(record))}
    assert lines.pop("mixling-1.2.dist-info/RECORD") == ("", "")
    for name, content in found.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        assert lines.pop(name) == (f"sha256={digest}", str(len(content)))
    assert not lines


def test_the_list_of_packages_has_their_addresses(script: ModuleType) -> None:
    (component,) = script.bill_of_materials([{"name": "PyYAML", "version": "6.0"}])["components"]
    assert (component["name"], component["purl"]) == ("PyYAML", "pkg:pypi/pyyaml@6.0")


def test_the_conda_recipe_has_the_version_and_the_packages_of_the_project() -> None:
    recipe = yaml.safe_load((ROOT / "deploy" / "conda" / "recipe.yaml").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    version = re.search(r'"(.+)"', (ROOT / "src" / "mixling" / "version.py").read_text("utf-8").split("=")[1])
    assert version is not None
    assert recipe["context"]["version"] == version[1]
    needed = {re.sub(r"(>=)", r" \1", name) for name in project["dependencies"]}
    assert set(recipe["requirements"]["run"]) == needed | {f"python {project['requires-python']}"}
