"""Runs of `mixling pretrain` by masked language modeling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mixling.artifacts.description import body_line, model_lines, read_values, run_metrics, weights_file
from mixling.artifacts.files import CONFIG_FILE
from mixling.artifacts.kinds import PRETRAINING
from mixling.research.kind import ResearchKind

if TYPE_CHECKING:
    from mixling.research.inspect.weights import Inspected


class PretrainingRuns(ResearchKind):
    name = PRETRAINING
    command = "pretrain"
    data_keys = frozenset({"corpus"})
    option_keys: ClassVar[Mapping[str, str]] = {
        "dev-fraction": "corpus.validation_fraction",
        "epochs": "train.epochs",
        "steps": "train.steps",
        "validation-fraction": "corpus.validation_fraction",
        "vocabulary": "model.text.vocabulary",
    }
    does = "is pretrained, for `mixling train --from`"
    commands = "mixling.research.pretraining.commands"

    def load(self, path: str | Path) -> Any:
        from mixling.research.pretraining.evaluation import load_pretraining

        return load_pretraining(path)

    def inspect(self, folder: Path, inputs: Sequence[Any]) -> Inspected:
        from mixling.research.inspect.folders import of_pretrained

        return of_pretrained(folder, inputs)

    def toml(self, model: str | None = None) -> str:
        from mixling.research.pretraining.run import MASKED_LM
        from mixling.runs.resolve.toml import default_toml

        return default_toml(MASKED_LM, model)

    def describe(self, folder: Path) -> dict[str, Any]:
        saved = read_values(folder, CONFIG_FILE, lambda saved: (body_line(saved["model"]), saved["parameters"]))
        return {
            **weights_file(folder),
            "task": "none yet; fine-tune the pretrained model with: mixling train FILE --from DIR",
            "parameters": saved["parameters"],
            "text": saved["model"]["text"],
            "model": saved["model"],
            **run_metrics(folder),
        }

    def summary(self, facts: dict[str, Any]) -> list[tuple[str, str]]:
        return model_lines(facts)
