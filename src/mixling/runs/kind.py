"""Runs on labeled texts, as `mixling train` starts them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

from mixling.artifacts.kinds import TRAINING, RunKind


class LabelRuns(RunKind):
    name = TRAINING
    data_keys = frozenset({"data"})
    option_keys: ClassVar[Mapping[str, str]] = {
        "answers": "data.columns.answers",
        "context": "data.columns.context",
        "costs": "decisions.costs",
        "dev-fraction": "data.validation_fraction",
        "epochs": "train.epochs",
        "group": "data.columns.group",
        "init-embeddings": "init.vectors",
        "label-delimiter": "data.columns.label_delimiter",
        "limit": "distill.limit",
        "question": "data.columns.question",
        "replay": "init.replay",
        "sentence": "data.columns.sentence",
        "slots": "data.columns.slots",
        "split": "distill.split",
        "steps": "train.steps",
        "tags": "data.columns.tags",
        "tokens": "data.columns.tokens",
        "unlabeled": "init.texts",
        "validation-fraction": "data.validation_fraction",
        "vocabulary": "model.text.vocabulary",
    }
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
