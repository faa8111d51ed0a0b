"""The static page in a real browser; skipped where playwright or Chromium is absent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mixling import Predictor
from mixling.browser import write_site

from ..chromium import NEEDS_CHROMIUM, chromium, served, watched_page

pytestmark = NEEDS_CHROMIUM
MODELS = Path(__file__).parents[1] / "serving" / "models"
READY = "#status:text-is('Ready')"
HARD = "play <b>🫨</b> e\u0301te\u0301 שלום in paris <script>alert(1)</script>"
NAMES = ("intents", "pairs", "stars", "slots", "answers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    for name in NAMES:
        write_site((MODELS / f"{name}.onnx").read_bytes(), folder / "below", name=name)
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """The address of the page, which a plain server of files has in a folder."""
    with served(folder) as address:
        yield f"{address}below/"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Any, url: str) -> Iterator[Any]:
    """The page, opened."""
    with watched_page(browser, url, width=1000, failure=lambda message: message.type == "error") as (page, asked):
        page.goto(url)
        page.wait_for_selector(READY)
        yield page
    assert any(item.endswith(".wasm") for item in asked)


def probabilities(page: Any) -> dict[str, float]:
    rows = page.locator("article >> nth=0").locator("tr")
    found: list[tuple[str, str]] = rows.evaluate_all(
        "rows => rows.map(row => [row.querySelector('th').textContent, row.querySelector('data').value])"
    )
    return {label: float(value) for label, value in found}


def test_answers_and_words_are_those_of_python(page: Any) -> None:
    predictor = Predictor(MODELS / "intents.onnx")
    page.fill("#text", HARD)
    page.wait_for_selector("article")
    assert probabilities(page) == pytest.approx(predictor.predict_one(HARD).probabilities, abs=1e-6)
    page.check("#explain")
    page.wait_for_selector(".word")
    found = page.locator(".word").evaluate_all("all => all.map(item => [item.textContent, +item.dataset.effect])")
    expected = predictor.explain(HARD, method="leave_one_out").words
    assert [word for word, _ in found] == [item.word for item in expected]
    assert [effect for _, effect in found] == pytest.approx([item.effect for item in expected], abs=1e-5)
    assert page.locator("article script, article b").count() == 0


def test_models_side_by_side_and_pairs(page: Any) -> None:
    page.select_option("#second", "stars")
    page.fill("#text", "book a table")
    page.wait_for_selector("article:nth-of-type(2)")
    value = float(page.locator("article:nth-of-type(2) .answer").get_attribute("data-value"))
    expected = Predictor(MODELS / "stars.onnx").predict_one("book a table").value
    assert value == pytest.approx(expected, abs=1e-5)
    page.select_option("#first", "pairs")
    page.fill("#other", "book two tables")
    page.wait_for_selector("article[data-model=pairs] tr")
    expected = Predictor(MODELS / "pairs.onnx").predict_one(("book a table", "book two tables")).probabilities
    for _ in range(100):  # the answer before may be that with an empty second text
        if probabilities(page) == pytest.approx(expected, abs=1e-6):
            break
        page.wait_for_timeout(50)
    assert probabilities(page) == pytest.approx(expected, abs=1e-6)


def test_spans_and_answers_are_marked(page: Any) -> None:
    page.select_option("#first", "slots")
    page.fill("#text", HARD)
    page.wait_for_selector("article mark")
    spans = Predictor(MODELS / "slots.onnx").predict_one(HARD).spans
    assert page.locator("article mark bdi").all_text_contents() == [HARD[item.start : item.end] for item in spans]
    assert page.locator("article mark small").all_text_contents() == [item.label for item in spans]
    question, context = "what is fine?", "🫨 The weather in paris is fine. " * 40
    page.select_option("#first", "answers")
    page.fill("#text", question)
    page.fill("#other", context)
    page.wait_for_selector("article[data-model=answers] mark")
    answer = Predictor(MODELS / "answers.onnx").predict_one((question, context)).answer
    assert page.locator("article mark").text_content() == answer.text


def test_a_damaged_model_is_reported(browser: Any, folder: Path, url: str) -> None:
    path = folder / "below" / "models" / "intents.onnx"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    page = browser.new_page()
    page.goto(url)
    page.fill("#text", "play music")
    page.wait_for_selector("#status.problem:has-text('is not a complete ONNX file: it is damaged')")
    path.write_bytes(content)
    later = path.stat().st_mtime + 2  # the server compares whole seconds, to which both files may be equally old
    os.utime(path, (later, later))
    page.fill("#text", "play")
    page.wait_for_selector("article tr")
    page.close()


def test_javascript_in_the_page_has_the_errors_of_python(browser: Any, url: str) -> None:
    page = browser.new_page()
    page.goto(url)
    names = page.evaluate(
        """async (url) => {
            const { Mixling } = await import(`${url}mixling/index.js`);
            const name = (promise) => promise.then(() => "nothing", (error) => `${error.name}: ${error.message}`);
            const worker = await Mixling.loadInWorker("models/intents.onnx");
            const found = [
                await name(Mixling.load("models/none.onnx")),
                await name(Mixling.loadInWorker("index.html")),
                await name(worker.predict(5)),
                await name(worker.explain("play", { target: "nothing" })),
                JSON.stringify(await worker.labels),
            ];
            worker.close();
            return [...found, await name(worker.predict("play"))];
        }""",
        url,
    )
    page.close()
    begins = ("ModelFileError: models/none.onnx: could not be read: the server answered with 404",)
    begins += (f"ModelFileError: {url}index.html: is not a complete ONNX file", "DataError: item 0 is no text: pass a")
    begins += ("ConfigError: target: the model has no label", '["music"', "MixlingError: the model was closed")
    assert [name[: len(begin)] for name, begin in zip(names, begins, strict=True)] == list(begins)


def test_columns_have_fields(browser: Any, tmp_path: Path) -> None:
    rows = [
        f"a {word} {place},now,thanks,{price},{'high' if price > 50 else 'low'}"
        for place, price in enumerate(range(0, 100, 2))
        for word in ("refund", "bill", "letter")
    ]
    (tmp_path / "train.csv").write_text("text,body,note,price,label\n" + "\n".join(rows) + "\n", "utf-8")
    how = [
        "train",
        "train.csv",
        "--text",
        "text",
        "--text",
        "body",
        "--text",
        "note",
        "--features",
        "price",
        "--epochs",
        "2",
        "-o",
        "model",
    ]
    subprocess.run([sys.executable, "-m", "mixling", *how], cwd=tmp_path, check=True, capture_output=True)
    write_site((tmp_path / "model/model.onnx").read_bytes(), tmp_path / "site", name="prices")
    predictor = Predictor(tmp_path / "model")
    with (
        served(tmp_path / "site") as address,
        watched_page(browser, address, width=1000, failure=lambda message: message.type == "error") as (page, _),
    ):
        page.goto(address)
        page.wait_for_selector(READY)
        page.fill("#text", "a refund")
        page.get_by_label("note").fill("thanks")
        page.check("#explain")
        for typed in ("80", "", "many"):
            page.get_by_label("price").fill(typed)
            if typed == "many":
                page.wait_for_selector("#status.problem:has-text('is of another kind')")
                break
            row = {"text": "a refund", "body": "", "note": "thanks", "price": typed or None}
            page.wait_for_selector(f"th:text-is('price: {typed or 'missing'}')")
            wanted = {
                name: pytest.approx(value, abs=1e-3) for name, value in predictor.predict_one(row).probabilities.items()
            }
            found = probabilities(page)
            assert {name: found[name] for name in wanted} == wanted
            assert page.locator(".word").all_inner_texts() == ["a", "refund", "thanks"]
            page.get_by_role("button", name="Copy a link").click()
            link = page.inner_text("#copied")
            page.goto("about:blank")
            page.goto(link)
            page.wait_for_selector(READY)
            assert [page.get_by_label(name).input_value() for name in ("note", "price")] == ["thanks", typed]
