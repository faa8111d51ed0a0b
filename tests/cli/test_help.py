"""The command line as it is seen from outside: names, options, speed of the start, exit codes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from mixling.cli import COMMANDS, build_app
from mixling.cli.examples import EXAMPLES, FIRST_OPTIONS
from mixling.cli.main import GROUPS

from .conftest import Call

# Frozen: scripts of users depend on these names. Add to them; take none away.
FLAGS = {
    "train": { "--features",
        "files", "--out", "-o", "--validation", "--dev", "--text", "--text-pair", "--label", "--tokens",
        "--slots", "--task", "--model", "--epochs", "--time-budget", "--seed", "--on-bad-row", "--config",
        "--set", "--resume", "--overwrite", "--unlabeled", "--from", "--source", "--target", "--template",
        "--refit", "--abstain-at", "--label-thresholds", "--out-of-scope", "--conformal", "--baseline",
        "--verbose", "--test", "--test-fraction", "--metric", "--costs", "--label-levels", "--max-size",
    },
    "help": {"name"},
    "encode": {"model", "files", "--out", "-o", "--text", "--text-pair", "--set", "--layer", "--int8", "--graph"},
    "similar": {"index", "texts", "--count", "-n", "--graph", "--format"},
    "dedup": {
        "files", "--out", "-o", "--text", "--text-pair", "--threshold", "--on-bad-row", "--report",
    },
    "pretrain": {
        "files", "--out", "-o", "--model", "--validation", "--dev", "--text", "--epochs", "--time-budget",
        "--seed", "--config", "--set", "--resume", "--overwrite", "--objective", "--verbose",
    },
    "predict": { "--column",
        "model", "inputs", "--out", "-o", "--format", "--text", "--text-pair", "--set", "--echo",
        "--on-bad-row", "--threads", "--question", "--context", "--escape-formulas", "--url", "--threshold",
        "--too-long", "--engine", "--workers", "--resume", "--columns", "--top-k", "--probabilities",
    },
    "explain": { "--column",
        "model", "inputs", "--out", "-o", "--format", "--text", "--text-pair", "--set", "--target", "--word",
        "--method",
    },
    "generate": {"model", "inputs", "--out", "-o", "--format", "--task-name", "--source", "--beams", "--on-bad-row"},
    "serve": {
        "models", "--host", "--port", "--workers", "--keys", "--cors", "--allowed-host", "--verbose",
        "--too-long", "--set",
    },
    "evaluate": {
        "model", "files", "--out", "-o", "--confusion", "--reliability", "--reliability-plot", "--threshold",
        "--text", "--text-pair", "--too-long", "--out-of-scope", "--label", "--set", "--on-bad-row",
        "--by", "--task-name", "--noise", "--errors",
    },
    "show": {"model", "--json", "--engine"},
    "inspect": {"folder", "--out", "-o", "texts", "--maps", "--filters", "--highest"},
    "export": {"model", "--out", "-o", "--precision", "--browser", "--trainer"},
    "push": {"model", "name", "--private", "--license", "--language", "--dataset", "--example"},
    "sample": {"name", "--out", "-o", "--overwrite"},
    "demo": {"--out", "-o", "--overwrite", "--no-open"},
    "models": set(),
    "config": {"name"},
    "cost": {"models", "--lengths", "--device", "--out", "-o", "--plot"},
    "bench": {"mixer", "--set", "--task", "--data", "--out", "-o"},
    "distill": { "--features",
        "files", "--out", "-o", "--teacher", "--unlabeled", "--fine-tune", "--test", "--validation", "--dev",
        "--text", "--text-pair", "--label", "--task", "--model", "--epochs", "--time-budget", "--seed", "--max-size",
        "--on-bad-row", "--config", "--set", "--resume", "--overwrite", "--verbose",
    },
    "tune": { "--features",
        "files", "--validation", "--dev", "--text", "--text-pair", "--label", "--task", "--on-bad-row",
        "--model", "--trials", "--time-budget", "--space", "--jobs", "--seed", "--config", "--set", "--out",
        "-o", "--resume", "--metric",
    },
    "compare": { "--features",
        "files", "--validation", "--dev", "--test", "--text", "--text-pair", "--label", "--task", "--model",
        "--time-budget", "--seeds", "--on-bad-row", "--keep", "--out", "-o", "--markdown", "--noise", "--few",
        "--set", "--encoder", "--systems", "--metric",
    },
    "audit": { "--features",
        "files", "--task", "--test", "--text", "--text-pair", "--label", "--set", "--on-bad-row", "--folds",
        "--epochs", "--out", "-o",
    },
    "drift": {"model", "files", "--text", "--text-pair", "--set", "--out", "-o", "--check"},
    "label": {
        "file", "--task", "--text", "--text-pair", "--label", "--set", "--names", "--strategy", "--no-model",
        "--annotator", "--overlap", "--host", "--port", "--no-open", "--export", "--format", "--agreed",
    },
    "suggest": {
        "model", "files", "--text", "--text-pair", "--set", "-n", "--count", "--out", "-o", "--escape-formulas",
    },
}  # fmt: skip


def python(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    command = [sys.executable, *args]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, **options)  # type: ignore[call-overload,no-any-return]


def mixling(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    return python("-m", "mixling", *args, **options)


def modules_after(code: str) -> set[str]:
    done = python("-c", f"{code}\nimport sys\nprint('MODULES', *sys.modules)", check=True)
    return set(done.stdout.rpartition("MODULES ")[2].split())


def test_commands_and_flags_are_frozen() -> None:
    group = get_command(build_app())
    commands = group.commands  # type: ignore[attr-defined]
    seen = {
        name: {
            flag
            for parameter in command.params
            if parameter.name != "help"
            for flag in (parameter.opts if parameter.opts[0].startswith("-") else [parameter.name])
        }
        for name, command in commands.items()
    }
    assert seen == FLAGS


@pytest.mark.parametrize("command", sorted(FLAGS))
def test_every_option_is_explained(command: str) -> None:
    params = get_command(build_app()).commands[command].params  # type: ignore[attr-defined]
    assert [parameter.name for parameter in params if not getattr(parameter, "help", None)] == []


def test_help_has_the_commands_in_groups_and_in_whole_sentences() -> None:
    done = mixling("--help")
    assert done.returncode == 0
    commands = re.sub(r"(?s)^Usage:.*?\n\nOptions:\n.*?\n\n", "", done.stdout)
    assert "..." not in commands, "a first sentence is too long to be shown"
    groups = {}
    for part in commands.split("\n\n"):
        title, *lines = part.splitlines()
        groups[title.rstrip(":")] = tuple(line.split()[0] for line in lines)
    assert groups == GROUPS
    assert sorted(COMMANDS) == sorted(FLAGS)


def parsed(line: str) -> None:
    """Parse a command without calling it; the callback of MODEL finds the packaged model."""
    program, name, *args = shlex.split(line.partition(" > ")[0])
    assert program == "mixling"
    get_command(build_app()).commands[name].make_context(name, args)  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_begins_with_a_sentence_and_a_command_to_paste(command: str, call: Call) -> None:
    sentence, *examples = [part for part in call("help", command).out.splitlines()[1:] if part][
        : 1 + len(EXAMPLES[command])
    ]
    assert sentence.endswith(".")
    assert [line.strip() for line in examples] == list(EXAMPLES[command])
    assert any(line.split()[1] == command for line in EXAMPLES[command])
    for line in EXAMPLES[command]:
        parsed(line)
    assert all(len(line) <= 80 or line.split()[1] in ("train", "tune", "distill", "compare") for line in examples)


@pytest.mark.parametrize("command", FIRST_OPTIONS)
def test_help_with_the_first_options_fits_a_screen(command: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    short, whole = call(command, "--help").out, call("help", command).out
    assert short.endswith(f"All options: mixling help {command}\n")
    assert 24 <= len(short.splitlines()) <= 45 - 5 * (command == "train")
    assert max(map(len, short.splitlines())) <= 100
    assert len(whole) > len(short)
    params = get_command(build_app()).commands[command].params  # type: ignore[attr-defined]
    options = [max(param.opts, key=len) for param in params if not getattr(param, "hidden", False)]
    assert [name for name in options if name.startswith("--") and not re.search(rf"{name}\b", whole)] == []
    names = {param.name for param in params}
    assert set(FIRST_OPTIONS[command]) <= names


def test_help_finds_commands_and_options(call: Call) -> None:
    assert call("help").out.startswith("Usage: mixling ")
    assert call("help", "serve").out == call("serve", "--help").out
    found = call("help", "abstain").out
    assert "mixling train --abstain-at ACCURACY Abstain where uncertain" in found
    assert "--epochs" not in found
    wrong = call("help", "trian")
    assert wrong.code == 2
    assert "did you mean 'train'?" in wrong.err


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    loaded = modules_after(
        "import sys\nsys.argv = ['mixling', '--help']\nfrom mixling.cli.main import run\n"
        "try:\n    run()\nexcept SystemExit as end:\n    assert end.code == 0"
    )
    heavy = {"torch", "numpy", "onnxruntime", "pydantic", "tokenizers", "sklearn", "pyarrow", "matplotlib"}
    assert "mixling.cli.commands.train" in loaded
    assert loaded & heavy == set()
    begin = os.times()
    mixling("--help")
    end = os.times()
    # Processor time, since other processes may have the processor; 0.1 s on an idle machine.
    assert end.children_user - begin.children_user + end.children_system - begin.children_system < 0.6


def test_prediction_modules_never_load_torch() -> None:
    names = (
        "inputs",
        "predictions",
        "training",
        "commands.predict",
        "commands.serve",
        "commands.evaluate",
        "commands.show",
        "commands.export",
        "commands.demo",
        "commands.train",
        "commands.compare",
    )
    code = "".join(f"import mixling.cli.{name}\n" for name in names)
    code += "import mixling.research.commands.inspect, mixling.runs.evaluation"
    assert "torch" not in modules_after(code)


def test_version() -> None:
    from mixling import __version__

    said = mixling("--version").stdout.strip()
    assert said.startswith(f"mixling {__version__}, with torch ")
    code = "import importlib.metadata as m, mixling.cli.main as main; m.version = lambda name: m.distribution('none')"
    without = python("-c", f"{code}; main.run()", "--version").stdout
    assert "without torch, which models of other kinds need: pip install" in without


MISTAKES = [
    (["predict", "no-such-model", "a text"], ["error: no-such-model", "no such file or folder"]),
    (["show", "no-such-model"], ["error: no-such-model"]),
    (["predict"], ["Missing argument"]),
    (["show", "x", "--jsn"], ["--jsn", "--json"]),
    (["trian"], ["trian"]),
    (["train", "no-such.csv", "-o", "out"], ["error: no-such.csv: no such file"]),
    (["train", "no-such.csv", "-o", "out", "--task", "classification"], ["error: no-such.csv: no such file"]),
    (["train", "x.csv", "-o", "out", "--time-budget", "soon"], ["--time-budget", "90s"]),
    (["train", "x.csv", "-o", "out", "--time-budget", "5"], ["got '5' without a unit", "5s"]),
    (["train", "x.csv", "-o", "out", "--model", "pnlp-mixer-smal"], ["did you mean 'pnlp-mixer-small'"]),
    (["train", "x.csv", "-o", "out", "--task", "clasification"], ["task", "'classification'"]),
    (["train", "x.csv", "-o", "out", "--set", "train.epohcs=3"], ["'train.epohcs'", "did you mean 'train.epochs'"]),
    (["train", "-o", "out"], ["error: no input"]),
    (["train", "--resume", "-o", "out"], ["no run to resume"]),
    (["train", "--resume", "--overwrite", "-o", "out"], ["exclude each other"]),
]


@pytest.mark.parametrize(("args", "words"), MISTAKES, ids=lambda value: " ".join(value[:1]))
def test_mistakes_end_with_exit_code_2_and_write_nothing(
    args: list[str], words: list[str], call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "x.csv" in args:
        Path("x.csv").write_text("text,label\na,b\n")
    done = call(*args)  # an error that is none of the user's would escape from here
    assert done.code == 2
    for word in words:
        assert word in done.err
    assert done.out == ""
    assert {path.name for path in tmp_path.iterdir()} <= {"x.csv"}


def test_a_mistake_has_no_traceback(tmp_path: Path) -> None:
    done = mixling("show", "no-such-model", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: no-such-model")
    assert "Traceback" not in done.stderr


def test_a_missing_library_names_the_extra(tmp_path: Path) -> None:
    # A process of its own: here torch and all that uses it are loaded already.
    hide = "find = u.find_spec; u.find_spec = lambda name, of=None: None if name == 'torch' else find(name, of)"
    code = f"import importlib.util as u; {hide}; from mixling.cli.main import run; run()"
    rows = tmp_path / "rows.csv"
    rows.write_text("text,label\n" + "".join(f"good film {i},yes\ndull film {i},no\n" for i in range(30)))
    options = ("-o", str(tmp_path / "out"), "--set", "train.backend=torch")
    done = python("-c", code, "train", str(rows), *options)
    assert done.returncode == 2
    assert "PyTorch" in done.stderr
    assert '[torch]"' in done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["pretrain", "x.txt", "-o", "out"],
        ["pretrain", "x.txt", "-o", "out", "--objective", "span-corruption"],
    ],
    ids=lambda args: " ".join([args[0], *args[4:]]),
)
def test_something_is_seen_before_what_takes_long_is_imported(args: list[str], tmp_path: Path) -> None:
    """Where importing torch fails, the line stands before the error."""
    code = "import sys; sys.modules['torch'] = None; from mixling.cli.main import run; run()"
    done = python("-c", code, *args, cwd=tmp_path)
    assert done.returncode == 2
    first, *_, last = done.stderr.splitlines()
    assert first == f"mixling {args[0]}: loading PyTorch"
    assert last.startswith("error: ")


def test_of_splitting_workers_the_first_announces_itself(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    done = call("train", tmp_path / "no-such.csv", "-o", tmp_path / "out")
    assert done.code == 2
    assert "loading" not in done.err


def test_ctrl_c_leaves_with_130(monkeypatch: pytest.MonkeyPatch, call: Call, tmp_path: Path) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mixling.artifacts.description.open_model", interrupted)
    assert call("show", tmp_path).code == 130


@pytest.mark.parametrize("given", [None, "active"])
def test_waiting_threads_leave_the_cores_to_others(given: str | None) -> None:
    code = "import atexit, os, sys; from mixling.cli.main import run; sys.argv[1:] = ['--version']; atexit.register("
    code += "lambda: print(os.environ['OMP_WAIT_POLICY'])); run()"
    environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
    environment |= {} if given is None else {"OMP_WAIT_POLICY": given}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == (given or "passive")
