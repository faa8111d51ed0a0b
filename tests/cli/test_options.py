"""Options as records, their groups in the help, colors, completion in the shell, and near misses."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import pytest
import typer
from typer.main import get_command

from mixling import PRESETS
from mixling.artifacts import all_kinds
from mixling.cli import COMMANDS, build_app
from mixling.cli.command import OUTPUT, PANELS, given_options, with_options
from mixling.cli.completion import MODELS, TASK_NAMES
from mixling.cli.train_options import TrainOptions
from mixling.research.commands.pretrain import PretrainOptions
from mixling.research.seq2seq import SEQ2SEQ_PRESETS
from mixling.tasks import task_names

from .conftest import Call

ESCAPE = "\x1b["


@dataclass(frozen=True, kw_only=True)
class Base:
    panel: ClassVar[str] = OUTPUT
    width: Annotated[int, typer.Option("-w", "--width", help="Of a line.")] = 80
    names: Annotated[list[str] | None, typer.Argument(metavar="NAMES...", help="Of people.")] = None


@dataclass(frozen=True, kw_only=True)
class Greeting(Base):
    polite: Annotated[bool, typer.Option("--polite", help="With a title.")] = False


def test_a_command_takes_records_of_options() -> None:
    seen: list[tuple[str, Greeting]] = []

    def greet(word: Annotated[str, typer.Argument(help="The greeting.")], options: Greeting) -> None:
        """Greet people."""
        seen.append((word, options))

    app = typer.Typer(add_completion=False)
    app.command()(with_options(greet))
    command = get_command(app)
    for args, options in (
        (["hello"], Greeting()),
        (["hello", "-w", "40", "Ann", "Bob", "--polite"], Greeting(width=40, names=["Ann", "Bob"], polite=True)),
    ):
        command(args, standalone_mode=False)
        assert seen.pop() == ("hello", options)
    assert command.help == "Greet people."
    panels = {param.name: getattr(param, "rich_help_panel", None) for param in command.params}
    assert panels == {"word": None, "names": None, "width": OUTPUT, "polite": OUTPUT}


def test_options_that_are_given_are_named_as_they_are_written() -> None:
    assert given_options(Greeting()) == []
    assert given_options(Greeting(width=40, names=["Ann"], polite=True)) == ["NAMES", "--width", "--polite"]


def sections(text: str) -> dict[str, list[str]]:
    """The titles of a help and the first words below each."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if title := re.fullmatch(r"([A-Z]\w+):", line):
            found[title[1]] = []
        elif found and (option := re.match(r"  (-\w, )?([^\s,]+)", line)) and line[2] != " ":
            found[list(found)[-1]].append(option[2])
    return found


@pytest.mark.parametrize("command", ["train", "distill", "compare", "pretrain"])
def test_help_of_what_trains_is_in_groups(command: str, call: Call) -> None:
    done = call(command, "--help") if command == "pretrain" else call("help", command)
    assert done.code == 0
    found = sections(done.out)
    assert list(found) == ["Arguments", *PANELS]
    group = {option: title for title, options in found.items() for option in options}
    assert {group["--out"], group["--help"]} == {"Output"}
    assert group["--time-budget"] == "Training"
    assert group["--model"] == "Model"
    assert {group["--validation"], group["--text"]} == {"Data"}
    params = get_command(build_app()).commands[command].params  # type: ignore[attr-defined]
    long = [next((name for name in param.opts if name.startswith("--")), "") for param in params]
    options = set(filter(None, long))
    assert options | {"--help"} == set().union(*(found[title] for title in PANELS)), "each option is in one group"


