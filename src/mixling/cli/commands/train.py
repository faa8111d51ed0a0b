"""`mixling train`: training on labeled data, on pairs of texts, or on images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixling.cli.folders import refuse_file
from mixling.cli.guessing import completed, print_command
from mixling.cli.output import announce
from mixling.cli.train_options import TrainOptions
from mixling.errors import ConfigError

if TYPE_CHECKING:
    from mixling.artifacts.kinds import RunKind
    from mixling.cli.kinds import KindCommands

_UNTESTED = (
    "all rows were trained or chosen on, so that new texts may do worse: --test FILE or --test-fraction 0.2 tests the "
    "model, beside a baseline"
)


def train_command(options: TrainOptions) -> None:
    """Train a model on labeled data.

    `mixling train FILE`, or `mixling FILE`, is enough: columns are guessed, some rows are held out to test on, and the
    folder is named after the file. `mixling train --resume -o DIR` continues an unfinished run without other options.
    """
    if options.resume and options.out is None:
        raise ConfigError("--resume: name the folder of the unfinished run: mixling train --resume -o DIR")
    if options.out is not None:
        refuse_file(options.out)
    given = options
    if not options.resume:
        options = completed(options, of_labels=_other_commands(options) is None)
    if options.out is None:
        raise ConfigError("no input; name at least one file: mixling train FILE, and with --config a folder: -o DIR")
    started = announce("train")
    from mixling.cli.training import train_labels
    from mixling.workers import usable_cores, use_workers

    if (commands := _other_commands(options)) is not None:
        commands.train(options, started)
        print_command(given, options)
        return
    is_asked = options.resume or options.test_fraction is not None
    with use_workers(usable_cores()):
        train_labels(options, started, baseline=options.baseline, untested="" if is_asked else _UNTESTED)
    print_command(given, options)


def _other_commands(options: TrainOptions) -> KindCommands | None:
    """Return the commands of a run that is not on labeled texts; None: it is."""
    from mixling.cli.kinds import commands_of

    kind = _kind(options)
    return None if kind is None else commands_of(kind)


def _kind(options: TrainOptions) -> RunKind | None:
    """Return the kind of run that the options ask for, or that is resumed; None: there is none to resume."""
    from mixling.artifacts.resume import kind_of_run
    from mixling.runs.resolve.kinds import infer_kind

    if options.resume:
        return kind_of_run(options.out)
    return infer_kind(
        task=options.task,
        model=options.model,
        toml=options.config,
        overrides=options.overrides or (),
        pairs=options.has_pair_options(),
        pretrained=options.pretrained,
        files=options.files or (),
        columns_named=any(options.columns().values()),
    )
