"""`mixling vectors`: word vectors from unlabeled text, for `mixling train --init-embeddings`."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mixling.cli.command import OUTPUT
from mixling.cli.options import TextColumn
from mixling.cli.training_options import SplittingOptions
from mixling.errors import command_line


@dataclass(frozen=True, kw_only=True)
class VectorsOptions(TextColumn, SplittingOptions):
    """Options of `mixling vectors`."""

    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES...",
            help="Text: .txt (one text per line), tables as for `train`; also compressed (.gz, .bz2, .xz, .zip).",
        ),
    ]
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set an option, e.g. dim=128 or contractions=true."),
    ] = None


def vectors_command(
    options: VectorsOptions,
    out: Annotated[
        Path,
        typer.Option("-o", "--out", metavar="DIR", help="Folder of the vectors.", rich_help_panel=OUTPUT),
    ],
) -> None:
    """Make word vectors by counting in unlabeled text.

    `mixling train --init-embeddings DIR` initializes a model from them, so that it knows words that do not occur in the
    labeled data. `mixling train --unlabeled FILES` does both at once.
    """
    from mixling.config import parse, read_overrides
    from mixling.data.corpora import read_texts
    from mixling.text.vectors import VectorConfig, train_vectors
    from mixling.workers import use_workers

    config = parse(VectorConfig, read_overrides(options.overrides or ()), where="options")
    begin = time.monotonic()
    with use_workers(options.workers):
        trained = train_vectors(read_texts(options.files, text=options.text or "text"), config)
    trained.save(out)
    print(f"{len(trained.words):,} words of {trained.num_tokens:,}, vectors of width {config.dim}")
    command = command_line("mixling", "train", "FILE", "--init-embeddings", out, "-o", "DIR")
    print(f"{time.monotonic() - begin:.0f} s\nnext:  {command}", file=sys.stderr)
