"""`mixling pretrain` and `train --from` as a user meets them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Call = Callable[..., Any]
SMALL = ("--set", "model.dim=16", "--set", "model.num_layers=2", "--set", "model.text.max_len=12")
QUICK = ("--set", "train.steps=6", "--set", "train.batch_size=8", "--set", "train.evaluations=2")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefgh"), size=4)) for _ in range(50)]
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(" ".join(rng.choice(words, size=9)) + "\n" for _ in range(300)))
    return path


@pytest.fixture(scope="module")
def rows(text: Path) -> Path:
    path = text.with_name("rows.jsonl")
    lines = text.read_text().splitlines()[:60]
    path.write_text("".join(json.dumps({"text": line, "label": "ab"[i % 2]}) + "\n" for i, line in enumerate(lines)))
    return path


def test_from_text_to_a_model_that_answers(call: Call, text: Path, rows: Path, tmp_path: Path) -> None:
    done = call("pretrain", text, "-o", tmp_path / "pre", *SMALL, *QUICK)
    assert done.code == 0, done.err
    assert done.out.startswith("held-out: perplexity ")
    assert "tokens, " in done.err
    assert re.search(rf"^next +mixling train FILE --from {tmp_path / 'pre'}", done.err, re.MULTILINE)
    shown = call("show", tmp_path / "pre")
    assert "pretrained" in shown.out
    assert "perplexity" in shown.out
    evaluated = call("evaluate", tmp_path / "pre", text, "-o", tmp_path / "measures.json")
    assert evaluated.out.startswith("perplexity ")
    assert json.loads((tmp_path / "measures.json").read_text())["tokens"] > 2000
    refused = call("evaluate", tmp_path / "pre", text, "--on-bad-row", "skip")
    assert (refused.code, "--on-bad-row: does not apply to models of unlabeled text" in refused.err) == (2, True)
    tuned = call("train", rows, "--from", tmp_path / "pre", "-o", tmp_path / "tuned", "--epochs", 1)
    assert tuned.code == 0, tuned.err
    config = json.loads((tmp_path / "tuned" / "run.json").read_text())["config"]
    assert config["init"]["pretrained"] == str(tmp_path / "pre")
    assert config["model"]["dim"] == 16
    assert call("predict", tmp_path / "tuned", "abcd").code == 0


def test_its_metric_is_that_of_the_same_text(call: Call, text: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("\n".join(text.read_text().splitlines()[::2]))
    done = call("pretrain", text, "--validation", other, "-o", tmp_path / "pre", *SMALL, *QUICK)
    assert done.code == 0, done.err
    again = call("evaluate", tmp_path / "pre", other)
    validation = json.loads((tmp_path / "pre" / "metrics.json").read_text())["validation"]
    assert float(again.out.split()[1].rstrip(",")) == pytest.approx(
        validation["perplexity"], rel=0.02
    )  # bfloat16, float32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pretrain", "-o", "{run}"], "no text; name at least one file"),
        (["pretrain", "gone.txt", "-o", "{run}"], "gone.txt: no such file"),
        (["pretrain", "{text}", "--model", "gmpl-tiny", "-o", "{run}"], "did you mean 'gmlp-tiny'"),
        (["pretrain", "{text}", "--set", "objective.fractoin=0.2", "-o", "{run}"], "did you mean"),
        (
            ["pretrain", "{text}", "--set", "train.token_dropout=0.2", "-o", "{run}"],
            "applies to tasks with labels only",
        ),
        (["pretrain", "--resume", "-o", "{run}"], "there is no run to resume"),
        (["train", "{rows}", "--from", "{run}", "-o", "{other}"], "is not the folder of a finished run"),
    ],
)
def test_what_cannot_be_is_reported(
    call: Call, text: Path, rows: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    locations = {"run": tmp_path / "run", "other": tmp_path / "other", "text": text, "rows": rows}
    done = call(*(argument.format(**locations) for argument in arguments))
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "other").exists()


def test_from_excludes_another_model_and_other_subwords(call: Call, text: Path, rows: Path, tmp_path: Path) -> None:
    assert call("pretrain", text, "-o", tmp_path / "pre", *SMALL, *QUICK).code == 0
    for option, named in ((["--model", "gmlp-tiny"], "--model"), (["--set", "model.text.vocabulary=v"], "model.text")):
        done = call("train", rows, "--from", tmp_path / "pre", *option, "-o", tmp_path / "tuned")
        assert done.code == 2
        assert f"leave out {named}" in done.err
    assert (
        "holds a pretraining run; resume it with: mixling pretrain --resume"
        in call("train", "--resume", "-o", tmp_path / "pre").err
    )
    assert "holds a finished run" in call("pretrain", text, "-o", tmp_path / "pre").err


def test_a_signal_saves_and_resume_needs_no_file(call: Call, text: Path, tmp_path: Path) -> None:
    copy = tmp_path / "text.txt"
    copy.write_text(text.read_text())
    run = tmp_path / "run"
    arguments = ["pretrain", copy, "-o", run, *SMALL, "--set", "train.batch_size=8", "--set", "train.steps=300"]
    command = [sys.executable, "-m", "mixling", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "in the temporary head" in line:
                break
        for line in process.stderr:
            if re.match(r" *\d+/\d+ ", line):  # a row of the table
                break
        process.terminate()
        rest = process.stderr.read()
        assert process.wait(30) == 143
    assert f"mixling pretrain --resume -o {run}" in rest
    copy.unlink()
    record = json.loads((run / "run.json").read_text())
    assert record["finished"] is False
    done = call("pretrain", "--resume", "-o", run)
    assert done.code == 0, done.err
    assert "resuming at step" in done.err
    assert json.loads((run / "run.json").read_text())["finished"] is True


def test_a_run_that_was_cut_off_at_its_very_end_is_tidied(call: Call, text: Path, tmp_path: Path) -> None:
    assert call("pretrain", text, "-o", tmp_path / "pre", *SMALL, *QUICK).code == 0
    (tmp_path / "pre" / "corpus").mkdir()
    (tmp_path / "pre" / "checkpoint.safetensors").write_bytes(b"")
    done = call("pretrain", "--resume", "-o", tmp_path / "pre")
    assert "the run is finished" in done.err
    assert not (tmp_path / "pre" / "corpus").exists()
    assert not (tmp_path / "pre" / "checkpoint.safetensors").exists()
    done = call("predict", tmp_path / "pre", "a text")
    assert done.code == 2
    assert f"mixling train ROWS --from {tmp_path / 'pre'}" in done.err
