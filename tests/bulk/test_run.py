"""Jobs: what ends up in the folder, after an interruption and with whatever number of workers."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path, PurePath
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mixling import Predictor
from mixling.bulk import engines, predict_files, run, work
from mixling.bulk import plan as cutting
from mixling.bulk.files import TransferError, find_files
from mixling.bulk.folder import Folder
from mixling.bulk.plan import stem_of
from mixling.bulk.run import Summary
from mixling.bulk.work import Outcome
from mixling.data import ColumnsConfig
from mixling.errors import ConfigError, DataError, MissingPackage, ModelFileError
from mixling.workers import Worker

GOLDEN = Path(__file__).parents[1] / "golden"
MODEL = GOLDEN / "model-v1.onnx"
TEXTS = [f"what a {word} film, {number}" for number in range(40) for word in ("great", "dull", "naïve", "")]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "MIN_PART_BYTES", 1 << 9)
    monkeypatch.setattr(cutting, "MAX_ROWS", 33)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A folder with the same rows in three formats."""
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"text": TEXTS, "label": list(range(len(TEXTS)))}), folder / "a.parquet")
    with (folder / "a.jsonl").open("w") as lines, (folder / "a.csv").open("w", newline="") as table:
        writer = csv.writer(table)
        writer.writerow(["text", "label"])
        for number, text in enumerate(TEXTS):
            lines.write(json.dumps({"text": text, "label": number, "float": "1.10"}).replace('"1.10"', "1.10") + "\r\n")
            writer.writerow([text, number])
    return folder


def predict(source: object, out: object, **options: Any) -> Summary:
    options = {"columns": ColumnsConfig(), "workers": 1, **options}
    return predict_files(options.pop("model", MODEL), [str(source)], str(out), **options)


def cells_of(folder: Path) -> list[dict[str, str]]:
    """The rows of all CSV files of a folder."""
    out: list[dict[str, str]] = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as table:
            out += csv.DictReader(table)
    return out


def lines_of(folder: Path) -> list[str]:
    """The lines of all JSONL files of a folder."""
    return "".join(path.read_text() for path in sorted(folder.glob("*.jsonl"))).splitlines()


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_tables_and_lines_have_the_predictions_of_the_predictor(rows: Path, tmp_path: Path) -> None:
    wanted = Predictor(MODEL).predict(TEXTS)
    assert isinstance(wanted, list)
    labels = [prediction.label for prediction in wanted]
    probabilities = [round(max((item.probabilities or {}).values()), 6) for item in wanted]
    for name in ("a.parquet", "a.jsonl", "a.csv"):
        out = tmp_path / name
        done = predict(rows / name, out)
        assert (done.rows, done.bad_rows, done.kept) == (len(TEXTS), 0, 0)
        assert done.parts > 3
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column("text").to_pylist() == TEXTS
    assert table.column("label").to_pylist() == list(range(len(TEXTS)))
    assert table.column("prediction_label").to_pylist() == labels
    assert [round(value, 6) for value in table.column("prediction_probability").to_pylist()] == probabilities
    assert table.column("prediction_probabilities")[3].as_py() == pytest.approx(wanted[3].probabilities)
    lines = lines_of(tmp_path / "a.jsonl")
    assert all('"float": 1.10, "prediction"' in line for line in lines), "what is passed through keeps its bytes"
    found = [json.loads(line) for line in lines]
    assert [row["text"] for row in found] == TEXTS
    assert [row["prediction"] for row in found] == [item.to_json() for item in wanted]
    cells = cells_of(tmp_path / "a.csv")
    assert [(row["text"], row["label"]) for row in cells] == [(text, str(n)) for n, text in enumerate(TEXTS)]
    assert [row["prediction_label"] for row in cells] == labels
    assert [float(row["prediction_probability"]) for row in cells] == probabilities


