"""`mixling config`: the complete commented configuration of a run."""

from __future__ import annotations

from typing import Annotated, Any

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
    from mixling.models.presets import PRESETS
    from mixling.research.seq2seq.config import PAIRS
    from mixling.research.seq2seq.presets import SEQ2SEQ_PRESETS
    from mixling.research.vision.config import IMAGE_RUNS
    from mixling.research.vision.model import IMAGE_PRESETS
    from mixling.runs.resolve.spec import LABELS, MASKED_LM, Spec
    from mixling.runs.resolve.toml import default_toml

    kinds: dict[str, Spec[Any]] = {"train": LABELS, "pretrain": MASKED_LM, "text2text": PAIRS}
    kinds[IMAGE_RUNS.kind] = IMAGE_RUNS
    if name in kinds:
        put(default_toml(kinds[name]))
    elif name in SEQ2SEQ_PRESETS:
        put(default_toml(PAIRS, name))
    elif name in IMAGE_PRESETS:
        put(default_toml(IMAGE_RUNS, name))
    elif name in PRESETS or name.endswith(".toml"):
        put(default_toml(LABELS, name))
    else:
        raise ConfigError(
            f"{name}: no such run or model; {near_miss(name, (*kinds, *PRESETS, *SEQ2SEQ_PRESETS, *IMAGE_PRESETS))}"
        )
