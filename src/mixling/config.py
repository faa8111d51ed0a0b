"""Strict, frozen configurations from TOML and `key=value`; unknown keys are rejected with a suggestion."""

from __future__ import annotations

import json
import re
import tomllib
import types
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from mixling.errors import ConfigError, near_miss, shown

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

_C = TypeVar("_C", bound="Config")

_LIMIT = 1 << 40
_MAX_TOML = 1 << 20  # bytes of a file
_MAX_PARTS = 100  # of a key
_LONG_KEY = re.compile(rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{_MAX_PARTS}}}""")


class Config(BaseModel):
    """The base class of configurations: keyword-only, frozen, without unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, protected_namespaces=(), allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _numbers_are_not_booleans(cls, values: Any) -> Any:
        """Let pydantic refuse true and false where a number is wanted, which it takes for 1 and 0: as texts."""
        if not isinstance(values, Mapping):
            return values
        changed = {}
        for name, value in values.items():
            field = cls.model_fields.get(name)
            items = value if isinstance(value, list | tuple) else [value]
            if field is not None and any(isinstance(item, bool) for item in items):
                kinds = _kinds(field.annotation)
                if bool not in kinds and kinds & {int, float}:
                    changed[name] = str(value).lower()
        return {**values, **changed} if changed else values

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        """Reject absurd integers, such as a width of 1e30, and texts that no file can have as its name."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, int) and abs(value) >= _LIMIT:
                raise ValueError(f"{name}: got {shown(value)}; allowed: integers below 2**{_LIMIT.bit_length() - 1}")
            if _has_nul(value):
                raise ValueError(f"{name}: got {shown(value)}; allowed: a text without NUL")
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return a complete dictionary of JSON values, including defaults."""
        return self.model_dump(mode="json")

    def with_changes(self, changes: Mapping[str, Any], *, where: str) -> Self:
        """Return this configuration with `changes` merged in, recursively.

        Raises:
            ConfigError: the result is invalid; states `where`, the dotted key, what was got, and the allowed values.
        """
        return parse(type(self), merge(self.to_dict(), changes), where=where)


def parse(kind: type[_C], values: Mapping[str, Any], *, where: str) -> _C:
    """Validate `values` as a configuration of type `kind`.

    Raises:
        ConfigError: they are invalid; states `where`, the dotted key, what was got, and the allowed values.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{where}: {line}" for line in _explain(kind, error))) from None


def refuse_other_types(kind: type[Config], values: Mapping[str, Any], *, where: str) -> None:
    """Refuse lists, tables, numbers and NULs as values of keys that hold texts, in an incomplete configuration.

    Raises:
        ConfigError: there is one; as of `parse`.
    """
    tables = [("", values)]  # a file may have more in one another than Python calls functions
    while tables:
        prefix, table = tables.pop()
        for name, value in table.items():
            if isinstance(value, Mapping):
                tables.append((f"{prefix}{name}.", value))
            elif _has_nul(value):
                raise ConfigError(f"{where}: {prefix}{name}: got {shown(value)}; allowed: a text without NUL")
    try:
        kind.model_validate(values)
    except ValidationError as error:
        if lines := _explain(kind, error, only=("string_type", "path_type")):
            raise ConfigError("\n".join(f"{where}: {line}" for line in lines)) from None


def _has_nul(value: object) -> bool:
    """Return whether a text, or one of a list, has a NUL, which no name of a file has."""
    return any(
        isinstance(item, str) and "\0" in item for item in (value if isinstance(value, list | tuple) else (value,))
    )


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ConfigError: the file is missing, has a key of very many parts, or is not TOML, with the
            parser's line and column.
    """
    from mixling.opening import read_limited

    try:
        text = read_limited(path, _MAX_TOML).decode("utf-8")
        if _LONG_KEY.search(text):  # the parser takes hours for one of a million
            raise ConfigError(f"{path}: has a key of more than {_MAX_PARTS} parts with dots between them")
        return tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # ValueError: not TOML or UTF-8, or a number with thousands of digits
        raise ConfigError(f"{path}: is not TOML in UTF-8: {error}") from None


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `changes` into `base`, recursively; a table of another `type` replaces the old one.

    Keys that are numbers, from 0, change items of a list: `{"layers": {"0": {"dropout": 0.1}}}`.

    Raises:
        ConfigError: a list has no item with this number.
    """
    if "type" in changes and changes["type"] != base.get("type"):
        return dict(changes)
    out = dict(base)
    for key, value in changes.items():
        old = out.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            out[key] = merge(old, value)
        elif isinstance(value, Mapping) and isinstance(old, list | tuple) and all(name.isdecimal() for name in value):
            items = {str(number): item for number, item in enumerate(old)}
            for name in value:
                if name not in items:
                    raise ConfigError(f"{key}.{name}: there is no such item; {key} has {len(old)}, counted from 0")
            out[key] = list(merge(items, value).values())
        else:
            out[key] = value
    return out


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables from dotted keys."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        *parents, leaf = name.split(".")
        table = out
        for parent in parents:
            table = table.setdefault(parent, {})
        table[leaf] = value
    return out


def dotted(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return dotted keys from nested tables."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        out |= dotted(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return out


def present(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested values without those that are None or empty."""
    out = {key: _present(value) for key, value in values.items()}
    return {key: value for key, value in out.items() if value is not None and value not in ({}, [], ())}


