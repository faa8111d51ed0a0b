"""Build the documentation site from the Markdown of the repository.

    python docs/site.py    # with the extra `docs`; writes build/site

Pages under docs/ link to files outside of it, as hosts of repositories show them. Here pages and the documents of the
root and of experiments/ are copied into one folder, and links are turned: to copied documents they stay links, to
everything else (source files) they become text.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "docs"
# Documents outside docs/, by their name on the site.
COPIED = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "experiments/README.md": "experiments.md",
}
SUFFIXES = {".md", ".svg", ".png"}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def site_path(source: Path) -> Path | None:
    """Return where a file is on the site, relative to its root; None: it is not there."""
    name = source.relative_to(ROOT).as_posix() if source.is_relative_to(ROOT) else ""
    if name in COPIED:
        return Path(COPIED[name])
    inside = name.startswith("docs/") and source.suffix in SUFFIXES
    return Path(name).relative_to("docs") if inside else None


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
            target.write_text(with_links(source.read_text("utf-8"), source), "utf-8")
            pages.append(target)
        else:
            shutil.copyfile(source, target)
    return pages


def main() -> None:
    """Copy the pages and build the site."""
    shutil.rmtree(PAGES, ignore_errors=True)
    copy_pages(PAGES)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", "mkdocs.yml"]
    sys.exit(subprocess.run(command, cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main()
