"""Inputs and outputs of the commands that predict."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixling.cli.options import PredictionOptions
from mixling.cli.output import bad_rows_line
from mixling.cli.predictions import open_output
from mixling.data.inputs import Item, PlainTexts
from mixling.data.readers import STDIN, OnBadRow, format_of_name
from mixling.errors import ConfigError, DataError, shown


@dataclass(frozen=True, kw_only=True)
class Request:
    """How to read the inputs and write the predictions.

    Attributes:
        kind: "files", "stdin" or "text".
        output_format: "jsonl", "csv" or "text".
        echo: write the texts as well.
        skip: bad rows have an error instead of a prediction.
    """

    kind: str
    output_format: str
    echo: bool
    skip: bool


def read_request(options: PredictionOptions, *, kind: str | None = None, echo: bool = False) -> Request:
    """Return the request that the options make.

    Args:
        kind: the kind of the inputs, if they are not `options.inputs`.
        echo: write the texts, too; several texts of the command line are written to a terminal in any case.

    Raises:
        ConfigError: a value is not allowed, inputs are of several kinds, or the output is also an input.
        DataError: see `input_kind`.
    """
    skip = OnBadRow(options.on_bad_row).mode == "skip"  # type: ignore[arg-type]
    inputs = options.inputs or []
    kind = kind or input_kind(inputs)
    refuse_columns(options, kind)
    if options.out_file is not None and kind == "files":
        keep_inputs(inputs, options.out_file)
    typed = kind == "text" or (kind == "stdin" and sys.stdin.isatty())
    name = options.output_format or format_of(options.out_file, readable=typed and sys.stdout.isatty())
    return Request(kind=kind, output_format=name, echo=echo or (name == "text" and len(inputs) > 1), skip=skip)


def write_predictions(
    options: PredictionOptions,
    windows: Iterable[Sequence[Item] | Finished],
    *,
    header: str,
    row: Callable[[Any, Any, Mapping[str, Any]], str],
    predict: Callable[[Sequence[Item]], tuple[list[Any], DataError | None]],
    echo: bool,
    bar: bool = False,
) -> None:
    """Write a prediction for each item.

    Args:
        windows: the items, many at a time.
        header: what to write before the first row.
        row: formats an item's text (None without `echo`), its prediction or error message, and the values kept of it.
        predict: takes a window, and returns a prediction or error message for each item; or those before the first
            bad item, and an error.
        echo: write the texts as well.
        bar: show progress on a terminal.

    Raises:
        DataError: the error that `predict` returned, after the predictions before it are written.
    """
    done = failed = 0
    with open_output(options.out_file) as write, _bar(shown=bar) as progress:
        write(header)
        for items in windows:
            if isinstance(items, Finished):
                write("".join(items))
                done += len(items)
                _show(progress, done)
                continue
            results, error = predict(items)
            pairs = zip(items, results, strict=error is None)
            write("".join(row(item.text if echo else None, result, item.kept) for item, result in pairs))
            if error is not None:
                raise error
            done += len(items)
            failed += sum(isinstance(result, str) for result in results)
            _show(progress, done)
    if failed:
        print(bad_rows_line(failed), file=sys.stderr)
    if options.out is not None:
        print(f"{options.out}: {done:,} rows", file=sys.stderr)


def input_kind(inputs: Sequence[str]) -> str:
    """Return whether the inputs are "files", "stdin" or "text".

    Raises:
        DataError: an input that looks like a file name does not exist or is a folder.
        ConfigError: the inputs are of several kinds.
    """
    if list(inputs) == ["-"]:
        return "stdin"
    # os.path, because pathlib raises for names that are too long, which most texts are.
    files = [item.startswith("hf:") or _is_readable(item) or _is_folder_of_texts(item) for item in inputs]
    if all(files):
        return "files"
    for item in inputs:
        looks_like_a_file = item.split() == [item] and format_of_name(item) is not None
        if os.path.isdir(item) and (looks_like_a_file or "/" in item or os.sep in item or item in (".", "..")):
            raise DataError("is a folder; name the files in it", path=item)
        if looks_like_a_file and not _is_readable(item):
            raise DataError("no such file; pass a text that looks like a file name on standard input", path=item)
    if any(files) or "-" in inputs:
        raise ConfigError("inputs of several kinds; give either texts, or files, or - for standard input")
    for item in inputs:
        refuse_undecoded(item)
    return "text"


def refuse_undecoded(text: str) -> None:
    """Refuse a text of the command line whose bytes the locale cannot decode.

    Raises:
        ConfigError: it is one.
    """
    if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
        remedy = "give UTF-8 in a locale with UTF-8 (LC_ALL=C.UTF-8), or use standard input: - < FILE"
        raise ConfigError(f"{shown(text)}: has bytes that are no text in this locale; {remedy}")


def refuse_columns(options: Any, kind: str) -> None:
    """Refuse options that name columns where the inputs have none.

    Args:
        options: of a command.
        kind: see `input_kind`.

    Raises:
        ConfigError: a column is named, and the inputs are texts of the command line.
    """
    if kind == "text" and (named := _named_columns(options)):
        option, column = next(iter(named.items()))
        raise ConfigError(f"{option}: got the column {column[:40]!r} for texts; name a file, or leave it out")


def has_rows(options: Any, kind: str) -> bool:
    """Return whether the inputs are rows: files, or standard input with an option that names a column."""
    return kind == "files" or (kind == "stdin" and bool(_named_columns(options)))


def _named_columns(options: Any) -> dict[str, str]:
    """Return the columns that options of a command name, by option."""
    names = ("text_pair", "tokens", "source")
    given = {f"--{name.replace('_', '-')}": getattr(options, name, None) for name in names}
    given["--text"] = next(iter(getattr(options, "text", None) or ()), None)
    given["--set"] = next(iter(getattr(options, "overrides", None) or ()), None)
    given["--columns"] = next(iter(getattr(options, "keep", None) or ()), None)
    return {option: column for option, column in given.items() if column}


def typed_lines(options: Any, windows: Iterator[list[Item]], column: str) -> Iterator[list[Item]]:
    """Yield the lines of standard input; if they look like rows, say that each is taken as it is.

    Args:
        column: that the model reads of rows.
    """
    first = next(windows, [])
    line = first[0].text if first else None
    if isinstance(line, str) and (what := _row_like(line, column)):
        option = f"--text {column}" if hasattr(options, "text") else "a file"
        print(f"{STDIN}: {what}; each line is taken as a text; {option} reads a column of rows", file=sys.stderr)
    if first:
        yield first
    yield from windows


def _row_like(line: str, column: str) -> str:
    """Describe what the first line begins, if it is no text."""
    try:
        values = json.loads(line) if line.startswith("{") else None
    except (ValueError, RecursionError):
        values = None
    if isinstance(values, dict) and values:
        return f"the first line is a JSON object ({', '.join(map(str, list(values)[:5]))})"
    if line.lstrip("\ufeff").startswith("__label__"):
        return f"the first line begins with a label of fastText's ({line.split()[0][:40]})"
    names = [name.strip(" \"'\ufeff") for name in re.split(r"[,;\t|]", line.strip())]
    return f"the first line names columns ({', '.join(names[:5])})" if column in names else ""


def _is_readable(name: str) -> bool:
    """Return whether there is a file of that name, or a pipe, such as the shell's <(command)."""
    try:
        mode = os.stat(name).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode)


