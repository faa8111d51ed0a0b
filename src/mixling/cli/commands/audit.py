"""`mixling audit`: likely errors in labeled data."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from mixling.cli.command import OUTPUT, TRAINING
from mixling.cli.guessing import free_folder, with_columns
from mixling.cli.options import FeatureColumns, OnBadRowOption, refuse_stdin
from mixling.cli.output import announce, put
from mixling.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Audited(FeatureColumns):
    """The data to audit."""

    files: Annotated[list[str], typer.Argument(metavar="FILES...", help="Labeled data, in any format of `train`.")]
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="classification|multi_label|tagging", help="By default inferred from the data."),
    ] = None
    test: Annotated[
        list[str] | None,
        typer.Option("--test", metavar="FILE", help="Another split, to find texts that are in both; repeatable."),
    ] = None
    on_bad_row: OnBadRowOption = "error"


@dataclass(frozen=True, kw_only=True)
class AuditTraining:
    """The models that judge the labels."""

    panel: ClassVar[str] = TRAINING
    folds: Annotated[int, typer.Option("--folds", help="Models to train, each on all parts but one.")] = 5
    epochs: Annotated[
        int | None, typer.Option("--epochs", min=1, help="Passes over the data; by default a third of `train`'s.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class AuditOutput:
    """Where the report is written."""

    panel: ClassVar[str] = OUTPUT
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Folder of the report [FILE-audit].")
    ] = None


def audit_command(data: Audited, training: AuditTraining, output: AuditOutput) -> None:
    """Find likely label errors and duplicates in data.

    The texts may have one label or several, or words with tags. Models are trained on parts of the examples, and judge
    the labels of the others (confident learning). DIR gets report.html, rows.csv with all examples and their scores,
    and audit.json with the numbers.
    """
    refuse_stdin("audit", [*data.files, *(data.test or [])])
    out = output.out or free_folder(data.files[0], "audit")
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: is a file; give a folder with -o")
    data = with_columns(data, "audit")
    started = announce("audit")
    from mixling.audit.audit import AUDITED, audit
    from mixling.audit.report import PAGE_FILE, summarize, write_report
    from mixling.config import parse, present
    from mixling.data.config import ColumnsConfig
    from mixling.data.dataset import Dataset
    from mixling.data.examples import read_examples
    from mixling.data.readers import OnBadRow
    from mixling.tasks import infer_task, task_type
    from mixling.workers import usable_cores, use_workers

    named = present(data.columns())
    columns = parse(ColumnsConfig, named, where="columns")
    task = data.task or infer_task({"train": data.files, "columns": named, "on_bad_row": data.on_bad_row})[0]
    if task not in AUDITED:
        got = f"--task: got {task!r}" if data.task else f"{data.files[0]}: is data of {task}"
        raise ConfigError(f"{got}; data of {', '.join(AUDITED)} can be audited, as --task names them")
    bad = OnBadRow(data.on_bad_row)  # type: ignore[arg-type]

    def read(files: list[str], *, texts: int | None = None) -> Dataset:
        rows = read_examples(files, reader=task_type(task).reader, columns=columns, on_bad_row=bad)
        return Dataset.from_examples(rows, texts=texts)

    examples = read(data.files)
    test = read(data.test, texts=examples.schema.texts) if data.test else None

    def log(message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    for line in bad.lines():
        log(line)
    with use_workers(usable_cores()):
        found = audit(
            examples,
            task=task,
            test=test,
            folds=training.folds,
            epochs=training.epochs,
            features=columns.features,
            log=log,
        )
    write_report(found, out, title=f"Audit of {', '.join(data.files)}")
    put("\n".join(summarize(found)) + "\n")
    log(started.total_time())
    log(f"report: {out / PAGE_FILE}")
