"""The search of the site from a folder: no other host is asked, and a worker runs where browsers refuse it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from ..chromium import NEEDS_CHROMIUM, chromium

ROOT = Path(__file__).resolve().parents[2]


def test_pages_load_the_script_of_the_site(load_script: Callable[[str], ModuleType], tmp_path: Path) -> None:
    script = load_script("tools/docs/site.py")
    (tmp_path / "how-to").mkdir()
    pages = [tmp_path / "index.html", tmp_path / "how-to" / "tune.html"]
    for page in pages:
        page.write_text(f'<script src="{script.OTHER_HOST}"></script>')
    script.load_no_other_host(tmp_path)
    assert [page.read_text() for page in pages] == [
        f'<script src="{path}"></script>' for path in ("offline.js", "../offline.js")
    ]
    with pytest.raises(AssertionError, match="zensical takes another script"):
        script.load_no_other_host(tmp_path)


class TestInABrowser:
    pytestmark = NEEDS_CHROMIUM

    def test_a_worker_answers_in_a_page_that_was_opened_from_a_folder(self, tmp_path: Path) -> None:
        shutil.copy(ROOT / "docs" / "offline.js", tmp_path)
        (tmp_path / "worker.js").write_text(
            'self.addEventListener("message", (event) => self.postMessage({ got: event.data.text.toUpperCase() }));'
        )
        (tmp_path / "index.html").write_text(
            '<!doctype html><script src="offline.js"></script><body><script>const worker = new Worker("worker.js");'
            "worker.onmessage = (event) => { document.title = event.data.got; };"
            'worker.postMessage({ text: "abstain" });</script>'
        )
        with chromium() as browser:
            page = browser.new_page()
            page.goto((tmp_path / "index.html").as_uri())
            page.wait_for_function('document.title === "ABSTAIN"', timeout=20_000)
