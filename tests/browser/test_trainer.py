"""The page that trains, in node and in a real browser: its models are those of Python, and it reads tables."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from mixling import Predictor
from mixling.browser import plan, template, write_trainer

from ..chromium import NEEDS_CHROMIUM, assert_accessible, chromium

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "src" / "mixling" / "browser" / "trainer"
PLAYGROUND = ROOT / "src" / "mixling" / "serving" / "playground"
NODE = shutil.which("node")
NEEDS_NODE = [pytest.mark.skipif(NODE is None, reason="there is no node"), pytest.mark.slow]  # each starts node
VOCABULARY = "[UNK]\n"
WORDS_AS_THEY_ARE = (
    "init.training_texts=false", "train.augmentation.typos=0", "train.augmentation.pseudo_words=0",
)  # fmt: skip
TEXT = "Where is my parcel? It isn't here, the naïve courier 🫨"


@pytest.fixture(scope="module")
def rows() -> list[tuple[str, str]]:
    with (ROOT / "src" / "mixling" / "samples" / "messages.csv").open(encoding="utf-8", newline="") as file:
        return [(row["message"], row["topic"]) for row in csv.DictReader(file)]


def write(path: Path, rows: list[tuple[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("message", "topic"), *rows])
    return path


def trained_in_python(table: Path, out: Path, preset: str, epochs: int | None) -> bytes:
    """The model that the page has to make; in registers of four floats, as there."""
    options = ["ngrams.cross_fit=false", "data.test_fraction=0.2"]
    if epochs is not None:
        (vocabulary := out.with_suffix(".txt")).write_text(VOCABULARY)
        options += [*WORDS_AS_THEY_ARE, f"model.text.vocabulary={vocabulary}", f"train.epochs={epochs}"]
    arguments = ["train", table, "--text", "message", "--label", "topic", "-o", out, "--model", preset]
    arguments += [part for option in options for part in ("--set", option)]
    environment = {**os.environ, "MIXLING_REGISTERS": "4"}
    command = [sys.executable, "-m", "mixling", *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=300, env=environment)
    return (out / "model.onnx").read_bytes()


def trained_in_node(table: Path, out: Path, preset: str) -> dict[str, Any]:
    """What train.mjs prints; the model is written to `out`."""
    out.with_suffix(".template").write_bytes(template(preset))
    command = [str(NODE), Path(__file__).with_name("train.mjs"), FOLDER, table, "message", "topic"]
    network = json.dumps(None if preset == "mixling-linear" else plan())
    done = subprocess.run(
        [*command, out.with_suffix(".template"), network, out], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def arrays_of(content: bytes, preset: str) -> dict[str, np.ndarray[Any, Any]]:
    """All arrays of a file, or of one whose network is not read those of its branch."""
    model = onnx.load_from_string(content)
    onnx.checker.check_model(model)
    kept = "ngrams." if preset == "mixling-linear" else ""
    return {item.name: numpy_helper.to_array(item) for item in model.graph.initializer if kept in item.name}


@pytest.mark.parametrize("preset", ["mixling-linear", "mixling-small"])
@pytest.mark.parametrize("kind", ["topics", "two labels, long texts"])
class TestModel:
    pytestmark = NEEDS_NODE

    def test_it_is_the_one_of_python(self, kind: str, preset: str, rows: list[tuple[str, str]], tmp_path: Path) -> None:
        if kind == "topics":
            table = write(tmp_path / "rows.csv", [*rows[:240], (" \u0301éÉ don't İ 🫨 ", "parcel"), ("?", "product")])
        else:
            rng = random.Random(0)
            some = [rows[i : i + 3] for i in range(0, 420, 3)]
            texts = [" ".join(text for text, _ in part) * rng.choice([1, 1, 6]) for part in some]
            labels = [str(int(any(label == "parcel" for _, label in part))) for part in some]
            table = write(tmp_path / "rows.csv", list(zip(texts, labels, strict=True)))
        found = trained_in_node(table, tmp_path / "node.onnx", preset)
        network = found["report"]["network"]
        expected = trained_in_python(table, tmp_path / "python", preset, network and network["epochs"])
        own = (tmp_path / "node.onnx").read_bytes()
        arrays, others = arrays_of(own, preset), arrays_of(expected, preset)
        assert list(arrays) == list(others)
        # How much n-grams count beside a network is found from answers of engines that round differently: a network's
        # hidden layer has 8 bits where processors multiply such integers.
        close = 1e-4
        for name, array in others.items():
            if name in ("ngrams.scale", "ngrams.bias"):
                assert arrays[name] == pytest.approx(array, rel=close, abs=close), name
            else:
                assert np.array_equal(arrays[name], array), name
        report = json.loads((tmp_path / "python" / "metrics.json").read_text())
        assert found["report"]["loss"] == pytest.approx(report["ngrams"]["mixture_loss"], abs=close)
        sizes = report["data"]["training"], report["data"]["validation"]
        assert (found["report"]["training"], found["report"]["validation"]) == sizes
        assert found["labels"] == list(report["data"]["labels"])
        texts = [text for text, _ in rows[600:700]] + ["", TEXT, "a long text " * 200]
        answers = zip(Predictor(own).predict(texts), Predictor(expected).predict(texts), strict=True)
        for answer, right in answers:
            assert answer.label == right.label
            assert answer.probabilities == pytest.approx(right.probabilities, abs=close)
        test = [json.loads(line) for line in (tmp_path / "python" / "test.jsonl").read_text("utf-8").splitlines()]
        read = Predictor(expected).predict([row["message"] for row in test])
        right = sum(str(row["topic"]) == item.label for row, item in zip(test, read, strict=True))
        assert found["report"]["test"]["rows"] == len(test)
        assert found["report"]["test"]["accuracy"] == pytest.approx(right / len(test))


def in_node(code: str, given: object) -> Any:
    """The value that JavaScript with `given` and the functions of rows.js returns."""
    script = (
        f"import * as rows from {json.dumps(PLAYGROUND.joinpath('rows.js').as_uri())};\n"
        f"const given = {json.dumps(given)};\n"
        f"const found = (() => {{ {code} }})();\nconsole.log(JSON.stringify(found));\n"
    )
    command = [str(NODE), "--input-type=module", "-e", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class TestTables:
    pytestmark = NEEDS_NODE

    def test_records_are_those_of_the_csv_module(self) -> None:
        rng = random.Random(0)
        written = []
        for delimiter in ",;\t|":
            for end in ("\n", "\r\n"):
                rows = [["a", "b", "c"]]
                for _ in range(30):
                    rows.append(["".join(rng.choices('xy "\n,;\t|é🫨', k=rng.randint(1, 8))) + "x" for _ in range(3)])
                out: list[str] = []

                class Lines:
                    write = staticmethod(out.append)

                csv.writer(Lines, delimiter=delimiter, lineterminator=end).writerows(rows)
                written.append(("\ufeff" + "".join(out), rows))
        code = (
            "return given.map((text) => rows.readTable(text, 'a.csv').rows.map(({ values }) => Object.values(values)));"
        )
        assert in_node(code, [text for text, _ in written]) == [rows[1:] for _, rows in written]

    def test_json_and_its_lines(self) -> None:
        lines = '{"text": "a", "label": 1}\n\n{"text": "b", "more": [1]}\n'
        code = "return given.map(([text, name]) => rows.readTable(text, name));"
        first, second = in_node(code, [[lines, "a.jsonl"], ['[{"text": "a"}, {"label": null}]', "a.json"]])
        assert first["columns"] == ["text", "label", "more"]
        assert [row["values"] for row in first["rows"]] == [
            {"text": "a", "label": "1", "more": ""}, {"text": "b", "label": "", "more": "[1]"},
        ]  # fmt: skip
        assert [row["line"] for row in first["rows"]] == [1, 3]
        assert [row["values"] for row in second["rows"]] == [{"text": "a", "label": ""}, {"text": "", "label": ""}]

    @pytest.mark.parametrize(
        ("text", "name", "message"),
        [
            ("", "a.csv", "a.csv: is empty; a header and at least one row are required"),
            ("a,b\n", "a.csv", "a.csv: has no rows; a header and at least one row are required"),
            ('a,b\n1,"2\n', "a.csv", "a.csv:2: a quote is not closed before the file ends"),
            ("a,b\n1,2\n1,2,3\n", "a.csv", "a.csv:3: has 3 fields; the header has 2: quote a field"),
            ("a,a\n1,2\n", "a.csv", 'a.csv:1: the header has "a" twice'),
            ('{"a": 1}\n{a}\n', "a.jsonl", "a.jsonl:2: is no JSON: "),
            ("[1]", "a.json", "a.json:1: is 1; an object such as"),
        ],
    )
    def test_errors_say_where_and_what(self, text: str, name: str, message: str) -> None:
        code = "try { return rows.readTable(...given); } catch (error) { return `${error.name}: ${error.message}`; }"
        assert in_node(code, [text, name]).startswith(f"Error: {message}")

    def test_texts_may_be_lists_of_words_and_a_label_is_one(self) -> None:
        tables = [
            '{"tokens": ["a", "b"], "label": ["x"]}\n{"tokens": [], "label": "y"}\n',
            '{"tokens": "a", "label": ["x", "y"]}\n',
            'tokens,label\na,"[[0, 1, ""x""]]"\n',
        ]
        code = (
            "const read = (text) => rows.examplesOf(rows.readTable(text, 'a'), 'tokens', 'label');"
            "return given.map((text) => { try { return read(text); } catch (error) { return error.message; } });"
        )
        found, several, spans = in_node(code, tables)
        assert found == {"examples": [{"text": "a b", "label": "x", "line": 1}], "left": 1}
        assert several.startswith('line 1: the label is a list, ["x","y"]. This page labels and trains one label')
        assert "mixling label FILE --task multi_label, or --task tagging" in spans

    def test_columns_are_guessed(self, rows: list[tuple[str, str]]) -> None:
        tables = {
            "message,topic": [f'"{text}",{label}' for text, label in rows[:60] if '"' not in text],
            "id,when,body,priority": [f"{i},2024-01-{i % 28 + 1:02},words of {i} texts,{i % 3}" for i in range(60)],
            "a,b": [f"{i},{i}" for i in range(60)],
        }
        given = [head + "\n" + "\n".join(lines) for head, lines in tables.items()]
        found = in_node("return given.map((text) => rows.guessColumns(rows.readTable(text, 'a.csv')));", given)
        assert found == [
            {"text": "message", "label": "topic"}, {"text": "body", "label": "priority"}, {"text": None, "label": None},
        ]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    write_trainer(tmp_path / "page.html")
    page = browser.new_page(viewport={"width": 390, "height": 800})
    asked: list[str] = []
    failed: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.on("console", lambda message: failed.append(message.text) if message.type == "error" else None)
    page.goto((tmp_path / "page.html").as_uri())
    yield page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
    assert [url for url in asked if not re.match("file:|blob:|data:", url)] == []
    assert failed == []


class TestPage:
    pytestmark = NEEDS_CHROMIUM

    def test_from_a_file_to_a_model(self, page: Any, rows: list[tuple[str, str]], tmp_path: Path) -> None:
        table = write(tmp_path / "rows.csv", [*rows[:400], ("no label", " ")])
        page.set_input_files("#file", table)
        page.wait_for_selector("#preview table")
        assert [page.input_value(f"#{name}-column") for name in ("text", "label")] == ["message", "topic"]
        assert "1 row without a text or a label is left out." in page.text_content("#preview")
        assert page.input_value("#kind") == "mixling-linear"
        page.select_option("#kind", "mixling-small")
        page.focus("#start")
        page.keyboard.press("Enter")
        page.wait_for_selector("#figures .answer", timeout=120_000)
        assert re.match(r"\d\d\.\d% of \d+ rows that it never saw", page.text_content("#figures .answer"))
        assert page.locator(".confusion tbody tr").count() == len({label for _, label in rows[:400]})
        page.fill("#text", TEXT)
        page.wait_for_selector("#answer .word")
        with page.expect_download() as download:
            page.click("#save")
        download.value.save_as(tmp_path / "model.onnx")
        expected = Predictor(tmp_path / "model.onnx").predict_one(TEXT)
        shown = page.locator("#answer tbody tr").evaluate_all(
            "all => all.map((row) => [row.querySelector('th').textContent, +row.querySelector('data').value])"
        )
        assert shown
        for label, probability in shown:
            assert expected.probabilities[label] == pytest.approx(probability, abs=1e-5)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert_accessible(page)

    def test_cancel_and_bad_files(self, page: Any, rows: list[tuple[str, str]], tmp_path: Path) -> None:
        page.set_input_files("#file", write(tmp_path / "one.csv", [(text, "x") for text, _ in rows[:60]]))
        page.wait_for_selector("#columns:not([hidden])")
        page.select_option("#label-column", "topic")
        page.click("#start")
        page.wait_for_selector('#status.problem:has-text("only the label \\"x\\"; at least two distinct labels")')
        page.set_input_files("#file", write(tmp_path / "rows.csv", rows))
        page.wait_for_selector("#preview table")
        page.click("#start")
        page.wait_for_selector('#status:has-text("Network")', timeout=120_000)
        page.keyboard.press("Enter")
        page.wait_for_selector('#status:has-text("Training was cancelled.")')
        assert page.is_visible("#start")
        (tmp_path / "old.csv").write_bytes("text,label\nGrüße,a\nWörter,b\n".encode("cp1252"))
        page.set_input_files("#file", tmp_path / "old.csv")
        page.wait_for_selector('#about:has-text("old.csv: 2 rows, read as windows-1252")')
        assert "Grüße" in page.text_content("#preview")
        (tmp_path / "bad.csv").write_text('a,b\n1,"2\n')
        page.set_input_files("#file", tmp_path / "bad.csv")
        page.wait_for_selector('#status.problem:has-text("bad.csv:2: a quote is not closed")')
        assert not page.is_visible("#columns")


def test_the_page_is_small_and_asks_for_nothing(tmp_path: Path) -> None:
    write_trainer(tmp_path / "page.html")
    content = (tmp_path / "page.html").read_bytes()
    assert len(gzip.compress(content)) < 200_000
    html = content.decode()
    assert "default-src 'none'" in html
    assert set(re.findall(r"https?://[\w./]*", html)) <= {"http://www.w3.org/2000/svg"}  # a name, which nothing loads
    assert "UNICODE LICENSE" in html
