"""Runs that train models from text to text."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mixling.artifacts.description import (
    best_line,
    layers_line,
    read_values,
    validation_line,
    weights_file,
)
from mixling.artifacts.files import CONFIG_FILE, METRICS_FILE
from mixling.artifacts.kinds import TEXT_TO_TEXT, Clues
from mixling.limits import require_memory_of_torch
from mixling.research.kind import ResearchKind

if TYPE_CHECKING:
    from mixling.research.inspect.weights import Inspected


class PairRuns(ResearchKind):
    """Runs that train models from text to text."""

    name = TEXT_TO_TEXT
    task = "text2text"
    data_keys = frozenset({"tasks", "corpus", "pretrained"})
    option_keys: ClassVar[Mapping[str, str]] = {
        "dev-fraction": "tasks.0.validation_fraction",
        "epochs": "train.epochs",
        "prefix": "tasks.0.prefix",
        "steps": "train.steps",
        "validation-fraction": "tasks.0.validation_fraction",
        "vocabulary": "tokenizer.vocabulary",
    }
    does = "generates text"
    commands = "mixling.research.seq2seq.commands"
    generates = True

    def fits(self, clues: Clues) -> bool:
        if clues.model is not None and clues.model in self.presets():
            return True
        if clues.options or "tasks" in clues.toml:
            return True
        if clues.pretrained is not None:
            return clues.pretrained.generates
        return {"source", "target"} <= clues.columns and "label" not in clues.columns

    def load(self, path: str | Path) -> Any:
        from mixling.research.seq2seq.generator import TextGenerator

        return TextGenerator(path)

    def serve(self, name: str, path: Path, *, max_texts: int, max_chars: int) -> Any:
        from mixling.research.seq2seq.serving import open_generator

        return open_generator(name, path, max_texts=max_texts, max_chars=max_chars)

    def inspect(self, folder: Path, inputs: Sequence[Any]) -> Inspected:
        from mixling.research.seq2seq.inspection import of_generator

        return of_generator(folder, inputs)

    def toml(self, model: str | None = None) -> str:
        from mixling.research.seq2seq.config import PAIRS
        from mixling.runs.resolve.toml import default_toml

        return default_toml(PAIRS, model)

    def presets(self) -> Collection[str]:
        require_memory_of_torch()
        from mixling.research.seq2seq.presets import SEQ2SEQ_PRESETS

        return SEQ2SEQ_PRESETS.keys()

    def describe(self, folder: Path) -> dict[str, Any]:
        saved = read_values(
            folder, CONFIG_FILE, lambda saved: (_stacks(saved["model"]), saved["parameters"], saved["tasks"])
        )
        metrics = read_values(
            folder, METRICS_FILE, lambda saved: (saved["held_out"], saved["validation"], best_line(saved["best"]))
        )
        return {
            **weights_file(folder),
            "task": "text to text; use it with mixling generate",
            "parameters": saved["parameters"],
            "tasks": saved["tasks"],
            "generation": saved["generation"],
            "encoder_decoder": saved["model"],
            **{name: metrics[name] for name in ("held_out", "validation", "best") if name in metrics},
        }

    def summary(self, facts: dict[str, Any]) -> list[tuple[str, str]]:
        model = facts["encoder_decoder"]
        search = facts["generation"]
        lines = [
            ("file", f"{facts['file']}, {facts['file_bytes'] / 1e6:.2f} MB"),
            ("task", facts["task"]),
            ("tasks", ", ".join(item["name"] for item in facts["tasks"]) or "none yet: pretrained by span corruption"),
            ("parameters", f"{facts['parameters']:,}, float32"),
            ("reads", f"up to {model['max_source_len']} subwords"),
            ("writes", f"up to {search['max_len']}, {search['num_beams']} beam{'s' * (search['num_beams'] != 1)}"),
            *_stacks(model),
        ]
        validation: dict[str, Any] = facts.get("validation", {})
        for name, values in validation.items():
            lines.append(
                (
                    "validation" if len(validation) == 1 else f"validation {name}",
                    validation_line(values | values["metrics"]),
                )
            )
        if "held_out" in facts:
            lines.append(("held out", validation_line(facts["held_out"])))
        if "best" in facts:
            lines.append(("best epoch", best_line(facts["best"])))
        return lines


def _stacks(model: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, f"width {model['dim']}, {layers_line(model[name])}") for name in ("encoder", "decoder")]
