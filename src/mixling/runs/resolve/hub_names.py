"""Pinning names on the Hugging Face hub to commits, so that a resumed run reads the same files."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from mixling.config import Config, parse
from mixling.data.readers import HUB
from mixling.data.readers.hub import pinned_rows
from mixling.hub import pinned

_C = TypeVar("_C", bound=Config)


def with_commits(config: _C) -> _C:
    """Return the configuration with hub names of data sets, teacher, pretrained model and vocabulary pinned to commits.

    Raises:
        ConfigError: a name has an empty revision after its @.
    """
    values = config.to_dict()
    pinned_values = _walk(values, "")
    return config if pinned_values == values else parse(type(config), pinned_values, where="names on the hub")


def _walk(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return {name: _walk(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_walk(item, key) for item in value]
    if not isinstance(value, str):
        return value
    if key == "vocabulary" and not os.path.exists(value):
        return pinned(value, "model")
    if not value.startswith(HUB):
        return value
    return HUB + pinned(value.removeprefix(HUB), "model") if key in ("teacher", "pretrained") else pinned_rows(value)
