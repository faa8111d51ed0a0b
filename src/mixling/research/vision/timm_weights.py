"""Weights of timm's gMLP, MLP-Mixer, ResMLP and ViT (DeiT) for our image models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from mixling.errors import ConfigError
from mixling.research.vision.model import ImageModel, ImageModelConfig, build_image_model

_EPS = 1e-6  # of timm's layer norms, except in the gate
_FIXED = {
    "stem.proj": "patches.projection",
    "patch_embed.proj": "patches.projection",
    "norm": "encoder.norm",
    "head": "output",
    "cls_token": "class_token",
    "pos_embed": "positions.weight",
}
_CHANNELS = {
    "norm2": "feed_forward_norm",
    "mlp_channels.fc1": "feed_forward.expand",
    "mlp_channels.fc2": "feed_forward.contract",
}
# The parts of a block, by the type of its mixer.
_BLOCKS = {
    "spatial_gating": {
        "norm": "mixer_norms.0",
        "mlp_channels.fc1": "mixers.0.expand",
        "mlp_channels.gate.norm": "mixers.0.norm",
        "mlp_channels.gate.proj": "mixers.0",
        "mlp_channels.fc2": "mixers.0.contract",
    },
    "token_mlp": {
        "norm1": "mixer_norms.0",
        "mlp_tokens.fc1": "mixers.0.expand",
        "mlp_tokens.fc2": "mixers.0.contract",
        **_CHANNELS,
    },
    "token_linear": {
        "norm1": "mixer_norms.0",
        "linear_tokens": "mixers.0.linear",
        "ls1": "scales.0",
        "ls2": "scales.1",
        **_CHANNELS,
    },
    "attention": {
        "norm1": "mixer_norms.0",
        "attn.query": "mixers.0.query",
        "attn.key": "mixers.0.key",
        "attn.value": "mixers.0.value",
        "attn.proj": "mixers.0.out",
        "norm2": "feed_forward_norm",
        "mlp.fc1": "feed_forward.expand",
        "mlp.fc2": "feed_forward.contract",
    },
}


def from_timm(config: ImageModelConfig, weights: Mapping[str, Tensor]) -> ImageModel:
    """Return an image model with the weights of one of timm's, such as `mixer_b16_224` or `resmlp_12_224`.

    Layer norms get timm's eps of 1e-6. timm's gMLP has neither the class token nor the dense layer before the output
    that the paper's parameter counts imply, so that its models are made here without them.

    Args:
        config: a model of the same sizes, such as a preset's; of gMLP, class token and dense layer are left out.
        weights: the model's state in timm.

    Raises:
        ConfigError: the weights are of a model of another kind or size.
    """
    kind = config.blocks[0].mixers[0].type
    if kind not in _BLOCKS:
        raise ConfigError(f"timm: has no model with the mixer {kind!r}; it has {', '.join(_BLOCKS)}")
    changes: dict[str, Any] = {"class_token": False, "pre_logits": False} if kind == "spatial_gating" else {}
    made = config.model_copy(update=changes)
    outputs = weights.get("head.bias")
    if outputs is None:
        raise ConfigError("timm: the weights without head.bias; they are not of an image model with an output")
    model = build_image_model(made, num_outputs=len(outputs))
    wanted = model.state_dict()
    renamed = {_renamed(name, _BLOCKS[kind]): value for name, value in _parts(weights)}
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


def _parts(weights: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights with queries, keys and values apart, and without timm's axes of length one."""
    for name, value in weights.items():
        if ".attn.qkv." in name:
            for part, item in zip(("query", "key", "value"), value.chunk(3), strict=True):
                yield name.replace("qkv", part), item
        elif name.endswith((".alpha", ".beta")):  # of affine maps
            yield name.replace(".alpha", ".weight").replace(".beta", ".bias"), value.flatten()
        elif name in ("cls_token", "pos_embed"):
            yield name, value.flatten() if name == "cls_token" else value.flatten(0, 1)
        else:
            yield name, value


def _renamed(name: str, blocks: Mapping[str, str]) -> str:
    part, _, kind = name.rpartition(".")
    if name in _FIXED:
        return _FIXED[name]
    if part in _FIXED:
        return f"{_FIXED[part]}.{kind}"
    found = re.fullmatch(r"blocks\.(\d+)\.(.+)", name)
    if found is None:
        return name
    if found[2] in blocks:  # a parameter of the block itself
        return f"encoder.layers.{found[1]}.{blocks[found[2]]}"
    part = found[2].removesuffix(f".{kind}")
    return f"encoder.layers.{found[1]}.{blocks[part]}.{kind}" if part in blocks else name
