"""The keys of the configuration that options became."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from mixling.artifacts.kinds import PRETRAINING, TRAINING, RunKind, kind_named
from mixling.errors import UserError

_OF_TRAINING = ("train", "tune", "compare", "pretrain", "distill")  # commands that set keys of all sections
# Options of text to text, without their dashes.
_OF_PAIRS = {"source", "target", "template", "prefix"}


def key_of_option(option: str, command: str, arguments: Sequence[str]) -> str | None:
    """Return the key of the configuration that an option became; None: there is none in such a run.

    Args:
        option: as given, such as `--vocabulary`.
        command: the subcommand, which has `--set`.
        arguments: all that are given.
    """
    if command == "serve":
        from mixling.serving.settings import LIMITS

        name = option.removeprefix("--").replace("-", "_")
        return name if name in LIMITS else None
    kind = _kind_of_arguments(arguments) if command == "train" else None
    kind = kind or kind_named(PRETRAINING if command == "pretrain" else TRAINING)
    key = kind.option_keys.get(option.removeprefix("--"))
    if key is None or (key.startswith("distill.") and command != "distill"):
        return None
    return key if command in _OF_TRAINING or key.startswith("data.columns.") else None


def _kind_of_arguments(arguments: Sequence[str]) -> RunKind | None:
    """Return the kind of run that arguments of `mixling train` ask for, as far as they can be read."""
    from mixling.runs.resolve.kinds import infer_kind

    words = [word for argument in arguments for word in argument.split("=", 1 if argument.startswith("--") else 0)]
    values = dict(itertools.pairwise(words))
    try:
        return infer_kind(
            task=values.get("--task"),
            model=values.get("--model"),
            toml=values.get("--config"),
            pairs=any(f"--{name}" in words for name in _OF_PAIRS),
            pretrained=values.get("--from"),
            files=[word for word in words if Path(word).exists()],
        )
    except UserError:
        return None
