"""A real browser for tests: Chromium, steered by playwright (`pip install playwright`; no download of browsers)."""

from __future__ import annotations

import functools
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PATH = shutil.which("chromium") or shutil.which("chromium-browser")
NEEDS_CHROMIUM = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(find_spec("playwright") is None, reason="playwright is not installed"),
    pytest.mark.skipif(PATH is None, reason="there is no Chromium"),
]
# The sandbox of Chromium needs a user other than root; the rest keeps it off the network.
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@contextmanager
def chromium() -> Iterator[Any]:
    """Start a browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PATH, args=ARGUMENTS)
        yield browser
        browser.close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def assert_accessible(page: Any) -> None:
    """Let axe-core look at a page and its frames, where it is installed (`pip install axe-playwright-python`)."""
    if find_spec("axe_playwright_python") is None:
        return
    axe = (resources.files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
    for frame in page.frames:
        frame.evaluate(axe)
    found = page.evaluate("async () => (await axe.run()).violations.map(item => item.id + ': ' + item.help)")
    assert found == []


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Yield the address of a plain server of the files in a folder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def watched_page(
    browser: Any, origin: str, *, width: int, failure: Callable[[Any], bool]
) -> Iterator[tuple[Any, list[str]]]:
    """Open an empty page; at the end nothing may have been asked of another server, and nothing may have failed.

    Args:
        origin: the beginning of all addresses that the page may ask.
        width: of the window, in pixels.
        failure: whether a message of the console is one.

    Yields:
        The page, and the addresses that it has asked.
    """
    page = browser.new_page(viewport={"width": width, "height": 900})
    asked: list[str] = []
    failed: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.on("console", lambda message: failed.append(message.text) if failure(message) else None)
    yield page, asked
    page.close()
    assert asked
    assert [url for url in asked if not url.startswith(origin)] == []
    assert failed == []
