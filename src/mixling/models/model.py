"""Models: embedding, encoder and head, from features to logits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from mixling.layers.masks import as_mask
from mixling.layers.transitions import TagScores
from mixling.models.embedding import ProjectionEmbedding
from mixling.models.encoder import Encoder
from mixling.models.heads import LMHead, PoolingHead, TokenHead
from mixling.networks.config import ModelConfig, Output, sized

Head = PoolingHead | TokenHead | LMHead


def _build_head(config: ModelConfig, output: Output, num_outputs: int) -> Head:
    match output:
        case "text":
            return PoolingHead(config.head, dim=config.dim, num_outputs=num_outputs)
        case "subwords":
            return LMHead(dim=config.dim, num_outputs=num_outputs, tied=config.text.projection.trained_rows)
    transitions = output == "tags" and config.head.transitions
    return TokenHead(config.head, dim=config.dim, num_outputs=num_outputs, transitions=transitions)


class Model(nn.Module):
    """A model whose input words are weighted bags of features.

    With `head.pooling = "class"`, a learned vector comes before the text and is read instead of a pool, as the
    embedding of BERT's [CLS]; the encoder is then built for one token more.

    Args:
        config: the configuration of the model.
        num_outputs: C, number of labels.
        output: "text": logits per text; "tags" and "tokens": per word, of tags with transitions if the head has them;
            "subwords": per masked token.

    Raises:
        ConfigError: parts of the configuration do not fit each other.
    """

    embedding_tables = ("embedding.weight",)  # these parameters have their own learning rate

    def __init__(self, config: ModelConfig, *, num_outputs: int, output: Output) -> None:
        super().__init__()
        self.config = config
        self.num_outputs = num_outputs
        self.output = output
        projection = config.text.projection
        self.embedding = ProjectionEmbedding(
            config.embedding,
            num_features=config.text.num_rows,
            dim=config.dim,
            max_len=config.text.max_len,
            table=projection.trained_rows,
            embedding_dim=projection.fixed_dim,
        )
        self.class_token: nn.Parameter | None = None
        if config.head.pooling == "class" and output == "text":
            self.class_token = nn.Parameter(torch.empty(config.dim))
            nn.init.normal_(self.class_token, std=0.02)
        max_len = config.text.max_len + (self.class_token is not None)
        self.encoder = Encoder(config.blocks, dim=config.dim, max_len=max_len, final_norm=config.final_norm)
        self.head = _build_head(config, output, num_outputs)
        self.of_tokens = isinstance(self.head, TokenHead)

    def forward(
        self,
        features: Int[Tensor, "U P"],
        weights: Float[Tensor, "U P"] | None,
        index: Int[Tensor, "B N"],
        mask: Shaped[Tensor, "B N"] | None = None,
        starts: Int[Tensor, "B W"] | None = None,
    ) -> Float[Tensor, "B C"] | Float[Tensor, "B N C"] | Float[Tensor, "B W C"] | TagScores:
        """Return the logits of a batch, in training with the transitions of tags, if there are any.

        Args:
            features: (U, P) features of the U distinct words of the batch.
            weights: (U, P) of the features; None: all are 1.
            index: (B, N) 1 + the index of each token's word; 0 in padding.
            mask: as in `Mixer.forward`; None: every token with a word is real, as in exported models.
            starts: tokens to compute logits for: the first one of each word, or the masked ones.
        """
        mask = index != 0 if mask is None else as_mask(mask, index)
        return self._logits(self.embedding.embed(features, weights, index, mask), mask, starts)

    def from_rows(
        self,
        rows: Float[Tensor, "K R"],
        index: Int[Tensor, "B N"],
        mask: Shaped[Tensor, "B N"] | None = None,
        starts: Int[Tensor, "B W"] | None = None,
    ) -> Float[Tensor, "B C"] | Float[Tensor, "B N C"] | Float[Tensor, "B W C"] | TagScores:
        """Return the logits from the summed rows of words, for instance cached ones; see `forward`."""
        mask = index != 0 if mask is None else as_mask(mask, index)
        return self._logits(self.embedding(rows, index, mask), mask, starts)

    def _logits(
        self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"], starts: Int[Tensor, "B W"] | None
    ) -> Tensor | TagScores:
        x, mask = self.with_class_token(x, mask)
        x = self.encoder(x, mask)
        if starts is not None:
            x = x.gather(1, starts[..., None].expand(-1, -1, x.shape[2]))
            mask = mask.gather(1, starts)
        if isinstance(self.head, LMHead):
            scores: Tensor = self.head(x, self.embedding.weight)
            return scores
        logits: Tensor = self.head(x, mask)
        return logits

    def with_class_token(
        self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]
    ) -> tuple[Float[Tensor, "B M D"], Bool[Tensor, "B M"]]:
        """Return tokens and mask as the encoder reads them: after the class token, if there is one."""
        if self.class_token is None:
            return x, mask
        first = self.class_token.to(x.dtype).expand(x.shape[0], 1, -1)
        return torch.cat([first, x], 1), torch.cat([mask.new_ones(mask.shape[0], 1), mask], 1)


def build_model(config: ModelConfig, num_outputs: int, *, output: Output = "text", seed: int | None = None) -> Model:
    """Build a model; with a seed, the initial weights do not depend on the state of the random generator.

    Args:
        config: without a number of subwords, there are 30,522, as in BERT's vocabulary.
        num_outputs: C, number of labels.
        output: see `Model`.

    Raises:
        ConfigError: parts of the configuration do not fit each other.
    """
    with seeded(seed):
        return Model(sized(config), num_outputs=num_outputs, output=output)


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Make the weights that are initialized in a block depend on a seed only; None: on torch's generator."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def count_parameters(model: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
