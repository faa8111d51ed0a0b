"""The folder that `mixling export --browser` writes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mixling import ConfigError, ModelFileError
from mixling.browser import site, write_site
from mixling.browser.site import POLICY

MODELS = Path(__file__).parents[1] / "serving" / "models"


def model(name: str) -> bytes:
    return (MODELS / f"{name}.onnx").read_bytes()


def test_a_model_is_added_or_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    for content, name in (("intents", "a"), ("pairs", "b"), ("stars", "a")):
        write_site(model(content), folder, name=name)
    models = json.loads((folder / "models.json").read_text())["models"]
    assert [(item["name"], item["task"], item["inputs"]) for item in models] == [
        ("b", "classification", ["pairs"]),
        ("a", "regression", ["texts"]),
    ]
    assert (folder / models[1]["file"]).read_bytes() == model("stars")
    assert models[0]["version"] != models[1]["version"]


def test_every_file_that_is_asked_for_is_there(tmp_path: Path) -> None:
    write_site(model("intents"), tmp_path, name="a")
    html = (tmp_path / "index.html").read_text()
    asked = set(re.findall(r'(?:href|src)="([^"]+)"', html))
    assert len(asked) == 3
    for file in tmp_path.rglob("*.js"):
        for name in re.findall(r'(?:from|import|URL\() ?"(\.[^"]+)"', file.read_text()):
            asked.add((file.parent / name).resolve().relative_to(tmp_path).as_posix())
    assert {"mixling/mixling.wasm", "mixling/worker.js", "playground/api.js"} <= asked
    assert [name for name in sorted(asked) if not (tmp_path / name).is_file()] == []
    assert not list(tmp_path.rglob("*.d.ts"))
    assert "UNICODE LICENSE" in (tmp_path / "mixling" / "NOTICE.txt").read_text("utf-8")


def test_nothing_becomes_markup_or_code(tmp_path: Path) -> None:
    """Texts and labels are set by textContent: no script has a way to do otherwise."""
    write_site(model("intents"), tmp_path, name="a")
    scripts = [file.read_text("utf-8") for file in tmp_path.rglob("*.js")]
    assert any(".textContent" in script for script in scripts)
    markup = r"innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|parseFromString|document\.write"
    assert [found for script in scripts for found in re.findall(rf"{markup}|\beval\b|Function\(", script)] == []


def test_the_page_is_the_servers_with_a_policy(tmp_path: Path) -> None:
    write_site(model("intents"), tmp_path, name="a")
    html = (tmp_path / "index.html").read_text()
    assert f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">' in html
    assert html.index("Content-Security-Policy") < html.index("<link")
    assert "sent nowhere" in html
    assert "this server" not in html
    assert re.findall(r"https?://", html) == []


@pytest.mark.parametrize("built", [True, False])
def test_what_the_engine_does_not_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: bool) -> None:
    """Also where the native engine, which would say so, is not built."""
    golden = MODELS.parents[1] / "golden" / "model-v1.onnx"  # from before there was a plan for the engine
    if not built:
        monkeypatch.setitem(__import__("sys").modules, "mixling.native._core", None)
        write_site(model("intents"), tmp_path / "sound", name="a")
    with pytest.raises(ModelFileError, match=r"old: a page in the browser cannot run it: .*was exported without"):
        write_site(golden.read_bytes(), tmp_path / "new", name="old")
    monkeypatch.setattr(site, "_TASKS", ("regression",))
    with pytest.raises(ModelFileError, match="its task, classification, is not built in; `mixling serve` can"):
        write_site(model("intents"), tmp_path / "new", name="a")
    assert not (tmp_path / "new").exists()


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    (tmp_path / "file").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "models.json").write_text('["models"]')
    for name in ("mine", "file", "other"):
        with pytest.raises(ConfigError, match=name):
            write_site(model("intents"), tmp_path / name, name="a")
    assert len(list(tmp_path.rglob("*"))) == 5
