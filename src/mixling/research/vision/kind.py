"""Runs that train image classifiers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mixling.artifacts.description import (
    labels_line,
    layers_line,
    quality_lines,
    read_values,
    run_metrics,
    weights_file,
)
from mixling.artifacts.files import CONFIG_FILE
from mixling.artifacts.kinds import IMAGES, Clues
from mixling.research.kind import ResearchKind

if TYPE_CHECKING:
    from mixling.research.inspect.weights import Inspected


class ImageRuns(ResearchKind):
    name = IMAGES
    task = "image_classification"
    data_keys = frozenset({"data"})
    option_keys: ClassVar[Mapping[str, str]] = {
        "dev-fraction": "data.validation_fraction",
        "epochs": "train.epochs",
        "steps": "train.steps",
        "validation-fraction": "data.validation_fraction",
    }
    does = "classifies images"
    commands = "mixling.research.vision.commands"

    def fits(self, clues: Clues) -> bool:
        from mixling.data.readers.text_folder import holds_images

        if clues.model is not None and clues.model in self.presets():
            return True
        return clues.folder is not None and holds_images(clues.folder)

    def load(self, path: str | Path) -> Any:
        from mixling.research.vision.classifier import ImageClassifier

        return ImageClassifier(path)

    def inspect(self, folder: Path, inputs: Sequence[Any]) -> Inspected:
        from mixling.research.vision.inspection import of_classifier

        return of_classifier(folder, inputs)

    def toml(self, model: str | None = None) -> str:
        from mixling.research.vision.config import IMAGE_RUNS
        from mixling.runs.resolve.toml import default_toml

        return default_toml(IMAGE_RUNS, model)

    def presets(self) -> Collection[str]:
        from mixling.research.vision.model import IMAGE_PRESETS

        return IMAGE_PRESETS.keys()

    def describe(self, folder: Path) -> dict[str, Any]:
        saved = read_values(
            folder,
            CONFIG_FILE,
            lambda saved: (layers_line(saved["model"]), saved["parameters"], saved["labels"]["names"]),
        )
        return {
            **weights_file(folder),
            "task": "image classification",
            "parameters": saved["parameters"],
            "labels": saved["labels"]["names"],
            "image_model": saved["model"],
            **run_metrics(folder, "data"),
        }

    def summary(self, facts: dict[str, Any]) -> list[tuple[str, str]]:
        model = facts["image_model"]
        data = facts.get("data", {"labels": {}})
        size = model["image_size"]
        colors = "gray" if model["channels"] == 1 else "RGB"
        patches = f"patches of {model['patch_size']} x {model['patch_size']}"
        lines = [("file", f"{facts['file']}, {facts['file_bytes'] / 1e6:.2f} MB"), ("task", facts["task"])]
        if "training" in data:
            lines.append(("trained", f"{data['training']:,} images, {data['validation']:,} for validation"))
        lines += [
            ("labels", labels_line(facts["labels"], data["labels"])),
            ("parameters", f"{facts['parameters']:,}, float32"),
            ("images", f"{size} x {size} pixels, {colors}; {patches}"),
            ("body", f"width {model['dim']}, {layers_line(model)}"),
        ]
        return lines + quality_lines(facts)
