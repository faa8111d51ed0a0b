"""README and the pages under docs/: their blocks run in order in an empty folder, as somebody pastes them.

Blocks of `sh` are command lines; blocks of `console` have prompts and, below them, output, compared with numbers
masked (a line "..." stands for lines that vary); blocks of `python` share the names of their page; blocks of `toml`
that begin with "# NAME.toml" are files. Trainings take two steps.

A block that takes long has `<!-- slow: REASON -->` before it and is run where the environment has MIXLING_PAGES=all, as
in the workflow of the repository. One that cannot be run here has `<!-- not run: REASON -->`. Of both, the options of
commands are parsed, and Python is compiled and its imports from mixling are looked up.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from mixling.cli import build_app
from mixling.mixers import MIXERS
from mixling.samples import sets
from mixling.tasks import TASKS
from mixling.training import Trainer, TrainingState

from .conftest import Call

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = ("sh", "console", "python")
FENCE = re.compile(
    r"^(?P<pad> *)(?:<!-- (?P<mark>not run|slow): .+? -->\n *)?```(?P<language>\w+)\n(?P<content>.*?)^(?P=pad)```",
    re.DOTALL | re.MULTILINE,
)


# The training that most pages begin with is run once, and its folder is copied for the other pages.
SHARED = "mixling train messages.csv --text message --label topic -o model/"
SHARED_RESULTS: dict[int, tuple[Path, str, str]] = {}  # by the size of messages.csv
TOPICS = r"\b(account|cancel|damaged|freight|order_change|parcel|payment|product|refund|returns|vouchers|warranty)\b"


class Block(NamedTuple):
    language: str
    content: str
    mark: str | None

    @property
    def runs(self) -> bool:
        marks = {None, "slow"} if os.environ.get("MIXLING_PAGES") == "all" else {None}
        return self.language in RUN and self.mark in marks


def blocks(page: Path) -> list[Block]:
    found = FENCE.finditer(page.read_text("utf-8"))
    return [Block(match["language"], re.sub(f"^{match['pad']}", "", match["content"], flags=re.M), match["mark"])
            for match in found]  # fmt: skip


def command_lines(text: str) -> Iterator[str]:
    """The commands of a block, without comments."""
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if line := re.sub(r"(^|\s+)#.*", "", line).strip():
            yield line


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the current one; trainings in it take two steps."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Trainer, "_plan", lambda self: TrainingState(total_steps=2, eval_interval=2))
    # The first rows of the sample: two steps are more than an epoch of them. Thresholds and sets need many.
    content = {file: sets.read_sample(file) for sample in sets.SAMPLES.values() for file in sample.files}
    # What commands.md shows is of the whole file, and it trains nothing.
    rows = {"trust.md": 600, "recipes.md": 600, "commands.md": 10_000}.get(
        request.node.callspec.params["page"].name, 122
    )
    content["messages.csv"] = b"\n".join(content["messages.csv"].split(b"\n")[: rows + 1]) + b"\n"
    monkeypatch.setattr(sets, "read_sample", content.__getitem__)
    for registry in (MIXERS, TASKS):  # what a page registers is not known to other tests
        monkeypatch.setattr(registry, "registered", {})
    return tmp_path


def masked(text: str) -> list[str]:
    """The lines with numbers, durations and labels of the sample replaced, and spaces joined."""
    for pattern, mask in (
        (r"\S+/demo\.onnx", "demo.onnx"),
        (r"\d+ [hm] \d+ [ms]\b", "# s"),
        (r"[+-]?\d[\d.,]*", "#"),
        (r"always '\w+'", "always"),
        (TOPICS, "topic"),
    ):
        text = re.sub(pattern, mask, text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def run_line(line: str, call: Call) -> tuple[str, str]:
    """Run a command line; return its output and errors."""
    if line.startswith(("make ", "python -m venv", "pip install")):  # .ci/run, and tests/test_installation.py
        return "", ""
    if line == "mixling demo":  # tests/cli/test_demo.py runs it
        return "", ""
    stdin = b""
    if match := re.match(r'(?:cat (\S+)|echo "(.*?)") \| (.*)', line):
        stdin, line = Path(match[1]).read_bytes() if match[1] else match[2].encode() + b"\n", match[3]
    name, *args = shlex.split(line)
    assert name == "mixling", f"{line}: neither a command of mixling's nor marked with a reason"
    if args[0] in ("train", "pretrain") and "-o" in args and not {"--resume", "--overwrite"} & set(args):
        shutil.rmtree(args[args.index("-o") + 1], ignore_errors=True)
    size = Path("messages.csv").stat().st_size if line == SHARED else 0
    if size in SHARED_RESULTS:
        folder, out, err = SHARED_RESULTS[size]
        shutil.copytree(folder, "model")
        return out, err
    done = call(*args, stdin=stdin)
    assert done.code == 0, f"{line}\n{done.err}"
    if size:
        SHARED_RESULTS[size] = Path(tempfile.mkdtemp(dir=Path.cwd().parent)) / "model", done.out, done.err
        shutil.copytree("model", SHARED_RESULTS[size][0])
    return done.out, done.err


def run_console(content: str, call: Call) -> None:
    """Run the lines with a prompt, and compare their output."""
    for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
        line, _, expected = part.partition("\n")
        out, err = run_line(line, call)
        wanted = masked(expected)
        if "..." in wanted:
            lines = iter(masked(err) + masked(out) if wanted[0] not in masked(out) else masked(out))
            assert all(want in lines for want in wanted if want != "..."), f"{line}\n{err}\n{out}"
        else:
            assert wanted in (masked(out), masked("" if out else err)), f"{line}\n{out}\n{err}"


def run_python(content: str, names: dict[str, Any]) -> None:
    """Run a block; the comment at the end of a line that prints is the output, with numbers masked."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(content, "block", "exec"), names)
    wanted = re.findall(r"^print\(.*\)  # (.+)$", content, re.MULTILINE)
    if wanted:
        assert masked(printed.getvalue()) == [" ".join(masked(line)) for line in wanted]


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(block.runs for block in blocks(page))],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_the_blocks_of_a_page_run(page: Path, folder: Path, call: Call) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    found = blocks(page)
    for block in found:
        if match := block.language == "toml" and re.match(r"# ([\w.]+\.toml)", block.content):
            (folder / match[1]).write_text(block.content)
    for block in found:
        if not block.runs:
            continue
        if block.language == "sh":
            for line in command_lines(block.content):
                run_line(line, call)
        elif block.language == "console":
            run_console(block.content, call)
        elif block.language == "python":
            run_python(block.content, names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_other_blocks_of_a_page_could_run(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            look_up(block.content)
        elif block.language in RUN:
            lines = re.findall(r"^\$ (.*)", block.content, re.M)  # others of a console are output
            for line in command_lines("\n".join(lines) if block.language == "console" else block.content):
                parse(line)
    outside = FENCE.sub("", page.read_text("utf-8"))
    assert not re.search(r"^ {4,}(\$ )?(mixling|pip|curl) ", outside, re.M), (
        "commands are blocks of sh, which are tested"
    )


def look_up(content: str) -> None:
    """Compile a block, and find what it imports from mixling."""
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "mixling":
            module = importlib.import_module(node.module or "")
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []


def parse(line: str) -> None:
    """Parse the options of a command of mixling's, wherever it is in a line."""
    if match := re.search(r"(?:^|[\s&|])mixling (?!-)(.*)", line):
        name, *args = shlex.split(match[1])
        command = typer.main.get_command(build_app([name], completion=False)).commands[name]  # type: ignore[attr-defined]
        command.make_parser(command.context_class(command)).parse_args(args)


def test_a_wrong_option_or_import_is_found() -> None:
    parse("torchrun -m mixling train rows.csv -o out/")
    with pytest.raises(Exception, match="No such option: --cofusion"):
        parse("mixling evaluate model/ rows.csv --cofusion c.png")
    with pytest.raises(AssertionError, match="Preditor"):
        look_up("from mixling import Preditor")


def test_most_blocks_run() -> None:
    found = [block for page in PAGES for block in blocks(page) if block.language in RUN]
    assert len(found) >= 80
    assert sum(block.mark == "not run" for block in found) < len(found) / 3
    assert sum(block.mark is None for block in found) >= 48


def test_what_differs_from_the_output_is_found(model: Path, call: Call) -> None:
    right = call("predict", model, "a fine film").out
    run_console(f'$ mixling predict {model} "a fine film"\n{right}', call)
    with pytest.raises(AssertionError):
        run_console(f'$ mixling predict {model} "a fine film"\n{right.replace("label", "class")}', call)
    with pytest.raises(AssertionError):
        run_python("print(1 + 1)  # two", {})
