"""The demo as a newcomer sees it: one real model, trained by the command, which is then asked in every way."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mixling.cli.demo import SENTENCES
from mixling.data import LANGUAGES, catalogues

from .conftest import Call, Done

# Half of the passes over the texts, which halves the time of the training: about 30 s of one core for all tests here.
EPOCHS = 3
EVERYDAY_ENGLISH = (
    "Where can I buy a ticket for the train to London?",
    "hello my friend",
    "What time is it?",
    "Can you help me, please?",
    "We went to the beach with our kids.",
    "She works in a small shop near the station.",
    "How much does this cost?",
    "It was raining all day yesterday.",
    "Do you want some coffee or tea?",
    "My sister lives in New York.",
    "They are waiting for the bus.",
    "Open the window, it's hot in here.",
)
RIGHT = ("English",) * 3 + ("German", "French", "Spanish", "Turkish", "Russian", "Hindi", "Japanese")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "my languages"


@pytest.fixture(scope="module")
def trained(call: Call, folder: Path) -> Done:
    """`mixling demo`, run over an unfinished run."""
    for package in catalogues.PACKAGES:
        pytest.importorskip(package, reason='needs the demo extra: pip install "mixling[train,demo]"')
    folder.mkdir()
    (folder / "run.json").write_text('{"finished": false}')
    done = call("demo", "-o", folder, "--epochs", EPOCHS)
    assert done.code == 0, done.err
    return done


def languages(done: Done) -> list[str]:
    """What the lines of answers, "German (98%)  a text", name."""
    assert done.code == 0, done.err
    return [line.partition(" (")[0] for line in done.out.splitlines()]


def test_every_example_that_it_prints_is_right(trained: Done) -> None:
    lines = trained.out.splitlines()
    assert lines[0].startswith("test: accuracy 0.9")
    assert lines[1] == "the 10 languages with the lowest F1:"
    assert {line.split(maxsplit=1)[1] for line in lines[2:12]} <= set(LANGUAGES.values())
    assert [line.partition(")  ")[2] for line in lines[12:]] == list(SENTENCES)
    assert [line.partition(" (")[0] for line in lines[12:]] == list(RIGHT)


def test_it_states_what_it_does(trained: Done, folder: Path) -> None:
    assert "starting over after an unfinished run" in trained.err
    assert "from the packages Babel, Django, django-allauth, djangorestframework, Sphinx" in trained.err
    assert f"try: mixling show '{folder}'" in trained.err
    assert (folder / "model.onnx").stat().st_size < 1_000_000


def test_everyday_english_is_english(trained: Done, call: Call, folder: Path) -> None:
    options = [item for text in EVERYDAY_ENGLISH for item in ("--text", text)]
    assert languages(call("demo", "-o", folder, *options)) == ["English"] * len(EVERYDAY_ENGLISH)


def test_an_earlier_model_answers_at_once(trained: Done, call: Call, folder: Path) -> None:
    written = (folder / "model.onnx").stat().st_mtime_ns
    done = call("demo", "-o", folder, "--text", "Καλημέρα σε όλους", "--text", "สวัสดีตอนเช้า")
    assert languages(done) == ["Greek", "Thai"]
    assert "earlier demo" in done.err
    assert (folder / "model.onnx").stat().st_mtime_ns == written


def test_an_earlier_model_needs_no_packages(
    trained: Done, call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogues, "PACKAGES", {"surely_absent": "Absent"})
    assert languages(call("demo", "-o", folder, "--text", "Доброе утро, как дела?")) == ["Russian"]


def test_a_terminal_is_asked(trained: Done, call: Call, folder: Path) -> None:
    done = call("demo", "-o", folder, stdin="Доброе утро, как дела?\n\n".encode(), terminal=True)
    assert done.code == 0
    assert done.out.startswith("Type a sentence in any of the 60 languages; an empty line ends.")
    assert "Russian (" in done.out


def test_another_models_folder_is_refused(call: Call, model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "reviews")
    before = {path.name: path.read_bytes() for path in (tmp_path / "reviews").iterdir()}
    done = call("demo", "-o", tmp_path / "reviews")
    assert done.code == 2
    assert "holds a model with labels other than the demo's languages; give another -o" in done.err
    assert {path.name: path.read_bytes() for path in (tmp_path / "reviews").iterdir()} == before


def test_missing_packages_are_named_before_anything_is_written(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogues, "PACKAGES", {"surely_absent": "Absent"})
    done = call("demo", "-o", tmp_path / "model")
    assert done.code == 2
    assert "Absent is missing; run pip install " in done.err
    assert not (tmp_path / "model").exists()
