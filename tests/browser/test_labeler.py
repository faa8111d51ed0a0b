"""Labeling in the page that trains: its record is the one of `mixling label`, and a project goes on later."""

from __future__ import annotations

import csv
import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mixling.browser import write_trainer
from mixling.data import ColumnsConfig
from mixling.labeling.record import Record
from mixling.labeling.texts import key_of, read_file_texts

from ..chromium import NEEDS_CHROMIUM, assert_accessible, chromium, served

ROOT = Path(__file__).resolve().parents[2]
SESSION = ROOT / "src" / "mixling" / "browser" / "labeler" / "session.js"
NODE = shutil.which("node")
TIME = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def texts() -> list[str]:
    with (ROOT / "src" / "mixling" / "samples" / "messages.csv").open(encoding="utf-8", newline="") as file:
        found = [row["message"].strip() for row in csv.DictReader(file)]
    return list(dict.fromkeys(found))[:60]


def write(path: Path, texts: list[str]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text"], *([text] for text in texts)])
    return path


def values_in_python(table: Path, lines: list[dict[str, Any]]) -> tuple[list[str], dict[str, str]]:
    """The labels, and the values of all texts, that `mixling label` finds in a record."""
    path = table.with_name(f"{table.name}.labels.jsonl")
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    found = read_file_texts(table, task="classification", columns=ColumnsConfig())
    with Record(path, None, []) as record:
        record.begin(found)
        return record.labels, {found.by_key[key].text: value for key, value in record.values(found).items()}


def some_lines(texts: list[str], seed: int) -> list[dict[str, Any]]:
    """What people may say, in any order."""
    rng = random.Random(seed)
    lines: list[dict[str, Any]] = []
    for number in range(150):
        line: dict[str, Any] = {"id": str(number), "annotator": "", "time": TIME}
        label = rng.choice(["a", "b", "c", "d e", "ф"])
        row = rng.randrange(len(texts))
        about = {"text": key_of(texts[row]), "row": row + 2}
        what = rng.choice(["answer"] * 8 + ["skip", "unsure", "note", "undo", "undo", "add", "rename"])
        guess = {rng.choice(["guess", "hidden_guess"]): rng.choice("ab")}
        more = {
            "answer": {**about, "label": label, **guess},
            "skip": about,
            "unsure": about,
            "note": {**about, "note": label},
        }
        more |= {"add": {"label": label}, "rename": {"label": label, "to": rng.choice("abcx")}}
        if what == "undo" and lines:
            more["undo"] = {"of": rng.choice(lines)["id"]}
        if what in more:
            lines.append({"what": what, **line, **more[what]})
    return lines


@pytest.mark.skipif(NODE is None, reason="there is no node")
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_record_says_what_it_says_in_python(texts: list[str], tmp_path: Path, seed: int) -> None:
    lines = some_lines(texts, seed)
    given = [
        {"key": key_of(text), "row": row, "text": text, "given": None, "test": row % 5, "order": f"{row:04}"}
        for row, text in enumerate(texts, 2)
    ]
    script = (
        f"import {{ Session }} from {json.dumps(SESSION.as_uri())};\n"
        f"const session = new Session('a.csv', {json.dumps(given)}, [], () => new Promise(() => {{}}), () => {{}});\n"
        f"const answer = session.work({{ lines: {json.dumps(lines)}, holding: [], count: 4 }});\n"
        "const { lines, labels } = session;\n"
        "console.log(JSON.stringify({ answer, lines, labels, values: session.values() }));\n"
    )
    command = [str(NODE), "--input-type=module", "-e", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    labels, values = values_in_python(write(tmp_path / "a.csv", texts), found["lines"])
    assert found["labels"] == labels
    assert {row["text"]: row["label"] for row in found["values"]} == values
    assert len(values) > 20
    assert len(found["answer"]["texts"]) == 4
    assert not {text["text"] for text in found["answer"]["texts"]} & values.keys()
    assert found["answer"]["state"]["answered"] == len(values)
    undone = {line["of"] for line in lines if line["what"] == "undo"}
    tests = {text["key"] for text in given if text["test"] == 0}
    for name, count in found["answer"]["state"]["bias"].items():
        said = [
            line[name] == line["label"] for line in found["lines"]
            if line["what"] == "answer" and line["id"] not in undone and line["text"] in tests and name in line
        ]  # fmt: skip
        assert count == [sum(said), len(said)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


class TestPage:
    pytestmark = NEEDS_CHROMIUM

    def test_from_texts_to_a_model(self, browser: Any, texts: list[str], tmp_path: Path) -> None:
        write_trainer(tmp_path / "page.html")
        table = write(tmp_path / "texts.csv", texts)
        page = browser.new_page(viewport={"width": 390, "height": 800})
        failed: list[str] = []
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.on("console", lambda message: failed.append(message.text) if message.type == "error" else None)
        page.goto((tmp_path / "page.html").as_uri())
        page.set_input_files("#file", table)
        page.click("#label")
        frame = page.frame_locator("iframe.labeling")
        for label in ("long", "short", "wrong"):
            frame.locator("#new").fill(label)
            frame.locator("#add button").click()

        def shown() -> str:
            text: str = frame.locator("#text p").inner_text()
            return text.strip()

        def answer(key: str) -> None:
            before = shown()
            frame.locator("#text").press(key)
            frame.locator(f"#text:not(:has-text({json.dumps(before[:30])}))").wait_for()

        said = {}
        for _ in range(16):
            said[shown()] = "long" if len(shown()) > 60 else "short"
            answer("1" if len(shown()) > 60 else "2")
        del said[(undone := list(said)[-1])]
        frame.locator("#text").press("Backspace")
        assert shown() == undone
        answer("3")
        frame.locator("#old").select_option("wrong")
        frame.locator("#to").fill("rest")
        frame.locator("#rename-button").click()
        said[undone] = "rest"
        frame.locator("#model:has-text('random texts right')").wait_for(timeout=120_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert_accessible(page)
        with page.expect_download() as download:
            frame.get_by_text("Save the project").click()
        download.value.save_as(tmp_path / "texts.mixling.json")
        project = json.loads((tmp_path / "texts.mixling.json").read_text("utf-8"))
        assert values_in_python(table, project["lines"])[1] == said

        page.reload()
        page.set_input_files("#file", tmp_path / "texts.mixling.json")
        frame.locator("#progress:has-text('16 answers, 60 texts')").wait_for()
        assert shown() not in said
        frame.get_by_text("Train a model").click()
        page.wait_for_selector("#preview table")
        assert page.text_content("#about") == "texts.csv: 16 labeled texts"
        page.click("#start")
        page.wait_for_selector("#figures .note", timeout=120_000)
        assert failed == []
        page.close()

    def test_a_page_of_a_server_keeps_projects(self, browser: Any, texts: list[str], tmp_path: Path) -> None:
        write_trainer(tmp_path / "page.html")
        table = write(tmp_path / "texts.csv", texts)
        with served(tmp_path) as address:
            page = browser.new_page()
            page.goto(f"{address}page.html")
            page.set_input_files("#file", table)
            page.click("#label")
            frame = page.frame_locator("iframe.labeling")
            frame.locator("#new").fill("one")
            frame.locator("#add button").click()
            for number in (1, 2):
                frame.locator("#text").press("1")
                frame.locator(f"#progress:has-text('{number} answer')").wait_for()
            page.wait_for_timeout(1000)
            page.reload()
            page.click("text=Go on with texts.csv, 60 texts")
            frame.locator("#progress:has-text('2 answers, 60 texts')").wait_for()
            page.reload()
            page.on("dialog", lambda dialog: dialog.accept())
            page.click("text=Forget")
            page.wait_for_selector("#kept button", state="detached")
            page.close()