def test_help_is_coloured_on_a_terminal_alone(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for args in (["--help"], ["train", "--help"], ["show", "-h"]):
        plain, colored = call(*args).out, call(*args, terminal=True).out
        assert ESCAPE not in plain
        assert f"{ESCAPE}1mUsage:{ESCAPE}0m mixling" in colored
        assert re.sub(r"\x1b\[[\d;]*m", "", colored) == plain
        monkeypatch.setenv("NO_COLOR", "1")
        assert call(*args, terminal=True).out == plain
        monkeypatch.delenv("NO_COLOR")
    colored = call("help", "train", terminal=True).out
    for text in ("--text-pair", "-o, --out", "FILES..."):
        assert f"{ESCAPE}36m{text}{ESCAPE}0m" in colored
    for text in ("COLUMN", "90s|3m|1h", "ACCURACY"):
        assert f"{ESCAPE}33m{text}{ESCAPE}0m" in colored


Complete = Callable[[str], list[str]]


@pytest.fixture
def complete(call: Call, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """What bash gets for a command line that ends with the word to complete."""

    def words(line: str) -> list[str]:
        monkeypatch.setenv("_MIXLING_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        done = call()
        assert done.code == 0, done.err
        return done.out.split()

    return words


def test_the_shell_completes(complete: Complete) -> None:
    assert complete("mixling pre") == ["predict", "pretrain"]
    assert set(complete("mixling ")) == set(COMMANDS)
    assert complete("mixling train --text-") == ["--text-pair"]
    assert complete("mixling train --task cl") == ["classification"]
    assert set(complete("mixling train --task ")) == set(TASK_NAMES)
    assert complete("mixling train rows.csv --model pqr") == ["pqrnn"]
    assert set(complete("mixling cost mixling-")) == {name for name in MODELS if name.startswith("mixling-")}
    assert complete("mixling train --on-bad-row ") == ["error", "skip"]
    assert complete("mixling export m --precision i") == ["int8"]
    assert complete("mixling train --time-budget 3") == []
    # Where nothing is printed bash completes names of files.
    assert (
        complete("mixling train ro")
        == complete("mixling train --validation ro")
        == complete("mixling predict mo")
        == []
    )


def test_all_models_and_tasks_are_completed() -> None:
    assert set(MODELS) == {*PRESETS, *SEQ2SEQ_PRESETS}
    assert len(MODELS) == len(set(MODELS))
    assert set(TASK_NAMES) == {*task_names(), *(kind.task for kind in all_kinds() if kind.task is not None)}


def test_completion_is_installed(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
    shown = call("--show-completion")
    assert shown.code == 0
    assert "_MIXLING_COMPLETE=complete_bash" in shown.out
    done = call("--install-completion")
    assert done.code == 0
    assert ".bash_completions/mixling.sh" in done.out
    assert (tmp_path / ".bash_completions" / "mixling.sh").read_text() == shown.out.rstrip("\n")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["trian"], ["No such command 'trian'", "'train'"]),
        (["evalute", "m", "f"], ["'evaluate'"]),
        (["train", "x.csv", "--epoch", "3"], ["No such option: --epoch", "--epochs"]),
        (["predict", "m", "--formt", "csv"], ["--format"]),
        (["pretrain", "x.txt", "--valid", "v"], ["--validation"]),
        (["train", "x.csv", "--label", "a", "--label", "b"], ["'--label' takes one value, and is given 2 times"]),
        (["similar", "none", "a text", " "], ["a text is empty"]),
        (["predict", "m", "x.csv", "-o", "a", "-o", "b"], ["'--out' takes one value, and is given 2 times"]),
    ],
    ids=lambda value: " ".join(value[:1]),
)
def test_wrong_commands_and_options_are_named_with_what_is_right(args: list[str], words: list[str], call: Call) -> None:
    for terminal in (False, True):
        done = call(*args, terminal=terminal)
        assert done.code == 2
        assert done.out == ""
        assert ESCAPE not in done.err
        for word in words:
            assert word in done.err


@pytest.mark.parametrize(
    ("args", "key"),
    [
        (["train", "rows.csv", "--vocabulary", "v"], "model.text.vocabulary"),
        (["train", "rows.csv", "--vocabulary=v", "--task=text2text"], "tokenizer.vocabulary"),
        (["train", "pairs.jsonl", "--vocabulary", "v"], "tokenizer.vocabulary"),
        (["train", "rows.csv", "--model", "t5-2m", "--validation-fraction", ".2"], "tasks.0.validation_fraction"),
        (["train", "rows.csv", "--source", "a", "--dev-fraction", ".2"], "tasks.0.validation_fraction"),
        (["train", "x", "--task", "image_classification", "--dev-fraction", ".2"], "data.validation_fraction"),
        (["train", "x", "--task", "image_classification", "--vocabulary", "v"], None),
        (["train", "pairs.jsonl", "--answers", "a"], None),
        (["train", "rows.csv", "--limit", "3"], None),
        (["distill", "rows.csv", "--limit", "3"], "distill.limit"),
        (["pretrain", "x.txt", "--dev-fraction", ".1"], "corpus.validation_fraction"),
        (["evaluate", "m", "rows.csv", "--question", "q"], "data.columns.question"),
        (["serve", "m", "--max-wait", "1"], "max_wait"),
        (["train", "pairs.jsonl", "--prefix", "p"], "tasks.0.prefix"),
        (["evaluate", "m", "rows.csv", "--vocabulary", "v"], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_an_option_that_became_a_key_names_that_of_the_kind_of_run(
    args: list[str], key: str | None, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("text,label\na,b\n")
    Path("pairs.jsonl").write_text('{"source": "a", "target": "b"}\n')
    done = call(*args)
    assert done.code == 2
    assert "No such option: --" in done.err
    assert (f"set its key: --set {key}=VALUE" in done.err) if key else "--set" not in done.err


def test_options_become_values_of_a_configuration() -> None:
    options = TrainOptions(files=["a.csv"], out=Path("run"), text="t", epochs=3, time_budget="2m",
                           overrides=["data.columns.group=g"])  # fmt: skip
    values = options.values()
    assert values["data"]["train"] == ["a.csv"]
    assert values["data"]["columns"]["text"] == "t"
    assert values["data"]["columns"]["group"] == "g"
    assert values["init"] == {"texts": None, "pretrained": None}
    assert values["train"] == {"epochs": 3, "time_budget": 120.0, "seed": None}
    assert PretrainOptions(out=Path("run"), epochs=5).values()["train"]["epochs"] == 5


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ("data=5", "data: got 5; allowed: a table"),
        ("data.train=5", "train: got 5; allowed: a list"),
        ("data.columns=5", "columns: got 5; allowed: a table"),
        ("data.columns.text=4", "columns.text: got 4; allowed: text"),
        ("train=5", "train: got 5; allowed: a table"),
        ("train.epochs=-1", "train.epochs: got -1; allowed: integer >= 1"),
        ("train.optim.name=sgd", 'train.optim.name: got \'sgd\'; allowed: "adamw" | "adafactor"'),
        ("train.augmentation.typo_kinds=[]", "train.augmentation.typo_kinds: got []; allowed: at least one item"),
        (
            'train.augmentation.typo_kinds=["swop"]',
            'typo_kinds.0: got \'swop\'; allowed: "swap" | "delete" | "insert" | "keyboard" | "ocr"',
        ),
        ("model=5", "model: got 5; allowed: a table"),
    ],
)
def test_a_wrong_value_is_one_line_with_what_is_allowed(
    given: str, reported: str, call: Call, reviews: Path, tmp_path: Path
) -> None:
    columns = ["--text", "review", "--label", "stars"]
    done = call("train", reviews / "train.csv", *columns, "--set", given, "-o", tmp_path / "model")
    assert done.code == 2
    assert done.err.splitlines()[-1].endswith(reported), done.err
    key, _, value = given.partition("=")
    if value == "5" and key != "data.columns":  # which the options replace
        *tables, name = key.split(".")
        (tmp_path / "run.toml").write_text("".join(f"[{part}]\n" for part in tables) + f"{name} = {value}\n")
        files = [] if name == "train" else [reviews / "train.csv"]
        done = call("train", *files, *columns, "--config", tmp_path / "run.toml", "-o", tmp_path / "model")
        assert (done.code, done.err.splitlines()[-1].endswith(reported)) == (2, True), done.err
