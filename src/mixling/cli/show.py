"""`mixling show`: what a saved model is."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from mixling.cli.options import ModelArgument
from mixling.cli.output import put
from mixling.errors import printable


def show(
    model: ModelArgument,
    as_json: Annotated[bool, typer.Option("--json", help="All that is known, as JSON.")] = False,
) -> None:
    """Show what a saved model is.

    Task, labels, size and configuration; of a run folder the measures on validation, too. Of an unfinished run: the
    step, the best evaluation so far and how to resume.
    """
    from mixling.runs.description import describe, summary

    facts = describe(model)
    lines = json.dumps(facts, ensure_ascii=False, indent=2) if as_json else printable(summary(facts), keep="\n")
    put(lines + "\n")
