"""`mixling config`: the complete commented configuration of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from mixling.cli.completion import complete_models
from mixling.cli.output import put
from mixling.errors import ConfigError, near_miss


def config_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="train, pretrain, text2text or image_classification for the default model; or a model's name or file.",
            autocompletion=complete_models,
        ),
    ] = "train",
) -> None:
    """Print the complete configuration of a run as TOML.

    Every key has its description, type and default. Use the file with --config of `mixling train` or `mixling
    pretrain`; keys that are left out have their defaults. Without [model], `mixling train` chooses a model that fits
    the data.
    """
    from mixling.artifacts.kinds import TRAINING, all_kinds, kind_named

    kinds = {kind.task or kind.command: kind for kind in all_kinds()}
    if name in kinds:
        put(kinds[name].toml())
        return
    models = {model: kind for kind in kinds.values() for model in kind.presets()}
    if name not in models and not name.endswith(".toml"):
        raise ConfigError(f"{name}: no such run or model; {near_miss(name, (*kinds, *models))}")
    put(models.get(name, kind_named(TRAINING)).toml(name))
