"""`mixling explain`: why a saved model gives an answer, word by word."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from mixling.cli.command import OUTPUT
from mixling.cli.options import CellOptions, InputColumns, ModelArgument
from mixling.cli.output import no_collections, put
from mixling.errors import ConfigError, near_miss

if TYPE_CHECKING:
    from mixling.data.inputs import Item
    from mixling.explain.explanation import Explanation

_FORMATS = ("text", "json", "html")


@dataclass(frozen=True, kw_only=True)
class Explained(InputColumns):
    """What is explained, and how."""

    target: Annotated[
        str | None, typer.Option("--target", metavar="LABEL", help="Label to explain [the most probable].")
    ] = None
    word: Annotated[
        int | None,
        typer.Option("--word", metavar="N", help="Tagging: word whose tag is explained, from 0 [first of a span]."),
    ] = None
    method: Annotated[
        str,
        typer.Option(
            "--method",
            metavar="auto|leave_one_out|shapley",
            help="Shapley values are exact up to 10 words, sampled beyond; auto: up to 64 words.",
        ),
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class ExplainOutput(CellOptions):
    """Where explanations are written."""

    panel: ClassVar[str] = OUTPUT
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="INPUT...", help="Texts; or files (.txt: one text per line); or - for standard input."),
    ]
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE", help="Write to this file.")] = None
    output_format: Annotated[
        str | None,
        typer.Option("--format", metavar="text|json|html", help="By default from FILE's name, else text."),
    ] = None


def explain_command(model: ModelArgument, options: Explained, output: ExplainOutput) -> None:
    """Explain the answers of a saved model by words.

    The effect of a word is found by leaving it out of the text, alone or together with others.

    Text has colors on a terminal; JSON has one object per line, with the characters and the effect of each word; HTML
    is one page that loads nothing. Effects are differences in the label's log-odds, or in the number that a
    regression predicts. Torch is not needed.
    """
    with no_collections():
        from mixling.cli.folders import refuse_unfinished
        from mixling.cli.inputs import has_rows, input_kind, keep_inputs, refuse_columns, typed_lines
        from mixling.cli.predictions import open_output
        from mixling.data.inputs import Item, file_items, stream_items
        from mixling.data.readers import STDIN
        from mixling.explain.explanation import explanation_lines, explanation_page
        from mixling.runs.evaluation import columns_of
        from mixling.runtime.predictor import Predictor

    name = _format(output)
    kind = input_kind(output.inputs)
    refuse_columns(options, kind)
    if output.out is not None and kind == "files":
        keep_inputs(output.inputs, output.out)
    refuse_unfinished(model)
    predictor = Predictor(model)
    windows: Iterator[list[Item]]
    reader = predictor.task.reader
    columns = columns_of(model, options.columns(), predictor.features)
    if has_rows(options, kind):
        windows = file_items(output.inputs if kind == "files" else [STDIN], reader=reader, columns=columns, skip=False)
    elif kind == "stdin":
        lines = stream_items(sys.stdin.buffer, STDIN, skip=False)
        windows = typed_lines(options, lines, getattr(columns, reader.wanted[0]))
    else:
        windows = iter([[Item(text) for text in output.beside(output.inputs, predictor.features)]])

    def explanations() -> Iterator[Explanation]:
        for item in itertools.chain.from_iterable(windows):
            assert item.text is not None
            yield predictor.explain(item.text, options.target, options.method, word=options.word)

    if name == "text" and output.out is None:
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        for number, item in enumerate(explanations()):
            put("\n" * (number > 0) + "\n".join(explanation_lines(item, color=color)) + "\n", styled=color)
        return
    with open_output(output.out) as write:
        if name == "html":
            write(explanation_page(list(explanations()), title=f"Explanations of {model}"))
            return
        for number, item in enumerate(explanations()):
            if name == "json":
                write(json.dumps(item.to_dict(), ensure_ascii=False, allow_nan=False) + "\n")
            else:
                write("\n" * (number > 0) + "\n".join(explanation_lines(item, color=False)) + "\n")


def _format(output: ExplainOutput) -> str:
    """Return the format that the options choose.

    Raises:
        ConfigError: there is no such format, or the file name has no known suffix.
    """
    if (name := output.output_format) is not None:
        if name not in _FORMATS:
            raise ConfigError(f"--format: got {name!r}; {near_miss(name, _FORMATS)}")
        return name
    if output.out is None:
        return "text"
    suffixes = {".html": "html", ".json": "json", ".jsonl": "json", ".txt": "text"}
    if (found := suffixes.get(output.out.suffix.lower())) is None:
        raise ConfigError(f"{output.out}: ends in none of {', '.join(suffixes)}; choose with --format")
    return found
