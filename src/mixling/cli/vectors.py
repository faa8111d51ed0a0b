"""`mixling vectors`: word vectors of unlabelled text, for `mixling train --start`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from mixling.cli.options import TextOption
from mixling.errors import command_line


def vectors(
    files: Annotated[
        list[str], typer.Argument(metavar="FILES...", help="Text: .txt, a line each, or the tables of `train`; or .gz.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Write the vectors there.")],
    text: TextOption = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="How words are counted, e.g. dim=128, contractions=true."),
    ] = None,
) -> None:
    """Make word vectors of unlabelled text by counting.

    A model that is trained with `--start DIR` begins with them, and so knows words that no labelled row has.
    `mixling train --unlabelled FILES` does both at once.
    """
    from mixling.config import parse, read_overrides
    from mixling.data.corpora import read_texts
    from mixling.text.vectors import VectorConfig, train_vectors

    config = parse(VectorConfig, read_overrides(overrides or ()), where="options")
    begin = time.monotonic()
    made = train_vectors(read_texts(files, text=text or "text"), config)
    made.save(out)
    print(f"{len(made.words):,} words of {made.num_tokens:,}, vectors of width {config.dim}")
    command = command_line("mixling", "train", "FILE", "--start", out, "-o", "DIR")
    print(f"{time.monotonic() - begin:.0f} s\nnext:  {command}", file=sys.stderr)
