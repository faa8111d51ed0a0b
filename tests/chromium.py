"""A real browser for tests: Chromium, steered by playwright (`pip install playwright`; no download of browsers)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
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
