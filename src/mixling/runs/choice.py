"""Which model fits the rows, where the user names none."""

from __future__ import annotations

from dataclasses import dataclass

from mixling.data.store import ExampleStore
from mixling.models.presets import DEFAULT_PRESET
from mixling.runs.config import RunConfig


@dataclass(frozen=True, slots=True)
class Choice:
    """A preset's name, and the reason for it in a few words."""

    name: str
    why: str


def choose_model(train: ExampleStore, config: RunConfig) -> Choice:
    """The preset for these rows."""
    return Choice(DEFAULT_PRESET, "the default")
