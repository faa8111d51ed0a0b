"""`mixling predict -o FOLDER/`, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mixling import Predictor

from .conftest import Call

MODEL = Path(__file__).parents[1] / "golden" / "model-v1.onnx"
TEXTS = ["what a great film", "what a dull film", "naïve"]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        lines = (json.dumps({"text": f"{text} {name}"}) + "\n" for text in TEXTS)
        (tmp_path / "in" / f"{name}.jsonl").write_text("".join(lines))
    return tmp_path / "in"


@pytest.mark.slow
def test_two_workers_write_what_one_process_writes(call: Call, rows: Path, tmp_path: Path) -> None:
    for workers in (1, 2):
        out = f"{tmp_path / str(workers)}/"
        done = call("predict", MODEL, rows / "*.jsonl", "-o", out, "--workers", workers)
        assert (done.code, done.out) == (0, ""), done.err
        assert done.err == f"{out}: 6 rows in 2 files\n"
    written = {path.name: path.read_bytes() for path in (tmp_path / "2").iterdir()}
    assert written == {path.name: path.read_bytes() for path in (tmp_path / "1").iterdir()}
    predicted = [json.loads(line)["prediction"] for line in written["b-000000000000.jsonl"].splitlines()]
    assert predicted == [Predictor(MODEL).predict_one(f"{text} b").to_json() for text in TEXTS]
    done = call("predict", MODEL, rows / "*.jsonl", "-o", out, "--workers", 2, "--resume")
    assert done.err == f"{out}: 6 rows in 2 files, 2 of them from before\n"


MISTAKES = [
    (["nothing/*.csv", "-o", "out/", "--workers", "1"], "nothing/*.csv: no file has a name like this"),
    (["in/*.jsonl"], "in/*.jsonl: URLs and wildcards need a folder to write to: -o FOLDER/"),
    (["in/a.jsonl", "-o", "a.jsonl", "--workers", "2"], "--workers: is for folders; write into one with -o a.jsonl/"),
    (["in/a.jsonl", "-o", "out/", "--threads", "2"], "--threads: is not for folders; use --workers"),
    (["in/a.jsonl", "-o", "out/", "--echo"], "--echo: is not for folders; all columns of the input are in the output"),
    (["-o", "out/"], "no input; give files"),
]


@pytest.mark.parametrize(("options", "words"), MISTAKES)
def test_mistakes_are_named_before_anything_is_written(
    call: Call, rows: Path, options: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(rows.parent)
    done = call("predict", MODEL, *options)
    assert done.code == 2
    assert words in done.err
    assert not (rows.parent / "out").exists()


def test_a_bad_row_is_named_and_can_be_skipped(call: Call, rows: Path, tmp_path: Path) -> None:
    (rows / "b.jsonl").write_text('{"text": "a"}\n{"text": null}\n')
    out = f"{tmp_path / 'out'}/"
    done = call("predict", MODEL, rows / "*.jsonl", "-o", out, "--workers", 1)
    assert done.code == 2
    assert "b.jsonl:2: column 'text' is null" in done.err
    done = call("predict", MODEL, rows / "*.jsonl", "-o", out, "--workers", 1, "--resume", "--on-bad-row", "skip")
    assert done.code == 0
    assert "1 bad row has an error instead of a prediction\n" in done.err
