"""`mixling compare`: our models beside the baselines that a sceptic would ask for."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from mixling.cli.folders import interruptible
from mixling.cli.options import (
    GroupOption,
    LabelOption,
    SlotsOption,
    TextOption,
    TextPairOption,
    TokensOption,
    run_values,
)
from mixling.cli.output import announce, put, total_time
from mixling.errors import ConfigError, Interrupted, command_line
from mixling.tasks import own_tasks


def compare(
    context: typer.Context,
    files: Annotated[
        list[str], typer.Argument(metavar="FILES...", help="Labelled rows to train on, in any format of `train`.")
    ],
    dev: Annotated[
        list[str] | None, typer.Option("--dev", metavar="FILE", help="Rows that all choices are made on; repeatable.")
    ] = None,
    dev_fraction: Annotated[
        float | None, typer.Option("--dev-fraction", help="Share of the rows set aside for dev without --dev [0.1].")
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option("--test", metavar="FILE", help="Rows that are read once, after all choices; repeatable."),
    ] = None,
    text: TextOption = None,
    text_pair: TextPairOption = None,
    label: LabelOption = None,
    tokens: TokensOption = None,
    slots: SlotsOption = None,
    group: GroupOption = None,
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="|".join(own_tasks()), help="By default seen from the rows."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", metavar="NAME|FILE.toml", help="One more model, by name or a file of one; may be repeated."
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--start", metavar="DIR", help="Our models begin with the word vectors of `mixling vectors`."),
    ] = None,
    unlabelled: Annotated[
        list[str] | None,
        typer.Option("--unlabelled", metavar="FILE", help="They begin with word vectors of this text; repeatable."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option("--epochs", help="Of our models and the Transformer; by default from the rows.")
    ] = None,
    time_budget: Annotated[
        str | None,
        typer.Option("--time-budget", metavar="90s|3m|1h", help="Of one training; fewer epochs where needed."),
    ] = None,
    seeds: Annotated[str, typer.Option("--seeds", metavar="N,N,...", help="Train our models once with each.")] = "0",
    on_bad_row: Annotated[
        str | None, typer.Option("--on-bad-row", metavar="error|skip", help="Stop at a bad row [error], or count it.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Leave the run folders there; it must be empty.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE.json", help="Write all numbers there.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE.md", help="Write the table there as a document.")
    ] = None,
) -> None:
    """Compare our models with baselines on your rows.

    The model that `mixling train` chooses, pNLP-Mixer X-SMALL and --model, beside a Transformer of the same size,
    TF-IDF with logistic regression and fastText (if installed): accuracy, size, training time and speed in one table.
    """
    announce(context)
    from mixling.cli.options import present
    from mixling.cli.train import configure
    from mixling.comparison.contest import check_folder
    from mixling.comparison.outcome import compare as hold
    from mixling.comparison.report import as_markdown, as_text, to_dict
    from mixling.cost.provenance import provenance
    from mixling.storage import locked, write_atomic, write_json
    from mixling.tasks import task_type
    from mixling.training.progress import TrainingProgress

    numbers = read_seeds(seeds)
    for path in (out, markdown):
        if path is not None and path.is_dir():
            raise ConfigError(f"{path}: is a folder; name a file to write the report to")
    if keep is not None:
        check_folder(keep)
    options = run_values(context.params)
    options["model"] = None  # those that are named take part beside the one that is chosen
    options["train"]["seed"] = numbers[0]
    config, remark = configure(present(options), toml=None, vocabulary=None, overrides=())
    terminal = TrainingProgress()
    if remark:
        terminal.say(remark)

    def observer() -> TrainingProgress:
        each = TrainingProgress()
        each.metric = task_type(config.task).metric
        return each

    with contextlib.ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mixling-")))
        stack.enter_context(locked(folder))
        check_folder(folder)  # again: another may have begun there before the lock
        origin = provenance(seed=numbers[0], packages=("onnxruntime", "tokenizers", "scipy", "scikit-learn"))
        try:
            with interruptible(folder):
                found = hold(
                    config,
                    test=test or (),
                    models=model or (),
                    seeds=numbers,
                    folder=folder,
                    say=terminal.say,
                    observer=observer,
                )
        except Interrupted as error:
            kept = f"; what is finished is in {keep}" if keep is not None else "; nothing was kept"
            raise Interrupted(f"interrupted{kept}", signum=error.exit_code - 128) from None
    terminal.say(total_time(context))
    put(as_text(found) + "\n")
    if out is not None:
        write_json(out, to_dict(found, origin))
    if markdown is not None:
        write_atomic(markdown, as_markdown(found, command_line("mixling", *sys.argv[1:])))


def read_seeds(text: str) -> tuple[int, ...]:
    """Seeds of "0,1,2".

    Raises:
        ConfigError: it is something else, or one stands twice.
    """
    parts = [part.strip() for part in text.split(",")]
    seeds = tuple(int(part) for part in parts if part.isascii() and part.isdigit())
    if len(seeds) != len(parts) or len(set(seeds)) != len(seeds) or max(seeds) >= 2**32:
        raise ConfigError(f"--seeds: got {text!r}; allowed: different whole numbers from 0, such as 0,1,2")
    return seeds
