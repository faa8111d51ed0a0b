"""Features -> token vectors: the projection bottleneck."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from safetensors import SafetensorError
from safetensors.numpy import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.config import Config
from mixling.errors import ConfigError


class FrontendConfig(Config):
    """The projection bottleneck: one linear layer over the features of a window of words."""

    window: int = Field(0, ge=0, le=8, description="w: words to the left and to the right that a token sees")
    embeddings: str | None = Field(
        None, description="projection 'embedding': .npy or .safetensors file with the (units, width) matrix"
    )


class ProjectionFrontend(nn.Module):
    """x_i = b + sum over o = -w..w of W_o c_{i+o}, where c_i are the m features of word i; zero beyond the ends.

    The product is never done on the m-wide features: features are weighted bags of positions, so W c is a weighted
    sum of a few rows of W, done once for each distinct word of a batch for all 2w+1 matrices together.
    Source: pNLP-Mixer, section 3.2 (bottleneck). Parameters: ((2w+1) m + 1) b.
    """

    def __init__(self, *, num_features: int, dim: int, window: int, embedding_dim: int | None = None) -> None:
        super().__init__()
        self.dim, self.window = dim, window
        inputs = num_features if embedding_dim is None else embedding_dim
        # Rows of the 2w+1 matrices side by side, so that one gather fetches them all.
        self.weight = nn.Parameter(torch.empty(inputs, (2 * window + 1) * dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        # Averaged embeddings: the bag is summed over a fixed table first.
        self.embeddings: Tensor | None
        self.register_buffer("embeddings", None if embedding_dim is None else torch.zeros(num_features, embedding_dim))
        nn.init.xavier_uniform_(self.weight)

    def load_embeddings(self, path: str | None) -> None:
        """Read the fixed table of unit embeddings; a saved model has it among its weights.

        Raises:
            ConfigError: no file is named, or it has no matrix of the right shape.
        """
        assert self.embeddings is not None, "only the projection 'embedding' has a table"
        if path is None:
            raise ConfigError("projection 'embedding': set model.frontend.embeddings to a .npy or .safetensors file")
        try:
            arrays = (
                list(load_file(path).values()) if path.endswith(".safetensors") else [np.load(path, allow_pickle=False)]
            )
        except (OSError, ValueError, SafetensorError) as error:
            raise ConfigError(f"{path}: cannot be read as unit embeddings: {error}") from None
        shapes = [tuple(array.shape) for array in arrays]
        if shapes != [tuple(self.embeddings.shape)]:
            raise ConfigError(
                f"{path}: has arrays of shapes {shapes}; one of (num_features, embedding_dim) = "
                f"{tuple(self.embeddings.shape)} is needed"
            )
        self.embeddings.copy_(torch.from_numpy(np.asarray(arrays[0], np.float32)))

    def table(self) -> Float[Tensor, "m R"]:
        """The matrix whose rows are summed, R = (2w+1) D."""
        return self.weight if self.embeddings is None else self.embeddings @ self.weight

    def word_rows(self, positions: Int[Tensor, "U P"], weights: Float[Tensor, "U P"] | None) -> Float[Tensor, "U+1 R"]:
        """The summed rows of each distinct word, after a row of zeros for padding and dropped words."""
        if self.embeddings is None:
            rows = F.embedding_bag(positions, self.weight, mode="sum", per_sample_weights=weights)
        else:
            rows = F.embedding_bag(positions, self.embeddings, mode="sum", per_sample_weights=weights) @ self.weight
        return F.pad(rows, (0, 0, 1, 0))

    def forward(
        self, rows: Float[Tensor, "K R"], index: Int[Tensor, "B N"], mask: Bool[Tensor, "B N"]
    ) -> Float[Tensor, "B N D"]:
        """Token vectors of the words whose summed rows are `rows[index]`; row 0 is the row of zeros."""
        x = F.embedding(index, rows)
        if self.window == 0:
            return x + self.bias
        w, length = self.window, x.shape[1]
        parts = x.unflatten(2, (2 * w + 1, self.dim))
        padded = F.pad(parts, (0, 0, 0, 0, w, w))  # (B, N + 2w, 2w+1, D)
        seen = [padded[:, offset : offset + length, offset] for offset in range(2 * w + 1)]
        return torch.stack(seen).sum(0) + self.bias
