"""What messages advise exists: options, commands, configuration keys and extras.

All strings of the source are read, but for docstrings. An option belongs to the command that is named before it in the
string; without one, to the command of the module, or, in a module that several commands import, to one of these. What
a command prints about bad rows and columns is then tried, for each command that reads rows.
"""

from __future__ import annotations

import ast
import functools
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

import pytest
from pydantic import BaseModel
from tests.cli.conftest import Call
from typer.main import get_command

import mixling
from mixling import PretrainConfig, RunConfig
from mixling.cli import EXTRAS, build_app
from mixling.mixers import mixer_config
from mixling.research.seq2seq import PairRunConfig, Shape
from mixling.research.vision import ImageRunConfig
from mixling.text import VectorConfig

SOURCE = Path(mixling.__file__).parent
CONFIGS = (RunConfig, PretrainConfig, PairRunConfig, ImageRunConfig, VectorConfig)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
COMMAND = re.compile(r"\bmixling ([a-z]+)\b")
SET_KEY = re.compile(r"--set ([a-z][a-z0-9_{}]*(?:\.[a-z0-9_{}]+)*\.?)(?=[=.A-Z])")
DOTTED = re.compile(r"(?<![\w./-])(?:train|model|data|init|ngrams|reading)(?:\.[a-z_0-9]+)+(?![\w./({])")
OF_OTHERS = {"provenance": "git", "artifacts.push": "changes the card's commands"}
# The strings of a module are written after `mixling COMMAND`.
WRITTEN_AFTER = {"samples.sets": ("train",), "cli.main": ("train",)}
FILES = {"model.onnx", "model.safetensors", "model.bin", "train.csv", "train.jsonl", "train.jsonl.gz", "train.txt"}


class Said(NamedTuple):
    """A string of the source; what is inserted into it is "{}"."""

    module: str
    line: int
    text: str


@functools.cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text("utf-8"))


@functools.cache
def modules() -> dict[str, Path]:
    """The files of all modules, by their names without "mixling."."""
    paths = (path.relative_to(SOURCE).with_suffix("") for path in SOURCE.rglob("*.py"))
    return {
        ".".join(path.parts[:-1] if path.name == "__init__" else path.parts): SOURCE / path.with_suffix(".py")
        for path in paths
    }


