"""A model from features to logits: embedding layer, encoder, head."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from mixling.layers.masks import as_mask
from mixling.models.embedding import EmbeddingConfig, ProjectionEmbedding
from mixling.models.encoder import Encoder, EncoderConfig
from mixling.models.heads import HeadConfig, LMHead, PoolingHead, TokenHead
from mixling.text.config import TextConfig

Output = Literal["text", "tokens", "subwords"]


_BERT_SUBWORDS = 30_522


class ModelConfig(EncoderConfig):
    """A whole model, from text to logits; everything that models differ in is a value here."""

    text: TextConfig = TextConfig()
    embedding: EmbeddingConfig = EmbeddingConfig()
    head: HeadConfig = HeadConfig()


class Model(nn.Module):
    """Logits of texts whose words are weighted bags of features.

    Args:
        config: the whole model.
        num_outputs: C, number of labels.
        output: "text" for one row of logits a text, "tokens" for one a word, "subwords" for one a masked token.

    Raises:
        ConfigError: parts of the configuration do not fit together.
    """

    embedding_tables = ("embedding.weight",)  # parameters with a learning rate of their own

    def __init__(self, config: ModelConfig, *, num_outputs: int, output: Output) -> None:
        super().__init__()
        projection = config.text.projection
        self.of_tokens = output == "tokens"
        self.embedding = ProjectionEmbedding(
            config.embedding,
            num_features=config.text.num_rows,
            dim=config.dim,
            max_len=config.text.max_len,
            table=projection.trained_rows,
            embedding_dim=projection.fixed_dim,
        )
        self.encoder = Encoder(config.blocks, dim=config.dim, max_len=config.text.max_len, final_norm=config.final_norm)
        self.head: PoolingHead | TokenHead | LMHead
        if output == "subwords":
            self.head = LMHead(dim=config.dim, num_outputs=num_outputs, tied=projection.trained_rows)
        else:
            head = PoolingHead if output == "text" else TokenHead
            self.head = head(config.head, dim=config.dim, num_outputs=num_outputs)

    def forward(
        self,
        positions: Int[Tensor, "U P"],
        weights: Float[Tensor, "U P"] | None,
        index: Int[Tensor, "B N"],
        mask: Shaped[Tensor, "B N"] | None = None,
        starts: Int[Tensor, "B W"] | None = None,
    ) -> Float[Tensor, "B C"] | Float[Tensor, "B N C"] | Float[Tensor, "B W C"]:
        """Return the logits of a batch.

        Args:
            positions: features of the U distinct words of the batch, P for each.
            weights: of the features; None: all are 1.
            index: for each token 1 + the number of its word, 0 in padding.
            mask: as in `Mixer.forward`; None: tokens with a word are real, as in an exported model.
            starts: compute logits for these tokens only: the first one of each word, or those that were masked.
        """
        return self.from_rows(self.embedding.word_rows(positions, weights), index, mask, starts)

    def from_rows(
        self,
        rows: Float[Tensor, "K R"],
        index: Int[Tensor, "B N"],
        mask: Shaped[Tensor, "B N"] | None = None,
        starts: Int[Tensor, "B W"] | None = None,
    ) -> Float[Tensor, "B C"] | Float[Tensor, "B N C"] | Float[Tensor, "B W C"]:
        """Return the logits from the summed rows of words, which may come from a cache; see `forward`."""
        mask = index != 0 if mask is None else as_mask(mask, index)
        x = self.encoder(self.embedding(rows, index, mask), mask)
        if starts is not None:
            x, mask = x.gather(1, starts[..., None].expand(-1, -1, x.shape[2])), mask.gather(1, starts)
        if isinstance(self.head, LMHead):
            return self.head(x, self.embedding.weight)
        return self.head(x, mask)


def sized(config: ModelConfig, *, vocabulary: int | None = None, max_len: int | None = None) -> ModelConfig:
    """Return the configuration with the number of subwords that it leaves to a vocabulary, and for texts of `max_len`.

    Args:
        vocabulary: rows of the embedding table of a configuration without a number of them; None: BERT's 30,522.
        max_len: the longest text, in tokens; None: as it is.
    """
    text = config.text
    if text.projection.num_features is None:
        text = text.with_rows(vocabulary or _BERT_SUBWORDS)
    if max_len is not None:
        text = text.model_copy(update={"max_len": max_len})
    return config.model_copy(update={"text": text})


def build_model(config: ModelConfig, num_outputs: int, *, output: Output = "text", seed: int | None = None) -> Model:
    """Build the model; with a seed, its first weights do not depend on what random numbers were drawn before.

    Args:
        config: if it leaves the number of subwords to a vocabulary, there are 30,522, as in BERT's.
        num_outputs: C, number of labels.
        output: "text" for one row of logits a text, "tokens" for one a word, "subwords" for one a masked token.

    Raises:
        ConfigError: parts of the configuration do not fit together.
    """
    config = sized(config)
    if seed is None:
        return Model(config, num_outputs=num_outputs, output=output)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Model(config, num_outputs=num_outputs, output=output)


def count_parameters(model: nn.Module) -> int:
    """Return the number of trained parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
