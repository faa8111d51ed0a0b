"""`mixling predict`: answers for a text, for the rows of files, or for lines as they come."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from mixling.cli.options import (
    AnswerBadRowOption,
    AnswersOption,
    BatchSizeOption,
    EscapeOption,
    FormatOption,
    InputsArgument,
    ModelArgument,
    TextOption,
    TextPairOption,
    ThreadsOption,
    TokensOption,
)
from mixling.cli.output import no_collections
from mixling.errors import ConfigError, DataError, command_line

if TYPE_CHECKING:
    from mixling.cli.rows import Item

_FILE_NAME = re.compile(r"\S+\.(csv|tsv|jsonl|ndjson|json|parquet|conll|iob|bio|txt)(\.gz)?", re.IGNORECASE)


def predict(
    model: ModelArgument,
    inputs: InputsArgument = None,
    out: AnswersOption = None,
    output_format: FormatOption = None,
    text: TextOption = None,
    text_pair: TextPairOption = None,
    tokens: TokensOption = None,
    question: Annotated[
        str | None, typer.Option("--question", metavar="TEXT", help="Question answering: instead of INPUT.")
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", metavar="TEXT", help="The text that may answer the question.")
    ] = None,
    echo: Annotated[bool, typer.Option("--echo", help="Write each text beside its answer.")] = False,
    on_bad_row: AnswerBadRowOption = "error",
    escape: EscapeOption = False,
    batch_size: BatchSizeOption = 16,
    threads: ThreadsOption = 1,
) -> None:
    """Predict with a saved model.

    Each input row gives one row of output, in order. JSON lines have label and probabilities (or labels; or tokens,
    tags and spans; or answer, start, end, score and no_answer), CSV has label and probability, or the latter. A text
    without words has an answer, too, with "empty": true. Lines on standard input are answered as they arrive.
    Torch is not needed. An unfinished run has no model yet: resume it, or take its best so far with `mixling export`.
    """
    with no_collections():
        from mixling.cli.answers import open_out, writer_for
        from mixling.cli.folders import refuse_unfinished
        from mixling.cli.rows import columns_for, file_items, stream_items
        from mixling.cli.show import is_pretraining
        from mixling.cli.text_to_text import writes_text
        from mixling.data.rows import OnBadRow
        from mixling.runtime.predictor import Predictor

    skip = OnBadRow(cast(Any, on_bad_row)).mode == "skip"
    asked = _asked(inputs, question, context)
    inputs = inputs or []
    kind = "text" if asked else kind_of(inputs)
    if out is not None and kind == "files":
        keep_inputs(inputs, out)
    if is_pretraining(model):
        command = command_line("mixling", "train", "ROWS", "--from", model, "-o", "DIR")
        raise ConfigError(f"{model}: is pretrained and has no task yet; {command} gives it one")
    if writes_text(model):
        raise ConfigError(f"{model}: its model writes text: {command_line('mixling', 'generate', model, 'INPUT')}")
    refuse_unfinished(model)
    predictor = Predictor(model, num_threads=threads)
    if asked and not predictor.task.windows:
        raise ConfigError(f"--question: {model} does not answer questions; its task is {predictor.task.name}")
    by_hand = kind == "text" or (kind == "stdin" and sys.stdin.isatty())
    name = output_format or format_of(out, people=by_hand and sys.stdout.isatty())
    echo = echo or (name == "text" and len(inputs) > 1)
    header, row = writer_for(name, task=predictor.task, echo=echo, skip=skip, escape=escape)
    windows: Iterator[list[Item]]
    if kind == "files":
        columns = columns_for(model, {"text": text, "text_pair": text_pair, "tokens": tokens})
        windows = file_items(inputs, reader=predictor.task.reader, columns=columns, skip=skip)
    elif kind == "stdin":
        windows = stream_items(sys.stdin.buffer, "<stdin>", skip=skip)
    else:
        windows = iter([asked or _texts(inputs)])
    done = failed = 0
    with open_out(out) as write, _bar(shown=kind == "files" and (out is not None or not sys.stdout.isatty())) as bar:
        write(header)
        for items in windows:
            texts = [item.text for item in items if item.text is not None]
            answers = predictor.predict_stream(texts, batch_size=batch_size)
            # An item has a text or an error; `answers` has one prediction for each text.
            write("".join(row(i.text, next(answers) if i.text is not None else i.error or "", i.id) for i in items))
            done, failed = done + len(texts), failed + len(items) - len(texts)
            if bar is not None:
                bar.update(bar.task_ids[0], completed=done + failed)
    if failed:
        print(f"{failed} bad rows have an error instead of an answer", file=sys.stderr)
    if out is not None:
        print(f"{out}: {done + failed:,} rows", file=sys.stderr)


def kind_of(inputs: Sequence[str]) -> str:
    """Whether the inputs are "files", "stdin" or "text".

    Raises:
        DataError: what looks like a file's name is none, or is that of a folder.
        ConfigError: inputs of several kinds.
    """
    if list(inputs) == ["-"]:
        return "stdin"
    # os.path, as pathlib raises for a name that is too long, which most texts are.
    files = [item.startswith("hf:") or _is_readable(item) for item in inputs]
    if all(files):
        return "files"
    for item in inputs:
        looks_like_a_file = bool(_FILE_NAME.fullmatch(item))
        if os.path.isdir(item) and (looks_like_a_file or "/" in item or os.sep in item or item in (".", "..")):
            raise DataError("is a folder; name the files in it", path=item)
        if looks_like_a_file and not _is_readable(item):
            raise DataError("no such file; a text that looks like a file's name goes through standard input", path=item)
    if any(files) or "-" in inputs:
        raise ConfigError("inputs of several kinds; give texts, or files, or - for standard input")
    return "text"


def _is_readable(name: str) -> bool:
    """Whether there is a file of that name, or a pipe, such as that of the shell's <(command)."""
    try:
        mode = os.stat(name).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode)