def strings() -> Iterator[Said]:
    for module in modules():
        inside: set[int] = set()
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.JoinedStr):
                first = node.values if isinstance(node, ast.JoinedStr) else node.body[:1]
                inside |= {id(child) for part in first for child in (part, getattr(part, "value", None))}
            parts = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple) else []
            words = [part for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            if words and words[0].value in ("mixling", "train", "python"):  # a command in parts
                inside |= set(map(id, words))
                text = " ".join(str(word.value) for word in words)
                yield Said(module, node.lineno, f"mixling {text}" if words[0].value == "train" else text)
            if isinstance(node, ast.JoinedStr):
                texts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
                yield Said(module, node.lineno, "".join(map(str, texts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
                yield Said(module, node.lineno, node.value)


@functools.cache
def options() -> dict[str, set[str]]:
    commands = get_command(build_app()).commands  # type: ignore[attr-defined]
    return {
        name: {
            "--help",
            "--version",
            *(option for item in command.params for option in (*item.opts, *item.secondary_opts)),
        }
        for name, command in commands.items()
    }


@functools.cache
def imports(module: str) -> frozenset[str]:
    """The modules that a module imports, wherever it does, except for the types of annotations."""
    out: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.ImportFrom) and node.module:
            out.update((node.module, *(f"{node.module}.{item.name}" for item in node.names)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):  # the homes of kinds of runs
            out.add(node.value)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree(module))
    return frozenset({name.removeprefix("mixling.") for name in out if name.startswith("mixling.")} & modules().keys())


@functools.cache
def commands_of(module: str) -> tuple[str, ...]:
    """The commands that import a module, directly or not."""

    def reached(command: str) -> set[str]:
        home = f"cli.commands.{command}"
        seen, waiting = set[str](), [home if home in modules() else f"research.commands.{command}"]
        while waiting:
            if (name := waiting.pop()) not in seen:
                seen.add(name)
                waiting += imports(name)
        return seen

    # Tasks are imported by their names.
    return tuple(command for command in options() if module in reached(command)) or tuple(options())


def resolves(key: str) -> bool:
    """Whether a configuration has a key, up to what is inserted into it."""
    names = (
        [name for name in key.partition("{}")[0].rpartition(".")[0].split(".") if name]
        if "{}" in key
        else key.split(".")
    )
    of_shape = names[0] == "model" and _has(Shape, names[1:])  # of a preset for text to text
    return of_shape or any(_has(config, names) for config in CONFIGS)


def _has(kind: Any, names: list[str]) -> bool:
    if not names:
        return True
    if get_origin(kind) in (Union, UnionType):
        return any(_has(one, names) for one in get_args(kind))
    if get_origin(kind) is tuple and (names[0].isdigit() or names[0] == "N"):
        return _has(get_args(kind)[0], names[1:])
    if hasattr(kind, "__metadata__"):
        return _has(get_args(kind)[0], names)
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return kind is Any or kind is BaseModel
    field = kind.model_fields.get(names[0])
    return field is not None and _has(field.annotation, names[1:])


def test_every_option_of_a_message_is_one_of_its_command() -> None:
    wrong = []
    for said in strings():
        if said.module in OF_OTHERS or "http.server" in said.text:
            continue
        for found in OPTION.finditer(said.text):
            named = COMMAND.findall(said.text[: found.start()])[-1:] or COMMAND.findall(said.text)
            package, own = said.module.split(".")[0], said.module.split(".")[-1]
            commands = (
                named
                or WRITTEN_AFTER.get(said.module)
                or ([own] if package == "cli" and own in options() else commands_of(said.module))
            )
            if not any(found[0] in options().get(command, ()) for command in commands):
                wrong.append(f"{said.module}:{said.line}: {found[0]} is no option of {' or '.join(commands)}")
    assert not wrong, "\n".join(wrong)


def test_every_command_of_a_message_exists() -> None:
    wrong = [
        f"{said.module}:{said.line}: mixling {name}"
        for said in strings()
        for name in re.findall(r"(?:`|: |run |use |by |with )mixling ([a-z]+)(?=[ `\"']|$)", said.text)
        if name not in options()
    ]
    assert not wrong, "\n".join(wrong)


def test_every_key_of_a_message_is_one_of_a_configuration() -> None:
    of_mixer = mixer_config({"type": "attention"}).to_dict().keys()
    wrong = [
        f"{said.module}:{said.line}: {key}"
        for said in strings()
        for key in {*(key.rstrip(".") for key in SET_KEY.findall(said.text)), *DOTTED.findall(said.text)}
        if key not in FILES and not resolves(key) and not (key in of_mixer and "mixling bench " in said.text)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_extra_that_a_message_names_exists() -> None:
    pyproject = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text("utf-8"))
    extras = pyproject["project"]["optional-dependencies"].keys()
    asked = {name for names in EXTRAS.values() for name in names.split(",")}
    for module in modules():
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "install_command":
                asked |= {item.value for item in node.args if isinstance(item, ast.Constant)}  # type: ignore[misc]
    for said in strings():
        for names in re.findall(r"mixling\[([a-z,]+)\]", said.text):
            asked |= set(names.split(","))
    assert asked <= extras
    assert len(asked) > 4


ROWS = {
    "a column is missing": "body,class\na fine film,good\na dull plot,bad\n",
    "a text is empty": "review,stars\na fine film,good\n,bad\n",
    "a label is empty": "review,stars\na fine film,good\na dull plot,\n",
    "too many fields": "review,stars\na fine film,good\na,dull,plot,bad\n",
}
READ_ROWS = {
    "train": ("{rows}", "-o", "{out}"),
    "tune": ("{rows}", "-o", "{out}"),
    "distill": ("{rows}", "--teacher", "{model}", "-o", "{out}"),
    "pretrain": ("{rows}", "-o", "{out}"),
    "predict": ("{model}", "{rows}"),
    "explain": ("{model}", "{rows}"),
    "evaluate": ("{model}", "{rows}"),
    "compare": ("{rows}",),
    "audit": ("{rows}", "-o", "{out}"),
    "suggest": ("{model}", "{rows}", "-o", "{out}.csv"),
}


@pytest.mark.parametrize("command", READ_ROWS)
@pytest.mark.parametrize("what", ROWS)
def test_what_is_advised_for_rows_is_possible(call: Call, model: Path, tmp_path: Path, command: str, what: str) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text(ROWS[what] if what == "a column is missing" else ROWS[what] + "the same plot,good\n" * 2)
    places = {"rows": rows, "model": model, "out": tmp_path / "out"}
    named = [] if command in ("predict", "explain", "evaluate", "suggest") else ["--text", "review"]
    done = call(command, *(item.format(**places) for item in READ_ROWS[command]), *named)
    assert_possible(command, done.err)


def assert_possible(command: str, message: str) -> None:
    assert "Traceback" not in message
    absent = {option for option in OPTION.findall(message) if option not in options()[command]}
    others = {option for other in COMMAND.findall(message) for option in options().get(other, ())}
    assert absent <= others, message


@pytest.fixture(scope="module")
def reader(call: Call, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of questions."""
    folder = tmp_path_factory.mktemp("reader")
    rows = [
        {"question": f"who is {n}", "context": f"it is bob {n}", "answers": {"text": ["bob"], "answer_start": [6]}}
        for n in range(60)
    ]
    (folder / "qa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = call("train", folder / "qa.jsonl", "--epochs", 1, "-o", folder / "run")
    assert done.code == 0, done.err
    return folder / "run"


@pytest.mark.parametrize("command", ["train", "evaluate", "predict", "audit", "compare"])
@pytest.mark.parametrize("row", [
    {"q": "who?", "context": "bob", "answers": {"text": ["bob"], "answer_start": [0]}},
    {"question": "who?", "passage": "bob", "answers": {"text": ["bob"], "answer_start": [0]}},
    {"question": "who?", "context": "bob", "found": {"text": ["bob"], "answer_start": [0]}},
    {"question": "who?", "context": "bob", "answers": {"text": ["eve"], "answer_start": [0]}},
    {"question": "", "context": "bob", "answers": {"text": ["bob"], "answer_start": [0]}},
])  # fmt: skip
def test_what_is_advised_for_questions_is_possible(
    call: Call, reader: Path, tmp_path: Path, command: str, row: dict[str, Any]
) -> None:
    rows = tmp_path / "qa.jsonl"
    rows.write_text(json.dumps(row) + "\n")
    before = [reader] if command in ("evaluate", "predict") else ["--task", "question_answering"]
    after = ["-o", tmp_path / "out"] if command in ("train", "audit") else []
    assert_possible(command, call(command, *before, rows, *after).err)
