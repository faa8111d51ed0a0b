"""Configurations as commented TOML: every key with its description, type and default."""

from __future__ import annotations

import builtins
import inspect
import json
import textwrap
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from mixling.config import Config, describe_type
from mixling.runs.resolve.spec import Spec, resolve

_WIDTH = 100
_KIND = "selects this kind of table"


@dataclass(frozen=True)
class Key:
    """A key of a configuration.

    Attributes:
        type: its values, with their limits.
        default: as TOML; None: there is none.
        tables: the classes of its values, if they are tables.
    """

    name: str
    type: str
    default: str | None
    description: str
    tables: tuple[builtins.type[Config], ...]


def describe_keys(kind: type[Config]) -> Iterator[Key]:
    """Yield the keys of a class of configurations; keys of tables have the first sentence of their class."""
    for name, field in kind.model_fields.items():
        tables = tuple(_configs(field.annotation))
        default = None if tables else _default(field)
        yield Key(
            name=name,
            type=("tables" if _several(field.annotation) else "table") if tables else describe_type(field),
            default=None if default is None or default is PydanticUndefined else _value(default),
            description=field.description or (class_summary(tables[0]) if tables else _KIND if name == "type" else ""),
            tables=tables,
        )


def default_toml(spec: Spec[Any], model: str | None = None) -> str:
    """Return the complete default configuration of a kind of run, as TOML for `--config`.

    Args:
        model: the name of a preset, or a TOML file; by default the preset of the kind of run.

    Raises:
        ConfigError: the model does not exist.
    """
    return as_toml(resolve({"model": model}, spec=spec).config)


def as_toml(config: Config) -> str:
    """Return a configuration as TOML; keys without a value are comments."""
    return "\n".join([*_comment(class_summary(type(config))), *_table(type(config), config, ())]) + "\n"


def _table(kind: type[Config], config: Config | None, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a table, followed by its subtables'; with config None, the defaults of `kind`."""
    below: list[tuple[str, FieldInfo, Any]] = []
    for name, field in kind.model_fields.items():
        value = _default(field) if config is None else getattr(config, name)
        if _configs(field.annotation):
            below.append((name, field, value))
            if _several(field.annotation) and not value:
                yield from _comment(f"{_explained(field)}; to add items, put tables as below in place of this line")
                yield f"{name} = []"
            continue
        yield from _comment(_explained(field))
        given = None if value is None or value is PydanticUndefined else _value(value)
        yield f"# {name} =" if given is None else f"{name} = {given}"
    for name, field, value in below:
        yield from _below((*path, name), field, value)


def _below(path: tuple[str, ...], field: FieldInfo, value: Any) -> Iterator[str]:
    """Yield the lines of a key whose value is a table, several of them, or none."""
    several = _several(field.annotation)
    head = f"[[{'.'.join(path)}]]" if several else f"[{'.'.join(path)}]"
    items: Sequence[Any] = [] if value in (None, PydanticUndefined) else value if several else [value]
    for item in items or [None]:
        kind = _configs(field.annotation)[0] if item is None else type(item)
        lines = [head, *_table(kind, item, path)]
        yield ""
        yield from _comment(". ".join(filter(None, (class_summary(kind).rstrip("."), field.description))))
        yield from lines if item is not None else ("# " + line if line else "#" for line in lines)


def _explained(field: FieldInfo) -> str:
    default = _default(field)
    facts = [describe_type(field)]
    if default is not PydanticUndefined:
        facts.append("default " + ("none" if default is None else _value(default)))
    return f"{field.description or ''} ({', '.join(facts)})".strip()


def class_summary(kind: type[Config]) -> str:
    """Return the first paragraph of a class's docstring, as one line."""
    return " ".join(inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].split())


def _comment(text: str) -> list[str]:
    return ["# " + line for line in textwrap.wrap(text, _WIDTH - 2, break_long_words=False)]


def _default(field: FieldInfo) -> Any:
    return field.get_default(call_default_factory=True)


def _configs(annotation: Any) -> list[type[Config]]:
    """Return the configuration classes that occur in a type."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return [annotation]
    return [kind for item in get_args(annotation) for kind in _configs(item)]


def _several(annotation: Any) -> bool:
    return get_origin(annotation) in (tuple, list) or (
        get_origin(annotation) in (Annotated, Union, types.UnionType) and any(map(_several, get_args(annotation)))
    )


def _value(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)
