"""Beginning with a model that was trained before: its configuration, vocabulary and weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from torch import Tensor

from mixling.data.batches import Inputs
from mixling.data.corpora import read_texts
from mixling.data.documents import WordReader
from mixling.data.prepared import encode_documents
from mixling.errors import ConfigError
from mixling.models.model import Model, ModelConfig, build_model
from mixling.runs.artifact import PRETRAINING, TRAINING, Artifact, read_artifact
from mixling.runs.weights import check_shapes, load_weights, read_weights, weight_shapes
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

# Of a run that begins with a pretrained model. The rate is the better of 5e-4 and 2e-3 on SST-2, RTE and ConjNLI for
# gMLP of width 128 (experiments/pretraining.py); wide models want a lower one.
FINE_TUNING: dict[str, Any] = {
    "optim": {"lr": 2e-3, "embedding_lr": 1.0, "weight_decay": 0.01, "warmup": 0.1, "schedule": "linear"},
    "token_dropout": 0.1,
}
_PARTS = ("embedding.", "encoder.")
_HINT = "--from takes what `mixling pretrain` or `mixling train` wrote"


def pretrained_config(folder: str) -> dict[str, Any]:
    """The configuration of the model in a run folder, with the subwords that it was trained with.

    Raises:
        ConfigError: there is no run folder.
        ModelFileError: it is not complete, or damaged.
    """

    def read(artifact: Artifact) -> tuple[ModelConfig, str]:
        config = artifact.parse(ModelConfig, artifact.saved["model"])
        shapes = weight_shapes(artifact.folder)
        check_shapes(artifact.folder, lambda: build_model(config, num_outputs=2, output="text"), shapes, parts=_PARTS)
        return config, artifact.vocabulary().name

    config, vocabulary = read_artifact(folder, read, hint=_HINT, kinds=(TRAINING, PRETRAINING))
    text = config.text.model_copy(update={"vocabulary": str(Path(folder) / vocabulary)})
    return config.model_copy(update={"text": text}).to_dict()


def load_pretrained(model: Model, config: ModelConfig, folder: str, *, resize: bool) -> None:
    """Give a model the embedding layer and body of the one in a run folder.

    Args:
        resize: the model may read longer texts; weights for the places beyond are those that `resize` of the mixers
            makes, or of learned positions those that the model began with.

    Raises:
        ConfigError: the model differs from the pretrained one, or reads longer texts; it says in what.
        ModelFileError: the folder is not complete, or damaged.
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
            f"model.text.max_len = {wanted}, but {folder} read {longest} tokens at a time; take that, or allow longer "
            "texts with --set start.resize=true"
        )
    if wanted > longest:
        weights = _for_longer_texts(saved, model, weights, wanted)
    remedy = f"; it was made for {longest} tokens: leave out model.text.max_len = {wanted}" if wanted != longest else ""
    load_weights(model, weights, folder=folder, remedy=remedy, parts=_PARTS)


class PretrainedModel(NamedTuple):
    """What `mixling pretrain` made: the float model with its head, and what encodes texts for it."""

    model: Model
    encoder: TextEncoder


def load_pretraining(folder: str | Path) -> PretrainedModel:
    """Return the model of a folder of `mixling pretrain`.

    Raises:
        ConfigError: there is no such run folder.
        ModelFileError: it is not complete, or damaged.
    """
    return read_artifact(folder, _load, hint=_HINT, kinds=(PRETRAINING,))


def evaluate_text(folder: str | Path, sources: Sequence[str], *, text: str = "text") -> dict[str, float]:
    """Perplexity and accuracy of a pretrained model on other text, a part of which is hidden as in its own held-out.

    Raises:
        DataError: a file that cannot be used.
        ModelFileError: the folder is not complete, or damaged.
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
    """The weights for texts of the model's length, where mixers can give them; what reads shorter ones stays."""
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
