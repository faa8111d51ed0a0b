"""Token mixers, one a file: `type = "token_mlp"` in a configuration means the file `token_mlp.py`.

The mixer and the configuration of a file can be imported from here, `from mixling.mixers import TokenMLP,
TokenMLPConfig`, and so can their base classes `Mixer` and `MixerConfig`; a file is loaded when it is first needed. A
mixer is a plain module, `TokenMLP(dim=256, max_len=128)`, whose other arguments have the defaults of its configuration.

A mixer of another package is a `MixerConfig` whose `type` is a new name and whose `_build` returns the mixer. It is
found by an entry point of the group "mixling.mixers", named as the type and pointing to the configuration class,

    [project.entry-points."mixling.mixers"]
    shift = "my_package.shift:ShiftConfig"

or, for one process, by `register_mixer`. From then on TOML files and saved models may name it.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:  # for editors and type checkers; a test compares it with the files
    from mixling.layers.mixer import Mixer as Mixer
    from mixling.mixers.attention import Attention as Attention
    from mixling.mixers.attention import AttentionConfig as AttentionConfig
    from mixling.mixers.fourier import Fourier as Fourier
    from mixling.mixers.fourier import FourierConfig as FourierConfig
    from mixling.mixers.gated_linear_attention import GatedLinearAttention as GatedLinearAttention
    from mixling.mixers.gated_linear_attention import GatedLinearAttentionConfig as GatedLinearAttentionConfig
    from mixling.mixers.hypermixing import HyperMixing as HyperMixing
    from mixling.mixers.hypermixing import HyperMixingConfig as HyperMixingConfig
    from mixling.mixers.identity import Identity as Identity
    from mixling.mixers.linear_attention import LinearAttention as LinearAttention
    from mixling.mixers.linear_attention import LinearAttentionConfig as LinearAttentionConfig
    from mixling.mixers.pooling import Pooling as Pooling
    from mixling.mixers.pooling import PoolingConfig as PoolingConfig
    from mixling.mixers.recurrent import Recurrent as Recurrent
    from mixling.mixers.recurrent import RecurrentConfig as RecurrentConfig
    from mixling.mixers.remixing import Remixing as Remixing
    from mixling.mixers.remixing import RemixingConfig as RemixingConfig
    from mixling.mixers.spatial_gating import SpatialGating as SpatialGating
    from mixling.mixers.spatial_gating import SpatialGatingConfig as SpatialGatingConfig
    from mixling.mixers.synthesizer import Synthesizer as Synthesizer
    from mixling.mixers.synthesizer import SynthesizerConfig as SynthesizerConfig
    from mixling.mixers.token_linear import TokenLinear as TokenLinear
    from mixling.mixers.token_linear import TokenLinearConfig as TokenLinearConfig
    from mixling.mixers.token_mlp import TokenMLP as TokenMLP
    from mixling.networks.mixers import IdentityConfig as IdentityConfig
    from mixling.networks.mixers import TokenMLPConfig as TokenMLPConfig

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
