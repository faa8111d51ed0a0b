"""The configurations of token mixers, found by their type: `type = "token_mlp"` means the file `token_mlp.py`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from mixling.config import Config, parse
from mixling.errors import ConfigError
from mixling.networks.building import BUILDING, FINDERS
from mixling.registry import Registry

if TYPE_CHECKING:
    from mixling.layers.mixer import Mixer

MIXER_ENTRY_POINTS = "mixling.mixers"
_C = TypeVar("_C", bound="type[MixerConfig]")
_PACKAGE = "mixling.mixers"  # a file for each mixer, which needs PyTorch
_KNOWN = "mixling.networks.mixers"  # the configurations that need none


class MixerConfig(Config, ABC):
    """The configuration of one mixer; `type` is the name of the file that holds it, or a registered name.

    The docstring of each ends in its options, as their fields describe them.
    """

    type: str
    # What a mixer cannot do is refused where it is built, not where it runs.
    supports_causal: ClassVar[bool] = False
    supports_cross: ClassVar[bool] = False

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        options = {name: field.description for name, field in cls.model_fields.items() if name != "type"}
        if options:
            lines = "".join(f"\n    {name}: {description}" for name, description in options.items())
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\nArgs:{lines}\n"

    @property
    def shared_positions(self) -> dict[str, Any] | None:
        """The values in which layers that use the position parameters of the first must agree; None: each its own."""
        return None

    @abstractmethod
    def _build(self, dim: int, max_len: int, causal: bool) -> Mixer: ...

    def build(self, dim: int, max_len: int, causal: bool = False, cross: bool = False) -> Mixer:
        """Build the mixer.

        Args:
            dim: D, the width of the tokens.
            max_len: tokens of the longest input.
            causal: it sees no later position, and has steps.
            cross: it will be given a context.

        Raises:
            ConfigError: the mixer has no causal form, or none that reads a context, or does not fit the width.
        """
        if causal and not self.supports_causal:
            raise ConfigError(f"mixer {self.type!r} has no causal form")
        if cross and not self.supports_cross:
            raise ConfigError(f"mixer {self.type!r} has no form that reads a context (with these options)")
        token = BUILDING.set(True)
        try:
            mixer = self._build(dim, max_len, causal)
        finally:
            BUILDING.reset(token)
        mixer.dim = dim
        mixer.causal = causal
        return mixer

    def _check_heads(self, num_heads: int, *, advice: str = "change one of them", **sizes: int) -> None:
        """Refuse sizes, by name, that are no multiples of the number of heads."""
        for name, value in sizes.items():
            if value % num_heads:
                raise ConfigError(
                    f"mixer {self.type!r}: {name} {value} is not a multiple of num_heads {num_heads}; {advice}"
                )


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
    if isinstance(values, MixerConfig):
        return values
    if not isinstance(values, dict):
        raise ConfigError(f'got {values!r}; a mixer is a table with a type, such as {{ type = "token_mlp" }}')
    name = values.get("type")
    return parse(config_class(name), values, where=f"mixer {name!r}")


@cache
def mixer_files() -> frozenset[str]:
    """Return the names of the files of mixers."""
    return frozenset(info.name for info in pkgutil.iter_modules(importlib.import_module(_PACKAGE).__path__))


def class_in_file(name: str, file: str) -> Any:
    """Return a class of a mixer's file, without importing PyTorch if it is a configuration that needs none.

    Returns:
        The mixer or its configuration; None: the file is of another.
    """
    if not _is_of(name, file):
        return None
    known = vars(importlib.import_module(_KNOWN)).get(name)
    return vars(importlib.import_module(f"{_PACKAGE}.{file}")).get(name) if known is None else known


def _config_of_class(mixer: type) -> type[MixerConfig] | None:
    """Return the configuration that makes mixers of this class; None: no mixer is known by it."""
    file = mixer.__module__.rpartition(".")[2]
    if file in mixer_files() and class_in_file(mixer.__name__, file) is mixer:
        return config_class(file)
    named = (mixer.__module__, f"{mixer.__name__}Config")
    return next(
        (config for config in MIXERS.registered.values() if (config.__module__, config.__name__) == named), None
    )


FINDERS.append(_config_of_class)


def _load(file: str) -> type[MixerConfig]:
    known = vars(importlib.import_module(_KNOWN))
    values = known if any(_is_of(name, file) for name in known) else vars(importlib.import_module(f"{_PACKAGE}.{file}"))
    found = [value for name, value in values.items() if _is_of(name, file) and name.endswith("Config")]
    assert len(found) == 1, f"{file}.py must hold one MixerConfig named after the file, it holds {len(found)}"
    config: type[MixerConfig] = found[0]
    return config


def _type_of(config: Any) -> str:
    """Return the `type` of a configuration class of a mixer."""
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
    own=mixer_files,
    load_own=_load,
    name_of=_type_of,
)
