"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="A run folder, or a model.onnx.")]
TextOption = Annotated[
    str | None,
    typer.Option("--text", metavar="COLUMN", help="Column of the text [text, or that of the model's training rows]."),
]
TextPairOption = Annotated[str | None, typer.Option("--text-pair", metavar="COLUMN", help="Column of a second text.")]
LabelOption = Annotated[str | None, typer.Option("--label", metavar="COLUMN", help="Column of the label [label].")]
TokensOption = Annotated[
    str | None, typer.Option("--tokens", metavar="COLUMN", help="Tagging: column of the words [tokens].")
]
SlotsOption = Annotated[
    str | None, typer.Option("--slots", metavar="COLUMN", help="Tagging: column of the IOB tags [slots].")
]
ThreadsOption = Annotated[int, typer.Option("--threads", min=1, help="Threads of one computation.")]