def _present(value: Any) -> Any:
    if isinstance(value, Mapping):
        return present(value)
    if isinstance(value, list):
        return [item for item in map(_present, value) if item != {}]
    return value


def read_overrides(overrides: Iterable[str]) -> dict[str, Any]:
    """Turn `["train.lr=1e-3", "text.lowercase=false"]` into nested tables; values are TOML, bare words are strings.

    Raises:
        ConfigError: an item is not `key=value`, or two items contradict each other.
    """
    out: dict[str, Any] = {}
    for item in overrides:
        key, sign, text = item.partition("=")
        if not sign or not key.strip():
            raise ConfigError(f"--set {item}: is not `key=value`; write for example --set train.optim.lr=0.001")
        try:
            value = tomllib.loads(f"v = {text.strip()}")["v"]
        except (ValueError, RecursionError):  # also a number of thousands of digits
            value = text.strip() or text  # one that is blank, such as a delimiter
        table = out
        *parents, leaf = key.strip().split(".")
        for parent in parents:
            table = table.setdefault(parent, {})
            if not isinstance(table, dict):
                raise ConfigError(f"--set {item}: {parent!r} is already set to a value")
        if isinstance(table.get(leaf), dict) and not isinstance(value, dict):
            raise ConfigError(f"--set {item}: keys of {leaf!r} are already set")
        table[leaf] = value
    return out


# Replacements of pydantic's messages about Python types.
_TOML_TYPES = {"tuple_type": "list", "list_type": "list", "model_type": "table", "dict_type": "table"}


def _explain(kind: type[BaseModel], error: ValidationError, only: Sequence[str] = ()) -> list[str]:
    """Return a line for each error, or for errors of some of pydantic's types."""
    lines = []
    errors = error.errors(include_url=False)
    for item in errors:
        if only and item["type"] not in only:
            continue
        if item["type"] == "too_short" and any(other["loc"][:-1] == item["loc"] for other in errors):
            continue  # without its wrong items, which are reported
        if item["type"] == "extra_forbidden":
            *path, key = item["loc"]
            keys, models = _follow(kind, path)
            allowed = sorted(models[0].model_fields) if models else []
            hint = near_miss(str(key), allowed, prefix="".join(f"{part}." for part in keys))
            nested = [path for model in models[:1] for path in _nested_keys(model)]
            close = get_close_matches(str(key), [*allowed, *(path[-1] for path in nested)], n=1, cutoff=0.8)
            if close and close[0] not in allowed:
                paths = dict.fromkeys(repr(".".join([*keys, *path])) for path in nested if path[-1] == close[0])
                hint = f"did you mean {' or '.join(paths)}?"
            lines.append(f"unknown key {shown('.'.join([*keys, str(key)]))}; {hint}")
            continue
        dotted = ".".join(_follow(kind, item["loc"])[0])
        if item["type"] == "union_tag_invalid":
            got = str(item.get("ctx", {}).get("tag"))
            tags = str(item.get("ctx", {}).get("expected_tags", "")).replace("'", "").split(", ")
            lines.append(f"{dotted}: unknown type {shown(got)}; {near_miss(got, tags)}")
        elif item["type"] == "model_attributes_type" and (tags := _tags(_follow(kind, item["loc"])[1])):
            one = item["input"] if item["input"] in tags else tags[0]
            lines.append(
                f'{dotted}: got {shown(item["input"])}; allowed: a table with a type, such as {{ type = "{one}" }}; '
                f"types: {', '.join(tags)}"
            )
        elif item["type"] == "value_error":
            lines.append(f"{dotted + ': ' if dotted else ''}{item['ctx']['error']}")
        elif item["type"] == "missing":
            lines.append(f"{dotted}: is missing")
        else:
            lines.append(f"{dotted}: got {shown(item['input'])}; allowed: {_allowed(kind, item)}")
    return lines


