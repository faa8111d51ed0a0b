"""Weights of timm's gMLP and MLP-Mixer for our image models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from mixling.errors import ConfigError
from mixling.mixers.spatial_gating import SpatialGatingConfig
from mixling.vision.model import ImageModel, ImageModelConfig, build_image_model

_EPS = 1e-6  # of timm's layer norms, except in the gate
_FIXED = {"stem.proj": "patches.projection", "norm": "encoder.norm", "head": "output"}
_GMLP = {
    "norm": "mixer_norms.0",
    "mlp_channels.fc1": "mixers.0.expand",
    "mlp_channels.gate.norm": "mixers.0.norm",
    "mlp_channels.gate.proj": "mixers.0",
    "mlp_channels.fc2": "mixers.0.contract",
}
_MIXER = {
    "norm1": "mixer_norms.0",
    "mlp_tokens.fc1": "mixers.0.expand",
    "mlp_tokens.fc2": "mixers.0.contract",
    "norm2": "feed_forward_norm",
    "mlp_channels.fc1": "feed_forward.expand",
    "mlp_channels.fc2": "feed_forward.contract",
}


def from_timm(config: ImageModelConfig, weights: Mapping[str, Tensor]) -> ImageModel:
    """Return an image model with the weights of one of timm's, such as `mixer_b16_224` or `gmlp_s16_224`.

    Layer norms get timm's eps of 1e-6. timm's gMLP has neither the class token nor the dense layer before the output
    that the paper's parameter counts imply, so that its models are made here without them.

    Args:
        config: a model of the same sizes, such as a preset's; class token and dense layer are left out.
        weights: the model's state in timm.

    Raises:
        ConfigError: the weights are of a model of another kind or size.
    """
    changes: dict[str, Any] = {"class_token": False, "pre_logits": False}
    made = config.model_copy(update=changes)
    gated = isinstance(config.blocks[0].mixers[0], SpatialGatingConfig)
    outputs = weights.get("head.bias")
    if outputs is None:
        raise ConfigError("timm: the weights without head.bias; they are not of a gMLP or MLP-Mixer with an output")
    model = build_image_model(made, num_outputs=len(outputs))
    renamed = {_renamed(name, _GMLP if gated else _MIXER): value for name, value in weights.items()}
    wanted = model.state_dict()
    if odd := sorted(renamed.keys() ^ wanted.keys()):
        raise ConfigError(
            f"timm: the weights and the model differ in {odd[0]}; give the configuration of the same model"
        )
    for name, value in renamed.items():
        if value.shape != wanted[name].shape:
            raise ConfigError(
                f"timm: {name} has {tuple(value.shape)}, but the model {tuple(wanted[name].shape)}; give the "
                "configuration of the same model"
            )
    model.load_state_dict(renamed)
    for name, module in model.named_modules():
        if isinstance(module, nn.LayerNorm) and not name.endswith("mixers.0.norm"):
            module.eps = _EPS
    return model


def _renamed(name: str, blocks: Mapping[str, str]) -> str:
    part, _, kind = name.rpartition(".")
    if part in _FIXED:
        return f"{_FIXED[part]}.{kind}"
    found = re.fullmatch(r"blocks\.(\d+)\.(.+)", part)
    if found is None or found[2] not in blocks:
        return name
    return f"encoder.layers.{found[1]}.{blocks[found[2]]}.{kind}"
