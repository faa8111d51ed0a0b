"""Weights of modules that others published, for ours: the HyperMixing layer of HyperMixer's authors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mixling.errors import ConfigError
from mixling.layers.hypernetwork import Hypernetwork
from mixling.mixers.hypermixing import HyperMixing


@torch.no_grad()
def load_hypermixing(mixer: HyperMixing, weights: Mapping[str, Tensor]) -> None:
    """Load the weights of a layer of the authors' code into a mixer.

    Two versions are published: `idiap/hypermixing`, whose mixer here has `positions="idiap"`, `tied=False` and by
    default no biases, and the port in SpeechBrain (`speechbrain.nnet.hypermixing`), with `positions="sinusoidal"` and
    biases. Their tables of positions are computed here and ignored.

    Args:
        weights: the state of their `HyperMixing`.

    Raises:
        ConfigError: the mixer has other parts or sizes.
    """
    given = {name: value for name, value in weights.items() if not name.endswith(".pe")}
    wanted: dict[str, torch.nn.Parameter] = {}
    networks: list[tuple[str, Hypernetwork | None]] = [("w1_gen", mixer.keys), ("w2_gen", mixer.queries)]
    for name, network in networks:
        for number, layer in () if network is None else ((1, network.first), (2, network.second)):
            wanted[f"hyper.{name}.fc{number}_weights"] = layer.weight
            if layer.bias is not None:
                wanted[f"hyper.{name}.fc{number}_biases"] = layer.bias
    if mixer.queries is None:  # the authors' state has the tied network twice
        given = {name: value for name, value in given.items() if not name.startswith("hyper.w2_gen.")}
    if mixer.norm is not None:
        wanted |= {"layer_norm.weight": mixer.norm.weight, "layer_norm.bias": mixer.norm.bias}
    if odd := sorted(given.keys() ^ wanted.keys()):
        where = "a mixer" if odd[0] in given else "weights"
        raise ConfigError(
            f"HyperMixing: {where} without {odd[0]}; tied, bias and norm of the mixer must be as in the weights"
        )
    for name, parameter in wanted.items():
        value = given[name]
        flat = value.reshape(-1, value.shape[-1]) if name.endswith("_weights") else value.flatten()
        if flat.shape != parameter.shape:
            raise ConfigError(
                f"HyperMixing: {name} has {tuple(value.shape)}, which does not fit {tuple(parameter.shape)} here; "
                "width, hidden_dim and num_heads must be as in the weights"
            )
        parameter.copy_(flat)
