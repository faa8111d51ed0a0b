"""`mixling pretrain`: unlabeled text to a folder that `mixling train --from` begins with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixling.cli.completion import complete_models
from mixling.cli.options import TextColumn, TrainerOptions, TrainingOptions
from mixling.cli.output import announce, put
from mixling.errors import ConfigError, command_line

if TYPE_CHECKING:
    from mixling.runs.pretrain import PretrainConfig


@dataclass(frozen=True, kw_only=True)
class Corpus(TextColumn):
    """Unlabeled text."""

    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES...", help="Text: .txt, a document a line, tables, or hf:NAME[@REVISION]; or .gz."
        ),
    ] = None
    validation: Annotated[
        list[str] | None,
        typer.Option("--validation", metavar="FILE", help="Held-out text; by default 1% of the documents."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Objective(TrainingOptions):
    """What is learned, and for how long."""

    objective: Annotated[
        str | None,
        typer.Option(
            "--objective",
            metavar="masked-lm|span-corruption",
            help="What is learned [masked-lm]; span-corruption is for models that write text.",
        ),
    ] = None
    steps: Annotated[int | None, typer.Option("--steps", help="Steps in all, instead of epochs.")] = None

    def training_values(self) -> dict[str, Any]:
        return {**super().training_values(), "steps": self.steps}


@dataclass(frozen=True, kw_only=True)
class PretrainOptions(Corpus, Objective, TrainerOptions):
    """All that `mixling pretrain` takes."""

    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME|FILE.toml",
            help="A model by name, or a file of one [gmlp-tiny].",
            autocompletion=complete_models,
        ),
    ] = None

    def values(self) -> dict[str, Any]:
        """Return the options laid out as `PretrainConfig` and, for span corruption, `PairRunConfig` are."""
        return {
            "corpus": {"files": self.files, "validation": self.validation, "text": self.text},
            "model": self.model,
            "vocabulary": self.vocabulary,
            "train": self.training_values(),
        }


def pretrain(options: PretrainOptions) -> None:
    """Train a model on unlabeled text.

    Tokens are hidden, and told from those around them. `mixling train ROWS --from DIR` then begins with what it knows.
    `mixling pretrain --resume -o DIR` goes on with a run that was interrupted; it needs no file but those of DIR.
    """
    started = announce("pretrain")
    from mixling.cli.folders import check_run_folder, interruptible
    from mixling.cli.training import session, train_pairs
    from mixling.runs.artifact import PRETRAINING, TEXT_TO_TEXT, kind_of_run

    objective, out = options.objective, options.out
    if objective == "span-corruption" or (options.resume and kind_of_run(out) == TEXT_TO_TEXT):
        train_pairs(options, options.values(), started)
        return
    if objective not in (None, "masked-lm"):
        raise ConfigError(f"--objective: got {objective!r}; masked-lm and span-corruption are allowed")
    check_run_folder(options)
    with interruptible(out):
        from mixling.runs.pretrain import pretrain as run
        from mixling.runs.spec import MASKED_LM

        with session(options, options.values(), spec=MASKED_LM, kind=PRETRAINING, check=_check_text) as found:
            if found is None:
                return
            terminal = found.terminal
            terminal.metric = "perplexity"
            done = run(found.config, **found.arguments)
    if done is not None:
        terminal.log(started.total_time())
        put(f"held-out: perplexity {done.metrics['perplexity']:.3f}, accuracy {done.metrics['accuracy']:.4f}\n")
        command = command_line("mixling", "train", "ROWS", "--from", out, "-o", "DIR")
        terminal.log(f"{out}: {done.parameters:,} parameters\nnext:  {command}")


def _check_text(config: PretrainConfig) -> None:
    if not config.corpus.files and config.corpus.prepared is None:
        raise ConfigError("no text; name at least one file: mixling pretrain FILE -o DIR")
