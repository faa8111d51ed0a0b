"""`mixling compare` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Call


@pytest.fixture(scope="module")
def compared(call: Call, reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The folder of the reports, standard output and standard error."""
    folder = tmp_path_factory.mktemp("compared")
    options = ["--text", "review", "--label", "stars", "--set", "train.epochs=1", "--keep", folder / "runs"]
    options += ["--noise", "delete", "--systems", "transformer-matched,tf-idf,fasttext,majority"]
    options += ["--model", "pnlp-mixer-x-small"]
    reports = ["-o", folder / "report.json", "--markdown", folder / "report.md"]
    done = call("compare", reviews / "train.csv", "--test", reviews / "test.csv", *options, *reports)
    assert done.code == 0, done.err
    return folder, done.out, done.err


@pytest.fixture(scope="module")
def report(compared: tuple[Path, str, str]) -> dict[str, Any]:
    return json.loads((compared[0] / "report.json").read_text())  # type: ignore[no-any-return]


def test_one_table_has_everyone(compared: tuple[Path, str, str], report: dict[str, Any]) -> None:
    lines = compared[1].splitlines()
    assert lines[0].split()[:4] == ["accuracy", "vs", "mixling", "MB"]
    names = ["mixling", "pnlp-mixer-x-small", "transformer-matched", "tf-idf + lr"]
    assert [row["name"] for row in report["results"]][:4] == names
    assert [line[: len(name)] for line, name in zip(lines[1:], names, strict=False)] == names
    assert "fasttext" in compared[1]  # its numbers, or how to get them
    assert "Traceback" not in compared[2]
    assert compared[2].splitlines() == ["mixling compare: loading PyTorch"]
    assert max(map(len, lines)) <= 100


def test_numbers_are_those_of_the_kept_models(
    call: Call, compared: tuple[Path, str, str], report: dict[str, Any], reviews: Path, tmp_path: Path
) -> None:
    folder = compared[0] / "runs" / "mixling" / "seed-0"
    done = call("evaluate", folder, reviews / "test.csv", "-o", tmp_path / "measured.json")
    assert done.code == 0, done.err
    evaluated = json.loads((tmp_path / "measured.json").read_text())
    ours = report["results"][0]
    assert ours["test"]["by_seed"][0]["accuracy"] == pytest.approx(evaluated["accuracy"])
    assert ours["test"]["by_seed"][0]["macro_f1"] == pytest.approx(evaluated["macro_f1"])
    assert ours["file_bytes"] == (folder / "model.onnx").stat().st_size
    saved = json.loads((folder / "metrics.json").read_text())
    assert ours["validation"]["mean"] == pytest.approx(saved["validation"]["accuracy"])
    assert ours["parameters"] == saved["parameters"]


def test_the_report_states_how_it_was_made(report: dict[str, Any]) -> None:
    assert report["provenance"].keys() >= {"command", "commit", "seed", "date", "hardware", "versions"}
    assert report["rows"] == {"training": 216, "validation": 24, "test": 40}
    matched = report["results"][2]
    assert [tried["options"]["lr"] for tried in matched["tried"]] == pytest.approx([0.002, 0.0006])
    assert abs(matched["parameters"] - report["results"][0]["parameters"]) < 200
    assert len(report["results"][3]["tried"]) == 8
    assert (report["metric"], report["reference"]) == ("accuracy", "mixling")
    ends = compared_sentence(report)
    assert ends in report["conclusion"]["sentence"]
    assert "test was read once, after all choices" in report["remarks"][0]


def compared_sentence(report: dict[str, Any]) -> str:
    """The words on the best of the others, by the figures of the report."""
    others = [row for row in report["results"] if row["name"] != "mixling"]
    best = max(others, key=lambda row: row["test"]["mean"])
    low, high = (best["test"]["difference_interval"][end] for end in ("low", "high"))
    name = f"{best['name']}, the best of the others,"
    return f"worse than {name}" if low > 0 else f"better than {name}" if high < 0 else f"{name} there is no difference"


