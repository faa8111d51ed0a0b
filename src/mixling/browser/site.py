"""Write a static page that answers with models in the browser: the playground of `mixling serve` without a server."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mixling.errors import ConfigError, ModelFileError
from mixling.runtime.native import load_native
from mixling.runtime.onnx.session import Metadata, open_model
from mixling.storage import write_atomic, write_json
from mixling.tasks.base import Task

MODELS_FILE = "models.json"
# Those of the server's page, and WebAssembly; a page cannot forbid frames itself.
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "worker-src 'self'; base-uri 'none'; form-action 'none'"
)
# Of a page in one file, which loads nothing.
POLICY_OF_FILE = (
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_MODULES = (
    "errors",
    "engine",
    "predictions",
    "explanation",
    "index",
    "api",
    "code",
    "rows",
    "dropped",
    "render",
    "app",
)  # importers come later
# Where they are; the page has a module of the playground's name in its place.
_PLACES = (
    ("mixling.browser", "package"), ("mixling.browser", "page"), ("mixling.browser", "trainer"),
    ("mixling.browser", "labeler"), ("mixling.serving", "playground"),
)  # fmt: skip
_IMPORT = re.compile(r'(?m)^import (\{[^}]*\}) from "[./]+(?:\w+/)?(\w+)\.js";$')
_EXPORT = re.compile(r"(?m)^export (?=(?:async )?(?:class|const|function) (\w+))")
_EXPORTS = re.compile(r"(?m)^export \{([^}]*)\};$")
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
        elif source.name.endswith((".wasm", ".txt")):
            write_atomic(folder / "mixling" / source.name, source.read_bytes())
    own = {source.name: source.read_bytes() for source in _resources("mixling.browser", "page")}
    for source in _resources("mixling.serving", "playground"):
        if source.name.startswith("docs."):  # of the server's routes
            continue
        if source.name != "index.html":
            write_atomic(folder / "playground" / source.name, own.get(source.name) or source.read_bytes())
        else:
            write_atomic(folder / "index.html", page(source.read_text("utf-8")))
    write_json(folder / MODELS_FILE, {"mixling_site": 1, "models": [*others, about]})


def without_comments(script: str) -> str:
    """Return a script of the package without the lines that are comments: a sixth of what a page downloads of it."""
    return re.sub(r"(?m)^ *(?://|/\*\*|\*).*\n", "", script)


def write_page(content: bytes, path: Path, *, name: str) -> None:
    """Write the page with a model as one HTML file, which a browser opens without a server.

    Args:
        content: a model file.
        name: of the model on the page: letters, digits, `.`, `_` and `-`.

    Raises:
        ModelFileError: the model needs ONNX Runtime, which the page does not have.
    """
    about = _describe(content, name)
    embedded = {
        "models.json": json.dumps({"models": [about]}).replace("<", "\\u003c"),
        about["file"]: base64.b64encode(content).decode(),
        "NOTICE.txt": _read("mixling.browser", "package", "NOTICE.txt").decode(),
        "mixling.wasm": base64.b64encode(_read("mixling.browser", "package", "mixling.wasm")).decode(),
    }
    html = page(_read("mixling.serving", "playground", "index.html").decode(), POLICY_OF_FILE)
    write_atomic(path, one_file(html, embedded, one_script(_MODULES)))


def one_file(html: str, embedded: Mapping[str, str], script: str, style: str = "") -> str:
    """Return a page that loads nothing: with the icon and the style of the playground, and its script, in it.

    Args:
        html: a page as a server has it.
        embedded: content of elements of the page, by their ids; it has no end of a script.
        script: a module.
        style: behind the playground's.
    """
    data = "".join(f'<script type="text/plain" id="{key}">{value}</script>\n' for key, value in embedded.items())
    icon = quote(_read("mixling.serving", "playground", "icon.svg"))
    html = html.replace('href="playground/icon.svg"', f'href="data:image/svg+xml,{icon}"')
    style = _read("mixling.serving", "playground", "style.css").decode() + style
    html = html.replace('<link rel="stylesheet" href="playground/style.css">', f"<style>{style}</style>")
    html = html.replace('    <script type="module" src="playground/app.js"></script>\n', "")
    return html.replace("</body>", f'{data}<script type="module">\n{script}</script>\n  </body>')


def one_script(modules: Sequence[str], places: Sequence[tuple[str, str]] = _PLACES) -> str:
    """Return modules as one script, in which each is a function that returns what it exports.

    Args:
        modules: their names; each after those that it imports.
        places: packages and their folders, in which a module is looked for.
    """
    parts = []
    for module in modules:
        found = (files(package) / place / f"{module}.js" for package, place in places)
        content = next(item for item in found if item.is_file()).read_text("utf-8")
        text = _IMPORT.sub(r"const \1 = $\2;", without_comments(content))
        names = [*_EXPORT.findall(text), *",".join(_EXPORTS.findall(text)).replace(" ", "").split(",")]
        text = _EXPORTS.sub("", _EXPORT.sub("", text)).replace("</", "<\\/")
        parts.append(
            f"const ${module} = await (async () => {{\n{text}return {{ {', '.join(filter(None, names))} }};\n}})();\n"
        )
    return "".join(parts)


def page(html: str, policy: str = POLICY) -> str:
    """Return the page of the server with the policy and the footer of static files."""
    charset = '<meta charset="utf-8">'
    policy = f'{charset}\n    <meta http-equiv="Content-Security-Policy" content="{policy}">'
    html, footers = re.subn(r"(?s)(?<=<footer>\n).*?(?=\n *</footer>)", f"      {_FOOTER}", html)
    assert html.count(charset) == footers == 1
    return html.replace(charset, policy)


def _read(package: str, folder: str, name: str) -> bytes:
    return (files(package) / folder / name).read_bytes()


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
    beside = {} if opened.columns is None else {"columns": list(opened.columns.with_kinds)}
    texts = {"texts": list(opened.metadata.texts)} if opened.metadata.texts else {}
    return out | {"inputs": [_inputs(opened.task, opened.metadata.pairs)], "options": options} | texts | beside


def _inputs(task: Task, pairs: bool | None) -> str:
    if task.windows:
        return "questions"
    return "pairs" if pairs else "texts"


def _why_not(content: bytes, task: Task, metadata: Metadata) -> str:
    """Return why JavaScript cannot run a model, or nothing."""
    if task.name not in _TASKS:
        return f"its task, {task.name}, is not built in"
    return load_native(content)[1]


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
