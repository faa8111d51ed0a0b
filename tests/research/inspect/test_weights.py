"""Maps of a model's layers against each text by itself: the mean over heads and texts, in loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mixling import PRESETS, ConfigError
from mixling.mixers import AttentionConfig, IdentityConfig, MixerConfig, RemixingConfig, SpatialGatingConfig
from mixling.models import Encoder
from mixling.networks import BlockConfig
from mixling.research.inspect import LayerMap, layer_maps, learned_filters, pseudo_attention
from mixling.research.inspect.weights import MIXING_MODELS, highest, mixers_with, of_encoder
from mixling.research.seq2seq import EncoderDecoder, build_encoder_decoder, seq2seq_config
from mixling.research.seq2seq.inspection import of_encoder_decoder

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
    locations = [(item.stack, item.layer, item.name) for item in maps]
    assert locations == [("encoder", layer, name) for layer in (1, 2) for name in ("attention", "softmax(H)")]
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
    model = build_encoder_decoder(config, vocab_size=20, seed=0).double()
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


def test_the_highest_weight_is_over_the_first_half_of_the_layers() -> None:
    encoder = stack(SpatialGatingConfig(ffn_dim=6, tiny_attention_dim=3), layers=5)
    maps = layer_maps(of_encoder(encoder, [batch([4])]))
    attention = [item for item in maps if item.name == "tiny attention"]
    assert len(attention) == 5
    found = {item.name: item for item in highest(maps)}
    assert set(found) == {"tiny attention", "spatial weights"}
    expected = [[max(attention[layer].values[i, j] for layer in range(3)) for j in range(4)] for i in range(4)]
    np.testing.assert_array_equal(found["tiny attention"].values, expected)
    assert found["tiny attention"].layer == 3


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


def test_mixers_without_a_matrix_have_their_pseudo_attention() -> None:
    model = small("mixer-mixer-2m")
    source, source_mask, target, target_mask = pairs([4, 3], [3, 2])
    found = named(layer_maps(of_encoder_decoder(model, [(source, source_mask, target, target_mask)])))
    assert list(found) == [
        *(("encoder", layer, "pseudo-attention") for layer in (1, 2, 3)),
        *(("decoder", layer, name) for layer in (1, 2) for name in ("pseudo-attention", "cross attention")),
    ]
    block, each = model.encoder.layers[0], []
    for i in range(2):
        text = source[i : i + 1, : int(source_mask[i].sum())]
        normed = block.mixer_norms[0](model.positions(model.table(text)))
        each.append(pseudo_attention(block.mixers[0], normed)[None])
    np.testing.assert_allclose(found["encoder", 1, "pseudo-attention"], mean(each), atol=1e-9)
    assert not np.triu(found["decoder", 1, "pseudo-attention"], 1).any()


def test_cross_mixing_without_a_matrix_is_by_the_gradient_of_the_context() -> None:
    model = small("hypermixer-hypermixer-2m")
    source, source_mask, target, target_mask = pairs([4, 3], [3, 2])
    found = named(layer_maps(of_encoder_decoder(model, [(source, source_mask, target, target_mask)])))
    block, each = model.decoder.layers[0], []
    for i in range(2):
        n, t = int(source_mask[i].sum()), int(target_mask[i].sum())
        x = model.table(target[i : i + 1, :t])
        encoded = model.encode(source[i : i + 1, :n], None).detach()
        x = block.cross_norm(x + block.mixers[0](block.mixer_norms[0](x))).detach()
        jacobian = torch.autograd.functional.jacobian(lambda c, x=x: block.cross(x, None, c), encoded)
        each.append(jacobian[0, :, :, 0].norm(dim=(1, 3))[None])
    np.testing.assert_allclose(found["decoder", 1, "cross pseudo-attention"], mean(each), atol=1e-9)


def test_maps_of_one_text_know_its_tokens() -> None:
    model, (source, mask, target, target_mask) = small("remixer-2m"), pairs([7], [5])
    names = [f"u{number}" for number in range(20)]

    def maps(*batches: tuple[Tensor, Tensor, Tensor, Tensor]) -> list[LayerMap]:
        return layer_maps(of_encoder_decoder(model, batches, decode=names.__getitem__))

    read, answer = (tuple(names[subword] for subword in subwords[0].tolist()) for subwords in (source, target))
    for item in maps((source, mask, target, target_mask)):
        assert item.queries == (read if item.stack == "encoder" else answer)
        assert item.keys == (answer if item.stack == "decoder" and not item.name.startswith("cross") else read)
    for item in maps(*[(source, mask, target, target_mask)] * 2):  # of two texts there are no words to write
        assert item.queries == item.keys == ()


def test_the_model_is_left_as_it_was_and_dropout_does_not_fall() -> None:
    encoder = stack(AttentionConfig(num_heads=2, dropout=0.5), RemixingConfig(dropout=0.5), dropout=0.5)
    expected = named(layer_maps(of_encoder(encoder.eval(), [batch(LENGTHS)])))
    encoder.train()
    encoder.layers[1].eval()  # a part that is frozen
    found = named(layer_maps(of_encoder(encoder, [batch(LENGTHS)])))
    for location, values in found.items():
        np.testing.assert_array_equal(values, expected[location])
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


def test_a_model_without_learned_matrices_is_refused_with_the_mixers_that_have_them() -> None:
    assert mixers_with("filters") == ["remixing", "spatial_gating", "synthesizer", "token_linear"]
    attending = stack(AttentionConfig(num_heads=2))
    message = (
        "no learned matrix between tokens: its mixers are attention; mixers that have one: remixing, spatial_gating, s"
    )
    with pytest.raises(ConfigError, match=message):
        learned_filters(of_encoder(attending, []))


@pytest.mark.parametrize("layers", [0, 2])
def test_a_model_that_mixes_nothing_is_refused_with_models_that_do(layers: int) -> None:
    encoder = stack(IdentityConfig(), layers=layers)
    for draw in (layer_maps, learned_filters):
        with pytest.raises(ConfigError, match=r"no token mixing: .*; models that mix tokens: mixling-mixer, "):
            draw(of_encoder(encoder, [batch(LENGTHS)]))
    for name in MIXING_MODELS:
        assert any(mixer.type != "identity" for layer in PRESETS[name].config.blocks for mixer in layer.mixers)
