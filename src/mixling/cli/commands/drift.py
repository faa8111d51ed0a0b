"""`mixling drift`: whether new texts are like those that a model was measured on."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from mixling.cli.command import OUTPUT
from mixling.cli.input_files import InputFiles
from mixling.cli.options import ModelArgument
from mixling.cli.output import no_collections, put, wrapped

if TYPE_CHECKING:
    from mixling.drift.report import Drift


@dataclass(frozen=True, kw_only=True)
class DriftOutput:
    """Where the report goes."""

    panel: ClassVar[str] = OUTPUT
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE", help="Write the report as JSON.")] = None
    check: Annotated[bool, typer.Option("--check", help="Exit with status 1 if a statistic moved.")] = False


def drift_command(model: ModelArgument, new: InputFiles, output: DriftOutput) -> None:
    """Compare new texts with those that a model was measured on.

    Their lengths, unknown words, answers and confidence are compared with the counts that the model file keeps. The
    confidence also gives an estimate of the accuracy, which is reliable only where lengths and answers did not move,
    and unknown words not far.
    """
    with no_collections():
        from mixling.storage import write_json

        predictor, texts = new.read("drift", model, output.out)
    found = predictor.drift(list(texts))
    put(_table(found) + "\n")
    for sentence in _sentences(found, model, new.files[0]):
        put(wrapped(sentence) + "\n")
    if output.out is not None:
        write_json(output.out, {"model": model, "files": new.files, **found.to_dict()})
    if output.check and found.moved:
        sys.exit(1)


def _table(found: Drift) -> str:
    from mixling.tables import format_columns

    rows = [["", "measured on", f"{found.texts:,} new texts", "in other bins", ""]]
    rows += [
        [one.name, one.before, one.after, f"{one.distance:.0%}", "moved" if one.moved else ""]
        for one in found.movements
    ]
    return format_columns(rows)


def _sentences(found: Drift, model: str, file: str) -> list[str]:
    from mixling.samples.sets import shown_model

    sentences = []
    if found.estimate is not None and found.accuracy is not None:
        given = f"{found.estimate:.2f} +- {found.margin:.2f}"
        estimate = f"accuracy    {found.accuracy:.2f} measured, {given} by the confidence in the new texts"
        unreliable = "; UNRELIABLE: these texts are of another kind, and a model may be sure and wrong"
        sentences.append(estimate + ("" if found.reliable else unreliable))
    if not found.moved:
        return [*sentences, "nothing moved"]
    shown = [f"  {text if len(text) <= 70 else text[:69] + '…'}" for text in found.examples[:5]]
    sentences += [f"of {len(found.examples)} texts that show it:", *shown] if shown else []
    evaluate = f"mixling evaluate {shown_model(model)} LABELED"
    advice = f"next        label 100 of these texts, then {evaluate}; and train with them"
    return [*sentences, advice]
