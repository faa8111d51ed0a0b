"""The way of a user: train, predict, evaluate, show, export."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mixling import Predictor
from mixling.artifacts import RUN_FILE, WRITTEN
from mixling.errors import Interrupted
from mixling.training import Trainer

from .conftest import Call


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}


def test_a_run_folder_is_complete(model: Path) -> None:
    names = {path.name for path in model.iterdir()}
    assert names >= {"config.json", "model.onnx", "model.safetensors", "metrics.json", "metrics.jsonl", "run.json"}
    assert "README.md" in names
    assert [name for name in names if name.startswith((".", "checkpoint"))] == []
    assert json.loads((model / "run.json").read_text())["config"]["data"]["columns"]["text"] == "review"


def test_a_text_gives_json_in_a_pipe_and_words_on_a_terminal(call: Call, model: Path) -> None:
    done = call("predict", model, "a lovely film")
    row = json.loads(done.out)
    assert row["label"] == "good"
    assert row["probabilities"].keys() == {"good", "bad"}
    assert sum(row["probabilities"].values()) == pytest.approx(1)
    lines = call("predict", model, "a lovely film", terminal=True).out.splitlines()
    assert lines[0] == "good"
    assert lines[1].split() == [f"{row['probabilities']['good']:.1%}", "good"]
    assert "\x1b" not in done.out


def test_an_empty_text_states_so(call: Call, model: Path) -> None:
    assert json.loads(call("predict", model, "").out)["empty"] is True
    assert "empty" not in json.loads(call("predict", model, "a film").out)
    assert "the text has no words" in call("predict", model, " ", terminal=True).out
    assert "the text has no words" not in call("predict", model, "a film", terminal=True).out
    lines = call("predict", model, "-", stdin=b"a film\n\n").out.splitlines()
    assert [json.loads(line).get("empty", False) for line in lines] == [False, True]


def test_a_terminal_is_never_steered_by_a_text(call: Call, model: Path) -> None:
    done = call("predict", model, "a \x1b[31mred\x07 film", "--echo", terminal=True)
    assert "red" in done.out
    assert "\x1b" not in done.out
    assert "\x07" not in done.out


def test_a_file_gives_a_row_for_each_row(call: Call, model: Path, reviews: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    done = call("predict", model, reviews / "test.csv", "-o", out)
    assert (done.code, done.out) == (0, "")
    answers = [json.loads(line) for line in out.read_text().splitlines()]
    texts = [row["review"] for row in rows_of(reviews / "test.csv")]
    expected = [Predictor(model).predict_one(text).probabilities for text in texts]
    assert [row["probabilities"]["good"] for row in answers] == pytest.approx(
        [p["good"] for p in expected if p], abs=1e-5
    )
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


def test_csv_out_has_label_and_probability(call: Call, model: Path, reviews: Path, tmp_path: Path) -> None:
    call("predict", model, reviews / "test.csv", "-o", tmp_path / "out.csv", "--echo")
    call("predict", model, reviews / "test.csv", "-o", tmp_path / "out.jsonl")
    rows = rows_of(tmp_path / "out.csv")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == [row["review"] for row in rows_of(reviews / "test.csv")]
    assert [row["label"] for row in rows] == [line["label"] for line in lines]
    assert [float(row["probability"]) for row in rows] == pytest.approx(
        [line["probabilities"][line["label"]] for line in lines], abs=1e-6
    )


def test_skipped_rows_keep_their_line(call: Call, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    file.write_text("review\na great film\na,b\na,b\na poor film\na,b\n")
    assert call("predict", model, file).code == 2
    done = call("predict", model, file, "--on-bad-row", "skip")
    answers = [json.loads(line) for line in done.out.splitlines()]
    assert [answer.get("label", "?") for answer in answers] == ["good", "?", "?", "bad", "?"]
    assert answers[1]["error"].startswith(f"{file}:3: ")
    assert answers[4]["error"].startswith(f"{file}:6: 2 fields, but the header has 1 (review)")
    assert "--on-bad-row" not in answers[4]["error"]  # it is skipped already
    assert "3 bad rows" in done.err
    done = call("predict", model, file, "--on-bad-row", "skip", "--format", "csv")
    rows = list(csv.reader(done.out.splitlines()))
    assert rows[0] == ["label", "probability", "error"]
    assert [row[0] for row in rows[1:]] == ["good", "", "", "bad", ""]


def test_lines_of_standard_input_and_of_a_text_file(call: Call, model: Path, tmp_path: Path) -> None:
    content = b"a great film\r\n\na poor film"
    (tmp_path / "lines.txt").write_bytes(content)
    piped = call("predict", model, "-", stdin=content).out
    assert len(piped.splitlines()) == 3
    assert piped == call("predict", model, tmp_path / "lines.txt").out
    assert json.loads(piped.splitlines()[0]) == json.loads(call("predict", model, "a great film").out)


def test_a_line_that_is_not_utf_8_is_named(call: Call, model: Path) -> None:
    done = call("predict", model, "-", stdin="gut\nschön\n".encode("latin-1"))
    assert done.code == 2
    assert "<stdin>:2: byte 0xf6" in done.err
    assert "iconv -f cp1252" in done.err


def test_bad_lines_that_are_skipped_keep_their_line(call: Call, model: Path, tmp_path: Path) -> None:
    content = "a great film\nschön\n\na poor film\n".encode("latin-1") + b"\xff"
    (tmp_path / "lines.txt").write_bytes(content)
    (tmp_path / "lines.txt.gz").write_bytes(gzip.compress(content))
    for source, name, stdin in (
        ("-", "<stdin>", content),
        (tmp_path / "lines.txt", tmp_path / "lines.txt", b""),
        (tmp_path / "lines.txt.gz", tmp_path / "lines.txt.gz", b""),
    ):
        done = call("predict", model, source, "--on-bad-row", "skip", stdin=stdin)
        assert done.code == 0, done.err
        answers = [json.loads(line) for line in done.out.splitlines()]
        assert len(answers) == 5
        assert [answers[0]["label"], answers[3]["label"]] == ["good", "bad"]
        assert answers[1]["error"].startswith(f"{name}:2: byte 0xf6 (byte 4 of the line) is not UTF-8")
        assert answers[4]["error"].startswith(f"{name}:5: byte 0xff")
        assert "2 bad rows" in done.err
    (tmp_path / "lines.txt").write_bytes("schön\n".encode("utf-16-le"))
    assert "UTF-16" in call("predict", model, tmp_path / "lines.txt", "--on-bad-row", "skip").err


def test_good_rows_before_a_bad_one_are_answered(call: Call, model: Path, tmp_path: Path) -> None:
    lines = "a great film\na poor film\nschön\na poor film\n".encode("latin-1")
    (tmp_path / "lines.txt").write_bytes(lines)
    (tmp_path / "rows.csv").write_text("review\na great film\na poor film\na,b\na poor film\n")
    for done in (
        call("predict", model, "-", stdin=lines),
        call("predict", model, tmp_path / "lines.txt"),
        call("predict", model, tmp_path / "rows.csv"),
    ):
        assert done.code == 2
        assert [json.loads(line)["label"] for line in done.out.splitlines()] == ["good", "bad"]
        assert done.err.startswith("error: ")


def test_a_line_is_answered_before_the_next_is_written(model: Path) -> None:
    command = [sys.executable, "-m", "mixling", "predict", str(model), "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line, label in ((b"a great film\n", "good"), (b"a poor film\n", "bad")):
            process.stdin.write(line)
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["label"] == label  # hangs where it waits for more
        process.stdin.close()
        assert process.wait(20) == 0


def test_a_reader_that_leaves_ends_it_quietly(model: Path, tmp_path: Path) -> None:
    (tmp_path / "many.txt").write_text("a great film\n" * 20_000)
    command = f"'{sys.executable}' -m mixling predict '{model}' '{tmp_path}/many.txt' | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment(), timeout=60)
    assert json.loads(done.stdout)["label"] == "good"
    assert done.stderr == ""


def test_a_misspelt_file_is_no_text(call: Call, model: Path, reviews: Path) -> None:
    done = call("predict", model, "tset.csv")
    assert (done.code, done.out) == (2, "")
    assert "tset.csv: no such file" in done.err
    done = call("predict", model, reviews / "test.csv", "a text")
    assert done.code == 2
    assert "several kinds" in done.err


@pytest.mark.parametrize("command", ["predict", "explain"])
def test_columns_are_those_of_rows(call: Call, model: Path, reviews: Path, command: str) -> None:
    done = call(command, model, "--text", "review", "a great film")
    assert (done.code, done.out) == (2, "")
    assert "--text: got the column 'review' for texts; name a file, or leave it out" in done.err
    done = call(command, model, "--text-pair", "other", "-", stdin=b"review,label\na great film,good\n")
    assert (done.code, done.out) == (2, "")
    assert "<stdin>: no column 'other'; allowed: review, label" in done.err


def test_an_output_never_replaces_an_input(call: Call, model: Path, reviews: Path) -> None:
    before = (reviews / "test.csv").read_bytes()
    done = call("predict", model, reviews / "test.csv", "-o", reviews / "test.csv")
    assert done.code == 2
    assert (reviews / "test.csv").read_bytes() == before


def test_an_output_that_fails_leaves_the_old_one(call: Call, model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("review\na great film\na,b\n")
    (tmp_path / "out.jsonl").write_text("old\n")
    assert call("predict", model, tmp_path / "in.csv", "-o", tmp_path / "out.jsonl").code == 2
    assert (tmp_path / "out.jsonl").read_text() == "old\n"
    assert {path.name for path in tmp_path.iterdir()} == {"in.csv", "out.jsonl"}
    done = call("predict", model, tmp_path / "in.csv", "-o", tmp_path / "out.jsonl" / "out.jsonl")  # a file as folder
    assert done.code == 2
    assert "out.jsonl/out.jsonl: could not be written" in done.err
    assert (tmp_path / "out.jsonl").read_text() == "old\n"


def test_evaluate_knows_the_columns_of_the_training(call: Call, model: Path, reviews: Path, tmp_path: Path) -> None:
    out, picture = tmp_path / "report.json", tmp_path / "confusion.png"
    done = call("evaluate", model, reviews / "test.csv", "-o", out, "--confusion", picture)
    assert done.code == 0, done.err
    rows = rows_of(reviews / "test.csv")
    predictor = Predictor(model)
    right = sum(predictor.predict_one(row["review"]).label == row["stars"] for row in rows)
    report = json.loads(out.read_text())
    assert report["accuracy"] == pytest.approx(right / len(rows))
    assert report["n"] == len(rows)
    assert done.out.startswith(f"accuracy {right / len(rows):.4f}")
    assert picture.read_bytes().startswith(b"\x89PNG")
    drawn = call("evaluate", model, reviews / "test.csv", "--reliability").out
    assert drawn.startswith(done.out)
    filled = [item for item in report["reliability"] if item is not None]
    assert sum(item["count"] for item in filled) == len(rows)
    assert drawn.removeprefix(done.out).count("|") == len(filled) + 1  # a mark for each, and the legend


def test_evaluate_needs_columns_of_a_lone_file(call: Call, model: Path, reviews: Path, tmp_path: Path) -> None:
    shutil.copy(model / "model.onnx", tmp_path / "alone.onnx")
    done = call("evaluate", tmp_path / "alone.onnx", reviews / "test.csv")
    assert done.code == 2
    assert "no column 'text'" in done.err
    done = call("evaluate", tmp_path / "alone.onnx", reviews / "test.csv", "--text", "review", "--label", "stars")
    assert done.out == call("evaluate", model, reviews / "test.csv").out


def test_evaluate_counts_a_strange_label_as_an_error(call: Call, model: Path, tmp_path: Path) -> None:
    file, out, picture = tmp_path / "in.csv", tmp_path / "out.json", tmp_path / "confusion.png"
    file.write_text("review,stars\na great film,good\na poor film,bd\na poor film,bad\n")
    done = call("evaluate", model, file, "-o", out, "--confusion", picture)
    assert done.code == 0, done.err
    assert "1 example has a label that training never saw and counts as an error: 'bd' (1)" in done.err
    assert ", 3 texts" in done.out
    found = json.loads(out.read_text())
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert {row["label"]: row["f1"] for row in found["per_class"]}["bd"] == 0
    assert picture.exists()
    file.write_text("review,stars\na poor film,bd\n")
    done = call("evaluate", model, file)
    assert done.code == 2
    assert f"{file}: the model knows none of the labels, such as 'bd'; did you mean 'bad'" in done.err


def test_train_counts_labels_that_only_validation_has(call: Call, reviews: Path, tmp_path: Path) -> None:
    rows = (reviews / "test.csv").read_text().splitlines()[:9]
    (tmp_path / "dev.csv").write_text("\n".join([*rows, "99,a film,odd"]))
    options = ["--text", "review", "--label", "stars", "--epochs", 1, "-o", tmp_path / "model"]
    done = call("train", reviews / "train.csv", "--validation", tmp_path / "dev.csv", *options)
    assert done.code == 0, done.err
    assert "validation: 1 example has a label that training never saw and counts as an error: 'odd' (1)" in done.err
    saved = json.loads((tmp_path / "model" / "metrics.json").read_text())
    assert saved["validation"]["n"] == 9
    assert saved["validation"]["accuracy"] <= 8 / 9
    assert json.loads((tmp_path / "model" / "config.json").read_text())["labels"]["names"] == ["bad", "good"]


def test_evaluate_metrics_on_noisy_texts(call: Call, model: Path, reviews: Path, tmp_path: Path) -> None:
    options = ["--noise", "swap,case", "-o", tmp_path / "out.json"]
    done = call("evaluate", model, reviews / "test.csv", *options)
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "out.json").read_text())
    values = {(row["noise"], row["rate"]): row["value"] for row in found["noise"]}
    assert list(values) == [("swap", 0.1), ("swap", 0.3), ("case", 0.1), ("case", 0.3)]
    assert values["case", 0.1] == values["case", 0.3] == pytest.approx(found["accuracy"])
    assert values["swap", 0.3] <= values["swap", 0.1] <= found["accuracy"]
    assert f"\nswap     30%  {values['swap', 0.3]:.4f} (" in done.out
    for options, message in [
        (["--noise", "swop"], "did you mean 'swap'"),
        (["--task-name", "x"], "--task-name: does not apply to models that predict labels"),
        (["--confusion", "c.jpg"], "c.jpg: the name of a plot ends in one of .png"),
    ]:
        done = call("evaluate", model, reviews / "test.csv", *options)
        assert done.code == 2
        assert message in done.err


def test_a_baseline_is_reported_beside_the_accuracy(call: Call, reviews: Path, tmp_path: Path) -> None:
    options = ["--text", "review", "--label", "stars", "--epochs", "1", "--baseline"]
    done = call("train", reviews / "train.csv", *options, "--test-fraction", 0, "-o", tmp_path / "model")
    assert done.code == 0, done.err
    rows = [line.split() for line in done.err.partition("\naccuracy ")[2].splitlines()]
    assert rows[1][:2] == ["baseline", "always"]
    assert rows[2][:6] == ["tf-idf", "+", "lr", "has", "accuracy", "1.0000"]  # one word of each text is its label


def test_a_task_without_a_baseline_has_no_such_option(call: Call, tmp_path: Path) -> None:
    question = {"question": "Who?", "context": "It is Anna.", "answers": {"text": ["Anna"], "start": [6]}}
    (tmp_path / "asked.jsonl").write_text("".join(json.dumps({**question, "id": str(i)}) + "\n" for i in range(20)))
    (tmp_path / "pairs.jsonl").write_text('{"source": "a", "target": "b"}\n' * 20)
    for name, task in (("asked", "question_answering"), ("pairs", "text2text")):
        done = call("train", tmp_path / f"{name}.jsonl", "--task", task, "--baseline", "-o", tmp_path / "out")
        assert done.code == 2
        assert "error: --baseline: " in done.err


def test_show(call: Call, model: Path) -> None:
    facts = json.loads(call("show", model, "--json").out)
    assert facts["labels"] == ["bad", "good"]
    assert facts["file_bytes"] == (model / "model.onnx").stat().st_size
    assert facts["validation"]["accuracy"] == json.loads((model / "metrics.json").read_text())["validation"]["accuracy"]
    text = call("show", model).out
    data = facts["data"]
    assert data["training"] + data["validation"] == 240
    assert sum(data["labels"].values()) == data["training"]
    assert f"2: bad ({data['labels']['bad']}), good ({data['labels']['good']})" in text
    assert f"{data['training']} examples of train.csv, {data['validation']} for validation" in text
    assert f"{facts['parameters']:,}" in text
    assert "1 layer without token mixing" in text
    latency, engine = facts["latency"], call("show", model, "--engine").out.strip()
    assert 0 < latency["milliseconds"] < 1000
    assert (latency["of"], latency["engine"]) == ("a text of 10 words", engine)
    assert f"ms for a text of 10 words here ({engine.split()[0]} engine)" in text
    (lone,) = [line for line in call("show", model / "model.onnx").out.splitlines() if line.startswith("labels")]
    assert lone.split() == ["labels", "2:", "bad,", "good"]  # the file has no numbers of examples


def test_export_copies_or_converts(call: Call, model: Path, tmp_path: Path) -> None:
    assert call("export", model, "-o", tmp_path / "a.onnx").code == 0
    assert (tmp_path / "a.onnx").read_bytes() == (model / "model.onnx").read_bytes()
    precision = json.loads(call("show", tmp_path / "a.onnx", "--json").out)["precision"]
    other = "float32" if precision == "int8" else "int8"
    done = call("export", model, "-o", tmp_path / "b.onnx", "--precision", other)
    assert done.code == 0, done.err
    assert json.loads(call("show", tmp_path / "b.onnx", "--json").out)["precision"] == other
    answers = [Predictor(tmp_path / name).predict_proba(["a lovely film"]) for name in ("a.onnx", "b.onnx")]
    assert answers[0] == pytest.approx(answers[1], abs=0.05)
    done = call("export", tmp_path / "a.onnx", "-o", tmp_path / "c.onnx", "--precision", other)
    assert done.code == 2
    assert "run folder" in done.err
    assert call("export", model, "-o", tmp_path).code == 2
    assert call("export", model, "-o", tmp_path / "d.onnx", "--precision", "int4").code == 2
    assert {path.name for path in tmp_path.iterdir()} == {"a.onnx", "b.onnx"}


def test_a_tagger_answers_with_spans(call: Call, tagger: Path, tmp_path: Path) -> None:
    text = "fly to rome on sunday"
    row = json.loads(call("predict", tagger, text).out)
    assert [(text[span["start"] : span["end"]], span["label"]) for span in row["spans"]] == [
        ("rome", "city"),
        ("sunday", "day"),
    ]
    assert row["tags"] == ["O", "O", "B-city", "O", "B-day"]
    lines = call("predict", tagger, text, terminal=True).out.splitlines()
    assert [line.split() for line in lines] == [[w, t] for w, t in zip(text.split(), row["tags"], strict=True)]
    rows = call("predict", tagger, tagger.parent / "slots.jsonl").out.splitlines()
    assert len(rows) == 200
    assert json.loads(rows[0])["tokens"][:2] == ["fly", "to"]
    assert call("predict", tagger, text, "--format", "csv").out.startswith("tokens,tags,spans\n")
    assert "parquet is written into folders only" in call("predict", tagger, text, "--format", "parquet").err
    assert "span F1 " in call("evaluate", tagger, tagger.parent / "slots.jsonl").out
    assert call("evaluate", tagger, tagger.parent / "slots.jsonl", "--confusion", tmp_path / "c.png").code == 2


def test_a_run_is_not_replaced_unasked(call: Call, model: Path, reviews: Path) -> None:
    before = {path.name: hashlib.sha256(path.read_bytes()).digest() for path in model.iterdir()}
    done = call("train", reviews / "train.csv", "--text", "review", "--label", "stars", "-o", model)
    assert done.code == 2
    assert "finished run" in done.err
    assert "--overwrite" in done.err
    done = call("train", "--resume", "-o", model)
    assert done.code == 0
    assert "finished" in done.err
    assert {path.name: hashlib.sha256(path.read_bytes()).digest() for path in model.iterdir()} == before


def test_what_replaces_a_run_leaves_nothing_of_it(
    call: Call, model: Path, reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: object, **options: object) -> None:
        raise Interrupted("interrupted", signum=15)

    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    (folder / "tokenizer.json").write_text("{}")  # of a run before that
    (folder / "notes.txt").write_text("the user's own")
    columns = ["--text", "review", "--label", "stars"]
    arguments = ["train", reviews / "train.csv", *columns, "-o", folder, "--epochs", 1, "--test-fraction", 0]
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "fit", killed)
        assert call(*arguments, "--overwrite").code == 143
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    done = call(*arguments)
    assert done.code == 2
    assert (
        "holds a finished run, and an unfinished one that will replace it; resume that with: mixling train" in done.err
    )
    done = call("train", "--resume", "-o", folder)
    assert done.code == 0, done.err
    assert {path.name for path in folder.iterdir()} == {path.name for path in model.iterdir()} | {"notes.txt"}
    assert (folder / "model.onnx").read_bytes() != before["model.onnx"]
    assert (folder / "notes.txt").read_text() == "the user's own"


def test_all_that_a_run_writes_is_known(model: Path, tagger: Path) -> None:
    for folder in (model, tagger):
        assert {path.name for path in folder.iterdir()} <= {*WRITTEN, RUN_FILE}


@pytest.mark.parametrize("name", ["a.csv", "a.csv/x", "a.csv/x/y"])
def test_a_file_is_no_folder_for_a_run(call: Call, tmp_path: Path, name: str) -> None:
    (tmp_path / "a.csv").write_text("text,label\na,b\n")
    for arguments in (["no-such-file.csv"], ["--resume"], ["no-such-file.csv", "--overwrite"]):
        done = call("train", *arguments, "-o", tmp_path / name)
        assert done.code == 2
        assert done.err == f"error: {tmp_path / 'a.csv'}: is a file; -o names the folder of the run\n"
    assert (tmp_path / "a.csv").read_text() == "text,label\na,b\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["predict", "show --json", "evaluate", "--help"])
def test_a_full_disk_behind_standard_output_is_reported(model: Path, reviews: Path, command: str) -> None:
    name, *options = command.split()
    files = {"predict": [model, reviews / "test.csv"], "evaluate": [model, reviews / "test.csv"], "show": [model]}
    with open("/dev/full", "wb") as full:
        arguments = [sys.executable, "-m", "mixling", name, *map(str, files.get(name, [])), *options]
        buffered = {**environment(), "PYTHONUNBUFFERED": ""}
        done = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, text=True, env=buffered, timeout=60)
    assert done.stderr == "error: standard output: could not be written: No space left on device\n"
    assert done.returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_standard_error_changes_no_exit_code(model: Path) -> None:
    with open("/dev/full", "wb") as full:
        arguments = [sys.executable, "-m", "mixling", "predict", str(model), "no.csv"]
        assert subprocess.run(arguments, stderr=full, env=environment(), timeout=60).returncode == 2


@pytest.mark.parametrize(
    ("command", "code", "reported"),
    [
        ("predict '{model}' - <&-", 0, ""),
        ("predict '{model}' 'a great film' >&-", 0, ""),
        ("predict '{model}' '{rows}' -o '{out}' >&- <&-", 0, "{out}: 40 rows\n{rows}: 41 lines, 40 rows, 0 skipped\n"),
        ("predict '{model}' '{rows}' -o '{out}' 2>&-", 0, ""),
        ("show '{model}' >&-", 0, ""),
        ("predict '{model}' no.csv <&- >&-", 2, "error: no.csv: no such file"),
    ],
)
def test_closed_streams(model: Path, reviews: Path, tmp_path: Path, command: str, code: int, reported: str) -> None:
    locations = {"model": model, "rows": reviews / "test.csv", "out": tmp_path / "out.jsonl"}
    line = f"'{sys.executable}' -m mixling {command.format(**locations)}"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, env=environment(), timeout=60)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(reported.format(**locations))
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == max(reported.count("\n"), bool(reported))
    assert done.stdout == ""
    if "-o" in command:
        assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 40


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "[]"),
        ("config.json", "{}"),
        ("config.json", '{"model": 3}'),
        ("config.json", '{"model": {"layers": [3], "num_layers": null, "dim": 8, "embedding": {"window": 1}}}'),
        ("config.json", "{"),
        ("metrics.json", "3"),
        ("metrics.json", '["validation", "best"]'),
        ("metrics.json", '{"validation": 5, "best": {"epoch": 3}}'),
        ("metrics.json", '{"validation": {}, "best": {"epoch": "three"}}'),
        ("metrics.json", '{"validation": {}, "best": []}'),
        ("metrics.json", "[" * 100_000),
    ],
)
def test_show_reports_of_a_damaged_file(call: Call, model: Path, tmp_path: Path, name: str, content: str) -> None:
    for file in ("model.onnx", "config.json", "metrics.json"):
        shutil.copy(model / file, tmp_path / file)
    assert call("show", tmp_path).code == 0
    (tmp_path / name).write_text(content)
    for options in ([], ["--json"]):
        done = call("show", tmp_path, *options)
        assert done.code == 2
        assert done.err.startswith(f"error: {tmp_path / name}: is damaged: ")
        assert done.out == ""


def test_evaluate_reads_files_only(call: Call, model: Path) -> None:
    done = call("evaluate", model, "-", stdin=b"text,label\n")
    assert done.code == 2
    assert "evaluate reads files, not standard input" in done.err


def test_lists_of_labels_are_several_labels(call: Call, tmp_path: Path) -> None:
    rows = [{"text": f"text number {n}", "label": ["red", "blue"] if n % 2 else ["red"]} for n in range(40)]
    (tmp_path / "multi.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = call("train", tmp_path / "multi.jsonl", "--epochs", 1, "-o", tmp_path / "run")
    assert done.code == 0, done.err
    remark = f"task: multi_label ({tmp_path / 'multi.jsonl'} has lists of labels in the column label; change it with"
    assert remark in done.err
    assert done.out.startswith("validation: subset accuracy ")


def test_a_signal_saves_and_resume_ends_the_run(call: Call, reviews: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    arguments = ["train", str(reviews / "train.csv"), "--text", "review", "--label", "stars", "-o", str(folder)]
    command = [sys.executable, "-m", "mixling", *arguments, "--epochs", "30"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if re.match(r" *\d+/\d+ ", line):  # a row of the table
                break
        process.terminate()
        rest = process.stderr.read()
        assert process.wait(30) == 143
    assert "interrupted at step" in rest
    assert "--resume" in rest
    assert "Traceback" not in rest
    done = call(*arguments)
    assert done.code == 2
    assert "unfinished run" in done.err
    assert "--resume" in done.err
    # A resumed run keeps its plan; fewer epochs are another run.
    done = call(*arguments, "--epochs", "3", "--resume")
    assert done.code == 2
    expected = f"--resume takes all options from {folder}; leave out FILES, --text, --label, --epochs"
    assert done.err.splitlines()[-1] == f"error: {expected}"
    done = call("train", "--resume", "-o", folder)
    assert done.code == 0, done.err
    assert "resuming at step" in done.err
    assert json.loads((folder / "run.json").read_text())["finished"] is True


def test_files_that_are_of_no_run_are_not_replaced(call: Call, reviews: Path, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    done = call("train", reviews / "train.csv", "--text", "review", "--label", "stars", "-o", tmp_path)
    assert done.code == 2
    assert f"{tmp_path}: is not a run but holds README.md, which a run would replace" in done.err
    assert (tmp_path / "README.md").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 1
