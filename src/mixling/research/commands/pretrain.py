"""`mixling pretrain`: pretraining on unlabeled text, for `mixling train --from`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixling.cli.completion import complete_models
from mixling.cli.options import TextColumn
from mixling.cli.output import announce, put
from mixling.cli.panel import command_rows, print_panel
from mixling.cli.training_options import TrainerOptions, TrainingOptions
from mixling.errors import ConfigError

if TYPE_CHECKING:
    from mixling.research.pretraining.run import PretrainConfig


@dataclass(frozen=True, kw_only=True)
class Corpus(TextColumn):
    """Unlabeled text."""

    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES...",
            help="Text: .txt (one document per line), tables, hf:NAME[@REVISION]; also compressed (.gz, .bz2, .xz, "
            ".zip).",
        ),
    ] = None
    validation: Annotated[
        list[str] | None,
        typer.Option("--validation", "--dev", metavar="FILE", help="Held-out text; by default 1% of the documents."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PretrainingOptions(TrainingOptions):
    """The objective, and the duration of the training."""

    objective: Annotated[
        str | None,
        typer.Option(
            "--objective",
            metavar="masked-lm|span-corruption",
            help="Objective [masked-lm]; span-corruption is for models that generate text.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PretrainOptions(Corpus, PretrainingOptions, TrainerOptions):
    """Options of `mixling pretrain`."""

    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME|FILE.toml",
            help="Name or file of a model [gmlp-tiny].",
            autocompletion=complete_models,
        ),
    ] = None

    def values(self) -> dict[str, Any]:
        """Return the options in the layout of `PretrainConfig` and, for span corruption, `PairRunConfig`."""
        return {
            "corpus": {"files": self.files, "validation": self.validation, "text": self.text},
            "model": self.model,
            "train": self.training_values(),
        }


def pretrain_command(options: PretrainOptions) -> None:
    """Pretrain a model on unlabeled text.

    Tokens are hidden, and the model learns to predict them from their context. `mixling train FILE --from DIR` then
    fine-tunes the model. `mixling pretrain --resume -o DIR` continues an interrupted run; it needs no other files.
    """
    started = announce("pretrain", loads="PyTorch")
    from mixling.artifacts.resume import kind_of_run
    from mixling.cli.folders import check_run_folder, interruptible
    from mixling.cli.training import session
    from mixling.research.pretraining.kind import PretrainingRuns
    from mixling.research.seq2seq.commands import train_pairs
    from mixling.research.seq2seq.kind import PairRuns

    objective = options.objective
    out = options.out
    if objective == "span-corruption" or (options.resume and isinstance(kind_of_run(out), PairRuns)):
        train_pairs(options, options.values(), started)
        return
    if objective not in (None, "masked-lm"):
        raise ConfigError(f"--objective: got {objective!r}; allowed: masked-lm, span-corruption")
    check_run_folder(options.out, resume=options.resume, overwrite=options.overwrite)
    with interruptible(out):
        from mixling.research.pretraining.run import MASKED_LM
        from mixling.research.pretraining.run import pretrain as run

        kind = PretrainingRuns.name
        with session(options, options.values(), spec=MASKED_LM, kind=kind, check=_check_text) as opened:
            if opened is None:
                return
            terminal = opened.terminal
            terminal.metric = "perplexity"
            done = run(opened.config, **opened.arguments)
    if done is not None:
        put(f"held-out: perplexity {done.metrics['perplexity']:.3f}, accuracy {done.metrics['accuracy']:.4f}\n")
        rows = [("parameters", f"{done.parameters:,}"), ("time", started.elapsed())]
        print_panel(terminal.console, str(out), [*rows, *command_rows([("train", "FILE", "--from", out, "-o", "DIR")])])


def _check_text(config: PretrainConfig) -> None:
    if not config.corpus.files and config.corpus.prepared is None:
        raise ConfigError("no text; name at least one file: mixling pretrain FILE -o DIR")
