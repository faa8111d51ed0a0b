"""What needs no training, on the command line; CI also runs this file where only the base packages are installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from mixling.cli import COMMANDS, EXTRAS
from mixling.errors import command_line

from .conftest import Call

GOLDEN = Path(__file__).parents[1] / "golden" / "plan-v1.onnx"
ROWS = "text,label\na film,good\nwhat a,bad\nun film,good\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder whose rows had the column `review`."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model.onnx").write_bytes(GOLDEN.read_bytes())
    record = {"finished": True, "config": {"data": {"columns": {"text": "review"}}}}
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    return tmp_path / "run"


def test_texts_files_and_lines_are_answered(call: Call, folder: Path, tmp_path: Path) -> None:
    for model in (GOLDEN, folder):
        done = call("predict", model, "what a film")
        assert done.code == 0, done.err
        assert json.loads(done.out)["label"] in ("bad", "good", "über")
        assert call("predict", model, "-", stdin=b"what a film\n").out == done.out
    (tmp_path / "rows.csv").write_text("review\nwhat a film\n")
    (tmp_path / "lines.txt").write_text("what a film\n")
    for file in ("rows.csv", "lines.txt"):
        assert json.loads(call("predict", folder, tmp_path / file).out) == json.loads(done.out)
    assert call("predict", GOLDEN, tmp_path / "rows.csv", "--text", "review", "-o", tmp_path / "a.csv").code == 0
    assert (tmp_path / "a.csv").read_text().startswith("label,probability\n")


def test_a_model_is_evaluated_shown_and_exported(call: Call, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    done = call("evaluate", GOLDEN, tmp_path / "rows.csv", "-o", tmp_path / "metrics.json")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "metrics.json").read_text())["n"] == 3
    (tmp_path / "rows.jsonl").write_text('{"review": "a film", "label": "good"}\n')
    assert call("evaluate", folder, tmp_path / "rows.jsonl").out.startswith("accuracy ")
    for model in (GOLDEN, folder):
        assert json.loads(call("show", model, "--json").out)["labels"] == ["bad", "good", "über"]
        assert call("export", model, "-o", tmp_path / "copy.onnx").code == 0
        assert (tmp_path / "copy.onnx").read_bytes() == GOLDEN.read_bytes()


def test_a_page_is_exported(call: Call, tmp_path: Path) -> None:
    done = call("export", GOLDEN, "--browser", tmp_path / "site")
    assert done.code == 0, done.err
    assert done.err.endswith(command_line("python", "-m", "http.server", "--directory", tmp_path / "site") + "\n")
    assert (tmp_path / "site" / "models" / "plan-v1.onnx").exists()
    assert call("export", GOLDEN).code == 2
    assert call("export", GOLDEN, "-o", tmp_path / "a.onnx", "--browser", tmp_path / "site").code == 2


def test_a_page_that_trains_is_exported(call: Call, tmp_path: Path) -> None:
    done = call("export", "--trainer", tmp_path / "page.html")
    assert done.code == 0
    assert "a page that trains models" in done.err
    assert (tmp_path / "page.html").read_text("utf-8").startswith("<!doctype html>")
    assert "give MODEL" in call("export", "-o", tmp_path / "a.onnx").err
    assert "leave out MODEL" in call("export", GOLDEN, "--trainer", tmp_path / "page.html").err
    assert "a page is one file" in call("export", "--trainer", tmp_path / "page").err


def test_answers_are_explained_and_texts_to_label_suggested(call: Call, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    for model in (GOLDEN, folder):
        done = call("explain", model, "what a film", "--format", "json")
        assert done.code == 0, done.err
        assert [word["word"] for word in json.loads(done.out)["words"]] == ["what", "a", "film"]
    done = call("suggest", GOLDEN, tmp_path / "rows.csv", "-n", 1)
    assert done.code == 0, done.err
    assert done.out.count("\n") == 2
    done = call("evaluate", GOLDEN, tmp_path / "rows.csv", "--errors", tmp_path / "errors.csv")
    assert done.code == 0, done.err
    assert (tmp_path / "errors.csv").read_text().startswith("path,line,text,target,predicted,severity,words,nearest\n")


@pytest.mark.skipif(find_spec("onnxruntime") is not None, reason="of an environment without ONNX Runtime")
@pytest.mark.parametrize("args", [["predict", "a text"], ["show"], ["evaluate", "rows.csv"], ["explain", "a text"]])
def test_a_model_that_the_core_does_not_know_names_the_extra(
    args: list[str], call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    Path("rows.csv").write_text(ROWS)
    done = call(args[0], GOLDEN.with_name("model-v1.onnx"), *args[1:])
    assert done.code == 2
    assert "a model that the C core cannot compute (" in done.err
    assert "needs ONNX Runtime, which is not installed: pip install" in done.err
    assert "[onnx]" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, call: Call) -> None:
    done = call(command, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: mixling {command}")


@pytest.mark.skipif(find_spec("torch") is not None, reason="of an environment without torch")
@pytest.mark.parametrize(
    "args",
    [
        ["compare", "rows.csv", "--systems", "transformer-matched"],
        ["pretrain", "lines.txt", "-o", "out"],
        ["pretrain", "lines.txt", "--objective", "span-corruption", "-o", "out"],
        ["generate", "run", "a text"],
        ["inspect", "run", "--filters", "-o", "out.png"],
        ["models"],
        ["cost", "gmlp-tiny"],
        ["bench", "attention"],
    ],
    ids=lambda args: " ".join(args[:3]),
)
def test_what_trains_names_the_package_and_the_command_that_installs_it(
    args: list[str], call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    Path("rows.csv").write_text("text,label\n" + "".join(f"fine {i},good\ndull {i},bad\n" for i in range(40)))
    Path("lines.txt").write_text("a text\n" * 50)
    done = call(*args)
    assert done.code == 2
    error = done.err.splitlines()[-1]
    assert error.startswith("error: ")
    assert "[" in error
    assert not Path("out").exists()


def test_it_trains_evaluates_and_explains(call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    rows = [f"{word} film number {i},{label}" for i in range(30) for word, label in (("good", "yes"), ("dull", "no"))]
    Path("rows.csv").write_text("\n".join(["text,label", *rows]))
    done = call("train", "rows.csv", "-o", "trained", "--epochs", 2)
    assert done.code == 0, done.err
    assert "PyTorch" not in done.err
    for arguments in (
        ["evaluate", "trained", "rows.csv"],
        ["explain", "trained", "a good one"],
        ["predict", "trained", "x"],
    ):
        assert call(*arguments).code == 0
    assert call("train", "rows.csv", "-o", "further", "--from", "trained", "--epochs", 1).code == 0


def loaded_by(*arguments: str | Path) -> tuple[str, set[str]]:
    """Run a command; return its output and the modules that it loaded."""
    code = "import sys\nfrom mixling.cli.main import run\ntry:\n    run()\nfinally:\n    print('MODULES', *sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("MODULES ")[0], set(done.stdout.partition("MODULES ")[2].split())


@pytest.mark.slow
@pytest.mark.parametrize("model", ["mixling-small", "pnlp-mixer-x-small"])
def test_a_training_and_the_linear_model_beside_it_need_no_other_packages(model: str, tmp_path: Path) -> None:
    rows = [f"{word} film number {i},{label}" for i in range(60) for word, label in (("good", "yes"), ("dull", "no"))]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]))
    said, loaded = loaded_by("train", tmp_path / "rows.csv", "-o", tmp_path / "run", "--model", model)
    assert "  tf-idf + lr  1.000" in said
    assert {name.partition(".")[0] for name in loaded} & {"scipy", "sklearn", "torch", "pandas"} == set()


def test_an_answer_loads_nothing_that_trains() -> None:
    _, loaded = loaded_by("predict", GOLDEN, "a text")
    assert "mixling.runtime.predictor" in loaded
    packages = {name.partition(".")[0] for name in loaded}
    assert packages & {*EXTRAS, "pandas", "transformers", "datasets", "rich"} == set()
    # Neither the other commands nor the readers of files.
    assert "mixling.cli.commands.train" not in loaded
    assert {name for name in loaded if name.startswith("mixling.data.readers.")} <= {
        f"mixling.data.readers.{name}" for name in ("encodings", "files", "lines", "packed", "rows")
    }


@pytest.mark.skipif(find_spec("torch") is not None, reason="of an environment without torch")
@pytest.mark.slow
def test_the_demo_trains(call: Call, tmp_path: Path) -> None:
    done = call("demo", "-o", tmp_path / "demo", "--no-open")
    assert done.code == 0, done.err
    assert "accuracy on 300 test messages" in done.out
    assert (tmp_path / "demo" / "page.html").is_file()
    assert done.out.splitlines()[-1].startswith("next  ")
