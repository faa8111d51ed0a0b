"""Runs on labeled texts, as `mixling train` starts them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from mixling.artifacts.kinds import TRAINING, RunKind


class LabelRuns(RunKind):
    name = TRAINING
    data_keys = frozenset({"data"})
    does = "predicts labels or answers"
    labeled = True

    def load(self, path: str | Path) -> Any:
        from mixling.runtime.predictor import Predictor

        return Predictor(path)

    def toml(self, model: str | None = None) -> str:
        from mixling.runs.resolve.spec import LABELS
        from mixling.runs.resolve.toml import default_toml

        return default_toml(LABELS, model)

    def presets(self) -> Collection[str]:
        from mixling.networks.presets import PRESETS

        return PRESETS.keys()

    def describe(self, folder: Path) -> dict[str, Any]:
        from mixling.artifacts.description import describe_predictor

        return describe_predictor(folder)

    def summary(self, facts: dict[str, Any]) -> list[tuple[str, str]]:
        from mixling.artifacts.description import model_lines

        return model_lines(facts)
