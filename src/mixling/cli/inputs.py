"""What the commands that predict share: kinds of inputs, formats of answers, and how answers are written."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixling.cli.answers import open_out
from mixling.cli.options import AnswerOptions
from mixling.data.inputs import Item
from mixling.data.readers import OnBadRow, format_of_name
from mixling.errors import ConfigError, DataError


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a command line asks for.

    kind: of the inputs, as `kind_of`. output_format: jsonl, csv or text. echo: write each text beside its answer.
    skip: a bad row's answer is its error.
    """

    kind: str
    output_format: str
    echo: bool
    skip: bool


def read_request(options: AnswerOptions, *, kind: str | None = None) -> Request:
    """Return what the options ask for.

    Args:
        kind: of the inputs, where these are not `options.inputs`.

    Raises:
        ConfigError: an option's value that is not allowed, inputs of several kinds, or an output that is an input.
        DataError: as `kind_of`.
    """
    skip = OnBadRow(options.on_bad_row).mode == "skip"  # type: ignore[arg-type]
    inputs = options.inputs or []
    kind = kind or kind_of(inputs)
    if options.out is not None and kind == "files":
        keep_inputs(inputs, options.out)
    by_hand = kind == "text" or (kind == "stdin" and sys.stdin.isatty())
    name = options.output_format or format_of(options.out, people=by_hand and sys.stdout.isatty())
    return Request(kind=kind, output_format=name, echo=options.echo or (name == "text" and len(inputs) > 1), skip=skip)


def write_answers(
    options: AnswerOptions,
    windows: Iterable[Sequence[Item]],
    *,
    header: str,
    row: Callable[[Any, Any, str | None], str],
    answer: Callable[[Sequence[Item]], tuple[list[Any], DataError | None]],
    bar: bool = False,
) -> None:
    """Write an answer for each item.

    Args:
        windows: items, many at a time.
        row: takes an item's text, its answer or what is wrong with it, and its id.
        answer: takes a window, returns an answer or an error's text for each item, or up to the one that is an error.
        bar: show on a terminal how many are done.

    Raises:
        DataError: the one that `answer` returned, after what comes before it is written.
    """
    done = failed = 0
    with open_out(options.out) as write, _bar(shown=bar) as progress:
        write(header)
        for items in windows:
            answers, error = answer(items)
            write("".join(row(item.text, found, item.id) for item, found in zip(items, answers, strict=error is None)))
            if error is not None:
                raise error
            done += len(items)
            failed += sum(isinstance(found, str) for found in answers)
            if progress is not None:
                progress.update(progress.task_ids[0], completed=done)
    if failed:
        print(f"{failed} bad rows have an error instead of an answer", file=sys.stderr)
    if options.out is not None:
        print(f"{options.out}: {done:,} rows", file=sys.stderr)


def kind_of(inputs: Sequence[str]) -> str:
    """Return whether the inputs are "files", "stdin" or "text".

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
        looks_like_a_file = item.split() == [item] and format_of_name(item) is not None
        if os.path.isdir(item) and (looks_like_a_file or "/" in item or os.sep in item or item in (".", "..")):
            raise DataError("is a folder; name the files in it", path=item)
        if looks_like_a_file and not _is_readable(item):
            raise DataError("no such file; a text that looks like a file's name goes through standard input", path=item)
    if any(files) or "-" in inputs:
        raise ConfigError("inputs of several kinds; give texts, or files, or - for standard input")
    return "text"


def _is_readable(name: str) -> bool:
    """Return whether there is a file of that name, or a pipe, such as that of the shell's <(command)."""
    try:
        mode = os.stat(name).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode)


def format_of(out: Path | None, *, people: bool) -> str:
    """Return the format of what is written: by the file's name, else lines for programs, or for people.

    Raises:
        ConfigError: the name's ending is that of no format.
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
