"""Plots of what a model does."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.research.inspect.folders import load_inspected
    from mixling.research.inspect.maps import pseudo_attention
    from mixling.research.inspect.plots import learning_curves, spatial_filters, token_maps
    from mixling.research.inspect.weights import LayerMap, layer_maps, learned_filters

__getattr__, __dir__ = lazy_imports(__name__)
