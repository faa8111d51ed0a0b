"""Token mixers, one a file: `type = "token_mlp"` in a configuration means the file `token_mlp.py`.

The mixer and the configuration of a file can be imported from here, `from mixling.mixers import TokenMLP,
TokenMLPConfig`, and so can their base classes `Mixer` and `MixerConfig`; a file is loaded when it is first needed.

A mixer of another package is a `MixerConfig` whose `type` is a new name and whose `_build` returns the mixer. It is
found by an entry point of the group "mixling.mixers", named as the type and pointing to the configuration class,

    [project.entry-points."mixling.mixers"]
    shift = "my_package.shift:ShiftConfig"

or, for one process, by `register_mixer`. From then on TOML files and saved models may name it.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

from mixling.networks.mixer import (
    MIXER_ENTRY_POINTS,
    MIXERS,
    MixerConfig,
    class_in_file,
    config_class,
    mixer_config,
    mixer_files,
    mixer_types,
    register_mixer,
)

__all__ = [
    "MIXERS",
    "MIXER_ENTRY_POINTS",
    "MixerConfig",
    "config_class",
    "mixer_config",
    "mixer_types",
    "register_mixer",
]


def __getattr__(name: str) -> Any:
    if name == "Mixer":
        return importlib.import_module("mixling.layers.mixer").Mixer
    for file in mixer_files():
        if (found := class_in_file(name, file)) is not None:
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    names = {*__all__, "Mixer"}
    if find_spec("torch") is not None:  # without it no mixer can be imported
        for file in mixer_files():
            names.add(config_class(file).__name__)
            module = vars(importlib.import_module(f"{__name__}.{file}"))
            names.update(name for name in module if class_in_file(name, file) is not None)
    return sorted(names)
