"""`mixling suggest`: which unlabeled texts to label next."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from mixling.cli.command import OUTPUT
from mixling.cli.input_files import InputFiles
from mixling.cli.options import EscapeOption, ModelArgument
from mixling.cli.output import no_collections

if TYPE_CHECKING:
    from mixling.audit.suggestions import Suggestion


@dataclass(frozen=True, kw_only=True)
class SuggestOutput:
    """How many are chosen, and where they are written."""

    panel: ClassVar[str] = OUTPUT
    count: Annotated[int, typer.Option("-n", "--count", min=1, metavar="N", help="Texts to choose.")] = 100
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="Write to this file (.csv or .jsonl) [standard output, CSV]."),
    ] = None
    escape: EscapeOption = False


def suggest_command(model: ModelArgument, pool: InputFiles, output: SuggestOutput) -> None:
    """Choose the unlabeled texts to label next.

    The model is unsure about these texts, and they differ from one another. The most useful ones are first, each with
    the label that the model suggests and its margin (0: undecided, 1: sure). Torch is not needed.
    """
    with no_collections():
        from mixling.audit.suggestions import suggest
        from mixling.cli.inputs import format_of
        from mixling.cli.predictions import open_output
        from mixling.data.csv_lines import csv_line

        name = "csv" if output.out is None else format_of(output.out, readable=False)
        predictor, items = pool.read("suggest", model, output.out)
    texts = list(items)
    found = suggest(predictor, texts, output.count)
    names = predictor.text_names or ("text",)

    def line(item: Suggestion) -> str:
        text = texts[item.index]
        row = {
            **dict(zip(names, text if isinstance(text, tuple) else [text], strict=True)),
            "suggested": item.label,
            "margin": round(item.margin, 6),
        }
        if name == "jsonl":
            return json.dumps(row, ensure_ascii=False) + "\n"
        return csv_line([value if isinstance(value, str | float) else " ".join(value) for value in row.values()],
                        escape=output.escape)  # fmt: skip

    with open_output(output.out) as write:
        if name == "csv":
            write(csv_line([*names, "suggested", "margin"]))
        write("".join(map(line, found)))
    if len(found) < output.count:
        print(f"only {len(found):,} of {len(texts):,} texts differ from each other", file=sys.stderr)
    if output.out is not None:
        print(f"{output.out}: {len(found):,} of {len(texts):,} texts", file=sys.stderr)
