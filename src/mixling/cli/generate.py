"""`mixling generate`: what a model writes for a text, for the rows of files, or for lines as they come."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from mixling.cli.options import (
    AnswerBadRowOption,
    AnswersOption,
    BatchSizeOption,
    EscapeOption,
    FormatOption,
    InputsArgument,
    SourceOption,
)
from mixling.errors import ConfigError

if TYPE_CHECKING:
    from mixling.cli.rows import Item
    from mixling.errors import DataError
    from mixling.runs.generator import TextGenerator, Written
    from mixling.runs.pair_config import PairTaskConfig

_FORMATS = ("jsonl", "csv", "text")


def generate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A run folder of a model that writes text.")],
    inputs: InputsArgument = None,
    out: AnswersOption = None,
    output_format: FormatOption = None,
    of: Annotated[
        str | None,
        typer.Option("--of", metavar="TASK", help="Of a model of several tasks: whose rows, prefix and form they are."),
    ] = None,
    source: SourceOption = None,
    beams: Annotated[int | None, typer.Option("--beams", min=1, help="Of a beam search; 1 is greedy [1].")] = None,
    length_penalty: Annotated[
        float | None, typer.Option("--length-penalty", help="Above 0 favours long answers of a beam search [1].")
    ] = None,
    max_len: Annotated[int | None, typer.Option("--max-len", min=1, help="Most pieces of an answer.")] = None,
    echo: Annotated[bool, typer.Option("--echo", help="Write each source beside its answer.")] = False,
    on_bad_row: AnswerBadRowOption = "error",
    escape: EscapeOption = False,
    batch_size: BatchSizeOption = 128,
) -> None:
    """Write text with a saved model.

    Each input row gives one row of output, in order: the answer, its score (log-probability by length) and whether the
    model ended it itself. A task's prefix is laid before each text; rows of a task's form have their own. Needs torch.
    """
    from mixling.cli.answers import open_out
    from mixling.cli.predict import format_of, keep_inputs, kind_of
    from mixling.cli.rows import in_windows
    from mixling.config import parse
    from mixling.data.readers.rows import OnBadRow
    from mixling.models.generation import GenerationConfig
    from mixling.runs.generator import TextGenerator

    skip = OnBadRow(cast(Any, on_bad_row)).mode == "skip"
    if not inputs:
        raise ConfigError("no input; give a text, files, or - for standard input")
    kind = kind_of(inputs)
    if out is not None and kind == "files":
        keep_inputs(inputs, out)
    generator = TextGenerator(model)
    task = generator.task(of)
    given = {"num_beams": beams, "length_penalty": length_penalty, "max_len": max_len}
    settled = {**generator.generation.to_dict(), **{key: value for key, value in given.items() if value is not None}}
    config = parse(GenerationConfig, settled, where="options")
    by_hand = kind == "text" or (kind == "stdin" and sys.stdin.isatty())
    name = output_format or format_of(out, people=by_hand and sys.stdout.isatty())
    header, row = _writer(name, echo=echo or (name == "text" and len(inputs) > 1), skip=skip, escape=escape)
    windows: Iterator[list[Item]]
    if kind == "files":
        windows = in_windows(_file_items(generator, inputs, task, source=source, skip=skip))
    else:
        lines = _stdin_items(skip=skip) if kind == "stdin" else iter([_texts(inputs)])
        windows = ([_source(generator, item, task) for item in items] for items in lines)
    done = failed = 0
    with open_out(out) as write:
        write(header)
        for items in windows:
            answers, error = _answers(generator, items, task, config, skip=skip, batch_size=batch_size)
            write("".join(row(item.text, answer) for item, answer in zip(items, answers, strict=error is None)))
            if error is not None:
                raise error
            done += len(items)
            failed += sum(isinstance(answer, str) for answer in answers)
    if failed:
        print(f"{failed} bad rows have an error instead of an answer", file=sys.stderr)
    if out is not None:
        print(f"{out}: {done:,} rows", file=sys.stderr)


def _answers(
    generator: TextGenerator,
    items: Sequence[Item],
    task: PairTaskConfig,
    config: Any,
    *,
    skip: bool,
    batch_size: int,
) -> tuple[list[Written | str], DataError | None]:
    """An answer for each item, or what is wrong with it; unless `skip`, those before the first that cannot be read."""
    from mixling.errors import DataError

    out: list[Written | str] = [item.error or "" for item in items]
    places = [place for place, item in enumerate(items) if item.text is not None]
    encoded = generator.encode([str(items[place].text) for place in places], cut=task.cut)
    sources = dict(zip(places, encoded, strict=True))
    error = None
    for place, item in enumerate(items):
        fault = item.error or generator.fault(sources[place])
        if not fault:
            continue
        if not skip:
            error = DataError(item.error or f"{item.id}: {fault}")
            out, sources = out[:place], {before: sources[before] for before in places if before < place}
            break
        out[place] = fault
        sources.pop(place, None)
    answers = generator.answers(list(sources.values()), config=config, batch_size=batch_size)
    for place, answer in zip(sources, answers, strict=True):
        out[place] = answer
    return out, error


def _stdin_items(*, skip: bool) -> Iterator[list[Item]]:
    from mixling.cli.rows import stream_items

    number = 0
    for items in stream_items(sys.stdin.buffer, "<stdin>", skip=skip):
        yield [replace(item, id=f"<stdin>:{number + place}") for place, item in enumerate(items, 1)]
        number += len(items)


def _file_items(
    generator: TextGenerator, sources: Sequence[str], task: PairTaskConfig, *, source: str | None, skip: bool
) -> Iterator[Item]:
    """The sources of files: of plain text a line each, else by the task's form and columns.

    What an item is called in an error is its place.
    """
    from mixling.cli.rows import Item, text_lines
    from mixling.data.corpora import is_plain
    from mixling.data.pairs import read_pairs
    from mixling.data.readers.rows import OnBadRow

    columns = task.columns if source is None else task.columns.model_copy(update={"source": source})
    for name in sources:
        if is_plain(name):
            for number, item in enumerate(text_lines(name, skip), 1):
                yield _source(generator, replace(item, id=f"{name}:{number}"), task)
            continue
        bad = OnBadRow("skip" if skip else "error", keep=2**63)
        pairs = read_pairs(
            [name],
            columns=columns,
            on_bad_row=bad,
            labelled=False,
            form=task.form,
            prefix=task.prefix,
            training=False,
        )
        for pair in pairs:
            yield from (Item(None, message) for message in bad.messages)
            bad.messages.clear()
            yield Item(pair.source, id=f"{pair.path}:{pair.line}")
        yield from (Item(None, message) for message in bad.messages)


def _source(generator: TextGenerator, item: Item, task: PairTaskConfig) -> Item:
    from mixling.errors import DataError

    text = cast(str, item.text or "")
    if not text.strip():  # an empty text stays one
        return item
    try:
        return replace(item, text=generator.source(text, task))
    except DataError as error:
        return replace(item, text=None, error=f"{item.id}: {error}")


def _texts(inputs: Sequence[str]) -> list[Item]:
    from mixling.cli.rows import Item

    return [Item(text, id=f"text {number}") for number, text in enumerate(inputs, 1)]


def _writer(name: str, *, echo: bool, skip: bool, escape: bool) -> tuple[str, Callable[[Any, Written | str], str]]:
    """What stands before the first row, and the writer of a row.

    Raises:
        ConfigError: an unknown format.
    """
    from mixling.cli.answers import csv_line
    from mixling.errors import near_miss, printable

    if name not in _FORMATS:
        raise ConfigError(f"--format: got {name!r}; {near_miss(name, _FORMATS)}")

    def as_json(source: str | None, answer: Written | str) -> str:
        row: dict[str, Any] = {"source": source} if echo else {}
        if isinstance(answer, str):
            return json.dumps({**row, "error": answer}, ensure_ascii=False) + "\n"
        row |= {"answer": answer.text, "score": round(answer.score, 6), "stopped": answer.stopped}
        return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"

    def as_csv(source: str | None, answer: Written | str) -> str:
        fields = [source or ""] * echo
        if isinstance(answer, str):
            return csv_line([*fields, "", "", "", answer], escape=escape)
        fields += [answer.text, f"{answer.score:.6f}", str(answer.stopped).lower(), *[""] * skip]
        return csv_line(fields, escape=escape)

    def for_people(source: str | None, answer: Written | str) -> str:
        lines = [printable(source or "")] * echo
        if isinstance(answer, str):
            return "\n".join([*lines, f"(no answer: {answer})"]) + "\n"
        cut = [] if answer.stopped else ["  (cut at the longest answer; --max-len allows more)"]
        return "\n".join([*lines, printable(answer.text), *cut]) + "\n"

    header = csv_line([*["source"] * echo, "answer", "score", "stopped", *["error"] * skip]) if name == "csv" else ""
    return header, {"jsonl": as_json, "csv": as_csv, "text": for_people}[name]
