"""`mixling train FILE`, and `mixling FILE`, without any option: columns, folder, rows to test on, and the report."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import pty
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mixling.cli import main
from mixling.samples import read_sample

Call = Callable[..., Any]
EPOCHS = ("--epochs", "2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 600 of the sample's messages."""
    folder = tmp_path_factory.mktemp("nothing-else")
    rows = list(csv.reader(read_sample("messages.csv").decode().splitlines(keepends=True)))
    with (folder / "messages.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows[:601])
    return folder


@pytest.fixture(scope="module")
def trained(call: Call, folder: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return call("train", "messages.csv", *EPOCHS)


@pytest.mark.slow
def test_it_says_what_it_takes_and_gives_a_command_that_does_the_same(trained: Any, folder: Path) -> None:
    assert trained.code == 0, trained.err
    said, *_, command = trained.err.splitlines()
    label = r"label: topic \(by its name, 12 values\); not: .*channel.*"
    assert re.fullmatch(rf"text: message \(.*\); {label}", said)
    words = shlex.split(command)
    assert words[:3] == ["mixling", "train", "messages.csv"]
    assert words[-8:] == ["--text", "message", "--label", "topic", "--test-fraction", "0.2", "-o", "messages-model"]
    config = json.loads((folder / "messages-model" / "run.json").read_text())["config"]["data"]
    assert (config["columns"]["text"], config["columns"]["label"], config["test_fraction"]) == ("message", "topic", 0.2)


@pytest.mark.slow
def test_the_test_rows_are_kept_and_evaluate_gives_the_same_figures(trained: Any, folder: Path, call: Call) -> None:
    model = folder / "messages-model"
    kept = [json.loads(line) for line in (model / "test.jsonl").read_text("utf-8").splitlines()]
    assert len(kept) == pytest.approx(120, abs=6)
    with (folder / "messages.csv").open(encoding="utf-8", newline="") as file:
        rows = {(row["message"], row["topic"]) for row in csv.DictReader(file)}
    assert {(row["message"], row["topic"]) for row in kept} <= rows
    done = call("evaluate", model, model / "test.jsonl")
    assert done.code == 0, done.err
    assert "trained on" not in done.out
    assert trained.out.splitlines()[0] == f"test: {done.out.splitlines()[0]}"
    found = json.loads((model / "metrics.json").read_text())["test"]
    assert found["systems"]["mixling"]["accuracy"] == found["accuracy"]
    assert f"accuracy {found['accuracy']:.4f}, " in done.out


@pytest.mark.slow
def test_the_report_has_others_mistakes_and_suspicious_labels(trained: Any) -> None:
    lines = trained.out.splitlines()
    start = next(i for i, line in enumerate(lines) if "which nothing was trained or chosen on" in line)
    names = [line.split("  ")[1].strip() for line in lines[start + 1 : start + 4]]
    assert names == ["mixling", "tf-idf + lr", "majority"]
    for line in lines[start + 1 : start + 4]:
        value, low, high = map(float, re.findall(r"\d\.\d{3}", line)[:3])
        assert low <= value <= high
    assert max(map(len, lines[1:])) <= 100
    assert [line for line in lines if line.startswith("most confident mistakes")]
    for line in lines:
        if found := re.match(r"  (messages\.csv):(\d+): is (\w+), (answered|rather) (\w+)", line):
            assert found[3] != found[5]
    assert "mixling evaluate messages-model messages-model/test.jsonl" in trained.err


@pytest.mark.slow
def test_another_training_has_another_folder_and_its_options_are_kept(trained: Any, folder: Path, call: Call) -> None:
    before = {path: path.stat().st_mtime_ns for path in (folder / "messages-model").iterdir()}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = call("train", "messages.csv", "--label", "channel", *EPOCHS, "--no-baseline", "--test-fraction", "0")
    assert done.code == 0, done.err
    assert {path: path.stat().st_mtime_ns for path in (folder / "messages-model").iterdir()} == before
    config = json.loads((folder / "messages-model-2" / "run.json").read_text())["config"]["data"]
    assert (config["columns"]["label"], config["test_fraction"]) == ("channel", 0.0)
    assert not (folder / "messages-model-2" / "test.jsonl").exists()
    assert done.out.startswith("validation: ")


@pytest.mark.slow
def test_a_named_folder_and_named_columns_change_nothing(
    trained: Any, folder: Path, call: Call, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        columns = ("--text", "message", "--label", "topic")
        done = call("train", "messages.csv", *columns, *EPOCHS, "-o", tmp_path / "model")
    assert done.code == 0, done.err
    assert done.out == trained.out
    kept = [(path / "test.jsonl").read_bytes() for path in (tmp_path / "model", folder / "messages-model")]
    assert kept[0] == kept[1]
    assert "--test-fraction 0.2" not in done.err
    assert re.search(r"^\d+ training, \d+ validation and \d+ test examples \(--test-fraction\)$", done.err, re.M)
    start = next(number for number, line in enumerate(done.err.splitlines()) if re.match(r" +step|epoch", line))
    assert start <= 3  # rows, model, and a remark on the rows


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--test-fraction", "0"], ["--validation", "other.csv"], []])
def test_nothing_is_held_out_where_rows_are_divided_or_few(
    options: list[str], call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        f"a {'fine' if n % 2 else 'bad'} film {n},{'good' if n % 2 else 'bad'}" for n in range(60 if options else 40)
    ]
    Path("rows.csv").write_text("\n".join(["text,label", *rows]))
    Path("other.csv").write_text("\n".join(["text,label", *rows[:20]]))
    done = call("train", "rows.csv", *options, "--epochs", 1, "-o", "model")
    assert done.code == 0, done.err
    assert done.out.startswith("validation: ")
    assert not Path("model/test.jsonl").exists()
    assert ("new texts may do worse: --test FILE" in done.err) is (options[:1] != ["--test-fraction"])


@pytest.mark.slow
def test_the_metric_that_a_model_is_made_for_comes_first(call: Call, folder: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = call("train", "messages.csv", "--metric", "macro-f1", *EPOCHS, "-o", tmp_path / "model")
    assert done.code == 0, done.err
    tables = re.findall(r"\n(\w.*) on (?:120 test|the same) rows.*\n((?:  .*\n){3})", done.out)
    assert [name for name, _ in tables] == ["macro F1", "accuracy"]
    report = json.loads((tmp_path / "model" / "metrics.json").read_text())["test"]
    for (_, lines), key in zip(tables, ("macro_f1", "accuracy"), strict=True):
        value, low, high = map(float, re.findall(r"\d\.\d{3}", lines)[:3])
        assert low < value < high
        assert value == pytest.approx(report[key], abs=6e-4)
        assert report["systems"]["mixling"]["intervals"][key] == pytest.approx([low, high], abs=6e-4)
    card = (tmp_path / "model" / "README.md").read_text()
    assert "| system | macro F1 (95% interval) | accuracy (95% interval) |" in card


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "metric", "first"),
    [("regression", "pearson", "pearson"), ("regression", "rmse", "mse"), ("multi_label", "micro-f1", "micro F1")],
)
def test_other_metrics_come_first_too(task: str, metric: str, first: str, call: Call, tmp_path: Path) -> None:
    """A correlation with one number for all is undefined: a dash, and null in the file."""
    labels = {"regression": [f"{n % 7}.5" for n in range(90)], "multi_label": ["a|b", "a", "b"] * 30}[task]
    rows = "".join(f"{['good', 'fine', 'bad'][n % 3]} film {n},{label}\n" for n, label in enumerate(labels))
    (tmp_path / "rows.csv").write_text(f"text,label\n{rows}")
    options = ["--task", task, "--metric", metric, "--epochs", 1, "-o", tmp_path / "model"]
    done = call("train", tmp_path / "rows.csv", *options)
    assert done.code == 0, done.err
    tables = re.findall(r"\n(\w.*) on (?:\d+ test|the same) rows.*\n((?:  .*\n){3})", done.out)
    assert tables[0][0] == first
    assert len(tables) == 2
    systems = json.loads((tmp_path / "model" / "metrics.json").read_text())["test"]["systems"]
    if metric == "pearson":
        assert systems["median"]["pearson"] is None
        assert re.search(r"median +- \[-, -\]", tables[0][1])


@pytest.mark.slow
def test_tags_are_reported_by_spans_and_questions_by_f1(call: Call, tmp_path: Path) -> None:
    for name, metrics in (("tags", ["span F1", "word accuracy"]), ("questions", ["F1", "exact match"])):
        (tmp_path / f"{name}.jsonl").write_bytes(read_sample(f"{name}.jsonl"))
        test = tmp_path / f"{name}_test.jsonl"
        test.write_bytes(read_sample(test.name))
        done = call("train", tmp_path / f"{name}.jsonl", "--test", test, "--epochs", 1, "-o", tmp_path / name)
        assert done.code == 0, done.err
        found = re.findall(r"\n(\w.*) on (?:\d+ test|the same) rows.*\n  mixling +\d\.\d{3} \[", done.out)
        assert found == metrics
        assert f"mixling evaluate {tmp_path / name} {test}" in done.err
    assert "always no answer" in done.out
    assert re.search(r"questions_test.jsonl:\d+: is .*, answered ", done.out)


@pytest.mark.parametrize("command", ["train", "compare", "audit", "tune"])
def test_what_the_rows_do_not_say_is_asked_for(
    command: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = ["body,colour,size", *(f"a text of many words {n},{'red' if n % 2 else 'blue'},{n % 3}" for n in range(40))]
    (tmp_path / "a.csv").write_text("\n".join(rows))
    done = call(command, tmp_path / "a.csv")
    assert (done.code, done.out, [*tmp_path.iterdir()]) == (2, "", [tmp_path / "a.csv"])
    first, *commands = done.err.splitlines()
    assert first.endswith(
        "the label may be column 'colour' (2 different values: blue, red), 'size' (3 different values: 0, 1, 2); "
        "choose one:"
    )
    found = [shlex.split(line) for line in commands]
    assert [words[-2:] for words in found] == [["--label", "colour"], ["--label", "size"]]
    assert all(words[:2] + words[3:5] == ["mixling", command, "--text", "body"] for words in found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no input; name at least one file: mixling train FILE"),
        (["--resume"], "mixling train --resume -o DIR"),
        (["a.csv", "--test", "b.csv", "--test-fraction", "0.1", "-o", "x"], "give only one of the two"),
    ],
)
def test_what_is_missing_is_named(arguments: list[str], message: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\n" + "a b,x\nc d,y\n" * 5)
    arguments = [str(tmp_path / word) if word.endswith("csv") or word == "x" else word for word in arguments]
    done = call("train", *arguments)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "x").exists()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[tuple[tuple[str, ...], list[str]]]]:
    """Run the entry point in a folder without any command, and return which would have been built, with what."""
    seen: list[tuple[tuple[str, ...], list[str]]] = []
    monkeypatch.setattr(
        main, "build_app", lambda names, completion: lambda prog_name: seen.append((names, sys.argv[1:]))
    )
    monkeypatch.chdir(tmp_path)

    def start(*words: str) -> list[tuple[tuple[str, ...], list[str]]]:
        monkeypatch.setattr(sys, "argv", ["mixling", *words])
        main.run()
        return seen

    return start


@pytest.mark.parametrize("name", ["a.csv", "./a", "texts/", "data.d", ".", "not there.csv", "texts/x"])
def test_a_path_is_trained_on_without_the_name_of_the_command(
    name: str, started: Callable[..., Any], tmp_path: Path
) -> None:
    for file in ("a.csv", "a"):
        (tmp_path / file).write_text("text,label\n")
    for folder in ("texts/x", "data.d"):
        (tmp_path / folder).mkdir(parents=True)
    assert started(name, "--epochs", "1") == [(("train",), ["train", name, "--epochs", "1"])]


@pytest.mark.parametrize(
    ("name", "file", "message"),
    [
        ("predcit", None, "did you mean `mixling predict`, or the folder of that name, `mixling train predcit`?"),
        ("reviews", None, "no such command: reviews; did you mean the folder of that name, `mixling train reviews`?"),
        ("model", "model.onnx", "`mixling show model`?"),
        ("m", "run.json", "`mixling show m`?"),
        ("two words", None, "`mixling train 'two words'`?"),
        ("esc\x1b[31m", None, "no such command: esc\ufffd"),
    ],
)
def test_a_word_that_is_no_command_starts_nothing_though_a_folder_has_its_name(
    name: str, file: str | None, message: str, started: Callable[..., Any], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / name).mkdir()
    if file:
        (tmp_path / name / file).touch()
    with pytest.raises(SystemExit) as end:
        started(name)
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_command_is_one_though_a_folder_has_its_name(started: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "predict").mkdir()
    assert started("predict", "m", "a text") == [(("predict",), ["predict", "m", "a text"])]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_question_is_answered_on_a_terminal(tmp_path: Path) -> None:
    rows = ["body,colour,size", *(f"a text of many words {n},{'red' if n % 2 else 'blue'},{n % 3}" for n in range(40))]
    (tmp_path / "a.csv").write_text("\n".join(rows))
    code = "from mixling.cli.guessing import with_columns; from mixling.cli.train_options import TrainOptions\n"
    code += "print('chosen', with_columns(TrainOptions(files=['a.csv']), 'train').label)"
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-c", code])
    os.write(terminal, b"2\n")
    shown = b""
    with contextlib.suppress(OSError):  # its end
        while part := os.read(terminal, 1000):
            shown += part
    assert os.waitpid(pid, 0)[1] == 0, shown.decode()
    assert b"chosen size" in shown


def test_rows_that_were_trained_on_are_told(call: Call, tmp_path: Path) -> None:
    rows = ["text,label", *(f"a text of many words {n},{'red' if n % 2 else 'blue'}" for n in range(40))]
    (tmp_path / "a.csv").write_text("\n".join(rows))
    done = call("train", tmp_path / "a.csv", "--test", tmp_path / "a.csv", "--epochs", "1", "-o", tmp_path / "x")
    assert done.code == 0, done.err
    said = "40 of them have texts that were trained or chosen on"
    assert f"accuracy on 40 test rows; {said}" in done.out
    assert f"On 40 rows; {said}" in (tmp_path / "x" / "README.md").read_text()


@pytest.mark.slow
def test_texts_that_nearly_equal_training_texts_are_told(call: Call, folder: Path, tmp_path: Path) -> None:
    with (folder / "messages.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if len(row["message"].split()) > 12][:150]
    with (tmp_path / "twice.jsonl").open("w", encoding="utf-8") as out:
        for row in rows:
            for end in ("", " Thanks"):
                out.write(json.dumps({"text": row["message"] + end, "label": row["topic"]}) + "\n")
    done = call("train", tmp_path / "twice.jsonl", "-o", tmp_path / "model", *EPOCHS)
    assert done.code == 0, done.err
    told = r"(\d+) of (\d+) test texts nearly equal a training text, so new texts will be harder: "
    told += "`mixling dedup FILE --threshold 0.6`"
    near, looked_at = map(int, re.search(told, " ".join(done.out.split())).groups())  # type: ignore[union-attr]
    assert 0 < near <= looked_at


def test_many_rows_without_a_value(call: Call, tmp_path: Path) -> None:
    """Their number is guessed from how much a row has."""
    (tmp_path / "rows.jsonl").write_text("{}\n" * 1500)
    result = call("train", tmp_path / "rows.jsonl", "-o", tmp_path / "run")
    assert result.code == 2
    assert re.fullmatch(r"error: .*rows\.jsonl:1: no column 'text'; there are none; [^\n]*\n", result.err)
    assert not (tmp_path / "run").exists()
