"""The command that installs an extra where mixling came from: a clone, a file, a repository, or an index."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any


def install_command(*extras: str) -> str:
    """Return the command that installs extras.

    pip records where it installed from, unless it was an index (PEP 610). A clone that was not installed but is on
    Python's path is recognized by its pyproject.toml.
    """
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    names = f"[{','.join(extras)}]"
    origin = _origin()
    if "vcs_info" in origin:
        return f'pip install "mixling{names} @ {origin["vcs_info"]["vcs"]}+{origin["url"]}"'
    url = urlsplit(origin.get("url", ""))
    path = Path(url2pathname(url.path)) if url.scheme == "file" else None
    if path is None or not path.exists():
        return f'pip install "mixling{names}"'
    where = "." if path.is_dir() and path.samefile(Path.cwd()) else str(path)
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f'pip install {editable}"{where}{names}"'


def is_installed(package: str) -> bool:
    """Return whether a package can be imported."""
    return sys.modules.get(package, True) is not None and importlib.util.find_spec(package) is not None


def _origin() -> dict[str, Any]:
    """Return what pip recorded of the installation; nothing of one from an index."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        origin: dict[str, Any] = json.loads(distribution("mixling").read_text("direct_url.json") or "{}")
        return origin
    except (PackageNotFoundError, ValueError):
        clone = Path(__file__).resolve().parents[2]
        return {"url": clone.as_uri(), "dir_info": {}} if (clone / "pyproject.toml").is_file() else {}
