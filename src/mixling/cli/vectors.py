"""`mixling vectors`: word vectors of unlabeled text, for `mixling train --init-embeddings`."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mixling.cli.command import OUTPUT
from mixling.cli.options import TextColumn
from mixling.errors import command_line


@dataclass(frozen=True, kw_only=True)
class VectorsOptions(TextColumn):
    """What word vectors are made of, and how."""

    files: Annotated[
        list[str], typer.Argument(metavar="FILES...", help="Text: .txt, a line each, or the tables of `train`; or .gz.")
    ]
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="How words are counted, e.g. dim=128, contractions=true."),
    ] = None


def vectors(
    options: VectorsOptions,
    out: Annotated[
        Path,
        typer.Option("-o", "--out", metavar="DIR", help="Write the vectors there.", rich_help_panel=OUTPUT),
    ],
) -> None:
    """Make word vectors of unlabeled text by counting.

    A model that is trained with `--init-embeddings DIR` begins with them, and so knows words that no labeled row has.
    `mixling train --unlabeled FILES` does both at once.
    """
    from mixling.config import parse, read_overrides
    from mixling.data.corpora import read_texts
    from mixling.text.vectors import VectorConfig, train_vectors

    config = parse(VectorConfig, read_overrides(options.overrides or ()), where="options")
    begin = time.monotonic()
    made = train_vectors(read_texts(options.files, text=options.text or "text"), config)
    made.save(out)
    print(f"{len(made.words):,} words of {made.num_tokens:,}, vectors of width {config.dim}")
    command = command_line("mixling", "train", "FILE", "--init-embeddings", out, "-o", "DIR")
    print(f"{time.monotonic() - begin:.0f} s\nnext:  {command}", file=sys.stderr)
