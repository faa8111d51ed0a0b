"""`mixling compare`: our models beside the baselines that a sceptic would ask for."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from mixling.cli.command import OUTPUT
from mixling.cli.completion import LABELING, complete_models
from mixling.cli.folders import interruptible
from mixling.cli.options import Duration, LabeledData, VectorOptions
from mixling.cli.output import announce, put
from mixling.errors import ConfigError, Interrupted, command_line


@dataclass(frozen=True, kw_only=True)
class CompareModels(VectorOptions):
    """The models that are compared."""

    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME|FILE.toml",
            help="One more model, by name or a file of one; may be repeated.",
            autocompletion=complete_models,
        ),
    ] = None
    start: Annotated[
        str | None,
        typer.Option(
            "--init-embeddings", metavar="DIR", help="Our models begin with the word vectors of `mixling vectors`."
        ),
    ] = None
    unlabeled: Annotated[
        list[str] | None,
        typer.Option("--unlabeled", metavar="FILE", help="They begin with word vectors of this text; repeatable."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class CompareTraining(Duration):
    """How the models are trained."""

    epochs: Annotated[
        int | None, typer.Option("--epochs", help="Of our models and the Transformer; by default from the rows.")
    ] = None
    time_budget: Annotated[
        str | None,
        typer.Option("--time-budget", metavar="90s|3m|1h", help="Of one training; fewer epochs where needed."),
    ] = None
    seeds: Annotated[str, typer.Option("--seeds", metavar="N,N,...", help="Train our models once with each.")] = "0"


@dataclass(frozen=True, kw_only=True)
class CompareReport:
    """Where the results are written."""

    panel: ClassVar[str] = OUTPUT
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Leave the run folders there; it must be empty.")
    ] = None
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE.json", help="Write all numbers there.")] = (
        None
    )
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE.md", help="Write the table there as a document.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class CompareOptions(LabeledData, CompareModels, CompareTraining, CompareReport):
    """All that `mixling compare` takes."""

    files: Annotated[
        list[str], typer.Argument(metavar="FILES...", help="Labeled rows to train on, in any format of `train`.")
    ] = field()  # required, unlike that of the other commands
    validation: Annotated[
        list[str] | None,
        typer.Option("--validation", metavar="FILE", help="Rows that all choices are made on; repeatable."),
    ] = None
    test: Annotated[
        list[str] | None,
        typer.Option("--test", metavar="FILE", help="Rows that are read once, after all choices; repeatable."),
    ] = None
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="|".join(LABELING),
            help="By default seen from the rows.",
        ),
    ] = None

    def values(self, *, seed: int) -> dict[str, Any]:
        """Return the options laid out as `RunConfig` is; the models that are named stand beside the one it chooses."""
        start = {"vectors": self.start, "texts": self.unlabeled}
        return {**self.data_values(), "start": start, "train": {**self.training_values(), "seed": seed}}


def compare(options: CompareOptions) -> None:
    """Compare our models with baselines on your rows.

    The model that `mixling train` chooses, pNLP-Mixer X-SMALL and --model, beside a Transformer of the same size,
    TF-IDF with logistic regression and fastText (if installed): accuracy, size, training time and speed in one table.
    """
    started = announce("compare")
    from mixling.comparison.benchmark import check_folder
    from mixling.comparison.outcome import compare as hold
    from mixling.comparison.report import as_markdown, as_text, to_dict
    from mixling.cost.provenance import provenance
    from mixling.runs.spec import LABELS, resolve
    from mixling.storage import locked, write_atomic, write_json
    from mixling.tasks import task_type
    from mixling.training.progress import TrainingProgress

    seeds, keep = read_seeds(options.seeds), options.keep
    for path in (options.out, options.markdown):
        if path is not None and path.is_dir():
            raise ConfigError(f"{path}: is a folder; name a file to write the report to")
    if keep is not None:
        check_folder(keep)
    resolved = resolve(options.values(seed=seeds[0]), spec=LABELS)
    config = resolved.config
    terminal = TrainingProgress()
    for remark in resolved.remarks:
        terminal.log(remark)

    def callback() -> TrainingProgress:
        each = TrainingProgress()
        each.metric = task_type(config.task).metric
        return each

    with contextlib.ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mixling-")))
        stack.enter_context(locked(folder))
        check_folder(folder)  # again: another may have begun there before the lock
        origin = provenance(seed=seeds[0], packages=("onnxruntime", "tokenizers", "scipy", "scikit-learn"))
        try:
            with interruptible(folder):
                found = hold(
                    resolved,
                    test=options.test or (),
                    models=options.model or (),
                    seeds=seeds,
                    folder=folder,
                    log=terminal.log,
                    callback=callback,
                )
        except Interrupted as error:
            kept = f"; what is finished is in {keep}" if keep is not None else "; nothing was kept"
            raise Interrupted(f"interrupted{kept}", signum=error.exit_code - 128) from None
    terminal.log(started.total_time())
    put(as_text(found) + "\n")
    if options.out is not None:
        write_json(options.out, to_dict(found, origin))
    if options.markdown is not None:
        write_atomic(options.markdown, as_markdown(found, command_line("mixling", *sys.argv[1:])))


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
