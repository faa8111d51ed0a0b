"""The configuration of a network, from text to logits; no part of it needs PyTorch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mixling.config import Config
from mixling.networks.blocks import EncoderConfig, PositionKind
from mixling.text.config import TextConfig

Output = Literal["text", "tags", "tokens", "subwords"]

_BERT_SUBWORDS = 30_522


class EmbeddingConfig(Config):
    """The projection bottleneck: one linear layer over the features of a window of words.

    With the projection "subwords" and without a bias it is an embedding table.
    """

    window: int = Field(default=0, ge=0, le=8, description="w: words to the left and to the right that a token sees")
    window_type: Literal["full", "factorized"] = Field(
        default="full",
        description="each of the 2w+1 matrices has its own rows, or its own (D, D) matrix after common rows",
    )
    embeddings: str | None = Field(
        default=None, description="projection 'embedding': .npy or .safetensors file with the (subwords, width) matrix"
    )
    bias: bool = Field(default=True, description="add a bias to the token vectors")
    positions: PositionKind = Field(default="none", description="vectors added to the tokens by position")
    norm: bool = Field(default=False, description="layer norm of the token vectors")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="on the token vectors")


class HeadConfig(Config):
    """The head; models that label tokens do not pool."""

    pooling: Literal["attention", "mean", "max", "all", "class"] = Field(
        default="attention",
        description="all: the three concatenated, for a last layer of three times the width; class: a token of its own "
        "before the text, as BERT's [CLS]",
    )
    dropout: float = Field(default=0.0, ge=0, lt=1, description="on the input of the last linear layer")
    transitions: bool = Field(
        default=False,
        description="learn a score of each tag after each other one (tagging): a conditional random field",
    )


class ModelConfig(EncoderConfig):
    """The complete configuration of a model, from text to logits."""

    text: TextConfig = TextConfig()
    embedding: EmbeddingConfig = EmbeddingConfig()
    head: HeadConfig = HeadConfig()


def sized(config: ModelConfig, *, vocabulary: int | None = None, max_len: int | None = None) -> ModelConfig:
    """Return the configuration with the vocabulary's size filled in where it is open, and for texts of `max_len`.

    Args:
        vocabulary: rows of the embedding table if the configuration has no number; None: BERT's 30,522.
        max_len: length of the longest text, in tokens; None: unchanged.
    """
    text = config.text
    if text.projection.num_features is None:
        text = text.with_rows(vocabulary or _BERT_SUBWORDS)
    if max_len is not None:
        text = text.model_copy(update={"max_len": max_len})
    return config.model_copy(update={"text": text})
