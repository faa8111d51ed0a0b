"""Plots of what a model does."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.inspect.folders import load_inspected
    from mixling.inspect.maps import pseudo_attention
    from mixling.inspect.plots import learning_curves, spatial_filters, token_maps
    from mixling.inspect.weights import LayerMap, layer_maps, learned_filters

__getattr__, __dir__ = lazy_imports(__name__)
