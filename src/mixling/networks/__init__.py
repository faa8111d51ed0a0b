"""What a network is, without PyTorch: configurations of its layers, presets, initial weights."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.networks.blocks import BlockConfig, EncoderConfig, FeedForwardConfig
    from mixling.networks.config import EmbeddingConfig, HeadConfig, ModelConfig, Output, sized
    from mixling.networks.initial import initial_weights
    from mixling.networks.network import TextNetwork
    from mixling.networks.plan import NetworkPlan, plan_network
    from mixling.networks.presets import DEFAULT_PRESET, WORDS_AS_THEY_ARE, own, pnlp_mixer

__getattr__, __dir__ = lazy_imports(__name__)
