"""What commands print about a model is of rows that it was not fitted on, and `evaluate` finds the same."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixling import ConfigError, TextClassifier, fit
from mixling.artifacts import read_run

from .conftest import Call
from .test_questions import squad

Row = dict[str, Any]
WORDS = [f"{first}{second}" for first in ("ba", "ko", "mi", "tu", "ze") for second in ("lan", "pert", "sim", "gor")]
# A small network and an n-gram branch that is there whatever it gains.
WHOLE = ["--test-fraction", "0"]  # nothing is held out to test on
SMALL = ["--set", "model.dim=16", "--set", "ngrams.use=always", "--epochs", "3"]


def words(chance: random.Random, count: int = 6) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(count))


def labeled(chance: random.Random) -> Row:
    return {"text": words(chance), "label": chance.choice("ab")}


def paired(chance: random.Random) -> Row:
    return {"text": words(chance), "text_pair": words(chance), "label": chance.choice("ab")}


def several(chance: random.Random) -> Row:
    return {"text": words(chance), "labels": [name for name in "abc" if chance.random() < 0.5]}


def numbered(chance: random.Random) -> Row:
    return {"text": words(chance), "label": chance.random()}


def tagged(chance: random.Random) -> Row:
    tokens = words(chance).split()
    return {"tokens": tokens, "slots": [chance.choice(["O", "O", "B-x"]) for _ in tokens]}


TASKS: dict[str, tuple[Callable[[random.Random], Row], list[str]]] = {
    "classification": (labeled, []),
    "pairs": (paired, ["--text-pair", "text_pair"]),
    "multi_label": (several, ["--label", "labels", "--task", "multi_label"]),
    "regression": (numbered, ["--task", "regression"]),
    "tagging": (tagged, ["--task", "tagging"]),
}


def write(path: Path, rows: Sequence[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def files(folder: Path, make: Callable[[random.Random], Row], *, train: int = 60, other: int = 30) -> tuple[Path, Path]:
    """Write random rows, which a model can learn by heart only."""
    chance = random.Random(0)
    return tuple(  # type: ignore[return-value]
        write(folder / f"{name}.jsonl", [make(chance) for _ in range(count)])
        for name, count in (("train", train), ("validation", other))
    )


def metrics_of(call: Call, model: Path, rows: Path) -> str:
    """Return the line that `evaluate` prints first."""
    done = call("evaluate", model, rows)
    assert done.code == 0, done.err
    return done.out.splitlines()[0]


def printed(call: Call, *arguments: object) -> str:
    """Return the line with the metrics that a command prints."""
    done = call(*arguments)
    assert done.code == 0, done.err
    (line,) = [line for line in done.out.splitlines() if line.startswith("validation: ")]
    return line.removeprefix("validation: ")


@pytest.mark.parametrize("cross_fit", ["false", "true"])
@pytest.mark.parametrize("task", TASKS)
def test_the_named_validation_rows_are_not_fitted(task: str, cross_fit: str, call: Call, tmp_path: Path) -> None:
    make, columns = TASKS[task]
    train, validation = files(tmp_path, make)
    options = [*columns, *SMALL, "--set", f"ngrams.cross_fit={cross_fit}", "-o", tmp_path / "model"]
    line = printed(call, "train", train, "--validation", validation, *options)
    assert metrics_of(call, tmp_path / "model", validation) == line
    report = json.loads((tmp_path / "model" / "metrics.json").read_text())
    assert report["data"]["fitted_on_validation"] is False
    if task != "tagging":
        assert report["ngrams"] is not None
    # Other labels of the validation rows choose other numbers, but no row of theirs is in the terms of the branch.
    seen = metrics_of(call, tmp_path / "model", train)
    assert seen == "60 of these 60 rows were trained on: the metrics are too good for new text"


def test_the_answers_of_named_questions(call: Call, tmp_path: Path) -> None:
    content = squad(unanswerable=True)
    pages = content["data"][0]["paragraphs"]
    for name, part in (("train", pages[:5]), ("validation", pages[5:])):
        (tmp_path / f"{name}.json").write_text(json.dumps({**content, "data": [{"title": "", "paragraphs": part}]}))
    train, validation = tmp_path / "train.json", tmp_path / "validation.json"
    line = printed(call, "train", train, "--validation", validation, "--epochs", 2, "-o", tmp_path / "model")
    assert metrics_of(call, tmp_path / "model", validation) == line
    assert "of these 7 rows were trained on" in metrics_of(call, tmp_path / "model", train)


@pytest.mark.parametrize("wanted", [["--label-thresholds", "f1"], ["--label-thresholds", "0.6"]])
def test_thresholds_of_labels_are_those_of_the_file(wanted: list[str], call: Call, tmp_path: Path) -> None:
    train, validation = files(tmp_path, several, other=60)
    options = [*TASKS["multi_label"][1], *SMALL, *wanted, "-o", tmp_path / "model"]
    line = printed(call, "train", train, "--validation", validation, *options)
    assert metrics_of(call, tmp_path / "model", validation) == line


def test_rows_that_train_sets_aside_are_fitted_after_they_were_measured(call: Call, tmp_path: Path) -> None:
    train, _ = files(tmp_path, labeled, train=200)
    done = call("train", train, *SMALL, *WHOLE, "--set", "ngrams.strength=100", "-o", tmp_path / "model")
    assert done.code == 0, done.err
    assert done.err.count("then the exported model was fitted on the validation examples, too") == 1
    report = json.loads((tmp_path / "model" / "metrics.json").read_text())
    assert report["data"]["fitted_on_validation"] is True
    assert report["validation"]["accuracy"] < 0.8
    card = (tmp_path / "model" / "README.md").read_text()
    assert "validation examples, of a model that was not fitted on them" in card
    assert metrics_of(call, tmp_path / "model", train).startswith("200 of these 200 rows were trained on")


def test_only_refit_trains_on_named_rows(call: Call, tmp_path: Path) -> None:
    train, validation = files(tmp_path, labeled)
    options = ["--validation", validation, *SMALL, "-o", tmp_path / "model"]
    refused = call("train", train, *options, "--set", "ngrams.refit=true")
    assert refused.code == 2
    assert "--refit" in refused.err
    done = call("train", train, *options, "--refit")
    assert done.code == 0, done.err
    assert "then the exported model was fitted on the validation examples, too" in done.err
    assert metrics_of(call, tmp_path / "model", validation).startswith("30 of these 30 rows were trained on")


def test_a_student_and_its_teacher(call: Call, tmp_path: Path) -> None:
    train, validation = files(tmp_path, labeled)
    teacher = call("train", validation, *SMALL, "-o", tmp_path / "teacher")
    assert teacher.code == 0, teacher.err
    options = ["--validation", validation, "--teacher", tmp_path / "teacher", *SMALL, "-o", tmp_path / "model"]
    done = call("distill", train, *options)
    assert done.code == 0, done.err
    line = done.out.splitlines()[0].removeprefix("validation: ")
    assert metrics_of(call, tmp_path / "model", validation) == line
    assert "teacher: 30 of these 30 validation examples were trained on" in done.err


def test_a_student_is_tested_on_rows_that_neither_it_nor_its_teacher_met(call: Call, tmp_path: Path) -> None:
    train, _ = files(tmp_path, labeled)
    teacher = ["--teacher", "self", "--set", "distill.members=1", "--set", "distill.fragments=0", "--unlabeled", train]
    options = [*teacher, *SMALL, "-o", tmp_path / "model"]
    done = call("distill", train, *options)
    assert done.code == 0, done.err
    assert "accuracy on 12 test rows, which nothing was trained or chosen on" in done.out
    assert json.loads((tmp_path / "model" / "teacher" / "teacher.json").read_text())["unlabeled"] == 0
    again = call("evaluate", tmp_path / "model", tmp_path / "model" / "test.jsonl")
    assert again.out.splitlines()[0] == done.out.splitlines()[0].removeprefix("test: ")
    named = call("distill", train, "--test", train, *options, "--overwrite")  # files to test on are somebody's own
    assert named.code == 0, named.err
    assert "test rows" not in named.out


def test_the_record_counts_rows_and_is_checked(call: Call, tmp_path: Path) -> None:
    train, validation = files(tmp_path, labeled)
    assert call("train", train, *SMALL, *WHOLE, "-o", tmp_path / "model").code == 0
    both = write(
        tmp_path / "both.jsonl", list(map(json.loads, (train.read_text() + validation.read_text()).splitlines()))
    )
    done = call("evaluate", tmp_path / "model", both, "-o", tmp_path / "out.json")
    assert done.out.startswith("60 of these 90 rows were trained on: ")
    assert json.loads((tmp_path / "out.json").read_text())["trained_on"] == 60
    alone = call("evaluate", tmp_path / "model" / "model.onnx", both)  # a file alone cannot know
    assert alone.code == 0
    assert "trained on" not in alone.out + alone.err
    record = tmp_path / "model" / "seen_rows.bin"
    content = bytearray(record.read_bytes())
    assert len(content) == 8 + 8 * 60 + 32
    content[20] ^= 1
    record.write_bytes(content)
    damaged = call("evaluate", tmp_path / "model", both)
    assert damaged.code == 2
    assert "seen_rows.bin: is damaged" in damaged.err
    record.unlink()
    assert "trained on" not in call("evaluate", tmp_path / "model", both).out


def test_a_continued_model_has_seen_the_rows_before(call: Call, tmp_path: Path) -> None:
    train, validation = files(tmp_path, labeled)
    assert call("train", train, *SMALL, *WHOLE, "-o", tmp_path / "first").code == 0
    options = ["--from", tmp_path / "first", "--set", "init.replay=0", "--epochs", 1, "-o", tmp_path / "second"]
    done = call("train", validation, "--validation", train, *options)
    assert done.code == 0, done.err
    assert f"60 of these 60 examples were trained on by {tmp_path / 'first'}, where this model began" in done.err
    shutil.rmtree(tmp_path / "first")
    assert metrics_of(call, tmp_path / "second", train).startswith("60 of these 60 rows were trained on")


def test_rows_in_memory(tmp_path: Path) -> None:
    """Those of `validation=` stay unseen; those that are split off are fitted after they were measured."""
    chance = random.Random(1)
    rows = [labeled(chance) for _ in range(160)]
    texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]
    given: dict[str, Any] = {"model": {"dim": 16}, "ngrams": {"use": "always", "strength": 100.0}}
    named = TextClassifier(epochs=2, config=given)
    named.fit(texts[:120], labels[:120], validation=(texts[120:], labels[120:]))
    measured = float(np.mean(named.predict(texts[120:]) == np.array(labels[120:])))
    assert measured == named.metrics_.numbers()["accuracy"]
    split = TextClassifier(epochs=2, config=given).fit(texts, labels)
    assert [len(one.files_["seen_rows.bin"]) for one in (named, split)] == [40 + 8 * 120, 40 + 8 * 160]
    with pytest.raises(ConfigError, match=r"no folder; name where the run is written"):
        fit(None, None, None)  # type: ignore[arg-type, call-arg]


def test_a_search_reports_what_its_best_model_has(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna", reason="searches need optuna: pip install 'mixling[tune]'")
    from .test_tune import in_threads

    in_threads.__wrapped__(monkeypatch)  # type: ignore[attr-defined]
    train, validation = files(tmp_path, labeled)
    space = tmp_path / "space.toml"
    space.write_text("train.optim.lr = {low = 0.001, high = 0.02, log = true}\n")
    options = ["--set", "model.dim=16", "--set", "ngrams.use=always", "--trials", 2, "--space", space]
    done = call("tune", train, "--validation", validation, *options, "-o", tmp_path / "search")
    assert done.code == 0, done.err
    accuracy = done.out.split("validation accuracy ")[1].split()[0]
    assert metrics_of(call, tmp_path / "search" / "best", validation).startswith(f"accuracy {accuracy}, ")
    assert read_run(tmp_path / "search" / "best")["config"]["decisions"]["refit"] is False
    done = call("tune", train, *options[:-4], "--trials", 1, "--space", space, "-o", tmp_path / "tested")
    assert done.code == 0, done.err
    assert "accuracy on 12 test rows, which nothing was trained or chosen on" in done.out
    line = next(line for line in done.out.splitlines() if line.startswith("test: ")).removeprefix("test: ")
    best = tmp_path / "tested" / "best"
    assert metrics_of(call, best, best / "test.jsonl") == line


@pytest.mark.parametrize("test", [False, True])
def test_random_labels_are_no_better_than_guessing(test: bool, call: Call, tmp_path: Path) -> None:
    """All rows of a comparison; models that had learned them by heart would be right on all."""
    train, other = files(tmp_path, labeled, train=200, other=100)
    options = ["--test", other] if test else []
    options += ["--set", "train.epochs=1", "--few", "10", "--noise", "swap", "-o", tmp_path / "o.json"]
    done = call("compare", train, *options)
    assert done.code == 0, done.err
    report = json.loads((tmp_path / "o.json").read_text())
    held = 100 if test else 67
    assert report["rows"]["test" if test else "held-out"] == held
    for result in report["results"]:
        values = [result["test"]["mean"], result["few"]["10"], *(item["value"] for item in result["noise"])]
        assert all(abs(value - 0.5) < 3 * 0.5 / held**0.5 for value in values), result["name"]
        if result["name"] != report["reference"]:
            # One interval in twenty leaves out 0 by chance (benchmarks/random_labels.py counts them).
            assert abs(result["test"]["difference"]) < 3 * (2 * 0.25 / held) ** 0.5, result["name"]
    assert report["split"] == ("test" if test else "held-out")
    interval = report["conclusion"]["interval"]
    shows_none = "no difference that" in report["conclusion"]["sentence"]
    assert shows_none is (interval["low"] <= 0 <= interval["high"])
    assert " ".join(done.out.split()).endswith(report["conclusion"]["sentence"])
