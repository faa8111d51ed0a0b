"""The page in a real browser: the clicks and keys of whoever labels a file."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..chromium import NEEDS_CHROMIUM, assert_accessible, chromium, watched_page
from .process import Client, labeling
from .test_server import TOPICS, lines_of, write_texts

pytestmark = NEEDS_CHROMIUM
SAVED = "#status:text-is('Saved')"
# From the key to the frame with the next text.
MEASURE = """() => {
  window.delays = [];
  document.addEventListener('keydown', (event) => {
    const old = document.getElementById('text').textContent;
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => {
        const delay = performance.now() - event.timeStamp;
        if (document.getElementById('text').textContent !== old) window.delays.push(delay);
      };
      channel.port2.postMessage(0);
    });
  }, true);
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def opened(browser: Any, address: str) -> Any:
    origin = address.partition("#")[0]
    return watched_page(browser, origin, width=1280, failure=lambda message: "Content Security" in message.text)


def text_of(page: Any) -> str:
    return str(page.locator("#text p").first.text_content())


def test_a_hundred_answers_undo_rename_export_and_training(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    labels = write_texts(file, 160)
    keys = {label: str(number) for number, label in enumerate(TOPICS, 1)}
    with labeling(file) as (_, _, address), opened(browser, address) as (page, _asked):
        page.goto(address)
        page.wait_for_selector(SAVED)
        for label in TOPICS:
            page.keyboard.press("+")
            page.keyboard.type(label)
            page.keyboard.press("Enter")
        page.evaluate(MEASURE)
        for number in range(100):
            text = text_of(page)
            page.keyboard.press(keys[labels[text]])
            page.wait_for_selector("#text:not(:has-text('is coming'))")
            if number == 50:  # while a training runs
                time.sleep(0.5)
        delays = sorted(page.evaluate("window.delays"))
        assert len(delays) == 100
        assert delays[50] <= 50
        page.keyboard.press("3")  # a slip
        page.keyboard.press("Backspace")
        again = text_of(page)
        page.keyboard.press(keys[labels[again]])
        page.keyboard.press("0")  # not sure
        page.keyboard.press(".")
        page.keyboard.type("odd")
        page.keyboard.press("Escape")
        noted = text_of(page)
        page.keyboard.press("-")
        page.select_option("#old", "refund")
        page.fill("#to", "money")
        page.click("#rename-button")
        page.wait_for_selector("#labels [data-label=money]")
        page.wait_for_selector(SAVED)
        page.wait_for_selector("#curve:visible", timeout=60_000)
        assert "random texts right (95% interval" in page.text_content("#model")
        with page.expect_download() as download:
            page.click("#save")
        out = tmp_path / "out.csv"
        download.value.save_as(out)
        page.select_option("#list", "notes")
        page.wait_for_selector(f"#found button:has-text({json.dumps(noted[:60])})")
        page.reload()
        page.wait_for_selector(SAVED)
        assert page.text_content("#progress").startswith("101 answers")
        page.keyboard.press("Backspace")  # the rename, as the last thing done
        page.wait_for_selector("#labels [data-label=refund]")
    with out.open(newline="") as written:
        rows = {row["text"]: row["label"] for row in csv.DictReader(written)}
    assert len(rows) == 101
    assert rows == {text: labels[text].replace("refund", "money") for text in rows}
    assert [line["what"] for line in lines_of(file)].count("answer") == 102
    assert any(line["what"] == "model" for line in lines_of(file))


def test_a_third_person_decides(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("one text\nother text")
    with labeling(file, "--no-model", "--names", "a,b,c", "--overlap", "100") as (_, port, address):
        for name, label in (("ann", "a"), ("bob", "b")):
            client = Client(port, name)
            while texts := client.work(count=2)["texts"]:
                client.work(lines=[client.line("answer", text=text["key"], label=label) for text in texts])
        with opened(browser, address) as (page, _asked):
            page.goto(f"{address}?annotator=judge")
            page.click("#agreement a:text-is('Decide them')")
            page.wait_for_selector("#said button")
            assert page.locator("#said button").all_text_contents() == ["ann: a", "bob: b"]
            first = text_of(page)
            page.keyboard.press("-")  # later
            page.click("#said button:has-text('bob')")
            page.keyboard.press("Backspace")
            assert text_of(page) != first
            page.keyboard.press("3")
            page.wait_for_selector("#text:has-text('1 texts were skipped')")
            page.wait_for_selector("#progress:has-text('1 of 2 differences decided')")
            page.reload()
            page.wait_for_selector("#said button")
            assert text_of(page) == first
    lines = lines_of(file)
    assert [(line["what"], line.get("label")) for line in lines[5:]] == [
        ("decide", "b"),
        ("undo", None),
        ("decide", "c"),
    ]


def test_answers_wait_in_the_page_while_the_server_is_away(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    write_texts(file, 20)
    with labeling(file, "--no-model", "--names", "a,b") as (process, port, address):
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector(SAVED)
        process.kill()
        process.wait()
        page.keyboard.press("1")
        page.keyboard.press("2")
        page.wait_for_selector("#status.problem:has-text('2 answers are kept in this page')")
    with labeling(file, "--no-model", "--names", "a,b", port=port):
        page.wait_for_selector(SAVED)
        assert [line["label"] for line in lines_of(file) if line["what"] == "answer"] == ["a", "b"]
    page.close()


def test_spans_are_given_by_mouse_and_by_keyboard(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"text": "fly from New York to Paris 🫨, please"}))
    options = ("--no-model", "--task", "tagging", "--names", "city,day")
    with labeling(file, *options) as (_, _, address), opened(browser, address) as (page, _asked):
        page.goto(address)
        page.wait_for_selector(SAVED)
        box = [page.locator("#text .word").nth(word).bounding_box() for word in (2, 3)]
        page.mouse.move(box[0]["x"] + box[0]["width"] / 2, box[0]["y"] + 5)  # in the middle of a word
        page.mouse.down()
        page.mouse.move(box[1]["x"] + 2, box[1]["y"] + 5)
        page.mouse.up()
        page.keyboard.press("1")
        for _ in range(1):
            page.keyboard.press("ArrowRight")
        page.keyboard.press("2")
        assert page.locator("#text mark small").all_text_contents() == ["city", "day"]
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("Delete")
        page.keyboard.press("1")
        page.keyboard.press("Enter")
        page.wait_for_selector(SAVED)
    assert lines_of(file)[-1]["spans"] == [[2, 4, "city"], [5, 6, "city"]]


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (768, "light"), (1280, "dark")])
def test_it_is_accessible_and_fits(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("שלום עולם " * 1000 + "\n" + "x" * 10_000)  # right to left, and without a space
    names = ",".join(f"label {number} <b>{'x' * 40 * (number == 3)}</b>" for number in range(200))
    with labeling(file, "--no-model", "--task", "multi_label", "--names", names) as (_, _, address):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.goto(address)
        page.wait_for_selector(SAVED)
        page.keyboard.press("3")
        page.keyboard.press("/")
        page.keyboard.type("label 1")
        assert page.locator("#labels button").count() == 111
        page.keyboard.press("Enter")
        assert page.locator("#labels [aria-pressed=true]").count() == 2
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("b").count() == 0
        assert_accessible(page)
        page.close()
