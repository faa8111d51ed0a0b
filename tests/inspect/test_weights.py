"""Maps of a model's layers against each text by itself: the mean over heads and texts, in loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mixling.errors import ConfigError
from mixling.inspect.weights import (
    LayerMap,
    layer_maps,
    learned_filters,
    mixers_with,
    of_encoder,
    of_encoder_decoder,
)
from mixling.mixers.attention import AttentionConfig
from mixling.mixers.base import MixerConfig
from mixling.mixers.identity import IdentityConfig
from mixling.mixers.remixing import RemixingConfig
from mixling.mixers.spatial_gating import SpatialGatingConfig
from mixling.mixers.token_mlp import TokenMLPConfig
from mixling.models.block import BlockConfig
from mixling.models.encoder import Encoder
from mixling.models.encoder_decoder import EncoderDecoder, build_encoder_decoder
from mixling.models.seq2seq_presets import seq2seq_config

DIM, MAX_LEN = 8, 9
LENGTHS = [3, 5, 5]


def stack(*mixers: MixerConfig, layers: int = 2, dropout: float = 0.0) -> Encoder:
    torch.manual_seed(0)
    encoder = Encoder([BlockConfig(mixers=mixers, dropout=dropout)] * layers, dim=DIM, max_len=MAX_LEN)
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return encoder.double()


def batch(lengths: list[int], seed: int = 0) -> tuple[Tensor, Tensor]:
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    x = torch.randn(*mask.shape, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return x.masked_fill(~mask[..., None], 50.0), mask


def named(maps: list[LayerMap]) -> dict[tuple[str, int, str], np.ndarray]:
    assert len({(item.stack, item.layer, item.name) for item in maps}) == len(maps)
    return {(item.stack, item.layer, item.name): item.values for item in maps}


def mean(matrices: list[Tensor]) -> np.ndarray:
    """Entry by entry over those that have it, the first axis of each being the heads."""
    rows, columns = (max(matrix.shape[axis] for matrix in matrices) for axis in (1, 2))
    out = np.full((rows, columns), np.nan)
    for i in range(rows):
        for j in range(columns):
            found = [float(m.detach()[:, i, j].mean()) for m in matrices if i < m.shape[1] and j < m.shape[2]]
            out[i, j] = sum(found) / len(found) if found else np.nan
    return out


@pytest.mark.parametrize("split", [False, True], ids=["one batch", "a text at a time"])
def test_maps_of_a_stack_are_means_of_what_each_text_has_alone(split: bool) -> None:
    encoder = stack(AttentionConfig(num_heads=2), RemixingConfig()).eval()
    x, mask = batch(LENGTHS)
    batches = [(x, mask)]
    if split:
        batches = [(x[i : i + 1, :n], mask[i : i + 1, :n]) for i, n in enumerate(LENGTHS)]
    maps = layer_maps(of_encoder(encoder, batches))
    places = [(item.stack, item.layer, item.name) for item in maps]
    assert places == [("encoder", layer, name) for layer in (1, 2) for name in ("attention", "softmax(H)")]
    found = named(maps)
    texts = [x[i : i + 1, :length] for i, length in enumerate(LENGTHS)]
    for layer, block in enumerate(encoder.layers, 1):
        weights = []
        for i, text in enumerate(texts):
            real = torch.ones(text.shape[:2], dtype=torch.bool)
            weights.append(block.mixers[0].weights(block.mixer_norms[0](text), real)["attention"][0])
            texts[i] = block(text, real)
        np.testing.assert_allclose(found["encoder", layer, "attention"], mean(weights), atol=1e-12)
        scores = block.mixers[1].scores[:5, :5]
        np.testing.assert_allclose(found["encoder", layer, "softmax(H)"], scores.softmax(-1).tolist(), atol=1e-12)


def small(name: str, **changes: Any) -> EncoderDecoder:
    sizes = {"dim": 8, "ffn_dim": 12, "num_heads": 2, "head_dim": 4, "num_layers": 3, "num_decoder_layers": 2}
    config = seq2seq_config(name, changes, **sizes, max_source_len=10, max_target_len=6)
    model = build_encoder_decoder(config, num_units=20, seed=0).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def pairs(sources: list[int], targets: list[int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    out = []
    for lengths in (sources, targets):
        mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        out += [torch.randint(20, mask.shape, generator=generator), mask]
    return out[0], out[1], out[2], out[3]


def test_maps_of_an_encoder_decoder() -> None:
    model = small("remixer-2m")
    source, source_mask, target, target_mask = pairs([7, 4], [3, 5])
    maps = layer_maps(of_encoder_decoder(model, [(source, source_mask, target, target_mask)]))
    assert [(item.stack, item.layer, item.name) for item in maps] == [
        *(("encoder", layer, name) for layer in (1, 2, 3) for name in ("attention", "softmax(H)")),
        *(("decoder", layer, name) for layer in (1, 2) for name in ("attention", "cross attention", "softmax(H)")),
    ]
    found = named(maps)
    for (part, _, name), values in found.items():
        expected = {"encoder": (7, 7), "decoder": (5, 7) if name.startswith("cross") else (5, 5)}[part]
        assert values.shape == expected
        if part == "decoder" and not name.startswith("cross"):
            assert not np.triu(values, 1).any()
    cross = found["decoder", 2, "cross attention"]
    # No pair has a target that reaches the 4th place and a source that reaches the 5th.
    assert np.isnan(cross[3:, 4:]).all()
    assert np.isnan(cross).sum() == 2 * 3
    own = model.decoder.layers[0]
    weights, crossed = [], []
    for i in range(2):
        n, t = int(source_mask[i].sum()), int(target_mask[i].sum())
        x, real = model.table(target[i : i + 1, :t]), torch.ones(1, t, dtype=torch.bool)
        encoded = model.encode(source[i : i + 1, :n], source_mask[i : i + 1, :n])
        normed = own.mixer_norms[0](x)
        weights.append(own.mixers[0].weights(normed, real)["attention"][0])
        x = own.cross_norm(x + own.mixers[0](normed, real))
        crossed.append(own.cross.weights(x, real, encoded)["attention"][0])
    np.testing.assert_allclose(found["decoder", 1, "attention"], mean(weights), atol=1e-12)
    np.testing.assert_allclose(found["decoder", 1, "cross attention"], mean(crossed), atol=1e-12)


def test_of_other_encoder_decoders_the_attention_that_they_have() -> None:
    given = [pairs([7, 4], [3, 5])]
    places = [(item.stack, item.name) for item in layer_maps(of_encoder_decoder(small("mixer-mixer-2m"), given))]
    assert places == [("decoder", "cross attention")] * 2
    given = [pairs([7, 4], [3, 5])]
    with pytest.raises(ConfigError, match=r"no matrix between tokens: it mixes by hypermixing; mixers that have one:"):
        layer_maps(of_encoder_decoder(small("hypermixer-hypermixer-2m"), given))


def test_the_model_is_left_as_it_was_and_dropout_does_not_fall() -> None:
    encoder = stack(AttentionConfig(num_heads=2, dropout=0.5), RemixingConfig(dropout=0.5), dropout=0.5)
    expected = named(layer_maps(of_encoder(encoder.eval(), [batch(LENGTHS)])))
    encoder.train()
    encoder.layers[1].eval()  # a part that is frozen
    found = named(layer_maps(of_encoder(encoder, [batch(LENGTHS)])))
    for place, values in found.items():
        np.testing.assert_array_equal(values, expected[place])
    assert encoder.training
    assert encoder.layers[0].mixers[0].training
    assert not encoder.layers[1].mixers[0].training
    assert not any(module._forward_pre_hooks for module in encoder.modules())


def test_what_comes_twice_in_a_layer_has_a_number() -> None:
    encoder = stack(AttentionConfig(num_heads=2), AttentionConfig(num_heads=1), IdentityConfig(), layers=1)
    names = [item.name for item in layer_maps(of_encoder(encoder, [batch(LENGTHS)]))]
    assert names == ["attention", "attention 2"]


def test_spatial_weights_are_laid_out_and_the_tiny_attention_stands_beside_them() -> None:
    encoder = stack(SpatialGatingConfig(ffn_dim=6, tiny_attention_dim=3), layers=1)
    found = named(layer_maps(of_encoder(encoder, [batch(LENGTHS)])))
    w = encoder.layers[0].mixers[0].weight.tolist()
    laid_out = [[w[MAX_LEN - 1 + j - i] for j in range(MAX_LEN)] for i in range(MAX_LEN)]
    np.testing.assert_array_equal(found["encoder", 1, "spatial weights"], np.array(laid_out)[:5, :5])
    assert found["encoder", 1, "tiny attention"].shape == (5, 5)
    (learned,) = learned_filters(of_encoder(encoder, []))
    assert (learned.stack, learned.layer, learned.name) == ("encoder", 1, "spatial weights")
    np.testing.assert_array_equal(learned.values, laid_out)


def test_a_model_without_such_matrices_is_told_who_has_them() -> None:
    assert mixers_with("filters") == ["remixing", "spatial_gating", "synthesizer"]
    assert mixers_with("weights") == ["attention", "linear_attention", "spatial_gating"]
    having = "attention, linear_attention, remixing, spatial_gating, synthesizer"
    with pytest.raises(ConfigError, match=f"it mixes by token_mlp; mixers that have one: {having}$"):
        layer_maps(of_encoder(stack(TokenMLPConfig(hidden_dim=4)), [batch(LENGTHS)]))
    with pytest.raises(ConfigError, match="it mixes by nothing; "):
        layer_maps(of_encoder(stack(layers=0), [batch(LENGTHS)]))
    attending = stack(AttentionConfig(num_heads=2))
    told = "no learned matrix between tokens: it mixes by attention; mixers that have one: remixing, spatial_gating, s"
    with pytest.raises(ConfigError, match=told):
        learned_filters(of_encoder(attending, []))
