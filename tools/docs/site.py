"""Build the documentation site from the Markdown of the repository.

    python tools/docs/site.py    # with the extras docs and train; writes build/site

Pages under docs/ link to files outside of it, as hosts of repositories show them. Here pages and the documents of the
root and of experiments/ are copied into one folder, and links are turned: to copied documents they stay links, to
everything else (source files) they become text. Notebooks become pages with their outputs. The model that answers in
live.html is that of `mixling demo`: trained once, in seconds, and kept in build/live-model.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from mixling.browser.site import write_site

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
MODEL = ROOT / "build" / "live-model" / "model"
# Documents outside docs/, by their name on the site.
COPIED = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "experiments/README.md": "experiments.md",
}
# Pages that the search leaves out: its index, which each page loads, would be a third larger.
UNSEARCHED = ("architecture.md", "changelog.md", "checklist.md", "contributing.md", "decisions/", "experiments.md")
OTHER_HOST = "https://unpkg.com/iframe-worker/shim"
SUFFIXES = {".md", ".svg", ".png", ".ipynb", ".js", ".css"}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def site_path(source: Path) -> Path | None:
    """Return where a file is on the site, relative to its root; None: it is not there."""
    name = source.relative_to(ROOT).as_posix() if source.is_relative_to(ROOT) else ""
    if name in COPIED:
        return Path(COPIED[name])
    if not name.startswith("docs/") or source.suffix not in SUFFIXES:
        return None
    place = Path(name).relative_to("docs")
    return place.with_suffix(".md") if source.suffix == ".ipynb" else place


def with_links(text: str, source: Path) -> str:
    """Return a page of the repository with the links of the site."""
    own = site_path(source)
    assert own is not None

    def turn(match: re.Match[str]) -> str:
        image, label, target, anchor = match[1], match[2], match[3], match[4] or ""
        if re.match(r"[a-z]+:", target):
            return match[0]
        place = site_path((source.parent / target).resolve())
        if place is None:
            return label
        return f"{image}[{label}]({Path(os.path.relpath(place, own.parent)).as_posix()}{anchor})"

    return LINK.sub(turn, text)


def notebook_page(source: Path, pictures: Path) -> str:
    """Return a notebook as Markdown: its code with what it printed; its pictures are written into a folder."""
    parts = []
    for number, cell in enumerate(json.loads(source.read_text("utf-8"))["cells"]):
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        printed = "".join(_printed(output) for output in cell.get("outputs", ())).strip("\n")
        if printed:
            parts.append(f"```text\n{printed}\n```")
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", {}):
                name = f"{source.stem}-{number}.png"
                (pictures / name).write_bytes(base64.b64decode(output["data"]["image/png"]))
                parts.append(f"![What the code above draws]({name})")
    return "\n\n".join(parts) + "\n"


def _printed(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    drawn = {"image/png", "application/vnd.jupyter.widget-view+json"} & data.keys()
    return "".join(output.get("text", "") if not data else "" if drawn else data.get("text/plain", ""))


def copy_pages(folder: Path) -> list[Path]:
    """Copy all pages and pictures, and return the pages."""
    sources = [*(ROOT / name for name in COPIED), *sorted((ROOT / "docs").rglob("*"))]
    pages = []
    for source in sources:
        if (place := site_path(source)) is None or source.is_dir():
            continue
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            head = "---\nsearch: {exclude: true}\n---\n" if place.as_posix().startswith(UNSEARCHED) else ""
            target.write_text(head + with_links(source.read_text("utf-8"), source), "utf-8")
            pages.append(target)
        elif source.suffix == ".ipynb":
            target.write_text(notebook_page(source, target.parent), "utf-8")
            pages.append(target)
        else:
            shutil.copyfile(source, target)
    return pages


def add_model(content: bytes, site: Path) -> None:
    """Add a model to a site, where live.js finds it, with the JavaScript package and its page."""
    write_site(content, site / "live", name="messages")


def load_no_other_host(site: Path) -> None:
    """Let the search from a folder use offline.js, in place of a script that zensical takes from another host."""
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert OTHER_HOST in text, f"{page}: zensical takes another script; see the plugin offline in mkdocs.yml"
        own = Path(os.path.relpath(site / "offline.js", page.parent)).as_posix()
        page.write_text(text.replace(OTHER_HOST, own), "utf-8")


def main() -> None:
    """Copy the pages, build the site, and add the model."""
    if not (MODEL / "model.onnx").exists():
        _run("-m", "mixling", "demo", "-o", str(MODEL.parent), "--no-open", "--overwrite")
    shutil.rmtree(PAGES, ignore_errors=True)
    copy_pages(PAGES)
    _run("-m", "zensical", "build", "--clean", "--strict", "--config-file", "mkdocs.yml")
    load_no_other_host(SITE)
    add_model((MODEL / "model.onnx").read_bytes(), SITE)


def _run(*arguments: str) -> None:
    if code := subprocess.run([sys.executable, *arguments], cwd=ROOT, check=False).returncode:
        sys.exit(code)


if __name__ == "__main__":
    main()
