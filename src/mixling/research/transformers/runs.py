"""From a run folder of mixling to a model of `transformers`, and from there to a `model.onnx`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, cast

import torch

from mixling.answers.labels import LabelSet
from mixling.errors import ConfigError
from mixling.export.onnx import export_onnx
from mixling.models.model import build_model
from mixling.models.network import TorchNetwork
from mixling.research.saved import load_model
from mixling.research.transformers.features import MixlingFeatureExtractor
from mixling.research.transformers.modeling import (
    MixlingConfig,
    MixlingForSequenceClassification,
    MixlingForTokenClassification,
)
from mixling.storage import write_atomic
from mixling.tasks import task_type

Classifier = MixlingForSequenceClassification | MixlingForTokenClassification

# The task of mixling for each `problem_type`.
_TASKS = {
    "single_label_classification": "classification",
    "multi_label_classification": "multi_label",
    "regression": "regression",
}
_PROBLEMS = {task: problem for problem, task in _TASKS.items()}
_TAGGING = "tagging"


def from_run(folder: str | Path) -> tuple[Classifier, MixlingFeatureExtractor]:
    """Return the model of a folder of `mixling train`, and what encodes its texts.

    It is the network with its float weights: a linear n-gram branch, transitions between tags, thresholds and the like
    are in model.onnx only.

    Args:
        folder: the run folder, also one on the hub (`hf:NAME[@REVISION]`).

    Raises:
        ConfigError: it is not such a folder, or its task has no model here.
        ModelFileError: a file is missing or damaged.
    """
    network, encoder, labels, task = load_model(folder)
    if task != _TAGGING and task not in _PROBLEMS:
        allowed = ", ".join([*_PROBLEMS, _TAGGING])
        raise ConfigError(f"{folder}: its task is {task}; transformers models are made for {allowed}")
    names = dict(enumerate(labels.names))
    config = MixlingConfig(
        model=network.config.to_dict(),
        id2label=names,
        label2id={name: number for number, name in names.items()},
        problem_type=cast(Any, _PROBLEMS.get(task)),
    )
    kind = MixlingForTokenClassification if task == _TAGGING else MixlingForSequenceClassification
    model = kind(config)
    for part, source in (
        (model.mixling.embedding, network.embedding),
        (model.mixling.encoder, network.encoder),
        (model.head, network.head),
    ):
        part.load_state_dict({name: value for name, value in source.state_dict().items() if name != "transitions"})
    if labels.numbers:  # of a regression: the network predicts standardized numbers
        with torch.no_grad():
            model.head.output.weight.mul_(labels.numbers["deviation"])
            model.head.output.bias.mul_(labels.numbers["deviation"]).add_(labels.numbers["mean"])
    return model.eval(), MixlingFeatureExtractor.from_encoder(encoder)


def save_onnx(
    model: Classifier,
    features: MixlingFeatureExtractor,
    path: str | Path,
    *,
    precision: Literal["int8", "float32"] = "float32",
) -> None:
    """Write a model.onnx, with which `Predictor`, `mixling predict` and `mixling serve` predict without torch.

    Args:
        model: trained on what `features` encodes; not modified. `config.id2label` names its labels.
        path: the file.
        precision: "int8" for a quarter of the size; compare the accuracies before you use it.

    Raises:
        ConfigError: the model has another embedding layer than the features are for.
        DataError: its labels are not allowed in model files.
        StorageError: the file cannot be written.
    """
    config = model.config
    encoder = features.encoder
    if config.mixling.text.num_rows != encoder.config.num_rows:
        raise ConfigError(
            f"the model has {config.mixling.text.num_rows:,} rows of features and the MixlingFeatureExtractor "
            f"{encoder.config.num_rows:,}; give the one that it was trained with. Models that read the token ids of "
            "another tokenizer cannot be written as model.onnx"
        )
    tagging = isinstance(model, MixlingForTokenClassification)
    task = task_type(_TAGGING if tagging else _TASKS[config.problem_type or "single_label_classification"])
    if task.has_labels:
        labels = LabelSet(tuple(name for _, name in sorted(cast(dict[int, str], config.id2label).items())), task.kind)
    else:
        labels = LabelSet(("value",), task.kind, {"mean": 0.0, "deviation": 1.0})
    task(labels)  # checks them
    network = build_model(config.mixling, num_outputs=len(labels), output=task.output)
    network.embedding.load_state_dict(model.mixling.embedding.state_dict())
    network.encoder.load_state_dict(model.mixling.encoder.state_dict())
    network.head.load_state_dict(model.head.state_dict())
    content = export_onnx(
        TorchNetwork(network),
        text=encoder.config,
        task=task.name,
        labels=labels,
        vocabulary=encoder.vocabulary,
        precision=precision,
    )
    write_atomic(path, content)
