"""`mixling generate`: what a model writes for a text, for the rows of files, or for lines as they come."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from mixling.cli.options import AnswerOptions, SourceColumn
from mixling.errors import ConfigError

if TYPE_CHECKING:
    from mixling.data.inputs import Item
    from mixling.errors import DataError
    from mixling.seq2seq.config import PairTaskConfig
    from mixling.seq2seq.generator import Generations, TextGenerator


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(AnswerOptions, SourceColumn):
    """How text is generated."""

    of: Annotated[
        str | None,
        typer.Option("--of", metavar="TASK", help="Of a model of several tasks: whose rows, prefix and form they are."),
    ] = None
    beams: Annotated[int | None, typer.Option("--beams", min=1, help="Of a beam search; 1 is greedy [1].")] = None
    length_penalty: Annotated[
        float | None, typer.Option("--length-penalty", help="Above 0 favours long answers of a beam search [1].")
    ] = None
    max_len: Annotated[int | None, typer.Option("--max-len", min=1, help="Most subwords of an answer.")] = None
    echo: Annotated[bool, typer.Option("--echo", help="Write each source beside its answer.")] = False
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Texts computed together.")] = 128


def generate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A run folder of a model that writes text.")],
    options: GenerateOptions,
) -> None:
    """Write text with a saved model.

    Each input row gives one row of output, in order: the answer, its score (log-probability by length) and whether the
    model ended it itself. A task's prefix is laid before each text; rows of a task's form have their own. Needs torch.
    """
    from mixling.cli.inputs import read_request, write_answers
    from mixling.config import parse
    from mixling.data.inputs import Item, in_windows, stream_items
    from mixling.seq2seq.generation import GenerationConfig
    from mixling.seq2seq.generator import TextGenerator

    inputs = options.inputs
    if not inputs:
        raise ConfigError("no input; give a text, files, or - for standard input")
    request = read_request(options)
    generator = TextGenerator(model)
    task = generator.task(options.of)
    given = {"num_beams": options.beams, "length_penalty": options.length_penalty, "max_len": options.max_len}
    values = {**generator.generation.to_dict(), **{key: value for key, value in given.items() if value is not None}}
    config = parse(GenerationConfig, values, where="options")
    header, row = _writer(request.output_format, echo=request.echo, skip=request.skip, escape=options.escape)
    windows: Iterator[list[Item]]
    if request.kind == "files":
        windows = in_windows(_file_items(generator, inputs, task, source=options.source, skip=request.skip))
    else:
        lines = (
            _numbered(stream_items(sys.stdin.buffer, "<stdin>", skip=request.skip))
            if request.kind == "stdin"
            else iter([[Item(text, id=f"text {number}") for number, text in enumerate(inputs, 1)]])
        )
        windows = ([_source(generator, item, task) for item in items] for items in lines)

    def answer(items: Sequence[Item]) -> tuple[list[Any], DataError | None]:
        return _answers(generator, items, task, config, skip=request.skip, batch_size=options.batch_size)

    write_answers(options, windows, header=header, row=row, answer=answer)


def _numbered(windows: Iterator[list[Item]]) -> Iterator[list[Item]]:
    number = 0
    for items in windows:
        yield [replace(item, id=f"<stdin>:{number + location}") for location, item in enumerate(items, 1)]
        number += len(items)


def _answers(
    generator: TextGenerator,
    items: Sequence[Item],
    task: PairTaskConfig,
    config: Any,
    *,
    skip: bool,
    batch_size: int,
) -> tuple[list[Generations | str], DataError | None]:
    """An answer for each item, or what is wrong with it; unless `skip`, those before the first that cannot be read."""
    from mixling.errors import DataError

    out: list[Generations | str] = [item.error or "" for item in items]
    locations = [location for location, item in enumerate(items) if item.text is not None]
    encoded = generator.encode([str(items[location].text) for location in locations], cut=task.cut)
    sources = dict(zip(locations, encoded, strict=True))
    error = None
    for location, item in enumerate(items):
        problem = item.error or generator.problem(sources[location])
        if not problem:
            continue
        if not skip:
            error = DataError(item.error or f"{item.id}: {problem}")
            out, sources = out[:location], {before: sources[before] for before in locations if before < location}
            break
        out[location] = problem
        sources.pop(location, None)
    answers = generator.answers(list(sources.values()), config=config, batch_size=batch_size)
    for location, answer in zip(sources, answers, strict=True):
        out[location] = answer
    return out, error


def _file_items(
    generator: TextGenerator, sources: Sequence[str], task: PairTaskConfig, *, source: str | None, skip: bool
) -> Iterator[Item]:
    """The sources of files: of plain text a line each, else by the task's form and columns.

    What an item is called in an error is its place.
    """
    from mixling.data.corpora import is_plain
    from mixling.data.inputs import Item, text_lines
    from mixling.data.readers.rows import OnBadRow
    from mixling.seq2seq.pairs import read_pairs

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
            labeled=False,
            template=task.template,
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


def _writer(name: str, *, echo: bool, skip: bool, escape: bool) -> tuple[str, Callable[[Any, Any, str | None], str]]:
    """What stands before the first row, and the writer of a row.

    Raises:
        ConfigError: an unknown format.
    """
    from mixling.cli.answers import FORMATS, csv_line
    from mixling.errors import near_miss, printable

    if name not in FORMATS:
        raise ConfigError(f"--format: got {name!r}; {near_miss(name, FORMATS)}")

    def as_json(source: str | None, answer: Generations | str, _: str | None) -> str:
        row: dict[str, Any] = {"source": source} if echo else {}
        if isinstance(answer, str):
            return json.dumps({**row, "error": answer}, ensure_ascii=False) + "\n"
        row |= {"answer": answer.text, "score": round(answer.score, 6), "stopped": answer.stopped}
        return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"

    def as_csv(source: str | None, answer: Generations | str, _: str | None) -> str:
        fields = [source or ""] * echo
        if isinstance(answer, str):
            return csv_line([*fields, "", "", "", answer], escape=escape)
        fields += [answer.text, f"{answer.score:.6f}", str(answer.stopped).lower(), *[""] * skip]
        return csv_line(fields, escape=escape)

    def for_people(source: str | None, answer: Generations | str, _: str | None) -> str:
        lines = [printable(source or "")] * echo
        if isinstance(answer, str):
            return "\n".join([*lines, f"(no answer: {answer})"]) + "\n"
        cut = [] if answer.stopped else ["  (cut at the longest answer; --max-len allows more)"]
        return "\n".join([*lines, printable(answer.text), *cut]) + "\n"

    header = csv_line([*["source"] * echo, "answer", "score", "stopped", *["error"] * skip]) if name == "csv" else ""
    return header, {"jsonl": as_json, "csv": as_csv, "text": for_people}[name]
