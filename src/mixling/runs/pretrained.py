"""Initialization from a pretrained model: its configuration, vocabulary and weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mixling.artifacts.artifact import Artifact, read_artifact
from mixling.artifacts.files import RUN_FILE, read_run
from mixling.artifacts.kinds import PRETRAINING, TRAINING, kind_of
from mixling.artifacts.weights import check_shapes, check_weights, read_weights, weight_shapes
from mixling.errors import ConfigError
from mixling.hub import on_hub
from mixling.networks.config import ModelConfig
from mixling.networks.network import NamedWeights, TextNetwork
from mixling.training.backends.choose import need_torch, shapes_of

# Training defaults for fine-tuning. The learning rate is the better of 5e-4 and 2e-3 on SST-2, RTE and ConjNLI for gMLP
# of width 128 (experiments/pretraining.py); wider models need a lower one.
FINE_TUNING: dict[str, Any] = {
    "optim": {"lr": 2e-3, "embedding_lr": 1.0, "weight_decay": 0.01, "warmup": 0.1, "schedule": "linear"},
    "token_dropout": 0.1,
}
_PARTS = ("embedding.", "encoder.")
PRETRAINED_HINT = "--from takes a folder written by `mixling pretrain` or `mixling train`"


def pretrained_config(folder: str) -> dict[str, Any]:
    """Return the configuration of the model in a run folder, with the path of its vocabulary.

    Raises:
        ConfigError: it is not a run folder.
        ModelFileError: the folder is incomplete or damaged.
    """

    def read(artifact: Artifact) -> tuple[ModelConfig, Path]:
        config = artifact.parse(ModelConfig, artifact.saved["model"])
        shapes = weight_shapes(artifact.folder)
        check_shapes(artifact.folder, lambda: shapes_of(config, 2, "text"), shapes, parts=_PARTS)
        # While a run is replaced, its files are elsewhere for a moment; files of the hub are in the cache.
        return config, (artifact.folder if on_hub(folder) else Path(folder)) / artifact.vocabulary().name

    config, vocabulary = read_artifact(folder, read, hint=PRETRAINED_HINT, kinds=(TRAINING, PRETRAINING))
    text = config.text.model_copy(update={"vocabulary": str(vocabulary)})
    return config.model_copy(update={"text": text}).to_dict()


def inherited_defaults(folder: str) -> dict[str, Any]:
    """Return what a run takes from the configuration of the one that it continues: an n-gram branch.

    The branch itself is fitted anew, on the examples of the new run. {}: the folder has no record of `mixling train`.

    Raises:
        ModelFileError: the record is damaged.
    """
    try:
        saved = read_run(Path(folder))
    except FileNotFoundError:
        return {}
    if not kind_of(saved, where=Path(folder) / RUN_FILE).labeled or "ngrams" not in saved["config"]:
        return {}
    return {"ngrams": saved["config"]["ngrams"]}


def load_pretrained(network: TextNetwork, folder: str) -> None:
    """Load the embedding layer and the encoder of the model in a run folder into a network.

    The network may read longer texts than the pretrained one: weights for the new positions come from `resize` of the
    mixers; new position embeddings keep their initial values.

    Raises:
        ConfigError: the model differs from the pretrained one.
        ModelFileError: the folder is incomplete or damaged.
    """

    def read(artifact: Artifact) -> tuple[ModelConfig, NamedWeights]:
        weights = read_weights(artifact.folder, artifact.saved)
        config = artifact.parse(ModelConfig, artifact.saved["model"])
        return config, {name: weights[name] for name in weights if name.startswith(_PARTS)}

    saved, weights = read_artifact(folder, read, hint=PRETRAINED_HINT, kinds=(TRAINING, PRETRAINING))
    for name in ("dim", "blocks", "final_norm"):
        if getattr(saved, name) != getattr(network.config, name):
            raise ConfigError(f"{folder}: {name} of the pretrained model differs; leave out what changes model.{name}")
    longest = saved.text.max_len
    wanted = network.config.text.max_len
    own = network.weights()
    if wanted > longest:
        need_torch("resizing a model")
        from mixling.models.network import for_longer_texts

        weights = for_longer_texts(saved, weights, own, wanted, _PARTS)
    remedy = f"; it was made for {longest} tokens: leave out model.text.max_len = {wanted}" if wanted != longest else ""
    shapes = {name: value.shape for name, value in own.items() if name.startswith(_PARTS)}
    check_weights(shapes, weights, folder=folder, remedy=remedy)
    network.restore({**own, **weights})