def _is_folder_of_texts(name: str) -> bool:
    """Return whether there is such a folder, of a name that is no text."""
    if not os.path.isdir(name) or not ("/" in name or os.sep in name or name in (".", "..")):
        return False
    from mixling.data.readers.text_folder import holds_texts

    return holds_texts(Path(name))


def format_of(out: Path | None, *, readable: bool) -> str:
    """Return the output format for a file name; without a file, "text" if it should be readable, else "jsonl".

    Raises:
        ConfigError: the file name has no known suffix.
    """
    if out is None:
        return "text" if readable else "jsonl"
    suffix = out.suffix.lower().removeprefix(".")
    if suffix not in ("jsonl", "csv"):
        raise ConfigError(f"{out}: ends neither in .jsonl nor in .csv; use --format jsonl or --format csv")
    return suffix


def keep_inputs(inputs: Sequence[str], out: Path) -> None:
    """Refuse to overwrite an input.

    Raises:
        ConfigError: the output is one of the inputs.
    """
    if out.exists() and any(os.path.isfile(item) and out.samefile(item) for item in inputs):
        raise ConfigError(f"{out}: is also an input; give another file with -o")


class Finished(list[str]):
    """Rows of output."""


def finish_plain(
    windows: Iterable[Sequence[Item] | PlainTexts], lines: Callable[[Sequence[str]], list[str]], threads: int
) -> Iterator[Sequence[Item] | Finished]:
    """Yield the windows in order, plain texts as the rows of output that `lines` makes in other threads.

    So a window is read and written while others are predicted, unless there are none (0).
    """
    if not threads:
        yield from (Finished(lines(window)) if isinstance(window, PlainTexts) else window for window in windows)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Sequence[Item] | Future[list[str]]] = deque()

        def next_one() -> Sequence[Item] | Finished:
            first = waiting.popleft()
            return Finished(first.result()) if isinstance(first, Future) else first

        error = None
        try:
            for window in windows:
                waiting.append(pool.submit(lines, window) if isinstance(window, PlainTexts) else window)
                if len(waiting) > threads:
                    yield next_one()
        except DataError as found:  # what was read before it is written first
            error = found
        while waiting:
            yield next_one()
        if error is not None:
            raise error


def _show(progress: Any, done: int) -> None:
    if progress is not None:
        progress.update(progress.task_ids[0], completed=done)


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
