"""Models that write text as a user meets them: `train --task text2text`, `generate`, `evaluate`, `show`, and back."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixling import TextGenerator
from mixling.data import OnBadRow
from mixling.research.seq2seq import PairColumns, exact_matches, read_pairs

Call = Callable[..., Any]
WORDS = {"un": "one", "deux": "two", "trois": "three", "quatre": "four", "cinq": "five", "six": "six"}
SMALL = tuple(
    item
    for key in ("dim=32", "ffn_dim=48", "head_dim=8", "num_layers=1", "num_decoder_layers=1", "max_source_len=12")
    for item in ("--set", f"model.{key}")
)
SHORT = (*SMALL, "--set", "model.max_target_len=12", "--set", "tokenizer.size=100")
QUICK = ("--set", "train.steps=4", "--set", "train.batch_size=8", "--set", "train.evaluations=2")


def pairs(count: int, seed: int) -> list[dict[str, str]]:
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        words = list(rng.choice(list(WORDS), size=int(rng.integers(1, 4))))
        kind = "one" if len(words) == 1 else "more"
        out.append({"source": " ".join(words), "target": " ".join(WORDS[word] for word in words), "kind": kind})
    return out


def documents(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    path = folder / "text.txt"
    path.write_text("".join(" ".join(rng.choice(list(WORDS), size=12)) + "\n" for _ in range(200)))
    return path


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("pairs") / "rows.jsonl", pairs(400, 0))


@pytest.fixture(scope="module")
def other(rows: Path) -> Path:
    return write(rows.with_name("other.jsonl"), pairs(40, 1))


@pytest.fixture(scope="module")
def trained(rows: Path, other: Path, tmp_path_factory: pytest.TempPathFactory, call: Call) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    done = call(
        "train", rows, "--validation", other, "--task", "text2text", "--model", "t5-2m",
        "--set", "tasks.0.columns.group=kind", *SHORT,
        "--set", "train.steps=500", "--set", "train.batch_size=32", "--set", "train.optim.lr=0.005", "-o", out,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.out.startswith("validation: exact match ")
    assert re.search(rf"^next +mixling generate {out}", done.err, re.MULTILINE)
    return out


def test_a_model_that_learned_to_translate_writes(call: Call, trained: Path, other: Path, tmp_path: Path) -> None:
    metrics = json.loads((trained / "metrics.json").read_text())
    assert metrics["validation"]["text"]["exact_match"] > 0.9
    # Without a search in the precision of training, and with one in float32, which may decide one of 40 rows otherwise.
    assert metrics["held_out"]["exact_match"] == pytest.approx(metrics["validation"]["text"]["exact_match"], abs=0.026)
    done = call("generate", trained, "deux trois", "six", "--format", "jsonl")
    assert done.code == 0, done.err
    answers = [json.loads(line) for line in done.out.splitlines()]
    assert [answer["answer"] for answer in answers] == ["two three", "six"]
    assert all(answer["stopped"] and answer["score"] < 0 for answer in answers)
    out = tmp_path / "answers.csv"
    done = call("generate", trained, other, "-o", out, "--beams", 3)
    assert done.code == 0, done.err
    table = list(csv.DictReader(io.StringIO(out.read_text())))
    targets = [row["target"] for row in pairs(40, 1)]
    assert sum(row["answer"] == target for row, target in zip(table, targets, strict=True)) > 36


def test_it_is_evaluated_on_other_rows_and_by_groups(call: Call, trained: Path, tmp_path: Path) -> None:
    rows = [*pairs(40, 1), {"source": "six", "target": "two", "kind": "one"}]  # the last cannot be right
    other = write(tmp_path / "other.jsonl", rows)
    done = call("evaluate", trained, other, "-o", tmp_path / "measures.json")
    assert done.code == 0, done.err
    assert done.out.startswith("exact match ")
    metrics = json.loads((tmp_path / "measures.json").read_text())
    right = [answer == row["target"] for answer, row in zip(metrics["answers"], rows, strict=True)]
    assert metrics["exact_match"] == np.mean(right)
    assert 0 < sum(right) < len(right)
    read = read_pairs([other], columns=PairColumns(), on_bad_row=OnBadRow("error"))
    assert exact_matches(TextGenerator(trained), list(read)) == right
    for kind in ("one", "more"):
        own = [hit for hit, row in zip(right, rows, strict=True) if row["kind"] == kind]
        assert {"group": kind, "n": len(own), "exact_match": np.mean(own)} in metrics["groups"]
    refused = call("evaluate", trained, other, "--confusion", tmp_path / "c.png")
    assert (refused.code, "--confusion: does not apply to models that generate text" in refused.err) == (2, True)


def test_what_it_is_is_shown(call: Call, trained: Path) -> None:
    shown = call("show", trained)
    assert shown.code == 0, shown.err
    assert "text to text" in shown.out
    assert "encoder     width 32, 1 layer of attention" in shown.out
    assert "exact match" in shown.out
    assert json.loads(call("show", trained, "--json").out)["encoder_decoder"]["dim"] == 32
    assert "mixling generate" in call("predict", trained, "six").err


def test_fine_tuning_begins_with_it_and_its_subwords(call: Call, trained: Path, rows: Path, tmp_path: Path) -> None:
    slow = ("--set", "train.optim.lr=0.0001", "--set", "model.dropout=0.1")
    done = call("train", rows, "--from", trained, "-o", tmp_path / "tuned", *QUICK, *slow)
    assert done.code == 0, done.err
    metrics = json.loads((tmp_path / "tuned" / "metrics.json").read_text())
    assert metrics["validation"]["text"]["exact_match"] > 0.5  # four steps do not teach that
    layer = json.loads((tmp_path / "tuned" / "config.json").read_text())["model"]["decoder"]["layers"][0]
    assert (layer["dropout"], layer["mixers"][0]["dropout"], layer["cross"]["dropout"]) == (0.1, 0.1, 0.1)
    assert (tmp_path / "tuned" / "tokenizer.json").read_bytes() == (trained / "tokenizer.json").read_bytes()


def test_pairs_are_seen_from_the_columns(call: Call, rows: Path, tmp_path: Path) -> None:
    done = call("train", rows, "-o", tmp_path / "run", *SHORT, *QUICK)
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "run" / "run.json").read_text())["kind"] == "text to text"


def test_span_corruption_then_a_task(call: Call, tmp_path: Path) -> None:
    fraction = ("--set", "corpus.validation_fraction=0.2")
    objective = ("--objective", "span-corruption")
    sizes = (*SHORT, "--set", "tokenizer.size=200")
    done = call("pretrain", documents(tmp_path), *objective, "-o", tmp_path / "pre", *fraction, *sizes, *QUICK)
    assert done.code == 0, done.err
    assert done.out.startswith("held-out: perplexity ")
    assert not (tmp_path / "pre" / "corpus").exists()
    assert "span corruption" in call("show", tmp_path / "pre").out
    evaluated = call("evaluate", tmp_path / "pre", tmp_path / "text.txt", "-o", tmp_path / "measures.json")
    assert evaluated.code == 0, evaluated.err
    held_out = json.loads((tmp_path / "pre" / "metrics.json").read_text())["held_out"]["perplexity"]
    metrics = json.loads((tmp_path / "measures.json").read_text())
    assert metrics["perplexity"] == pytest.approx(held_out, rel=0.1)  # the same kind of text, more of it
    assert metrics["tokens"] > 2000
    rows = write(tmp_path / "rows.jsonl", pairs(60, 0))
    longer = ("--set", "model.max_source_len=40", "--set", "model.max_target_len=40")  # attention does not mind
    done = call("train", rows, "--from", tmp_path / "pre", "-o", tmp_path / "run", *longer, *QUICK)
    assert done.code == 0, done.err
    again = call("pretrain", "--resume", "-o", tmp_path / "pre")
    assert "is finished" in again.err


def test_a_mixture_of_tasks_and_text(call: Call, rows: Path, tmp_path: Path) -> None:
    text = documents(tmp_path)
    entailment = [
        {"premise": "un deux", "hypothesis": word, "label": "entailment" if word == "un" else "not_entailment"}
        for word in WORDS
    ] * 4
    config = tmp_path / "mixture.toml"
    config.write_text(
        f"""
        [[tasks]]
        name = "numbers"
        train = ["{rows}"]
        prefix = "translate: "
        [[tasks]]
        name = "rte"
        template = "rte"
        train = ["{write(tmp_path / "rte.jsonl", entailment)}"]
        [corpus]
        files = ["{text}"]
        validation_fraction = 0.2
        [mixing]
        temperature = 2.0
        [train.optim]
        name = "adafactor"
        lr = 1e-3
        schedule = "constant"
        """
    )
    out = tmp_path / "run"
    sizes = ("--set", "model.max_source_len=40", "--set", "model.max_target_len=12", "--set", "model.dim=16")
    done = call("train", "--task", "text2text", "--config", config, "-o", out, *sizes, *QUICK)
    assert done.code == 0, done.err
    history = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert {"val_numbers_exact_match", "val_rte_exact_match", "val_spans_perplexity"} <= history[-1].keys()
    assert set(json.loads((out / "metrics.json").read_text())["validation"]) == {"numbers", "rte"}
    done = call("generate", out, "un")
    assert done.code == 2
    assert "--task-name" in done.err
    assert "numbers, rte" in done.err
    assert "did you mean 'rte'" in call("generate", out, "un", "--task-name", "rt").err
    given = [call("generate", out, text, "--task-name", "numbers").out for text in ("un", "translate: un")]
    assert given[0] == given[1], "a prefix is prepended once"
    done = call("generate", out, "un", "--task-name", "rte")
    assert done.code == 2
    assert "'un' does not fit the task 'rte'; write rte sentence1: ... sentence2: ..." in done.err
    assert call("generate", out, "rte sentence1: un sentence2: deux", "--task-name", "rte").code == 0
    assert "--from" not in done.err
    done = call("train", rows, "--config", config, "-o", tmp_path / "other")
    assert "mixture.toml has 2 tasks, and it is unclear which one these options are for: train;" in done.err
    assert "text 2: is empty" in call("generate", out, "un", " ", "--task-name", "numbers").err  # its prefix is no text
    asked = write(tmp_path / "asked.jsonl", [{"premise": "un", "hypothesis": "deux"}])
    assert call("generate", out, asked, "--task-name", "rte").code == 0


LONG = {"source": "un " * 30, "target": "one"}
MUCH = {"source": "un", "target": "one " * 30}


@pytest.mark.parametrize(
    ("row", "flags", "message"),
    [
        ({"source": "", "target": "one"}, (), "rows.jsonl:13: column 'source' is empty"),
        ({"source": "un"}, (), "rows.jsonl:13: no column 'target'"),
        (LONG, (), "rows.jsonl:13: 1 sources of the task 'text' are longer than the model's 12 subwords"),
        (LONG, (), "--set model.max_source_len=31"),
        (MUCH, (), "rows.jsonl:13: 1 targets of the task 'text' are longer"),
        ({}, ("--template", "rtee"), "did you mean 'rte'"),
        ({}, ("--label", "target"), "--label: does not apply to --task text2text"),
        ({}, ("--from", "gone"), "gone: is not the folder of a finished run"),
        ({}, ("--model", "t5-2n"), "did you mean 't5-2m'"),
        ({}, ("--task", "text2txt"), "task: got 'text2txt'; did you mean 'text2text'"),
        ({}, ("--set", "train.token_dropout=0.2"), "train: token_dropout = 0.2 applies to tasks with labels only"),
        ({}, ("--set", "train.loss.class_weights=balanced"), "train: loss.class_weights = 'balanced' applies to tasks"),
        ({}, ("--set", "generation.max_len=99"), "generation.max_len = 99, but model.max_target_len = 12"),
    ],
)
def test_what_cannot_be_is_reported_and_nothing_written(
    call: Call, tmp_path: Path, row: dict[str, str], flags: tuple[str, ...], message: str
) -> None:
    path = write(tmp_path / "rows.jsonl", [*pairs(12, 0), *([row] if row else [])])
    shape = () if {"--from", "--model"} & set(flags) else SHORT
    task = () if "--task" in flags else ("--task", "text2text")
    done = call("train", path, *task, *flags, "-o", tmp_path / "run", *shape, *QUICK)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "run").exists()


def test_rows_that_are_too_long_are_skipped_or_cut(call: Call, tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [*pairs(40, 0), LONG, MUCH])
    common = ("train", path, "--task", "text2text", *SHORT, *QUICK)
    done = call(*common, "-o", tmp_path / "a", "--on-bad-row", "skip")
    assert done.code == 0, done.err
    assert "1 targets of the task 'text' are longer than the model's 12 subwords; their rows are skipped" in done.err
    done = call(*common, "-o", tmp_path / "b", "--on-bad-row", "skip", "--set", "tasks.0.cut=true")
    assert done.code == 0, done.err
    assert "sources are truncated at 12 subwords" in done.err


def test_a_model_of_a_fixed_length_refuses_what_is_longer(call: Call, rows: Path, tmp_path: Path) -> None:
    done = call("train", rows, "--model", "remixer-2m", "-o", tmp_path / "run", *SHORT, *QUICK)
    assert done.code == 0, done.err
    problem = "has 31 subwords, but the model reads at most 12"
    done = call("generate", tmp_path / "run", "un " * 30)
    assert (done.code, f"error: text 1: {problem}" in done.err) == (2, True)
    for path in (write(tmp_path / "long.jsonl", [{"source": "six"}, LONG]), tmp_path / "long.txt"):
        if path.suffix == ".txt":
            path.write_text("six\n" + "un " * 30)
        done = call("generate", tmp_path / "run", path)
        assert (done.code, f"{path}:2: {problem}" in done.err) == (2, True)
        assert len(done.out.splitlines()) == 1  # the row before it is answered
        done = call("generate", tmp_path / "run", path, "--on-bad-row", "skip")
        answer, error = (json.loads(line) for line in done.out.splitlines())
        assert "answer" in answer
        assert error["error"].startswith(problem)
    labeled = write(tmp_path / "labeled.jsonl", [{"source": "six", "target": "six"}, LONG])
    done = call("evaluate", tmp_path / "run", labeled)
    assert (done.code, f"{labeled}:2: the source {problem}" in done.err) == (2, True)
    done = call("evaluate", tmp_path / "run", labeled, "--on-bad-row", "skip")
    assert ("1 pairs" in done.out, "1 bad row was skipped" in done.err) == (True, True)
    assert "text 2: is empty" in call("inspect", tmp_path / "run", "--maps", "un", " ", "-o", tmp_path / "no.png").err
    picture = tmp_path / "maps.png"
    done = call("inspect", tmp_path / "run", "--maps", "un deux", "six", "-o", picture)
    assert done.code == 0, done.err
    assert "encoder softmax(H) of 1 layer" in done.out
    assert "decoder cross" in done.out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_prefix_of_another_task_is_reported(call: Call, rows: Path, tmp_path: Path) -> None:
    tasks = [{"name": name, "train": [str(rows)], "prefix": f"{name}: "} for name in ("en", "fr")]
    config = tmp_path / "two.toml"
    config.write_text("".join("[[tasks]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in t.items()) for t in tasks))
    sizes = ("--set", "model.max_source_len=40", "--set", "model.max_target_len=12", "--set", "model.dim=16")
    done = call("train", "--task", "text2text", "--config", config, "-o", tmp_path / "run", *sizes, *QUICK)
    assert done.code == 0, done.err
    done = call("generate", tmp_path / "run", "un", "fr: un", "--task-name", "en")
    assert (done.code, len(done.out.splitlines())) == (2, 1)
    assert "text 2: 'fr: un' begins with the prefix of 'fr'; select that task with --task-name fr" in done.err
    done = call("generate", tmp_path / "run", "-", "--task-name", "en", "--on-bad-row", "skip", stdin=b"un\nfr: un\n")
    assert json.loads(done.out.splitlines()[1])["error"].startswith("<stdin>:2: 'fr: un' begins")


def test_options_are_laid_over_the_only_task_of_a_file(call: Call, rows: Path, other: Path, tmp_path: Path) -> None:
    config = tmp_path / "one.toml"
    config.write_text(f'[[tasks]]\nname = "numbers"\ntrain = ["{rows}"]\nprefix = "say: "\n')
    done = call("train", "--config", config, "--validation", other, "-o", tmp_path / "run", *SHORT, *QUICK)
    assert done.code == 0, done.err
    (task,) = json.loads((tmp_path / "run" / "config.json").read_text())["tasks"]
    assert (task["name"], task["train"], task["validation"]) == ("numbers", [str(rows)], [str(other)])
    assert task["prefix"] == "say: "


def test_rows_with_an_empty_target_are_answered(call: Call, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("source,target,kind\nsix,,a\ndeux,  ,b\n")
    done = call("generate", trained, tmp_path / "rows.csv")
    assert (done.code, len(done.out.splitlines())) == (0, 2)
    assert "column 'target' is empty" in call("evaluate", trained, tmp_path / "rows.csv").err


def test_texts_that_cannot_be_read_are_reported_by_generate(call: Call, trained: Path, tmp_path: Path) -> None:
    assert "is empty" in call("generate", trained, "  ").err
    assert "no input" in call("generate", trained).err
    path = write(tmp_path / "rows.jsonl", [{"source": "six"}, {"source": ""}, {"sauce": "six"}])
    done = call("generate", trained, path)
    assert done.code == 2
    assert f"{path}:2: column 'source' is empty" in done.err
    assert json.loads(done.out)["answer"] == "six"  # the rows before it are answered
    done = call("generate", trained, path, "--on-bad-row", "skip")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [sorted(row) for row in rows] == [["answer", "score", "stopped"], ["error"], ["error"]]
    assert "is not the folder of a finished run" in call("generate", tmp_path, "six").err
