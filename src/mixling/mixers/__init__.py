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
import pkgutil
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from mixling.config import parse
from mixling.errors import ConfigError
from mixling.registry import Registry

if TYPE_CHECKING:
    from mixling.layers.mixer import MixerConfig

_C = TypeVar("_C", bound="type[MixerConfig]")

MIXER_ENTRY_POINTS = "mixling.mixers"


def mixer_types() -> list[str]:
    """Return the names of all mixers: the files of this package, registered ones, and other packages'."""
    return MIXERS.names()


def register_mixer(config: _C) -> _C:
    """Make a mixer known by the `type` of its configuration, in this process; usable as a class decorator.

    Args:
        config: a subclass of `MixerConfig` with a field `type: Literal["my_name"] = "my_name"`. A class of the same
            module and name replaces the one registered before, as when a notebook's cell is run again.

    Raises:
        ConfigError: it is no such class, or the name is taken.
    """
    MIXERS.register(config)
    return config


def config_class(name: object) -> type[MixerConfig]:
    """Return the configuration class of the mixer of this type.

    Raises:
        ConfigError: there is none, or its entry point cannot be loaded.
    """
    return MIXERS.get(name)


def mixer_config(values: Any) -> MixerConfig:
    """Return the configuration that a table with a `type` describes.

    Raises:
        ConfigError: it is no table, there is no such mixer, or it has no such key.
    """
    from mixling.layers.mixer import MixerConfig

    if isinstance(values, MixerConfig):
        return values
    if not isinstance(values, dict):
        raise ConfigError(f'got {values!r}; a mixer is a table with a type, such as {{ type = "token_mlp" }}')
    name = values.get("type")
    return parse(config_class(name), values, where=f"mixer {name!r}")


def __getattr__(name: str) -> Any:
    if name in ("Mixer", "MixerConfig"):
        return getattr(importlib.import_module("mixling.layers.mixer"), name)
    for file in _files():
        if _is_of(name, file):
            found = vars(importlib.import_module(f"{__name__}.{file}")).get(name)
            if found is not None:
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    names = {*globals(), "Mixer", "MixerConfig"}
    if find_spec("torch") is not None:  # without it none of them can be imported
        for file in _files():
            module = importlib.import_module(f"{__name__}.{file}")
            names.update(name for name in vars(module) if _is_of(name, file))
    return sorted(names)


@cache
def _files() -> frozenset[str]:
    return frozenset(info.name for info in pkgutil.iter_modules(__path__))


def _own(name: str) -> type[MixerConfig]:
    module = f"{__name__}.{name}"
    values = vars(importlib.import_module(module)).items()
    found = [value for key, value in values if _is_of(key, name) and key.endswith("Config")]
    assert len(found) == 1, f"{module} must hold one MixerConfig named after the file, it holds {len(found)}"
    config: type[MixerConfig] = found[0]
    return config


def _type_of(config: Any) -> str:
    """Return the `type` of a configuration class of a mixer."""
    from mixling.layers.mixer import MixerConfig

    if not (isinstance(config, type) and issubclass(config, MixerConfig)):
        raise ConfigError(f"got {config!r}; a mixer is given by a subclass of mixling.mixers.MixerConfig")
    name = config.model_fields["type"].default
    if not isinstance(name, str) or not name:
        raise ConfigError(f'{config.__qualname__}: has no type; add the field `type: Literal["my_name"] = "my_name"`')
    return name


def _is_of(name: str, file: str) -> bool:
    """Return whether a file holds the class of this name: `token_mlp` has the letters of TokenMLP."""
    return not name.islower() and name.removesuffix("Config").lower() == file.replace("_", "")


MIXERS: Registry[type[MixerConfig]] = Registry(
    "mixer",
    key="type",
    group=MIXER_ENTRY_POINTS,
    how="mixling.mixers.register_mixer",
    own=_files,
    load_own=_own,
    name_of=_type_of,
)
