"""Loading and evaluating models of `mixling pretrain`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from mixling.artifacts.artifact import Artifact, read_artifact
from mixling.artifacts.kinds import PRETRAINING
from mixling.data.batches import Inputs
from mixling.data.corpora import read_texts
from mixling.models.model import Model, build_model
from mixling.models.tensors import tensors_of
from mixling.networks.config import ModelConfig
from mixling.research.pretraining.corpus import (
    MASK_WORD,
    MaskedText,
    document_encoder,
    evaluate_masked,
    named_targets,
    subword_targets,
)
from mixling.research.pretraining.documents import WordReader
from mixling.research.pretraining.masked_lm import MaskedLM, MaskedLMConfig
from mixling.research.pretraining.prepared import encode_documents
from mixling.research.saved import read_model
from mixling.runs.pretrained import PRETRAINED_HINT
from mixling.text.encoder import TextEncoder
from mixling.text.vocabulary import Vocabulary


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
    return read_artifact(folder, _load, hint=PRETRAINED_HINT, kinds=(PRETRAINING,))


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

    (model, own), objective, words = read_artifact(folder, read, hint=PRETRAINED_HINT, kinds=(PRETRAINING,))
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
        logits: Tensor = model(*tensors_of(batch.arguments, torch.device("cpu")))
        return logits

    metrics, loss = evaluate_masked(data.masked_validation(), forward)
    return {**metrics, "loss": loss, "tokens": float(len(tokens.rows))}


def _load(artifact: Artifact) -> PretrainedModel:
    config = artifact.parse(ModelConfig, artifact.saved["model"])
    num_outputs = int(artifact.saved["num_outputs"])
    model = read_model(artifact, lambda: build_model(config, num_outputs=num_outputs, output="subwords"))
    return PretrainedModel(model.eval(), TextEncoder(config.text, Vocabulary.load(str(artifact.vocabulary()))))
