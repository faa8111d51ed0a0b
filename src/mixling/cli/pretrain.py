"""`mixling pretrain`: unlabelled text to a folder that `mixling train --from` begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mixling.cli.folders import run_folder
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
)
from mixling.cli.output import announce, put, total_time
from mixling.cli.text_to_text import pretrain_spans, training_values
from mixling.errors import ConfigError, command_line

if TYPE_CHECKING:
    from mixling.runs.pretrain import PretrainConfig
    from mixling.training.progress import TrainingProgress


def pretrain(
    context: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES...", help="Text: .txt, a document a line, tables, or hf:NAME[@REVISION]; or .gz."
        ),
    ] = None,
    out: RunOption = ...,  # type: ignore[assignment]
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME|FILE.toml", help="A model by name, or a file of one [gmlp-tiny]."),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            "--objective",
            metavar="masked-lm|span-corruption",
            help="What is learned [masked-lm]; span-corruption is for models that write text.",
        ),
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
    announce(context)
    from mixling.runs.artifact import PRETRAINING, TEXT_TO_TEXT, kind_of_run
    from mixling.runs.pretrain import PretrainConfig
    from mixling.runs.pretrain import pretrain as run
    from mixling.runs.spec import MASKED_LM, resolve

    if objective == "span-corruption" or (resume and kind_of_run(out) == TEXT_TO_TEXT):
        pretrain_spans(context)
        return
    if objective not in (None, "masked-lm"):
        raise ConfigError(f"--objective: got {objective!r}; masked-lm and span-corruption are allowed")
    corpus = {"files": files, "dev": dev, "text": text}
    given = {"corpus": corpus, "model": model, "vocabulary": vocabulary, **training_values(context.params)}

    def settle(terminal: TrainingProgress) -> PretrainConfig:
        terminal.metric = "perplexity"
        settled = resolve(given, spec=MASKED_LM, toml=config, overrides=overrides or ()).config
        if not settled.corpus.files and settled.corpus.prepared is None:
            raise ConfigError("no text; name at least one file: mixling pretrain FILE -o DIR")
        return settled

    found = run_folder(context, schema=PretrainConfig, kind=PRETRAINING, settle=settle, run=run)
    if found is not None:
        done, terminal = found
        terminal.say(total_time(context))
        put(f"held-out: perplexity {done.metrics['perplexity']:.3f}, accuracy {done.metrics['accuracy']:.4f}\n")
        command = command_line("mixling", "train", "ROWS", "--from", out, "-o", "DIR")
        terminal.say(f"{out}: {done.parameters:,} parameters\nnext:  {command}")
