"""The page in a real browser: Chromium, steered by playwright (`pip install playwright`; no download of browsers).

Skipped where playwright or Chromium is absent; the check of accessibility also needs `axe-playwright-python`.
"""

from __future__ import annotations

import ast
import csv
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mixling import Predictor

from ..chromium import NEEDS_CHROMIUM, assert_accessible, chromium, watched_page
from .generator import write_generator
from .process import Served, serving

pytestmark = NEEDS_CHROMIUM
READY = "#status:text-is('Ready')"  # the policy of the page forbids the evaluation of strings, thus wait_for_function
HARD = "play <b>🫨</b> e\u0301te\u0301 שלום עולם in paris <script>alert(1)</script>"


@pytest.fixture(scope="module")
def served(paths: dict[str, Path]) -> Iterator[Served]:
    others = [f"{name}={path}" for name, path in paths.items() if name != "intents"]
    with serving(paths["intents"], *others) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Any, served: Served) -> Iterator[Any]:
    """The page, opened."""
    origin = f"http://127.0.0.1:{served.port}/"
    blocked = "Content Security"  # other errors are what tests provoke
    with watched_page(browser, origin, width=1400, failure=lambda message: blocked in message.text) as (page, _):
        open_page(page, served)
        yield page


def open_page(page: Any, served: Served) -> None:
    page.goto(f"http://127.0.0.1:{served.port}/")
    page.wait_for_selector(READY)


def probabilities(page: Any) -> dict[str, float]:
    rows = page.locator("article >> nth=0").locator("tr")
    found: list[tuple[str, str]] = rows.evaluate_all(
        "rows => rows.map(row => [row.querySelector('th').textContent, row.querySelector('data').value])"
    )
    return {label: float(value) for label, value in found}


def test_a_label_follows_the_last_key(page: Any, predictors: dict[str, Predictor]) -> None:
    page.locator("#text").press_sequentially("play musi", delay=5)
    delays = []
    for typed in ("c", "s", "s", "s"):
        expected = predictors["intents"].predict_one(page.input_value("#text") + typed).probabilities
        page.evaluate(
            "value => { const begin = performance.now(), there = () =>"
            " [...document.querySelectorAll('data')].some(item => Math.abs(item.value - value) < 1e-9);"
            " window.delay = new Promise(resolve => new MutationObserver("
            "() => there() && resolve(performance.now() - begin))"
            ".observe(document.getElementById('results'), {childList: true, subtree: true})) }",
            next(iter(expected.values())),
        )
        page.locator("#text").press(typed)
        delays.append(page.evaluate("window.delay"))
    assert min(delays) >= 60  # the pause after the last key
    assert min(delays) <= 300  # the others may have waited for other work of this machine
    assert probabilities(page) == pytest.approx(expected, abs=1e-6)
    assert "<b>table</b>" in probabilities(page)  # a label is text