def _asked(inputs: Sequence[str] | None, question: str | None, context: str | None) -> list[Item]:
    """The question of the command line, if there is one.

    Raises:
        ConfigError: half of one, or other inputs beside it; no input at all.
    """
    from mixling.cli.rows import Item

    if question is None and context is None:
        if not inputs:
            raise ConfigError("no input; give a text, files, - for standard input, or --question and --context")
        return []
    if question is None or context is None:
        raise ConfigError("--question and --context go together; give both, or a file that has both")
    if inputs:
        raise ConfigError(f"--question: got {inputs[0][:40]!r} too; give one question, or files of questions")
    for name, value in (("question", question), ("context", context)):
        if not value.strip():
            raise ConfigError(f"--{name}: is empty; a text is needed")
    return [Item((question, context))]


def _texts(inputs: Sequence[str]) -> list[Item]:
    from mixling.cli.rows import Item

    return [Item(text) for text in inputs]


def format_of(out: Path | None, *, people: bool) -> str:
    """The format of what is written: by the file's name, else lines for programs, or for people.

    Raises:
        ConfigError: the name tells none.
    """
    if out is None:
        return "text" if people else "jsonl"
    suffix = out.suffix.lower().removeprefix(".")
    if suffix not in ("jsonl", "csv"):
        raise ConfigError(f"{out}: ends neither in .jsonl nor in .csv; say --format jsonl or --format csv")
    return suffix


def keep_inputs(inputs: Sequence[str], out: Path) -> None:
    """Refuse to write over an input.

    Raises:
        ConfigError: the output is one.
    """
    if out.exists() and any(os.path.isfile(item) and out.samefile(item) for item in inputs):
        raise ConfigError(f"{out}: is an input too; give another file with -o")


def _bar(*, shown: bool) -> AbstractContextManager[Any]:
    if not (shown and sys.stderr.isatty()):
        return nullcontext()
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} rows"),
        TextColumn("{task.speed}"),
        TimeElapsedColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task("", total=None)
    return bar
