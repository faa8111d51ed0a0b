"""Runs on labeled texts, as `mixling train` starts them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixling.artifacts.kinds import TRAINING, RunKind

if TYPE_CHECKING:
    from mixling.runs.resolve.spec import Spec


class LabelRuns(RunKind):
    name = TRAINING
    data_keys = frozenset({"data"})
    does = "predicts labels or answers"
    labeled = True

    def load(self, path: str | Path) -> Any:
        from mixling.runtime.predictor import Predictor

        return Predictor(path)

    def spec(self) -> Spec[Any]:
        from mixling.runs.resolve.spec import LABELS

        return LABELS

    def presets(self) -> Collection[str]:
        from mixling.models.presets import PRESETS

        return PRESETS.keys()

    def describe(self, folder: Path) -> dict[str, Any]:
        from mixling.artifacts.description import describe_predictor

        return describe_predictor(folder)