def _allowed(kind: type[BaseModel], item: ErrorDetails) -> str:
    """Return what the value with an error may be."""
    if item["type"] in _TOML_TYPES:
        return f"a {_TOML_TYPES[item['type']]}"
    if item["type"] == "too_short":
        least = item["ctx"]["min_length"]
        return "at least one item" if least == 1 else f"at least {least} items"
    path = list(item["loc"])
    while path and isinstance(path[-1], int):  # an item of a list: the key has its type
        path.pop()
    for model in _follow(kind, path[:-1])[1] if path else ():
        if (field := model.model_fields.get(str(path[-1]))) is not None:
            described = describe_type(field)
            described = described if len(path) == len(item["loc"]) else described.removeprefix("list of ")
            return f"finite {described}" if item["type"] == "finite_number" else described
    return item["msg"][:1].lower() + item["msg"][1:]


_NAMES = {bool: "true or false", int: "integer", float: "number", str: "text"}
_LIMITS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


def describe_type(field: FieldInfo) -> str:
    """Return what the value of a key may be, with its limits: "integer >= 1"."""
    limits = [f"{sign} {limit}" for item in field.metadata for name, sign in _LIMITS.items()
              if (limit := getattr(item, name, None)) is not None]  # fmt: skip
    return " ".join(filter(None, (_type(field.annotation), " and ".join(limits))))


def _kinds(annotation: Any) -> set[Any]:
    """Return the types in an annotation."""
    arguments = () if get_origin(annotation) is Literal else get_args(annotation)
    return set().union(*map(_kinds, arguments)) if arguments else {annotation}


def _type(annotation: Any) -> str:
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if origin is Annotated:
        return _type(arguments[0])
    if origin is Literal:
        return " | ".join(json.dumps(item, ensure_ascii=False) for item in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(item) for item in arguments if item is not type(None))
    if origin in (tuple, list):
        return f"list of {_type(arguments[0])}"
    return _NAMES.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _follow(kind: type[BaseModel], path: Sequence[int | str]) -> tuple[list[str], list[type[BaseModel]]]:
    """Return the keys of a path, without the tags of unions, and the configuration classes allowed there."""
    keys: list[str] = []
    models: list[type[BaseModel]] = [kind]
    for part in path:
        fields = [model.model_fields[part].annotation for model in models if part in model.model_fields]
        tagged = [model for model in models if part in get_args(_annotation(model, "type"))]
        if fields:
            models = [model for field in fields for model in _models_in(field)]
        elif tagged:
            models = tagged
            continue
        keys.append(str(part))
    return keys, models


def _tags(models: Sequence[type[BaseModel]]) -> list[str]:
    """Return the values of `type` that distinguish the classes of a union."""
    return [str(tag) for model in models for tag in get_args(_annotation(model, "type"))]


def _nested_keys(model: type[BaseModel]) -> list[list[str]]:
    """Return the paths of keys in nested tables, except for tables in lists."""
    return [
        [name, *rest]
        for name, field in model.model_fields.items()
        if get_origin(field.annotation) is not tuple
        for inner in _models_in(field.annotation)
        for rest in ([[key] for key in inner.model_fields] + _nested_keys(inner))
    ]


def _annotation(model: type[BaseModel], name: str) -> Any:
    return model.model_fields[name].annotation if name in model.model_fields else None


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]
