"""Stacks: what layers share, and where an error says it is."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mixling import ConfigError
from mixling.config import parse
from mixling.models import Encoder
from mixling.networks import BlockConfig, EncoderConfig

DIM = 8
SHARED = {"num_buckets": 8, "max_distance": 6, "shared": True}


def stack(*mixers: dict[str, Any]) -> Encoder:
    layers = [parse(BlockConfig, {"mixers": [mixer]}, where="x") for mixer in mixers]
    return Encoder(layers, dim=DIM, max_len=12)


def test_layers_share_the_positions_of_the_first_of_their_kind() -> None:
    attention = {"type": "attention", "num_heads": 2, "positions": SHARED}
    synthesizer = {"type": "synthesizer", "num_heads": 4, "positions": SHARED}
    encoder = stack(attention, synthesizer, attention, {**attention, "positions": None}, synthesizer)
    tables = [key for key in encoder.state_dict() if "relative" in key]
    assert tables == ["layers.0.mixers.0.relative.weight", "layers.1.mixers.0.relative.weight"]
    assert encoder.layers[2].mixers[0].relative is encoder.layers[0].mixers[0].relative
    assert encoder.layers[4].mixers[0].relative is encoder.layers[1].mixers[0].relative
    x, mask = torch.randn(2, 5, DIM), torch.ones(2, 5, dtype=torch.bool)
    before = encoder(x, mask)
    torch.nn.init.normal_(encoder.layers[0].mixers[0].relative.weight)
    assert not torch.allclose(encoder(x, mask), before)


@pytest.mark.parametrize("other", [{"num_heads": 4}, {"positions": {**SHARED, "num_buckets": 6}}])
def test_layers_that_differ_cannot_share_positions(other: dict[str, Any]) -> None:
    attention = {"type": "attention", "num_heads": 2, "positions": SHARED}
    with pytest.raises(ConfigError, match=r"^layers\.1\.mixers\.0: shares the positions of the first 'attention'"):
        stack(attention, {**attention, **other})


def test_what_cannot_be_built_is_reported_with_its_location() -> None:
    with pytest.raises(ConfigError, match=r"^layers\.1\.mixers\.0: mixer 'hypermixing': width 8 is not a multiple"):
        stack({"type": "identity"}, {"type": "hypermixing", "num_heads": 3, "hidden_dim": 6})


def test_what_cannot_be_read_is_reported_with_its_location() -> None:
    layers = [{"mixers": []}, {"mixers": [{"type": "identity"}, {"type": "token_mpl"}]}]
    with pytest.raises(ConfigError, match=r"layers\.1\.mixers: 1: unknown mixer 'token_mpl'; did you mean 'token_mlp'"):
        parse(EncoderConfig, {"layers": layers}, where="x")
    layers = [{"mixers": [{"type": "recurrent", "window": 4}]}]
    with pytest.raises(ConfigError, match=r"layers\.0\.mixers: 0: .*window = 4 is of the QRNN"):
        parse(EncoderConfig, {"layers": layers}, where="x")
