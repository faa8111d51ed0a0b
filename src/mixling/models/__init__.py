"""Embeddings, blocks, encoders, heads; `build_model` builds a model from a `ModelConfig`."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.models.block import Block, BlockConfig, FeedForward, FeedForwardConfig
    from mixling.models.counts import count
    from mixling.models.embedding import EmbeddingConfig, ProjectionEmbedding
    from mixling.models.encoder import Encoder, EncoderConfig
    from mixling.models.heads import HeadConfig, PoolingHead, TokenHead
    from mixling.models.model import Model, Output, count_parameters, sized
    from mixling.models.presets import bert, gmlp, own, pnlp_mixer

__getattr__, __dir__ = lazy_imports(__name__)
