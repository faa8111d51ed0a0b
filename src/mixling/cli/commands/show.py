"""`mixling show`: a description of a saved model."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from mixling.cli.options import ModelArgument
from mixling.cli.output import put, wrapped
from mixling.errors import printable


def show_command(
    model: ModelArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print all details as JSON.")] = False,
    engine: Annotated[
        bool, typer.Option("--engine", help="Print which engine computes predictions here: native, or onnx and why.")
    ] = False,
) -> None:
    """Describe a saved model.

    Prints task, labels, size, configuration and the time for one text on this machine, for run folders also the
    validation metrics; for unfinished runs the step, the best evaluation so far and the command that resumes the run.
    """
    from mixling.runtime.predictor import Predictor

    if engine:
        put(Predictor(model).engine + "\n")
        return
    from mixling.artifacts.description import NAME_WIDTH, describe, summary
    from mixling.runtime.latency import time_for_a_text

    facts = describe(model)
    if "precision" in facts:  # of a model.onnx
        facts |= {"latency": time_for_a_text(Predictor(model))}
    lines = json.dumps(facts, ensure_ascii=False, indent=2) if as_json else printable(summary(facts), keep="\n")
    put((lines if as_json else wrapped(lines, column=NAME_WIDTH)) + "\n")
