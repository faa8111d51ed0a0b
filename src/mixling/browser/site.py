"""Write a static page that answers with models in the browser: the playground of `mixling serve` without a server."""

from __future__ import annotations

import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from mixling.errors import ConfigError, ModelFileError
from mixling.runtime.native import load_native
from mixling.runtime.onnx_file import read_metadata
from mixling.runtime.session import Metadata, open_model
from mixling.storage import write_atomic, write_json
from mixling.tasks.base import Task

MODELS_FILE = "models.json"
# Those of the server's page, and WebAssembly; a page cannot forbid frames itself.
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "worker-src 'self'; base-uri 'none'; form-action 'none'"
)
_TASKS = ("classification", "multi_label", "regression", "tagging", "question_answering")  # of predictions.js
_FOOTER = "<p>Everything is computed in this page: what you type is sent nowhere.</p>"


def write_site(content: bytes, folder: Path, *, name: str) -> None:
    """Write a folder of static files with a model, or add a model to such a folder.

    Args:
        content: a model file.
        folder: an empty or new folder, or one that this function wrote; a model of the same name is replaced.
        name: of the model on the page: letters, digits, `.`, `_` and `-`.

    Raises:
        ModelFileError: the model needs ONNX Runtime, which the page does not have.
        ConfigError: the folder has other files.
    """
    about = _describe(content, name)
    others = [item for item in _models(folder) if item["name"] != name]
    write_atomic(folder / about["file"], content)
    for source in _resources("mixling.browser", "package"):
        if source.name.endswith(".js"):
            write_atomic(folder / "mixling" / source.name, without_comments(source.read_text("utf-8")).encode())
        elif source.name.endswith(".wasm"):
            write_atomic(folder / "mixling" / source.name, source.read_bytes())
    own = {source.name: source.read_bytes() for source in _resources("mixling.browser", "page")}
    for source in _resources("mixling.serving", "playground"):
        if source.name != "index.html":
            write_atomic(folder / "playground" / source.name, own.get(source.name) or source.read_bytes())
        else:
            write_atomic(folder / "index.html", page(source.read_text("utf-8")))
    write_json(folder / MODELS_FILE, {"mixling_site": 1, "models": [*others, about]})


def without_comments(script: str) -> str:
    """Return a script of the package without the lines that are comments: a sixth of what a page downloads of it."""
    return re.sub(r"(?m)^ *(?://|/\*\*|\*).*\n", "", script)


def page(html: str) -> str:
    """Return the page of the server with the policy and the footer of static files."""
    charset = '<meta charset="utf-8">'
    policy = f'{charset}\n    <meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    html, footers = re.subn(r"(?s)(?<=<footer>\n).*?(?=\n *</footer>)", f"      {_FOOTER}", html)
    assert html.count(charset) == footers == 1
    return html.replace(charset, policy)


def _resources(package: str, folder: str) -> list[Any]:
    return [item for item in (files(package) / folder).iterdir() if item.is_file()]


def _describe(content: bytes, name: str) -> dict[str, Any]:
    """Return what the page has to know of a model, in the server's words; refuse a model that it cannot run."""
    opened = open_model(content, name=name)
    reason = _why_not(content, opened.task, opened.metadata)
    if reason:
        raise ModelFileError(f"{name}: a page in the browser cannot run it: {reason}; `mixling serve` can")
    version = hashlib.sha256(content).hexdigest()[:12]
    out = {"name": name, "version": version, "file": f"models/{name}.onnx", "task": opened.task.name}
    # Taggers and answers have no explanations in JavaScript.
    options = [] if opened.task.windows or opened.task.per_word else ["explain"]
    return out | {"inputs": [_inputs(opened.task, opened.metadata.pairs)], "options": options}


def _inputs(task: Task, pairs: bool | None) -> str:
    if task.windows:
        return "questions"
    return "pairs" if pairs else "texts"


def _why_not(content: bytes, task: Task, metadata: Metadata) -> str:
    """Return why JavaScript cannot run a model, or nothing."""
    if task.name not in _TASKS:
        return f"its task, {task.name}, is not built in"
    engine, reason = load_native(content)
    if engine is not None:
        return ""
    try:
        import mixling.native._core  # noqa: F401
    except ImportError:  # the page itself reports what the same code would find here
        return "" if "native" in read_metadata(content) else "it was exported without what the native engine reads"
    return reason


def _models(folder: Path) -> list[dict[str, Any]]:
    """Return the models that a folder has already."""
    if not folder.exists():
        return []
    if not folder.is_dir():
        raise ConfigError(f"{folder}: is a file; name a folder")
    file = folder / MODELS_FILE
    if not file.exists():
        if any(folder.iterdir()):
            raise ConfigError(f"{folder}: has other files; name a new folder, or one of `mixling export --browser`")
        return []
    try:
        found = json.loads(file.read_bytes())
        if found["mixling_site"] != 1 or not all(isinstance(item["name"], str) for item in found["models"]):
            raise ValueError
        models: list[dict[str, Any]] = found["models"]
    except (ValueError, LookupError, TypeError):
        raise ConfigError(f"{file}: is not of `mixling export --browser`; name a new folder") from None
    return models
