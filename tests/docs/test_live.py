"""The page of the site that has a model, in a real browser; skipped where playwright or Chromium is absent."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mixling import Predictor

from ..chromium import NEEDS_CHROMIUM, chromium, served, watched_page

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests" / "serving" / "models" / "intents.onnx"
FORM = re.search(r"(?s)<form id=\"live\">.*?</form>", (ROOT / "docs" / "live.md").read_text("utf-8"))


@pytest.fixture(scope="module")
def folder(load_script: Callable[[str], ModuleType], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the site has of the page, around its form."""
    folder = tmp_path_factory.mktemp("site")
    site = load_script("tools/docs/site.py")
    site.copy_pages(folder)
    site.add_model(MODEL.read_bytes(), folder)
    assert FORM is not None
    head = '<!doctype html><meta charset="utf-8"><link rel="icon" href="live/playground/icon.svg">'
    script = '<script src="live.js" type="module"></script>'
    (folder / "live.html").write_text(f"{head}{FORM[0]}{script}", "utf-8")
    (folder / "other.html").write_text(f"{head}<p>nothing{script}", "utf-8")
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with served(folder) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def failed(message: Any) -> bool:
    return bool(message.type == "error")


class TestInTheBrowser:
    pytestmark = NEEDS_CHROMIUM

    def test_the_answer_follows_the_text(self, browser: Any, url: str) -> None:
        predictor = Predictor(MODEL)
        with watched_page(browser, url, width=360, failure=failed) as (page, _):
            page.goto(url + "live.html")
            for text in ("play some jazz", "<b>rate</b> this book 🫨"):
                page.fill("#live-text", text)
                expected = predictor.predict_one(text)
                page.wait_for_selector(f"#live .answer:has-text('{expected.label}')")
                shown = page.locator("#live data >> nth=0").get_attribute("value")
                assert float(shown) == pytest.approx(max(expected.probabilities.values()), abs=1e-6)
            page.fill("#live-text", "  ")
            page.wait_for_selector("#live output:empty", state="attached")
            page.click("#live button >> nth=1")
            page.wait_for_selector("#live .answer")
            assert page.input_value("#live-text") == "You have charged my card twice!"

    def test_other_pages_load_neither_package_nor_model(self, browser: Any, url: str) -> None:
        with watched_page(browser, url, width=360, failure=failed) as (page, asked):
            page.goto(url + "other.html")
            page.wait_for_load_state("networkidle")
        assert {address.removeprefix(url) for address in asked} == {"other.html", "live.js", "live/playground/icon.svg"}

    def test_a_model_that_is_missing_is_reported(self, browser: Any, url: str, folder: Path) -> None:
        model = folder / "live" / "models" / "messages.onnx"
        content = model.read_bytes()
        model.unlink()
        try:
            with watched_page(browser, url, width=360, failure=lambda _: False) as (page, _):
                page.goto(url + "live.html")
                page.wait_for_selector("#live output:has-text('The model cannot be loaded')")
        finally:
            model.write_bytes(content)


def test_the_page_adds_less_than_100_kilobytes_to_the_theme(folder: Path) -> None:
    # The theme has about 110; all of it, compressed as servers of files do, is to be 300 at most without the model.
    files = [folder / "live.js", folder / "live.css", *(folder / "live" / "mixling").iterdir()]
    files += [folder / "live" / "playground" / "render.js"]
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) < 100_000
