"""Encoder-decoders by name: the papers' counts and rules, and how a preset is changed."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from mixling import PRESETS, ConfigError, model_config
from mixling.config import parse
from mixling.mixers import AttentionConfig, HyperMixingConfig, RemixingConfig, TokenMLPConfig
from mixling.models import count_parameters
from mixling.research.seq2seq import (
    CPU,
    SEQ2SEQ_PRESETS,
    EncoderDecoderConfig,
    Shape,
    bag_of_words,
    build_encoder_decoder,
    lstm,
    remixer,
    seq2seq_config,
    t5,
)
from mixling.research.seq2seq.presets import BASE, with_dropout

ALPHA = 1


def counted(config: EncoderDecoderConfig, vocabulary: int = 32_128) -> int:
    with torch.device("meta"):
        return count_parameters(build_encoder_decoder(config, vocab_size=vocabulary))


def test_parameters_of_t5() -> None:
    assert counted(SEQ2SEQ_PRESETS["t5-1.1-base"].config) == 247_577_856
    assert counted(SEQ2SEQ_PRESETS["t5-1.1-small"].config) == 76_961_152


@pytest.mark.parametrize(("shape", "lengths"), [(BASE, (512, 512)), (BASE, (512, 114)), (CPU, (128, 64))])
def test_each_replaced_feed_forward_adds_length_squared_and_alpha(shape: Shape, lengths: tuple[int, int]) -> None:
    shape = shape.model_copy(update=dict(zip(("max_source_len", "max_target_len"), lengths, strict=True)))
    source, target = lengths
    added = shape.num_layers * (source**2 + ALPHA) + shape.num_decoder_layers * (target**2 + ALPHA)
    assert counted(remixer(shape)) == counted(t5(shape)) + added


def test_the_block_as_it_stands_is_as_wide_as_the_tokens() -> None:
    # Three D x D matrices in the place of three D x F ones.
    layers = BASE.num_layers + BASE.num_decoder_layers
    replaced = layers * (3 * 768 * (768 - 2048) + 512**2 + ALPHA)
    assert counted(SEQ2SEQ_PRESETS["remixer-literal-base"].config) == counted(t5(BASE)) + replaced


def test_dropout_on_h_may_differ_from_that_of_the_rest() -> None:
    def rates(**sizes: float) -> tuple[float, float]:
        (layer,) = seq2seq_config("remixer-2m", **sizes).decoder.layers
        (block,) = [mixer for mixer in layer.mixers if mixer.type == "remixing"]
        return layer.dropout, block.dropout  # type: ignore[attr-defined]

    assert rates(dropout=0.1) == (0.1, 0.1)
    assert rates(dropout=0.1, mixing_dropout=0.2) == (0.1, 0.2)
    assert rates(dropout=0.1, mixing_dropout=0.0) == (0.1, 0.0)


@pytest.mark.parametrize(("before", "after"), [((12, 12), (18, 3)), ((4, 4), (6, 1)), ((24, 24), (36, 6))])
def test_layers_of_the_scaled_form(before: tuple[int, int], after: tuple[int, int]) -> None:
    shape = BASE.model_copy(update=dict(zip(("num_layers", "num_decoder_layers"), before, strict=True)))
    scaled = shape.scaled()
    assert (scaled.num_layers, scaled.num_decoder_layers) == after
    assert scaled.model_copy(update={"num_layers": before[0], "num_decoder_layers": before[1]}) == shape


def test_layers_that_the_scaled_form_cannot_divide_are_refused() -> None:
    with pytest.raises(ConfigError, match="num_decoder_layers: got 6; it must be a multiple of 4"):
        seq2seq_config("remixer-scaled-2m", num_decoder_layers=6)


def test_the_scaled_base_has_18_and_3_layers() -> None:
    config = SEQ2SEQ_PRESETS["remixer-scaled-base"].config
    assert (len(config.encoder.blocks), len(config.decoder.blocks)) == (18, 3)
    # A decoder's layer has a second attention and its norm, an encoder's has not.
    attention = 4 * 768**2 + 768
    assert (
        counted(SEQ2SEQ_PRESETS["remixer-base"].config) - counted(config)
        == 3 * (attention + 3 * 768 * 2048 + 512**2 + ALPHA + 4 * 768**2 + 2 * 768) + (9 - 3) * attention
    )


def test_a_bag_of_words_does_not_know_the_order_and_an_lstm_does() -> None:
    shape = Shape(dim=8, ffn_dim=8, num_heads=2, head_dim=4, num_layers=2, num_decoder_layers=1)
    source, target = torch.tensor([[3, 4, 5, 6]]), torch.tensor([[1, 2]])
    mask = torch.ones(1, 4, dtype=torch.bool)
    for family, alike in ((bag_of_words, True), (lstm, False), (partial(lstm, bidirectional=True), False)):
        model = build_encoder_decoder(family(shape), vocab_size=9, seed=0).double().eval()
        found, mirrored = model(source, mask, target), model(source.flip(1), mask, target)
        assert torch.allclose(found, mirrored, rtol=0, atol=1e-12) == alike


def test_lstms_have_as_many_units_in_both_directions_together() -> None:
    shape = Shape(dim=8, ffn_dim=8, num_heads=2, head_dim=4, num_layers=1, num_decoder_layers=1)
    cell = 4 * (8 * 8 + 8 * 8 + 8 + 8)  # gates of inputs and states, two biases
    half = 4 * (4 * 8 + 4 * 4 + 4 + 4)
    assert counted(lstm(shape, bidirectional=True)) - counted(lstm(shape)) == 2 * half - cell


ATTENTION, REMIXING, TOKEN_MLP, HYPERMIXING = AttentionConfig, RemixingConfig, TokenMLPConfig, HyperMixingConfig
LAYERS = {
    "t5": ([ATTENTION], [ATTENTION], ATTENTION, True),
    "remixer": ([ATTENTION, REMIXING], [ATTENTION, REMIXING], ATTENTION, False),
    "mixer-transformer": ([TOKEN_MLP], [ATTENTION], ATTENTION, True),
    "mixer-mixer": ([TOKEN_MLP], [TOKEN_MLP], ATTENTION, True),
    "hypermixer-hypermixer": ([HYPERMIXING], [HYPERMIXING], HYPERMIXING, True),
}


@pytest.mark.parametrize("name", LAYERS)
def test_what_mixes_in_each_family(name: str) -> None:
    config = SEQ2SEQ_PRESETS[f"{name}-2m"].config
    encoder, decoder, cross, ffn = LAYERS[name]
    for block in config.encoder.blocks:
        assert [type(mixer) for mixer in block.mixers] == encoder
        assert block.cross is None
        assert (block.feed_forward is not None) == ffn
    for block in config.decoder.blocks:
        assert [type(mixer) for mixer in block.mixers] == decoder
        assert type(block.cross) is cross
        assert block.cross_after == 1  # T5's order: before what stands in the feed-forward's place
        assert (block.feed_forward is not None) == ffn


def test_models_for_a_cpu_have_about_two_million_parameters() -> None:
    for name, preset in SEQ2SEQ_PRESETS.items():
        if name.endswith("-2m"):
            assert 1.7e6 < counted(preset.config, preset.vocabulary) < 2.3e6, name


def test_a_hypermixer_has_as_many_parameters_as_attention_and_its_norm() -> None:
    # The identity of the papers' budget; T5's attention has no biases, so they are counted here.
    config = SEQ2SEQ_PRESETS["hypermixer-hypermixer-base"].config
    (mixer,) = config.encoder.layers[0].mixers
    assert sum(p.numel() for p in mixer.build(768, 512).parameters()) == 4 * (768**2 + 768) + 2 * 768


@pytest.mark.parametrize("name", SEQ2SEQ_PRESETS)
def test_presets_round_trip_and_have_names_of_their_own(name: str) -> None:
    config = SEQ2SEQ_PRESETS[name].config
    assert seq2seq_config(name) == parse(EncoderDecoderConfig, config.to_dict(), where="x") == config
    assert name not in PRESETS
    with pytest.raises(ConfigError, match=r"is a model from text to text"):
        model_config(name)


def test_presets_are_changed_by_sizes_and_by_values() -> None:
    config = seq2seq_config("t5-2m", {"tied": True, "decoder": {"num_layers": 1}}, dropout=0.1, num_layers=2)
    assert (config.tied, config.dropout, config.decoder.blocks[0].dropout) == (True, 0.1, 0.1)
    assert (len(config.encoder.blocks), len(config.decoder.blocks)) == (2, 1)


@pytest.mark.parametrize("name", SEQ2SEQ_PRESETS)
def test_dropout_that_is_given_later_is_where_a_preset_has_it(name: str) -> None:
    found = with_dropout(seq2seq_config(name).to_dict(), 0.3)
    assert parse(EncoderDecoderConfig, found, where="x") == seq2seq_config(name, dropout=0.3)


@pytest.mark.parametrize(
    ("name", "changes", "sizes", "message"),
    [
        ("t5-2n", {}, {}, r"^unknown preset 't5-2n'; did you mean 't5-2m'"),
        ("t5-2m", {}, {"num_layer": 2}, r"^model: unknown key 'num_layer'; did you mean 'num_layers'"),
        ("t5-2m", {}, {"num_heads": 0}, r"^model: num_heads: got 0"),
        ("t5-2m", {"tide": True}, {}, r"^model: unknown key 'tide'; did you mean 'tied'"),
    ],
)
def test_mistakes_are_reported(name: str, changes: dict, sizes: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        seq2seq_config(name, changes, **sizes)
