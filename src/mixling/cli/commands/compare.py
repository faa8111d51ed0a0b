"""`mixling compare`: mixling's models and standard baselines on the user's data."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from mixling.cli.command import MODEL, OUTPUT, TRAINING
from mixling.cli.completion import complete_models
from mixling.cli.folders import interruptible
from mixling.cli.guessing import with_columns
from mixling.cli.noise import NoiseOptions
from mixling.cli.output import announce, put
from mixling.cli.training_options import LabeledDataOptions, MetricOptions, read_seconds
from mixling.errors import ConfigError, Interrupted, command_line


@dataclass(frozen=True, kw_only=True)
class CompareModels:
    """The models to compare."""

    panel: ClassVar[str] = MODEL

    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME|FILE.toml",
            help="An additional model, a name or a file; may be repeated.",
            autocompletion=complete_models,
        ),
    ] = None
    systems: Annotated[
        str,
        typer.Option(
            "--systems",
            metavar="NAME,NAME,...",
            help="What mixling is compared with: tf-idf, fasttext, majority, transformer-matched; beside columns "
            "tf-idf+columns, trees+columns; of tags words, majority, transformer-matched [all that fit but "
            "transformer-matched].",
        ),
    ] = ""
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder",
            metavar="DIR|hf:NAME",
            help="Add a baseline: logistic regression on this sentence encoder's embeddings.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class CompareTraining:
    """How the models are trained."""

    panel: ClassVar[str] = TRAINING
    time_budget: Annotated[
        str | None,
        typer.Option("--time-budget", metavar="90s|3m|1h", help="Limit for each training; reduces the epochs."),
    ] = None
    seeds: Annotated[str, typer.Option("--seeds", metavar="N,N,...", help="Train neural models once per seed.")] = "0"
    few: Annotated[
        str,
        typer.Option("--few", metavar="N,N,...", help="Also train on N examples per label, such as 5,10,50."),
    ] = ""


@dataclass(frozen=True, kw_only=True)
class CompareReport:
    """Where the results are written."""

    panel: ClassVar[str] = OUTPUT
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep the run folders in DIR, which must be empty.")
    ] = None
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE.json", help="Write all numbers to this file.")
    ] = None
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE.md", help="Write the table to this file.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class CompareOptions(MetricOptions, LabeledDataOptions, CompareModels, CompareTraining, NoiseOptions, CompareReport):
    """Options of `mixling compare`."""

    files: Annotated[
        list[str], typer.Argument(metavar="FILES...", help="Labeled training data, in any format of `train`.")
    ] = field()  # required, unlike in the other commands
    validation: Annotated[
        list[str] | None,
        typer.Option("--validation", "--dev", metavar="FILE", help="Data for all choices; may be repeated."),
    ] = None
    test: Annotated[
        list[str] | None,
        typer.Option(
            "--test",
            metavar="FILE",
            help="Data that is read once, after all choices [a fifth of the rows or more]; may be repeated.",
        ),
    ] = None

    def values(self, *, seed: int) -> dict[str, Any]:
        """Return the options in the layout of `RunConfig`, without the additional models."""
        seconds = None if self.time_budget is None else read_seconds(self.time_budget)
        return {
            **self.data_values(),
            "train": {"time_budget": seconds, "seed": seed},
            "decisions": {"metric": self.metric},
        }


def compare_command(options: CompareOptions) -> None:
    """Compare mixling with baselines on your data.

    The model that `mixling train` chooses, and any given by --model, are compared with TF-IDF and logistic regression,
    fastText (if installed), the most frequent label, and what --systems and --encoder name: accuracy, size, time for
    one text and training time in one table, and a sentence. The rows that they are compared on, from --test or a
    part that is held out of FILES, are trained on by none.
    """
    options = with_columns(options, "compare")
    needs_torch = options.encoder is not None or "transformer" in (options.systems or "")
    started = announce("compare", loads="PyTorch" if needs_torch else "")
    from mixling.comparison.benchmark import check_folder
    from mixling.comparison.outcome import compare as run_benchmark
    from mixling.comparison.report import as_markdown, as_text, to_dict
    from mixling.provenance import provenance
    from mixling.runs.resolve.spec import LABELS, resolve
    from mixling.storage import locked, write_atomic, write_json
    from mixling.training.progress import ProgressLine, TrainingProgress

    seeds = read_seeds(options.seeds)
    keep = options.keep
    noise = options.levels()
    few = read_counts(options.few)
    encoder = options.encoder
    if encoder is not None and not encoder.startswith("hf:") and not Path(encoder).is_dir():
        raise ConfigError(f"--encoder: there is no folder {encoder}; allowed: the folder of an encoder, or hf:NAME")
    for path in (options.out, options.markdown):
        if path is not None and path.is_dir():
            raise ConfigError(f"{path}: is a folder; name a file to write the report to")
    if keep is not None:
        check_folder(keep)
    resolved = resolve(options.values(seed=seeds[0]), spec=LABELS, overrides=options.overrides or ())
    terminal = TrainingProgress(silent=True)
    line = ProgressLine()
    for remark in resolved.remarks:
        terminal.log(remark)

    with contextlib.ExitStack() as stack:
        stack.enter_context(line)
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mixling-")))
        stack.enter_context(locked(folder))
        check_folder(folder)  # again: another process may have started there before the lock
        origin = provenance(seed=seeds[0], packages=("tokenizers",))
        try:
            with interruptible(folder):
                outcome = run_benchmark(
                    resolved,
                    test=options.test or (),
                    models=options.model or (),
                    systems=split_names(options.systems),
                    seeds=seeds,
                    folder=folder,
                    log=line.log,
                    callback=lambda: line,
                    noise=noise,
                    few=few,
                    encoder=None if encoder is None else encoder.removeprefix("hf:"),
                )
        except Interrupted as error:
            kept = f"; finished runs are in {keep}" if keep is not None else "; nothing was kept"
            raise Interrupted(f"interrupted{kept}", signum=error.exit_code - 128) from None
    terminal.log(started.total_time())
    put(as_text(outcome, shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100) + "\n")
    if options.out is not None:
        write_json(options.out, to_dict(outcome, origin))
    if options.markdown is not None:
        write_atomic(options.markdown, as_markdown(outcome, command_line("mixling", *sys.argv[1:])))


def split_names(text: str) -> tuple[str, ...]:
    """Return the names of a list such as "tf-idf,majority"."""
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def read_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds in a text such as "0,1,2".

    Raises:
        ConfigError: the text is malformed, or a seed is repeated.
    """
    seeds = _numbers(text)
    if not seeds or max(seeds) >= 2**32:
        raise ConfigError(f"--seeds: got {text!r}; allowed: different whole numbers from 0, such as 0,1,2")
    return seeds


def read_counts(text: str) -> tuple[int, ...]:
    """Return the numbers of examples per label in a text such as "5,10,50"; none if it is empty.

    Raises:
        ConfigError: the text is malformed, or a number is repeated or less than 2.
    """
    counts = _numbers(text)
    if text and (not counts or min(counts) < 2):
        raise ConfigError(f"--few: got {text!r}; allowed: different whole numbers from 2, such as 5,10,50")
    return counts


def _numbers(text: str) -> tuple[int, ...]:
    """Return the different whole numbers of a list; none if it is malformed."""
    parts = [part.strip() for part in text.split(",")]
    numbers = tuple(int(part) for part in parts if part.isascii() and part.isdigit())
    return numbers if len(set(numbers)) == len(parts) else ()
