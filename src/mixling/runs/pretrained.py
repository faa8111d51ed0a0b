"""Initialization from a pretrained model: its configuration, vocabulary and weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from torch import Tensor

from mixling.artifacts.artifact import PRETRAINING, TRAINING, Artifact, read_artifact
from mixling.artifacts.files import read_run
from mixling.artifacts.weights import check_shapes, load_weights, read_weights, weight_shapes
from mixling.data.batches import Inputs
from mixling.data.corpora import read_texts
from mixling.data.documents import WordReader
from mixling.data.prepared import encode_documents
from mixling.errors import ConfigError
from mixling.hub import on_hub
from mixling.models.model import Model, ModelConfig, build_model
from mixling.tasks.masked_lm import MaskedLM, MaskedLMConfig
from mixling.text.encoder import TextEncoder
from mixling.text.vocabulary import Vocabulary
from mixling.training.corpus import (
    MASK_WORD,
    MaskedText,
    document_encoder,
    evaluate_masked,
    named_targets,
    subword_targets,
)

# Training defaults for fine-tuning. The learning rate is the better of 5e-4 and 2e-3 on SST-2, RTE and ConjNLI for gMLP
# of width 128 (experiments/pretraining.py); wider models need a lower one.
FINE_TUNING: dict[str, Any] = {
    "optim": {"lr": 2e-3, "embedding_lr": 1.0, "weight_decay": 0.01, "warmup": 0.1, "schedule": "linear"},
    "token_dropout": 0.1,
}
_PARTS = ("embedding.", "encoder.")
_HINT = "--from takes a folder written by `mixling pretrain` or `mixling train`"


def pretrained_config(folder: str) -> dict[str, Any]:
    """Return the configuration of the model in a run folder, with the path of its vocabulary.

    Raises:
        ConfigError: it is not a run folder.
        ModelFileError: the folder is incomplete or damaged.
    """

    def read(artifact: Artifact) -> tuple[ModelConfig, Path]:
        config = artifact.parse(ModelConfig, artifact.saved["model"])
        shapes = weight_shapes(artifact.folder)
        check_shapes(artifact.folder, lambda: build_model(config, num_outputs=2, output="text"), shapes, parts=_PARTS)
        # While a run is replaced, its files are elsewhere for a moment; those of the hub are in the cache.
        return config, (artifact.folder if on_hub(folder) else Path(folder)) / artifact.vocabulary().name

    config, vocabulary = read_artifact(folder, read, hint=_HINT, kinds=(TRAINING, PRETRAINING))
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
    if saved.get("kind", TRAINING) != TRAINING or "ngrams" not in saved["config"]:
        return {}
    return {"ngrams": saved["config"]["ngrams"]}


def load_pretrained(model: Model, config: ModelConfig, folder: str, *, resize: bool) -> None:
    """Load the embedding layer and the encoder of the model in a run folder into a model.

    Args:
        resize: allow the model to read longer texts than the pretrained one. Weights for the new positions come from
            `resize` of the mixers; new position embeddings keep their initial values.

    Raises:
        ConfigError: the model differs from the pretrained one, or reads longer texts without `resize`.
        ModelFileError: the folder is incomplete or damaged.
    """

    def read(artifact: Artifact) -> tuple[ModelConfig, dict[str, Tensor]]:
        weights = read_weights(artifact.folder, artifact.saved)
        config = artifact.parse(ModelConfig, artifact.saved["model"])
        return config, {name: weights[name] for name in weights if name.startswith(_PARTS)}

    saved, weights = read_artifact(folder, read, hint=_HINT, kinds=(TRAINING, PRETRAINING))
    for name in ("dim", "blocks", "final_norm"):
        if getattr(saved, name) != getattr(config, name):
            raise ConfigError(f"{folder}: {name} of the pretrained model differs; leave out what changes model.{name}")
    longest, wanted = saved.text.max_len, config.text.max_len
    if wanted > longest and not resize:
        raise ConfigError(
            f"model.text.max_len = {wanted}, but {folder} was trained with {longest} tokens; set it to {longest}, or "
            "allow longer texts with --set init.resize=true"
        )
    if wanted > longest:
        weights = _for_longer_texts(saved, model, weights, wanted)
    remedy = f"; it was made for {longest} tokens: leave out model.text.max_len = {wanted}" if wanted != longest else ""
    load_weights(model, weights, folder=folder, remedy=remedy, parts=_PARTS)


class PretrainedModel(NamedTuple):
    """A float model of `mixling pretrain` with its head, and the encoder of its texts."""

    model: Model
    encoder: TextEncoder


def load_pretraining(folder: str | Path) -> PretrainedModel:
    """Load the model of a folder of `mixling pretrain`.

    Raises:
        ConfigError: it is not such a folder.
        ModelFileError: the folder is incomplete or damaged.
    """
    return read_artifact(folder, _load, hint=_HINT, kinds=(PRETRAINING,))


def evaluate_text(folder: str | Path, sources: Sequence[str], *, text: str = "text") -> dict[str, float]:
    """Return perplexity and accuracy of a pretrained model on text, masked as its validation text was.

    Args:
        sources: files of text.
        text: the column of the text, in tables.

    Raises:
        DataError: a file cannot be used.
        ModelFileError: the folder is incomplete or damaged.
    """

    def read(artifact: Artifact) -> tuple[PretrainedModel, MaskedLMConfig, list[str] | None]:
        objective = artifact.parse(MaskedLMConfig, artifact.saved["objective"])
        return _load(artifact), objective, artifact.saved.get("words")

    (model, own), objective, words = read_artifact(folder, read, hint=_HINT, kinds=(PRETRAINING,))
    encoder = document_encoder(own.config, own.vocabulary)
    if words is not None:
        encoder.learn([MASK_WORD, *words])
    tokens = encode_documents(read_texts(sources, text=text), WordReader(encoder))
    data = MaskedText(
        objective=MaskedLM(),
        config=objective,
        encoder=encoder,
        train=tokens,
        validation=tokens,
        length=own.config.max_len,
        targets=subword_targets(encoder) if words is None else named_targets(encoder, words),
    )

    def forward(batch: Inputs) -> Tensor:
        return model(*batch.arguments)

    metrics, loss = evaluate_masked(data.masked_validation(), forward)
    return {**metrics, "loss": loss, "tokens": float(len(tokens.rows))}


def _for_longer_texts(saved: ModelConfig, model: Model, weights: dict[str, Tensor], wanted: int) -> dict[str, Tensor]:
    """Return the weights resized to the model's length, where mixers support that; other weights are unchanged."""
    source = build_model(saved, num_outputs=2, output="text")
    source.load_state_dict({**source.state_dict(), **weights})
    for module in source.encoder.modules():
        if hasattr(module, "resize"):
            cast(Any, module).resize(wanted)
    out = {name: value for name, value in source.state_dict().items() if name.startswith(_PARTS)}
    positions = model.embedding.positions
    if positions is not None and positions.weight is not None:
        table, name = positions.weight.detach().clone(), "embedding.positions.weight"
        table[: saved.text.max_len] = out[name]
        out[name] = table
    return out


def _load(artifact: Artifact) -> PretrainedModel:
    config = artifact.parse(ModelConfig, artifact.saved["model"])
    num_outputs = int(artifact.saved["num_outputs"])
    model = artifact.model(lambda: build_model(config, num_outputs=num_outputs, output="subwords"))
    return PretrainedModel(model.eval(), TextEncoder(config.text, Vocabulary.load(str(artifact.vocabulary()))))
