"""Embeddings, blocks, encoders, heads; `build_model` builds a model from a `ModelConfig`."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.models.block import Block, DeepBlockConfig, DeepStackConfig, FeedForward
    from mixling.models.counts import count
    from mixling.models.embedding import ProjectionEmbedding
    from mixling.models.encoder import Encoder
    from mixling.models.heads import PoolingHead, TokenHead
    from mixling.models.model import Model
    from mixling.models.model import count_parameters as count_parameters
    from mixling.models.network import TorchNetwork, as_torch
    from mixling.models.tensors import restore_weights, tensors_of, weights_of

__getattr__, __dir__ = lazy_imports(__name__)
