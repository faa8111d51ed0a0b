"""The run folder: what is written into it at the end of a run, and how torch reads it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import ValidationError

from mixling.config import parse
from mixling.errors import ConfigError, ModelFileError
from mixling.export.card import model_card
from mixling.export.onnx import export_onnx
from mixling.export.plots import confusion_matrix, training_curves
from mixling.export.quantize import check_gate
from mixling.metrics.base import ClassificationMetrics, Metrics
from mixling.metrics.gate import Gate
from mixling.models.model import Model, ModelConfig, build_model, count_parameters
from mixling.runs.artifact import (
    CARD_FILE,
    CONFIG_FILE,
    CONFUSION_FILE,
    CURVES_FILE,
    DESCRIPTIONS,
    METRICS_FILE,
    ONNX_FILE,
    read_config,
    read_folder,
    vocabulary_file,
)
from mixling.runs.config import RunConfig
from mixling.runs.dev import Dev, Said
from mixling.runs.pictures import if_possible
from mixling.runs.weights import read_model, write_model
from mixling.runtime.predictor import Predictor
from mixling.storage import write_atomic, write_sealed
from mixling.tasks import task_type
from mixling.text.encoder import TextEncoder
from mixling.text.labels import LabelSet
from mixling.text.vocabulary import Vocabulary


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a finished run gives.

    metrics: of the exported model on dev.
    gate: how the 8-bit model compares with the float one; None where it was not asked for.
    """

    folder: Path
    labels: LabelSet
    metrics: Metrics
    history: list[dict[str, Any]]
    parameters: int
    precision: str
    gate: Gate | None


def write_folder(
    config: RunConfig,
    model: Model,
    encoder: TextEncoder,
    labels: LabelSet,
    dev: Dev,
    history: list[dict[str, Any]],
    folder: Path,
    say: Callable[[str], None],
    *,
    pairs: bool,
) -> Run:
    """Export a trained model, measure what was exported on dev, and write all files of the run folder.

    Args:
        dev: what the models are measured on.
        pairs: whether the training texts were pairs.

    Raises:
        StorageError: a file could not be written.
    """
    vocabulary = encoder.vocabulary
    name, content = vocabulary.serialise()
    write_atomic(folder / name, content)
    parameters = count_parameters(model)
    saved = {"task": config.task, "model": config.model.to_dict(), "labels": labels.to_dict(), "vocabulary": name}
    write_model(folder, model, {"parameters": parameters, **saved})

    def export(precision: Literal["int8", "float32"]) -> Said:
        """Write model.onnx and ask it about dev."""
        content = export_onnx(
            model,
            text=config.model.text,
            task=config.task,
            labels=labels,
            vocabulary=vocabulary,
            precision=precision,
            pairs=pairs,
            reading=dev.reading,
        )
        write_atomic(folder / ONNX_FILE, content)
        return dev.of_file(Predictor(folder / ONNX_FILE, num_threads=torch.get_num_threads()))

    said_in_floats = dev.of_model(model)
    if dev.reading is not None:
        config = config.model_copy(update={"reading": dev.reading})
    gate, precision, said = None, config.precision, export(config.precision)
    if precision == "int8":
        gate = dev.gate(said_in_floats, said)
        refusal = check_gate(gate)
        if refusal is not None:
            say(f"{refusal}; model.onnx holds float32 weights")
            precision, said = "float32", export("float32")
    metrics = dev.metrics(said)
    best = next(record for record in reversed(history) if record["best"])
    report = {
        "dev": metrics.to_dict(),
        "best": {key: best[key] for key in ("epoch", "step", "train_loss", "dev_loss")},
        "precision": precision,
        "gate": None if gate is None else asdict(gate),
        "parameters": parameters,
        "file_bytes": (folder / ONNX_FILE).stat().st_size,
    }
    write_sealed(folder / METRICS_FILE, report)
    drawn = if_possible(lambda: training_curves(history, folder / CURVES_FILE), say)
    if drawn and isinstance(metrics, ClassificationMetrics):
        confusion_matrix(np.array(metrics.confusion), labels.names, folder / CONFUSION_FILE)
    write_atomic(
        folder / CARD_FILE, model_card(config.to_dict(), report, dev.task, folder_files=DESCRIPTIONS, pairs=pairs)
    )
    return Run(
        folder=folder, labels=labels, metrics=metrics, history=history,
        parameters=parameters, precision=precision, gate=gate,
    )  # fmt: skip


def load_model(folder: str | Path) -> tuple[Model, TextEncoder, LabelSet, str]:
    """Return the float model of a run folder, for torch.

    Raises:
        ModelFileError: a file of the folder is missing or damaged.
    """
    return read_folder(folder, _load_model)


def _load_model(folder: Path) -> tuple[Model, TextEncoder, LabelSet, str]:
    try:
        saved = read_config(folder)
        config = parse(ModelConfig, saved["model"], where=str(folder / CONFIG_FILE))
        task = task_type(saved["task"])(LabelSet.from_dict(saved["labels"]))
        vocabulary = Vocabulary.load(str(vocabulary_file(folder, saved)))
        model = read_model(folder, saved, lambda: build_model(config, num_outputs=len(task.labels), output=task.output))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, ConfigError, ValidationError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelFileError(f"{folder}: is not a complete run folder: {reason}") from None
    return model.eval(), TextEncoder(config.text, vocabulary), task.labels, task.name
