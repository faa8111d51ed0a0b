"""From features to token vectors: the projection bottleneck; an embedding table is a special case."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.layers.dropout import dropout
from mixling.layers.fused import Windows, can_fuse, sum_bags
from mixling.layers.positions import Positions
from mixling.networks.config import EmbeddingConfig


class ProjectionEmbedding(nn.Module):
    """x_i = b + sum over o = -w..w of W_o c_{i+o}, where c_i are the m features of word i; zero beyond the ends.

    The features of a word are a weighted bag, so W c is a weighted sum of a few rows of W. It is computed once per
    distinct word of a batch, for all 2w+1 matrices together, without a matrix product over m.
    Source: pNLP-Mixer, section 3.2 (bottleneck). Parameters: ((2w+1) m + 1) D.
    Decided beyond the paper: a factorized window, W_o = A_o W with A_o (D, D), has (m + (2w+1) D + 1) D parameters and
    one sum per word; other models may have no bias, positions, a norm and dropout.

    Args:
        config: the options.
        num_features: m, the number of rows of W.
        dim: D, the width of the tokens.
        max_len: length of the longest input, in tokens.
        embedding_dim: width of a fixed embedding matrix over which bags are summed first; None: there is none.
        table: the rows are an embedding table, which is initialized differently.
    """

    def __init__(
        self,
        config: EmbeddingConfig,
        *,
        num_features: int,
        dim: int,
        max_len: int,
        embedding_dim: int | None = None,
        table: bool = False,
    ) -> None:
        super().__init__()
        window = config.window
        self.dim = dim
        self.window = window
        self.dropout = config.dropout
        inputs = num_features if embedding_dim is None else embedding_dim
        # The 2w+1 matrices are concatenated, so that one gather reads all of them.
        width = (2 * window + 1) * dim
        factorized = config.window_type == "factorized"
        self.weight = nn.Parameter(torch.empty(inputs, dim if factorized else width))
        self.spread = nn.Parameter(torch.empty(dim, width)) if factorized else None
        self.bias = nn.Parameter(torch.zeros(dim)) if config.bias else None
        self.positions = None
        if config.positions != "none":
            self.positions = Positions(config.positions, dim=dim, max_len=max_len)
        self.norm = nn.LayerNorm(dim) if config.norm else None
        # Bags are summed over the fixed embeddings first.
        self.embeddings: Tensor | None
        self.register_buffer("embeddings", None if embedding_dim is None else torch.zeros(num_features, embedding_dim))
        if table:  # Xavier's scale assumes a sum of many rows; an embedding table contributes one
            nn.init.normal_(self.weight, std=0.02 if config.norm else dim**-0.5)
        else:
            nn.init.xavier_uniform_(self.weight)
        if self.spread is not None:  # initially the word itself, with little of its neighbors
            nn.init.normal_(self.spread, std=0.1 * dim**-0.5)
            with torch.no_grad():
                self.spread[:, window * dim : (window + 1) * dim] += torch.eye(dim)

    def table(self) -> Float[Tensor, "m S"]:
        """Return the matrix whose rows are summed; `spread_rows` turns the sums into word rows."""
        return self.weight if self.embeddings is None else self.embeddings @ self.weight

    def spread_rows(self, sums: Float[Tensor, "U S"]) -> Float[Tensor, "U R"]:
        """Return each word's contribution to the tokens around it (U, (2w+1) D), from its sum of rows."""
        return sums if self.spread is None else sums @ self.spread

    def word_rows(self, features: Int[Tensor, "U P"], weights: Float[Tensor, "U P"] | None) -> Float[Tensor, "U+1 R"]:
        """Return the summed rows of each distinct word, preceded by a row of zeros for padding and dropped words."""
        return F.pad(self.spread_rows(self._sums(features, weights)), (0, 0, 1, 0))

    def embed(
        self,
        features: Int[Tensor, "U P"],
        weights: Float[Tensor, "U P"] | None,
        index: Int[Tensor, "B N"],
        mask: Bool[Tensor, "B N"],
    ) -> Float[Tensor, "B N D"]:
        """Return the token vectors of a batch: `forward` of `word_rows`."""
        if not can_fuse(self.weight, self.training, self.dim, self.weight.shape[1]):
            vectors: Tensor = self(self.word_rows(features, weights), index, mask)
            return vectors
        return self._finish(Windows.apply(self._sums(features, weights), self.spread, self.bias, index, self.window))

    def forward(
        self, rows: Float[Tensor, "K R"], index: Int[Tensor, "B N"], mask: Bool[Tensor, "B N"]
    ) -> Float[Tensor, "B N D"]:
        """Return the token vectors of words with the summed rows `rows[index]`; row 0 is the row of zeros."""
        x = F.embedding(index, rows)
        x = _summed_windows(x, self.window, self.dim) if self.window else x
        return self._finish(x if self.bias is None else x + self.bias)

    def _sums(self, features: Int[Tensor, "U P"], weights: Float[Tensor, "U P"] | None) -> Float[Tensor, "U S"]:
        if self.embeddings is None:
            return sum_bags(features, self.weight, weights)
        return F.embedding_bag(features, self.embeddings, mode="sum", per_sample_weights=weights) @ self.weight

    def _finish(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        if self.positions is not None:
            x = self.positions(x)
        if self.norm is not None:
            x = self.norm(x)
        return dropout(x, self.dropout, self.training)


def _summed_windows(x: Float[Tensor, "B N R"], w: int, dim: int) -> Float[Tensor, "B N D"]:
    length = x.shape[1]
    parts = x.unflatten(2, (2 * w + 1, dim))
    padded = F.pad(parts, (0, 0, 0, 0, w, w))  # (B, N + 2w, 2w+1, D)
    seen = [padded[:, offset : offset + length, offset] for offset in range(2 * w + 1)]
    return torch.stack(seen).sum(0)
