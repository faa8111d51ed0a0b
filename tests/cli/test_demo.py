"""The demo as a newcomer sees it: one real model, trained by the command."""

from __future__ import annotations

import csv
import json
import re
import webbrowser
from pathlib import Path

import pytest

from mixling.cli.commands.demo import with_no_topic
from mixling.data import Dataset, Example

from .conftest import Call, Done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "my demo"


@pytest.fixture(scope="module")
def trained(call: Call, folder: Path) -> Done:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(webbrowser, "open", lambda _: pytest.fail("there is no display"))
        done = call("demo", "-o", folder)
    assert done.code == 0, done.err
    return done


def test_the_accuracy_on_test_messages_stands_beside_those_of_others(trained: Done, folder: Path) -> None:
    found = {name: float(number) for name, number in re.findall(r"^  (\S+) +(0\.\d{3}) \[", trained.out, re.M)}
    assert found["mixling"] > 0.7
    assert 0.75 < found["tf-idf"] < 0.92
    with (folder / "messages_test.csv").open(newline="", encoding="utf-8") as file:
        topics = [row["topic"] for row in csv.DictReader(file)]
    assert "always product" in trained.out
    assert found["majority"] == round(topics.count("product") / len(topics), 3)


def test_the_labels_that_look_wrong_are_wrong(trained: Done, folder: Path) -> None:
    found = re.findall(r"^  .*messages\.csv:(\d+): is (\w+), rather (\w+)$", trained.out, re.M)
    with (folder / "messages_wrong_labels.csv").open(newline="", encoding="utf-8") as file:
        planted = {row["line"]: row["given"] for row in csv.DictReader(file)}
    assert len(found) == 3
    assert sum(planted.get(line) == given for line, given, _ in found) >= 2


def test_messages_without_topic_have_no_probable_topic(tmp_path: Path) -> None:
    file = tmp_path / "outside.csv"
    file.write_text("message\ngood evening\n")
    rows = (Example(text=f"{topic} {n}", target=topic, path="a.csv", line=n) for topic in "abcdefgh" for n in range(3))
    train = Dataset.from_examples(rows)
    joined = with_no_topic(train, file)
    added = [target for text, target in zip(joined.texts, joined.targets, strict=True) if text == "good evening"]
    assert (len(joined), len(set(added)), len(added)) == (28, 4, 4)


def test_messages_are_answered_with_words(trained: Done) -> None:
    answers = re.findall(r"^  (?:not sure; perhaps )?(\w+) \(\d+%\): .+\n    .+$", trained.out, re.M)
    assert len(answers) == 5
    assert answers[:3] == ["parcel", "returns", "payment"]


def test_the_page_is_one_file_and_the_model_answers(trained: Done, folder: Path, call: Call) -> None:
    assert (folder / "model" / "model.onnx").stat().st_size < 700_000
    html = (folder / "page.html").read_text("utf-8")
    assert re.findall(r'(?:src|href)="(?!data:)', html) == []
    assert f"page   {folder / 'page.html'}" in trained.out
    done = call("predict", folder / "model", "where is my parcel?")
    assert json.loads(done.out)["label"] == "parcel"


def test_an_earlier_demo_and_other_files_are_kept(trained: Done, call: Call, folder: Path, tmp_path: Path) -> None:
    written = (folder / "model" / "model.onnx").stat().st_mtime_ns
    done = call("demo", "-o", folder)
    assert done.code == 0, done.err
    first = done.out.splitlines()[0]
    assert first == f"{folder / 'model'}: an earlier demo's model; --overwrite trains again"
    parts = [out[out.index("accuracy on 300") : out.index("model  ")] for out in (done.out, trained.out)]
    assert parts[0] == parts[1]
    assert (folder / "model" / "model.onnx").stat().st_mtime_ns == written
    (tmp_path / "messages.csv").write_text("mine\n")
    done = call("demo", "-o", tmp_path)
    assert done.code == 2
    assert "messages.csv: exists and differs" in done.err
    assert call("demo", "-o", tmp_path / "messages.csv").code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["messages.csv"]