def test_the_manifest_has_the_rows_and_checksums_of_all_outputs(rows: Path, tmp_path: Path) -> None:
    predict(rows / "a.jsonl", tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "_manifest.json").read_text())
    assert manifest["settings"]["model"] == hashlib.sha256(MODEL.read_bytes()).hexdigest()
    assert manifest["rows"] == len(TEXTS)
    names = {path.name for path in (tmp_path / "out").iterdir()} - {"_manifest.json"}
    assert {part["name"] for part in manifest["parts"]} == names
    for part in manifest["parts"]:
        data = (tmp_path / "out" / part["name"]).read_bytes()
        assert (part["size"], part["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
        assert part["rows"] == data.count(b"\n")


@pytest.mark.parametrize(("name", "kind"), [("a.parquet", "jsonl"), ("a.parquet", "csv"), ("a.csv", "parquet")])
def test_a_format_is_converted(name: str, kind: str, rows: Path, tmp_path: Path) -> None:
    predict(rows / name, tmp_path / "out", output_format=kind)
    if kind == "parquet":
        table = pq.read_table(tmp_path / "out")
        assert table.column("label").to_pylist() == [str(number) for number in range(len(TEXTS))]
        texts = table.column("text").to_pylist()
    elif kind == "jsonl":
        found = [json.loads(line) for line in lines_of(tmp_path / "out")]
        assert list(found[0]) == ["text", "label", "prediction"]
        texts = [row["text"] for row in found]
    else:
        texts = [row["text"] for row in cells_of(tmp_path / "out")]
    assert texts == TEXTS


def test_a_resumed_job_has_the_bytes_of_an_undisturbed_one(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict(rows / "a.parquet", tmp_path / "whole")
    out = tmp_path / "out"
    attempts = []

    def fail(job: Any, part: Any) -> Outcome:
        attempts.append(part.name)
        return work.perform(job, part) if len(attempts) < 4 else Outcome(error="no more")

    with monkeypatch.context() as patch:
        patch.setattr(engines, "perform", fail)
        with pytest.raises(DataError, match="no more; finished parts are kept: correct it and pass --resume"):
            predict(rows / "a.parquet", out)
    # What kills leave: a part without its record, a record without its part, half a file, half of the next file.
    (out / f"{attempts[0]}.parquet").unlink()
    (out / "_progress" / f"{attempts[1]}.parquet.json").unlink()
    (out / f"{attempts[2]}.parquet").write_bytes(b"half")
    (out / f".{attempts[3]}.parquet.12345678.part").write_bytes(b"half")
    with pytest.raises(ConfigError, match="has 2 finished parts of a prediction; continue it with --resume"):
        predict(rows / "a.parquet", out)
    done = predict(rows / "a.parquet", out, resume=True)
    assert (done.kept, done.rows) == (0, len(TEXTS))
    assert content(out) == content(tmp_path / "whole")
    with pytest.raises(ConfigError, match="has a complete prediction"):
        predict(rows / "a.parquet", out)
    assert predict(rows / "a.parquet", out, resume=True).kept == done.parts
    assert content(out) == content(tmp_path / "whole")


def test_paths_of_windows_have_names_without_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.csv", "deep/b.csv"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text("text\ngood\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "sep", "\\")  # fsspec then reads paths as on Windows
    assert [(file.path, file.name) for file in find_files("in\\a.csv")] == [("in/a.csv", "a.csv")]
    found = [(file.path, file.name) for file in find_files("in\\**\\*.csv")]
    assert found == [("in/a.csv", "a.csv"), ("in/deep/b.csv", "deep/b.csv")]
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")  # pathlib then joins the folders of pure paths by backslashes
        stem, path = stem_of("deep/b.csv.gz"), str(PurePath("deep/b"))
    assert (stem, path) == ("deep/b", "deep\\b")


def test_new_and_changed_inputs_are_predicted_on_resuming(rows: Path, tmp_path: Path) -> None:
    source, out = rows / "*.jsonl", tmp_path / "out"
    predict(source, out)
    (rows / "b.jsonl").write_text('{"text": "more"}\n')
    done = predict(source, out, resume=True)
    assert (done.rows, done.parts - done.kept) == (len(TEXTS) + 1, 1)
    (rows / "a.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    messages: list[str] = []
    done = predict(source, out, resume=True, report=messages.append)
    assert messages == ["a.jsonl has changed since its predictions were written; they are made again"]
    assert (done.rows, done.kept) == (3, 1)
    assert sorted(content(out)) == ["_manifest.json", "a-000000000000.jsonl", "b-000000000000.jsonl"]
    (rows / "a.jsonl").unlink()
    with pytest.raises(ConfigError, match=r"predictions for .*a.jsonl, which is not an input any more"):
        predict(source, out, resume=True)


def test_folders_of_other_jobs_are_refused_and_unchanged(rows: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    predict(rows / "a.csv", out)
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    before = content(out)
    for folder, options, error, message in (
        (out, {"model": GOLDEN / "plan-v1.onnx"}, ModelFileError, "has predictions of another model"),
        (out, {"threshold": 0.4}, ConfigError, "was begun with threshold None, now it is 0.4"),
        (out, {"output_format": "parquet"}, ConfigError, "was begun with format 'csv', now it is 'parquet'"),
        (other, {}, ConfigError, "has files that are not of a prediction, such as mine.txt"),
        (other / "mine.txt", {}, ConfigError, "is a file; give a folder"),
        (tmp_path / "new", {"output_format": "text"}, ConfigError, "--format: got 'text'"),
        (tmp_path / "new", {"engine": "spark"}, ConfigError, "--engine: got 'spark'"),
    ):
        with pytest.raises(error, match=message):
            predict(rows / "a.csv", folder, resume=True, **options)
    assert content(out) == before
    assert not (tmp_path / "new").exists()
    (rows / "t.csv").write_text("text,prediction_label\na,b\n")
    with pytest.raises(DataError, match="has a column 'prediction_label' already"):
        predict(rows / "t.csv", tmp_path / "new")
    with pytest.raises(ConfigError, match="only jsonl is allowed"):
        predict(rows / "a.jsonl", tmp_path / "new", output_format="csv")


@pytest.mark.parametrize("file", ["_manifest.json", "_progress/job.json"])
def test_a_journal_of_anyone_is_one_error_and_reaches_nothing_outside(file: str, rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    predict(rows / "a.csv", out)
    right = json.loads((out / "_manifest.json").read_text())
    part = right["parts"][0]
    path = out / file
    path.parent.mkdir(exist_ok=True)
    odd = [None, 5, "x", [], {}, [5], [{}], [{"name": 5}]]
    wrong = [*odd, *({**right, key: value} for key in ("settings", "inputs", "parts") for value in odd)]
    names = ["../a-1.csv", "/a-1.csv", "a/../../a-1.csv", "", "..\\a-1.csv"]
    wrong += [{**right, "parts": [{**part, "name": name}]} for name in names]
    wrong += [{**right, "settings": {**right["settings"], "model": value}} for value in (None, 5, {}, "x")]
    for value in wrong:
        path.write_text(json.dumps(value))
        (tmp_path / "a-1.csv").write_text("precious")
        if value in ({**right, "parts": []}, {**right, "inputs": {}}):  # sound, and of less
            continue
        with pytest.raises((DataError, ConfigError, ModelFileError), match=r"is damaged|another"):
            predict(rows / "a.csv", out, resume=True)
        assert (tmp_path / "a-1.csv").read_text() == "precious"
    path.write_text("[" + "[]," * 2_000_001 + "[]]")
    with pytest.raises(DataError, match="values"):
        predict(rows / "a.csv", out, resume=True)


def test_bad_rows_stop_the_job_or_have_an_error(rows: Path, tmp_path: Path) -> None:
    texts: list[str | None] = [*TEXTS]
    texts[70] = texts[90] = None
    for name in ("b.parquet", "b.csv", "b.jsonl"):
        path, out = rows / name, tmp_path / name
        if name == "b.parquet":
            pq.write_table(pa.table({"text": texts}), path)
        elif name == "b.csv":
            path.write_text(
                "id,text\n" + "".join(f'{n},"{text}"\n' if text else f"{n},a,b\n" for n, text in enumerate(texts))
            )
        else:
            path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        with pytest.raises(
            DataError, match=rf"{name}:7[12]: (column 'text' is null|3 fields).*finished parts are kept"
        ):
            predict(path, out)
        done = predict(path, out, resume=True, on_bad_row="skip")
        assert (done.rows, done.bad_rows) == (len(TEXTS), 2)
        assert done.kept > 0
    found = pq.read_table(tmp_path / "b.parquet").to_pylist()
    assert [number for number, row in enumerate(found) if row["prediction_label"] is None] == [70, 90]
    assert "b.parquet:91: " in found[90]["prediction_error"]
    lines = [json.loads(line) for line in lines_of(tmp_path / "b.jsonl")]
    assert ["prediction" in row for row in lines] == [text is not None for text in texts]
    assert "b.jsonl:71: " in lines[70]["prediction_error"]


def test_a_job_that_has_finished_nothing_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = tmp_path / "a.csv", tmp_path / "out"
    path.write_text("text\na,b\n")
    with pytest.raises(DataError, match=r"a.csv:2: 2 fields"):
        predict(path, out)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackage, match="--engine ray needs Ray"):
        predict(path, out, engine="ray", model=GOLDEN / "plan-v1.onnx")
    path.write_text("text\ngood\n")
    assert predict(path, out).rows == 1


def test_a_store_that_fails_is_tried_again(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = fsspec.filesystem("memory")
    for name in ("a.csv", "a.parquet"):
        store.put_file(str(rows / name), f"/bulk/in/{name}")
        predict(rows / name, tmp_path / name)
    failures = ["first", "second"]
    write = Folder.write

    def flaky(self: Folder, name: str, fill: Any) -> Any:
        if failures:
            raise TransferError(failures.pop())
        return write(self, name, fill)

    monkeypatch.setattr(Folder, "write", flaky)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    for name in ("a.csv", "a.parquet"):
        predict(f"memory://bulk/in/{name}", f"memory://bulk/{name}")
        found = {path.rpartition("/")[2]: store.cat_file(path) for path in store.find(f"/bulk/{name}")}
        wanted = content(tmp_path / name)
        found.pop("_manifest.json")
        wanted.pop("_manifest.json")
        assert found == wanted
    assert not failures
    failures += ["again"] * 100
    with pytest.raises(DataError, match="again; finished parts are kept"):
        predict("memory://bulk/in/a.csv", "memory://bulk/new/")
    assert len(failures) == 100 - 1 - run.RETRIES
    store.rm("/bulk", recursive=True)


@pytest.mark.slow
def test_workers_that_are_killed_are_replaced_and_the_first_error_is_raised(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict(rows / "a.jsonl", tmp_path / "one")
    killed: list[int] = []

    class Killed(Worker):
        """The first is killed at work."""

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            if not killed:
                killed.append(self.process.pid)
                threading.Timer(0.05, os.kill, (self.process.pid, signal.SIGKILL)).start()

    monkeypatch.setattr(engines, "Worker", Killed)
    monkeypatch.setattr(engines, "time", type("", (), {"sleep": staticmethod(lambda seconds: None)}))
    predict(rows / "a.jsonl", tmp_path / "two", workers=2)
    assert killed
    assert content(tmp_path / "two") == content(tmp_path / "one")
    lines = (rows / "a.jsonl").read_text().splitlines()
    lines[50] = lines[150] = "{}"
    (rows / "b.jsonl").write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"b.jsonl:51: no column 'text'"):
        predict(rows / "b.jsonl", tmp_path / "bad", workers=2)


def test_what_a_killed_worker_was_writing_is_removed(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    perform, out = engines.perform, tmp_path / "out"

    def leave(*args: Any) -> Outcome:
        (out / ".a.jsonl.12345678.part").write_bytes(b"half")
        return perform(*args)

    monkeypatch.setattr(engines, "perform", leave)
    predict(rows / "a.jsonl", out, workers=1)
    assert not list(out.glob(".*"))