def test_the_markdown_has_the_same_table(compared: tuple[Path, str, str], report: dict[str, Any]) -> None:
    text = (compared[0] / "report.md").read_text()
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(report["results"]) + len(report["failed"]) + 5
    assert len({line.count("|") for line in table[:-5]}) == len({line.count("|") for line in table[-5:]}) == 1
    clean, *_, noisy = ([cell.strip() for cell in line.split("|")][2:-1] for line in table[-3:])
    assert clean[1:] == [f"{row['test']['mean']:.4f}" for row in report["results"]]
    assert noisy[0] == "30%"
    for cell, row in zip(noisy[1:], report["results"], strict=True):
        _, level = row["noise"]
        assert (level["noise"], level["rate"]) == ("delete", 0.3)
        assert cell == f"{level['value']:.4f} ({100 * (level['value'] - row['test']['mean']):+.1f})"
    cells = [cell.strip() for cell in table[2].split("|")]
    assert cells[1] == "mixling"
    assert cells[2].startswith(f"{report['results'][0]['test']['mean']:.3f} [")


MISTAKES = [
    (["compare"], ["Missing argument"]),
    (["compare", "no-such.csv"], ["error: no-such.csv: no such file"]),
    (["compare", "x.csv", "--test", "no-such.csv"], ["error: no-such.csv: no such file"]),
    (["compare", "x.csv", "--seeds", "0,one"], ["--seeds: got '0,one'", "such as 0,1,2"]),
    (["compare", "x.csv", "--seeds", "1,1"], ["--seeds: got '1,1'"]),
    (["compare", "x.csv", "--seeds", "4294967296"], ["--seeds: got"]),
    (["compare", "x.csv", "--few", "1,5"], ["--few: got '1,5'", "such as 5,10,50"]),
    (["compare", "x.csv", "--few", "5,5"], ["--few: got '5,5'"]),
    (["compare", "x.csv", "--encoder", "no-encoder"], ["--encoder: there is no folder no-encoder", "hf:NAME"]),
    (["compare", "x.csv", "--systems", "tf-idf,majorty"], ["there is no 'majorty'; did you mean 'majority'"]),
    (
        ["compare", "x.csv", "--systems", "words"],
        ["for classification there is no 'words'", "allowed: tf-idf, fasttext"],
    ),
    (["compare", "x.csv", "--time-budget", "soon"], ["--time-budget", "90s"]),
    (["compare", "x.csv", "--model", "pnlp-mixer-smal"], ["did you mean 'pnlp-mixer-small'"]),
    (["compare", "x.csv", "--model", "gmlp-18", "--set", 'init.texts=["z.txt"]'], ["--model gmlp-18", "needs hashed"]),
    (["compare", "x.csv", "--set", "init.vectors=no-vectors"], ["error: no-vectors"]),
    (["compare", "x.csv", "--set", 'init.texts=["y.csv"]'], ["y.csv: no column 'text'"]),
    (["compare", "x.csv", "--label", "lable"], ["no column 'lable'", "--label"]),
    (["compare", "x.csv", "--test", "y.csv"], ["y.csv: no column 'text'"]),
    (["compare", "x.csv", "--keep", "full"], ["--keep full: is not empty"]),
    (["compare", "x.csv", "--keep", "x.csv"], ["--keep x.csv: is a file"]),
    (["compare", "x.csv", "-o", "full"], ["full: is a folder"]),
    (["compare", "x.csv", "--set", "data.validation_fraction=2"], ["validation_fraction"]),
]


@pytest.mark.parametrize(("args", "words"), MISTAKES, ids=lambda value: " ".join(value[2:]))
def test_mistakes_end_with_exit_code_2_before_training(
    args: list[str], words: list[str], call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    rows = [f"a word {i},{'ab'[i % 2]}" for i in range(40)]
    (tmp_path / "x.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    (tmp_path / "y.csv").write_text("words,class\na,b\n")
    (tmp_path / "z.txt").write_text("some text\n")
    done = call(*args)
    assert done.code == 2
    for word in words:
        assert word in done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    assert "==" not in done.err  # the first of them has begun


def test_an_interruption_states_what_is_kept(call: Call, reviews: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mixling.errors import Interrupted

    def stopped(*args: object, **kwargs: object) -> None:
        raise Interrupted("interrupted at step 3; go on with: mixling train --resume -o GONE", signum=15)

    monkeypatch.setattr("mixling.comparison.benchmark.fit", stopped)
    done = call("compare", reviews / "train.csv", "--text", "review", "--label", "stars")
    assert done.code == 128 + 15
    assert done.err.splitlines()[-1] == "interrupted; nothing was kept"
