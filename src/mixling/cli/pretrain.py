"""`mixling pretrain`: unlabelled text to a folder that `mixling train --from` begins with."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixling.cli.folders import given_beside, refuse_file, refuse_old_run
from mixling.cli.options import (
    ConfigOption,
    EpochsOption,
    OverwriteOption,
    ResumeOption,
    RunOption,
    SeedOption,
    SetOption,
    TextOption,
    TimeBudgetOption,
    VocabularyOption,
    layered,
    read_seconds,
)
from mixling.cli.output import put
from mixling.errors import ConfigError, Interrupted

if TYPE_CHECKING:
    from mixling.runs.pretrain import PretrainConfig


def pretrain(
    context: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILES...", help="Text: .txt, a document a line, tables, or hf:NAME[:SPLIT]; or .gz."),
    ] = None,
    out: RunOption = ...,  # type: ignore[assignment]
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME|FILE.toml", help="A model by name, or a file of one [gmlp-tiny]."),
    ] = None,
    dev: Annotated[
        list[str] | None,
        typer.Option("--dev", metavar="FILE", help="Held-out text; by default 1% of the documents."),
    ] = None,
    text: TextOption = None,
    vocabulary: VocabularyOption = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Steps in all, instead of epochs.")] = None,
    epochs: EpochsOption = None,
    time_budget: TimeBudgetOption = None,
    seed: SeedOption = None,
    config: ConfigOption = None,
    overrides: SetOption = None,
    resume: ResumeOption = False,
    overwrite: OverwriteOption = False,
) -> None:
    """Train a model on unlabelled text.

    Tokens are hidden, and told from those around them. `mixling train ROWS --from DIR` then begins with what it knows.
    `mixling pretrain --resume -o DIR` goes on with a run that was interrupted; it needs no file but those of DIR.
    """
    from mixling.cli.progress import TrainingProgress
    from mixling.cli.train import present
    from mixling.runs.config import RUN_FILE, read_record
    from mixling.runs.pretrain import PretrainConfig, tidy
    from mixling.runs.pretrain import pretrain as run
    from mixling.runs.pretrained import KIND
    from mixling.training.distributed import processes

    if resume and overwrite:
        raise ConfigError("--resume and --overwrite exclude each other: go on with the run, or replace it")
    refuse_file(out)
    given = present(
        {
            "corpus": {"files": files, "dev": dev, "text": text},
            "model": model,
            "train": {
                "steps": steps,
                "epochs": epochs,
                "time_budget": None if time_budget is None else read_seconds(time_budget),
                "seed": seed,
            },
        }
    )
    with processes() as ranks:
        terminal = TrainingProgress(silent=not ranks.is_main)
        terminal.metric = "perplexity"
        if resume:
            settled, finished = read_record(out, PretrainConfig, kind=KIND)
            if also := given_beside(context, "resume", "out"):
                raise ConfigError(f"with --resume all comes from {out}; leave out {', '.join(also)}")
            if finished:
                tidy(settled, out)
                terminal.say(f"{out}: this run is finished; there is nothing to go on with")
                return
        else:
            if ranks.is_main and not overwrite:
                refuse_old_run(out)
            settled = configure(given, toml=config, vocabulary=vocabulary, overrides=overrides or ())
            if not settled.corpus.files and settled.corpus.prepared is None:
                raise ConfigError("no text; name at least one file: mixling pretrain FILE -o DIR")
        try:
            done = run(settled, folder=out, resume=resume, processes=ranks, observer=terminal, say=terminal.say)
        except KeyboardInterrupt:  # before or after the steps, which see to it themselves
            told = f"; go on with: mixling pretrain --resume -o {out}" if (out / RUN_FILE).exists() else ""
            raise Interrupted(f"interrupted{told}", signum=signal.SIGINT) from None
    if done is not None:
        put(f"held-out: perplexity {done.metrics['perplexity']:.3f}, accuracy {done.metrics['accuracy']:.4f}\n")
        terminal.say(f"{out}: {done.parameters:,} parameters\nnext:  mixling train ROWS --from {out} -o DIR")


def configure(
    options: Mapping[str, Any], *, toml: str | None, vocabulary: str | None, overrides: Sequence[str]
) -> PretrainConfig:
    """The configuration of a pretraining: its recipe, over it the TOML file's values, the options, and `--set`.

    Raises:
        ConfigError: an unknown key or a value that is not allowed.
    """
    from mixling.config import merge, parse
    from mixling.models.presets import with_changes
    from mixling.runs.pretrain import DEFAULT_MODEL, RECIPE, PretrainConfig

    values, model_changes = layered(options, toml=toml, vocabulary=vocabulary, overrides=overrides)
    values = merge({"train": RECIPE.to_dict()}, values)
    given = values.get("model", DEFAULT_MODEL)
    if not (isinstance(given, str) or {"preset", "layers"} & given.keys()):
        given = merge({"preset": DEFAULT_MODEL}, given)
    values["model"] = with_changes(given, model_changes).to_dict()
    return parse(PretrainConfig, values, where=toml or "options")
