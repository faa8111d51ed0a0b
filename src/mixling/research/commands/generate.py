"""`mixling generate`: generating text for texts, files, or lines of standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from mixling.cli.options import PredictionOptions, SourceColumn, local_model
from mixling.errors import ConfigError, printable

if TYPE_CHECKING:
    from mixling.data.inputs import Item
    from mixling.errors import DataError
    from mixling.research.seq2seq.config import PairTaskConfig
    from mixling.research.seq2seq.generator import Generation, TextGenerator


_BATCH = 128  # texts


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(PredictionOptions, SourceColumn):
    """How text is generated."""

    task_name: Annotated[
        str | None,
        typer.Option(
            "--task-name", metavar="NAME", help="Task whose prefix and template are used, if the model has several."
        ),
    ] = None
    beams: Annotated[int | None, typer.Option("--beams", min=1, help="Width of the beam search; 1 is greedy [1].")] = (
        None
    )


def generate_command(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="Run folder of a model that generates text.", callback=local_model),
    ],
    options: GenerateOptions,
) -> None:
    """Generate text with a saved model.

    Each row of input gives one row of output, in order: the text, its score (log-probability, normalized by length) and
    whether it is complete. The task's prefix is prepended to each text, unless the task has a template. Needs torch.
    """
    from mixling.cli.inputs import has_rows, read_request, write_predictions
    from mixling.cli.predictions import Results, writer_for
    from mixling.config import parse
    from mixling.data.inputs import Item, in_windows, stream_items
    from mixling.data.readers import STDIN
    from mixling.research.seq2seq.generation import GenerationConfig
    from mixling.research.seq2seq.generator import TextGenerator

    inputs = options.inputs
    if not inputs:
        raise ConfigError("no input; give a text, files, or - for standard input")
    request = read_request(options)
    generator = TextGenerator(model)
    task = generator.task(options.task_name)
    config = generator.generation
    if options.beams is not None:
        config = parse(GenerationConfig, {**config.to_dict(), "num_beams": options.beams}, where="options")
    columns = ("answer", "score", "stopped")
    results = Results(source="source", columns=columns, to_json=_to_json, csv_values=_csv_values, lines=_lines)
    header, row = writer_for(request.output_format, results, echo=request.echo, skip=request.skip, escape=False)
    windows: Iterator[list[Item]]
    if has_rows(options, request.kind):
        sources = inputs if request.kind == "files" else [STDIN]
        windows = in_windows(_file_items(generator, sources, task, source=options.source, skip=request.skip))
    else:
        lines = (
            _numbered(stream_items(sys.stdin.buffer, "<stdin>", skip=request.skip))
            if request.kind == "stdin"
            else iter([[Item(text, place=f"text {number}") for number, text in enumerate(inputs, 1)]])
        )
        windows = ([_source(generator, item, task) for item in items] for items in lines)

    def predict(items: Sequence[Item]) -> tuple[list[Any], DataError | None]:
        return _generate(generator, items, task, config, skip=request.skip, batch_size=_BATCH)

    write_predictions(options, windows, header=header, row=row, predict=predict, echo=request.echo)


def _numbered(windows: Iterator[list[Item]]) -> Iterator[list[Item]]:
    number = 0
    for items in windows:
        yield [replace(item, place=f"<stdin>:{number + i}") for i, item in enumerate(items, 1)]
        number += len(items)


def _generate(
    generator: TextGenerator,
    items: Sequence[Item],
    task: PairTaskConfig,
    config: Any,
    *,
    skip: bool,
    batch_size: int,
) -> tuple[list[Generation | str], DataError | None]:
    """Return a generation or an error message for each item, and an error; unless `skip`, stop at the first error."""
    from mixling.errors import DataError

    out: list[Generation | str] = [item.error or "" for item in items]
    readable = [i for i, item in enumerate(items) if item.text is not None]
    sources = dict(zip(readable, generator.encode([str(items[i].text) for i in readable], cut=task.cut), strict=True))
    error = None
    for i, item in enumerate(items):
        problem = item.error or generator.problem(sources[i])
        if not problem:
            continue
        if not skip:
            error = DataError(item.error or f"{item.place}: {problem}")
            out = out[:i]
            sources = {before: source for before, source in sources.items() if before < i}
            break
        out[i] = problem
        sources.pop(i, None)
    generations = generator.generate_encoded(list(sources.values()), config=config, batch_size=batch_size)
    for i, generation in zip(sources, generations, strict=True):
        out[i] = generation
    return out, error


def _file_items(
    generator: TextGenerator, sources: Sequence[str], task: PairTaskConfig, *, source: str | None, skip: bool
) -> Iterator[Item]:
    """Yield the sources in files: the lines of plain text, else made by the task's template and columns.

    The id of an item is its file and line, for error messages.
    """
    from mixling.data.corpora import is_plain
    from mixling.data.inputs import Item, text_lines
    from mixling.data.readers.rows import OnBadRow
    from mixling.research.seq2seq.pairs import read_pairs

    columns = task.columns if source is None else task.columns.model_copy(update={"source": source})
    for name in sources:
        if is_plain(name):
            for number, item in enumerate(text_lines(name, skip), 1):
                yield _source(generator, replace(item, place=f"{name}:{number}"), task)
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
            yield Item(pair.source, place=f"{pair.path}:{pair.line}")
        yield from (Item(None, message) for message in bad.messages)


def _source(generator: TextGenerator, item: Item, task: PairTaskConfig) -> Item:
    from mixling.errors import DataError

    text = cast(str, item.text or "")
    if not text.strip():  # without a prefix, an empty text remains recognizable
        return item
    try:
        return replace(item, text=generator.source(text, task))
    except DataError as error:
        return replace(item, text=None, error=f"{item.place}: {error}")


def _to_json(result: Generation) -> dict[str, Any]:
    return {"answer": result.text, "score": round(result.score, 6), "stopped": result.stopped}


def _csv_values(result: Generation) -> list[Any]:
    return [result.text, f"{result.score:.6f}", str(result.stopped).lower()]


def _lines(result: Generation) -> list[str]:
    cut = [] if result.stopped else ["  (truncated at the maximum length)"]
    return [printable(result.text), *cut]
