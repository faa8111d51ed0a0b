"""What is written with predictions: columns of the input, the most probable labels, a column for each label."""

from __future__ import annotations

import csv
import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Call, Done

from mixling import ConfigError, Predictor

IDS = ["7", "a,b", '"q"', "ü"]
TEXTS = ["a great film", "a dull plot", "nice music", "a weak cast"]


def write_rows(path: Path) -> Path:
    """Write four rows with an id, a text and a number, in the format of the name."""
    table = {"id": IDS, "review": TEXTS, "n": [1, 2, 3, 4]}
    if path.suffix == ".parquet":
        pq.write_table(pa.table(table), path)
    elif path.suffix == ".jsonl":
        found = (dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True))
        path.write_text("".join(json.dumps(row) + "\n" for row in found))
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writerow(table)
            writer.writerows(zip(*table.values(), strict=True))
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read what is written with the libraries of others."""
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()  # type: ignore[no-any-return]
    with path.open(encoding="utf-8", newline="") as file:
        return [json.loads(line) for line in file] if path.suffix == ".jsonl" else list(csv.DictReader(file))


@pytest.fixture(params=["csv", "tsv", "jsonl", "parquet"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_rows(tmp_path / f"rows.{request.param}")


def rows(done: Done) -> list[dict[str, Any]]:
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def test_a_submission_takes_one_command(call: Call, model: Path, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "submission.csv"
    done = call("predict", model, source, "--columns", "id", "--probabilities", "-o", out)
    assert done.code == 0, done.err
    found = read_rows(out)
    assert list(found[0]) == ["id", "bad", "good"]
    assert [row["id"] for row in found] == IDS
    values = [[float(row["bad"]), float(row["good"])] for row in found]
    np.testing.assert_allclose(values, Predictor(model).predict_proba(TEXTS), atol=1e-6)

    assert call("predict", model, source, "--columns", "id", "--no-probabilities", "-o", out).code == 0
    with out.open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [
            ["id", "label"],
            *([name, Predictor(model).predict(text).label] for name, text in zip(IDS, TEXTS, strict=True)),
        ]


def test_columns_are_kept_in_the_order_asked_for(call: Call, model: Path, source: Path) -> None:
    for found in (rows(call("predict", model, source, "--columns", "n, id")),
                  rows(call("predict", model, source, "--columns", "n", "--columns", "id"))):  # fmt: skip
        assert [row["id"] for row in found] == IDS
        assert [str(row["n"]) for row in found] == ["1", "2", "3", "4"]
        assert list(found[0])[:2] == ["n", "id"]


def test_a_bad_row_keeps_its_id(call: Call, model: Path, tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text('{"id": 1, "review": "fine"}\n{\n{"id": 3, "review": 5}\n{"id": 4, "review": "dull"}\n')
    done = call("predict", model, source, "--columns", "id", "--on-bad-row", "skip", "--format", "csv")
    found = list(csv.DictReader(done.out.splitlines()))
    assert [row["id"] for row in found] == ["1", "", "3", "4"]
    assert [bool(row["label"]) for row in found] == [True, False, False, True]
    assert found[2]["error"].startswith(f"{source}:3: ")
    assert "2 bad rows have an error instead of a prediction" in done.err
    source.write_text('{"id": 1, "review": "fine"}\n{"id": 3, "review": 5}\n')
    done = call("predict", model, source, "--columns", "id", "--on-bad-row", "skip")
    assert done.err.splitlines()[-1] == "1 bad row has an error instead of a prediction"


def test_values_of_any_type_are_kept(call: Call, model: Path, tmp_path: Path) -> None:
    source = tmp_path / "rows.parquet"
    when = datetime.datetime(2024, 5, 6, 7, 8, 9)
    table = {"review": ["a", "b"], "when": [when, None], "list": [[1, 2], None], "share": [float("nan"), 0.5],
             "sure": [True, None], 'a,"b': [1, 2]}  # fmt: skip
    pq.write_table(pa.table(table), source)
    first, second = rows(call("predict", model, source, "--columns", 'when,list,share,sure,"a,""b"'))
    assert (first["when"], first["list"], first["share"], first["sure"]) == (str(when), [1, 2], None, True)
    assert (second["when"], second["share"], second['a,"b']) == (None, 0.5, 2)
    done = call("predict", model, source, "--columns", "when,list,sure", "--format", "csv")
    assert [row[:3] for row in csv.reader(done.out.splitlines())][1:] == [[str(when), "[1, 2]", "true"], ["", "", ""]]


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        (["--columns", "idd"], "no column 'idd'; did you mean 'id'? "),
        (["--columns", "id,,n"], "--columns: got 'id,,n'; give names with commas between them"),
        (["--top-k", "2", "--probabilities"], "--top-k: got --probabilities as well; leave one of them out"),
        (["--top-k", "2", "--no-probabilities"], "--top-k: got --no-probabilities as well"),
        (["--top-k", "0"], "'--top-k'"),
    ],
)
def test_what_cannot_be_is_refused(
    call: Call, model: Path, source: Path, tmp_path: Path, options: list[str], reported: str
) -> None:
    for more in ([], ["-o", f"{tmp_path}/out/"]):
        done = call("predict", model, source, *options, *more)
        assert done.code == 2
        assert reported in done.err
        assert not done.out


def test_rows_of_standard_input_keep_columns(call: Call, model: Path) -> None:
    done = call("predict", model, "-", "--text", "review", "--columns", "id", stdin=b"id,review\n7,fine\n")
    assert [row["id"] for row in rows(done)] == ["7"]


def test_a_name_that_predictions_have_is_refused(call: Call, model: Path, tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text('{"review": "fine", "label": "x", "good": 1, "error": 2}\n')
    for options in (
        ["--columns", "label"],
        ["--columns", "label", "--format", "csv"],
        ["--columns", "good", "--probabilities", "--format", "csv"],
        ["--columns", "error", "--on-bad-row", "skip"],
    ):
        done = call("predict", model, source, *options)
        assert (done.code, done.out) == (2, "")
        assert f"--columns: predictions have a {options[1]!r} of their own; rename the column" in done.err
    done = call("predict", model, source, "--columns", "label", "-o", f"{tmp_path}/out/")
    assert done.code == 0, done.err
    (written,) = (tmp_path / "out").glob("*.jsonl")
    assert json.loads(written.read_text())["label"] == "x"


@pytest.mark.parametrize("lines", ["a text", "lines.txt"])
def test_texts_without_columns_keep_none(
    call: Call, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lines.txt").write_text("a line\n")
    done = call("predict", model, lines, "--columns", "id")
    assert (done.code, done.out) == (2, "")
    assert "'id'" in done.err


def test_the_most_probable_labels(call: Call, model: Path, source: Path) -> None:
    every = rows(call("predict", model, source))
    found = rows(call("predict", model, source, "--top-k", 1))
    for row, all_of_it in zip(found, every, strict=True):
        label = max(all_of_it["probabilities"], key=all_of_it["probabilities"].get)
        assert row == {**all_of_it, "probabilities": {label: all_of_it["probabilities"][label]}}
    done = call("predict", model, source, "--top-k", 9, "--format", "csv")
    header, first, *_ = csv.reader(done.out.splitlines())
    assert header == ["label", "label_1", "probability_1", "label_2", "probability_2"]
    assert sorted([first[1], first[3]]) == ["bad", "good"]
    assert float(first[2]) >= float(first[4])
    done = call("predict", model, source, "--top-k", 1, "--format", "text")
    assert [len(line.split()) for line in done.out.splitlines()] == [1, 2] * 4


def test_predictors_return_the_most_probable_labels(model: Path) -> None:
    predictor = Predictor(model)
    whole = predictor.predict(TEXTS)
    assert isinstance(whole, list)
    expected = [sorted(item.probabilities.items(), key=lambda item: -item[1])[:1] for item in whole]  # type: ignore[union-attr]
    for found in (
        predictor.predict(TEXTS, top_k=1),
        [predictor.predict(text, top_k=1) for text in TEXTS],
        [predictor.predict_one(text, top_k=1) for text in TEXTS],
        list(predictor.predict_stream(iter(TEXTS), top_k=1)),
    ):
        assert [list(item.probabilities.items()) for item in found] == expected  # type: ignore[union-attr]
        assert [item.label for item in found] == [item.label for item in whole]  # type: ignore[union-attr]
    for wrong in (0, -1, True, 1.0, "1"):
        with pytest.raises(ConfigError, match=r"top_k: got .+ a number of labels, from 1"):
            predictor.predict("a text", top_k=wrong)  # type: ignore[arg-type]


def test_a_tagger_has_offsets_and_no_labels_of_texts(call: Call, tagger: Path, tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("id,text\n1,fly to Oslo on monday\n")
    done = call("predict", tagger, source, "--columns", "id", "--format", "csv")
    (row,) = csv.DictReader(done.out.splitlines())
    spans = json.loads(row["spans"])
    assert spans == rows(call("predict", tagger, source))[0]["spans"]
    assert ["fly to Oslo on monday"[span["start"] : span["end"]] for span in spans] == ["Oslo", "monday"]
    for option in (["--top-k", "1"], ["--probabilities"]):
        done = call("predict", tagger, source, *option)
        assert done.code == 2
        assert f"{option[0]}: the model predicts a tag a word, without probabilities of labels" in done.err


@pytest.mark.parametrize("name", ["csv", "jsonl", "parquet"])
def test_folders_have_the_same_options(call: Call, model: Path, tmp_path: Path, name: str) -> None:
    source = write_rows(tmp_path / f"rows.{name}")

    def predict(*options: object) -> list[dict[str, Any]]:
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        done = call("predict", model, source, "--workers", 1, "-o", f"{out}/", *options)
        assert done.code == 0, done.err
        (written,) = out.glob(f"*.{name}")
        return read_rows(written)

    kept = predict("--columns", "id")
    assert [row["id"] for row in kept] == IDS
    assert not {"review", "n"}.intersection(kept[0])
    top, none = predict("--columns", "id", "--top-k", 1)[0], predict("--no-probabilities")[0]
    best = Predictor(model).predict(TEXTS[0], top_k=1)
    ((label, probability),) = best.probabilities.items()  # type: ignore[union-attr]
    if name == "csv":
        assert top["prediction_label_1"] == label
        assert float(top["prediction_probability_1"]) == pytest.approx(probability, abs=1e-6)
        assert "prediction_probability" not in none
    else:
        found = top["prediction"]["probabilities"] if name == "jsonl" else top["prediction_probabilities"]
        assert {key for key, value in found.items() if value is not None} == {label}
        assert found[label] == pytest.approx(probability, abs=1e-6)
        assert "probabilities" not in str(none)
    if name != "jsonl":
        by_label = predict("--columns", "id", "--probabilities")
        values = [[float(row["prediction_bad"]), float(row["prediction_good"])] for row in by_label]
        np.testing.assert_allclose(values, Predictor(model).predict_proba(TEXTS), atol=1e-6)