def test_doubt_is_shown(browser: Any, paths: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch")
    from mixling.export import amend

    plain, path = Predictor(paths["intents"]), tmp_path / "model.onnx"
    likely, middle, unlikely = sorted(plain.predict_one(HARD).probabilities.values(), reverse=True)
    shown = {}
    for name, quantile in (("two", (middle + unlikely) / 2), ("none", (1 + likely) / 2)):
        conformal = {"method": "lac", "coverage": 0.9, "quantile": 1 - quantile}
        path.write_bytes(amend(paths["intents"].read_bytes(), threshold=(1 + likely) / 2, conformal=conformal))
        expected = Predictor(path).predict_one(HARD)
        assert expected.abstained
        page = browser.new_page()
        with serving(path) as served:
            open_page(page, served)
            page.fill("#text", HARD)
            page.wait_for_selector("text=The model abstains")
            shown[name] = page.locator("article .note").all_text_contents()
        assert f"Conformal set: {', '.join(expected.label_set) or 'no label'}" in shown[name]
        page.close()
    assert shown["two"] != shown["none"]


def test_generated_text_is_shown(browser: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch")
    from mixling import TextGenerator

    folder = write_generator(tmp_path / "writer", seed=0, tasks=[])
    expected = TextGenerator(folder).generate([HARD])[0]
    page = browser.new_page()
    with serving(folder) as served:
        open_page(page, served)
        page.fill("#text", HARD)
        page.wait_for_selector("article .answer")
        assert page.locator("article .answer").text_content() == (expected.text or "(an empty text)")
        assert page.locator("article .note").count() == (not expected.stopped)
        assert page.locator("#explain-row").is_hidden()
    page.close()


def test_spans_are_those_of_the_text(page: Any, predictors: dict[str, Predictor]) -> None:
    page.select_option("#first", "slots")
    page.fill("#text", HARD)
    spans = predictors["slots"].predict_one(HARD).spans
    assert spans
    page.wait_for_selector("article mark")
    shown = page.locator("article mark bdi").all_text_contents()
    assert shown == [HARD[span.start : span.end] for span in spans]
    assert page.locator("article mark small").all_text_contents() == [span.label for span in spans]
    assert page.locator("article script, article b").count() == 0


def test_words_are_explained(page: Any, predictors: dict[str, Predictor]) -> None:
    page.fill("#text", "play 🫨 music")
    page.check("#explain")
    page.wait_for_selector(".word")
    expected = predictors["intents"].explain("play 🫨 music", method="leave_one_out")
    found = page.locator(".word").evaluate_all("all => all.map(item => [item.textContent, +item.dataset.effect])")
    assert [word for word, _ in found] == [item.word for item in expected.words]
    assert [effect for _, effect in found] == pytest.approx([item.effect for item in expected.words], abs=1e-5)


def test_an_answer_is_marked_in_a_long_context(page: Any, predictors: dict[str, Predictor]) -> None:
    context = "🫨 The weather in paris is fine. " * 40
    page.select_option("#first", "answers")
    assert page.locator("label[for=other]").text_content() == "Context"
    page.fill("#text", "what is fine?")
    page.fill("#other", context)
    answer = predictors["answers"].predict_one(("what is fine?", context)).answer
    page.wait_for_selector("article .answer")
    assert not answer.is_none
    page.wait_for_selector("article mark")
    assert page.locator("article mark").text_content() == answer.text
    assert page.locator("article mark").evaluate(
        "mark => { const box = mark.parentElement.getBoundingClientRect(), it = mark.getBoundingClientRect();"
        " return it.top >= box.top && it.top < box.bottom }"
    )  # scrolled to


def test_two_models_side_by_side_and_numbers(page: Any, predictors: dict[str, Predictor]) -> None:
    page.select_option("#second", "stars")
    page.fill("#text", "book a table")
    page.wait_for_selector("article:nth-of-type(2)")
    value = float(page.locator("article:nth-of-type(2) .answer").get_attribute("data-value"))
    assert value == pytest.approx(predictors["stars"].predict_one("book a table").value, abs=1e-6)
    first, second = (page.locator(f"article:nth-of-type({n})").bounding_box() for n in (1, 2))
    assert first["y"] == second["y"]
    assert first["x"] + first["width"] < second["x"]


def test_long_and_empty_texts(page: Any) -> None:
    page.fill("#text", "play music " * 9000)  # read in windows
    page.wait_for_selector("article tr")
    page.fill("#text", "play music " * 9100)  # beyond the limit of the server
    page.wait_for_selector("#status:has-text('100000 characters')")
    page.fill("#text", "")
    page.wait_for_selector("#results:empty", state="attached")
    page.fill("#text", "   ")
    page.wait_for_selector("text=The text has no words")


def test_the_keyboard_is_enough(page: Any) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "first"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    while page.evaluate("document.activeElement.id") != "text":
        page.keyboard.press("Tab")
    page.keyboard.type("play music")
    while page.evaluate("document.activeElement.id") != "explain":
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.wait_for_selector(".word")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_it_is_accessible_and_fits(browser: Any, served: Served, width: int, scheme: str) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    open_page(page, served)
    page.select_option("#second", "slots")
    page.fill("#text", HARD + " " + "x" * 200)
    page.check("#explain")
    page.wait_for_selector("article:nth-of-type(2) .word")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert_accessible(page)
    page.close()


def test_a_server_that_is_gone_is_reported_and_survived(browser: Any, paths: dict[str, Path]) -> None:
    page = browser.new_page()
    with serving(paths["intents"], "--set", "drain_wait=0") as served:
        open_page(page, served)
        page.fill("#text", "play music")
        page.wait_for_selector("article")
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(15) == 0
    page.fill("#text", "play music by the beatles")
    page.wait_for_selector("#status:has-text('does not answer')")
    with serving(paths["intents"], port=served.port):
        page.wait_for_selector(READY)
        assert page.locator("article.stale").count() == 0
    page.close()


def test_a_key_is_asked_for(browser: Any, paths: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a-key-of-more-than-16-characters")
    page = browser.new_page()
    with serving(paths["intents"], "--keys", tmp_path / "keys") as served:
        page.goto(f"http://127.0.0.1:{served.port}/")
        page.wait_for_selector("#key")
        page.fill("#key", "a-key-of-more-than-16-characters")
        page.keyboard.press("Tab")
        page.wait_for_selector(READY)
        page.fill("#text", "play music")
        page.wait_for_selector("article")
        assert re.match(r"music|weather|<b>", page.locator(".answer").text_content())
    page.close()


def test_a_link_and_code_ask_the_same(page: Any, browser: Any, served: Served) -> None:
    text = "play 'it' & \"that\" 🫨 + #1"
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.fill("#text", text)
    page.check("#explain")
    page.wait_for_selector(".word")
    assert re.fullmatch(r"[\d.]+ ms from here and back", page.locator(".time").text_content())
    page.click("#copy button:text-is('Copy a link')")
    page.wait_for_selector("#status:text-is('Copied')")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.locator("#copied").text_content()
    other = browser.new_page()
    other.goto(link)
    other.wait_for_selector(".word")
    assert other.input_value("#text") == text
    assert probabilities(other) == probabilities(page)
    other.close()
    answers = {}
    for name, command in (("curl", "bash"), ("Python", sys.executable)):
        page.click(f"#copy button:text-is('Copy as {name}')")
        page.wait_for_selector("#status:text-is('Copied')")
        code = page.locator("#copied").text_content()
        answers[name] = subprocess.run([command, "-c", code], check=True, capture_output=True, text=True).stdout
    label = page.locator("article .answer").text_content().rpartition(" ")[0]
    assert json.loads(answers["curl"])["predictions"][0]["label"] == label
    assert ast.literal_eval(answers["Python"].replace("true", "True").replace("false", "False"))["label"] == label
    page.click("#copy button:text-is('Copy as JavaScript')")
    assert JSON_OF_TEXT in page.locator("#copied").text_content()


JSON_OF_TEXT = 'JSON.stringify({"texts":["play '


def test_the_rows_of_a_file_are_answered(page: Any, predictors: dict[str, Predictor], tmp_path: Path) -> None:
    page.set_default_timeout(4000)
    texts = ['play "some", music', "what is\nthe weather", "<b>book</b> a table"]
    with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "review"], *enumerate(texts)])
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"n": 1, "text": text}) + "\n" for text in texts))
    (tmp_path / "rows.txt").write_text("play it\n\nbook it\n")
    for name, expected in (("rows.csv", texts), ("rows.jsonl", texts), ("rows.txt", ["play it", "book it"])):
        page.set_input_files("#file", tmp_path / name)
        page.wait_for_selector(f"article h2:has-text('{name}')")
        assert page.locator(".rows button").all_text_contents() == expected
        labels = [item.label for item in predictors["intents"].predict(expected)]
        found = page.locator(".rows td").all_text_contents()
        assert [cell.startswith(f"{label} ") for cell, label in zip(found, labels, strict=True)] == [True] * len(labels)
    page.click(".rows button >> nth=1")
    page.wait_for_selector("article[data-model=m] tr")
    assert page.input_value("#text") == "book it"
    (tmp_path / "rows.jsonl").write_text("{}\nno JSON\n")
    page.set_input_files("#file", tmp_path / "rows.jsonl")
    page.wait_for_selector("#status:has-text('rows.jsonl:2: is no JSON: ')")


def test_examples_beside_a_model_are_buttons(browser: Any, paths: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(paths["pairs"].read_bytes())
    (tmp_path / "examples.txt").write_text("book a table\tbook two tables\nno pair\n", encoding="utf-8")
    page = browser.new_page()
    with serving(tmp_path) as served:
        open_page(page, served)
        assert page.locator("#examples button").all_text_contents() == ["book a table | book two tables"]
        page.click("#examples button")
        page.wait_for_selector("article tr")
        assert page.input_value("#other") == "book two tables"
    page.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_docs_list_the_routes(browser: Any, served: Served, width: int) -> None:
    origin = f"http://127.0.0.1:{served.port}/"
    with watched_page(browser, origin, width=width, failure=lambda message: message.type == "error") as (page, _):
        page.goto(f"{origin}docs")
        page.wait_for_selector("article")
        routes = page.locator("article h2").all_text_contents()
        assert "POST /v1/models/m/predict" in routes
        assert "GET /v1/models/answers" in routes
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        code = page.locator("article:has-text('/v1/models/pairs/predict') pre").text_content()
        done = subprocess.run(["bash", "-c", code], check=True, capture_output=True, text=True)
        assert json.loads(done.stdout)["model"] == "pairs"
