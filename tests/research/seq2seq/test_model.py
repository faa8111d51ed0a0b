"""Encoder-decoders of every family: steps, padding, causality, lengths, costs, and where an error says it is."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from mixling import ConfigError
from mixling.config import parse
from mixling.research.seq2seq import EncoderDecoderConfig, build_encoder_decoder
from mixling.research.seq2seq.model import pick

from .small_models import FAMILIES, SHAPE, SOURCE_LENGTHS, SUBWORDS, built, drawn, sources, targets

EXACT = {"rtol": 0.0, "atol": 1e-11}  # in float64: sums of another order, nothing more
LENGTH = SHAPE.max_target_len
every_family = pytest.mark.parametrize("family", FAMILIES)


@every_family
def test_steps_give_the_logits_of_all_positions_at_once(family: str) -> None:
    model, (source, mask), target = built(family), sources(SOURCE_LENGTHS), targets(3, LENGTH)
    expected = model(source, mask, target)
    assert expected.shape == (3, LENGTH, SUBWORDS)
    state = model.start(source, mask)
    for now in range(LENGTH):
        logits, state = model.step(target[:, now], state)
        torch.testing.assert_close(logits, expected[:, now], **EXACT)


@every_family
def test_rows_of_a_state_can_be_picked(family: str) -> None:
    model, (source, mask), target = built(family), sources(SOURCE_LENGTHS), targets(3, 6)
    rows = torch.tensor([2, 0, 2, 1])
    expected = model(source[rows], mask[rows], target[rows])
    state = model.start(source, mask)
    for now in range(3):
        _, state = model.step(target[:, now], state)
    state = pick(state, rows)
    for now in range(3, 6):
        logits, state = model.step(target[rows, now], state)
        torch.testing.assert_close(logits, expected[:, now], **EXACT)


@every_family
def test_rows_of_the_same_source_need_not_move_what_was_read_of_it(family: str) -> None:
    model, (source, mask), target = built(family), sources([5, 5]), targets(2, 6)
    source = source[:1].expand(2, -1)
    expected = model(source, mask, target.flip(0))
    state = model.start(source, mask)
    for now in range(3):
        _, state = model.step(target[:, now], state)
    state = pick(state, torch.tensor([1, 0]), same_sources=True)
    for now in range(3, 6):
        logits, state = model.step(target[:, now].flip(0), state)
        torch.testing.assert_close(logits, expected[:, now], **EXACT)


def test_positions_are_added_to_the_vectors_of_the_source_only() -> None:
    plain, placed = built("t5"), built("t5", source_positions="learned")
    placed.load_state_dict(plain.state_dict(), strict=False)
    (source, mask), target = sources(SOURCE_LENGTHS), targets(3, LENGTH)
    locations = placed.positions.weight
    assert locations is not None
    encoded = torch.stack(
        [plain.table.weight[subword] + locations[i] for row in source for i, subword in enumerate(row)]
    )
    encoded = plain.encoder(encoded.view(3, -1, SHAPE.dim), mask)
    torch.testing.assert_close(placed(source, mask, target), plain.decode(encoded, mask, target), **EXACT)


def test_learned_positions_fix_the_longest_source() -> None:
    placed, long = built("t5", source_positions="learned"), sources([SHAPE.max_source_len + 1])
    with pytest.raises(ConfigError, match="source: got 10 tokens, but the model is built for at most 9"):
        placed.encode(*long)
    built("t5", source_positions="sinusoidal").encode(*long)


@every_family
def test_padding_of_sources_and_what_is_beside_them_change_nothing(family: str) -> None:
    model, (source, mask), target = built(family), sources(SOURCE_LENGTHS), targets(3, 5)
    together = model(source, mask, target)
    torch.testing.assert_close(model(*sources(SOURCE_LENGTHS, padding=3), target), together, **EXACT)
    for i, length in enumerate(SOURCE_LENGTHS):
        alone = model(source[i : i + 1, :length], mask[i : i + 1, :length], target[i : i + 1])
        torch.testing.assert_close(alone[0], together[i], **EXACT)
        wide = model(*(item[i : i + 1] for item in sources(SOURCE_LENGTHS, 9)), target[i : i + 1])
        torch.testing.assert_close(wide[0], together[i], **EXACT)


@pytest.mark.slow
@every_family
def test_later_subwords_of_the_target_are_not_seen(family: str) -> None:
    model, (source, mask), target = built(family), sources(SOURCE_LENGTHS), targets(3, LENGTH)
    expected = model(source, mask, target)
    for now in range(LENGTH - 1):
        other = target.clone()
        other[:, now + 1 :] = (other[:, now + 1 :] + 1) % SUBWORDS
        found = model(source, mask, other)
        torch.testing.assert_close(found[:, : now + 1], expected[:, : now + 1], **EXACT)
        assert not torch.allclose(found[:, now + 1], expected[:, now + 1])


@pytest.mark.slow
@every_family
def test_every_subword_of_the_source_is_read(family: str) -> None:
    model, (source, mask), target = built(family), sources([9]), targets(1, 2)
    expected = model(source, mask, target)
    for location in range(9):
        other = source.clone()
        other[:, location] = (other[:, location] + 1) % SUBWORDS
        assert not torch.allclose(model(other, mask, target), expected)


@every_family
def test_every_parameter_gets_a_gradient(family: str) -> None:
    # In float32, and not of a sum over all subwords, whose part through the last norm could be zero.
    model, (source, mask) = built(family), sources(SOURCE_LENGTHS)
    logits = model(source, mask, targets(3, LENGTH))
    logits.log_softmax(-1)[..., 1].sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


@every_family
def test_flops_are_those_that_are_counted(family: str) -> None:
    model, (source, mask), target = built(family), sources([9, 9]), targets(2, 7)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(source, mask, target)
    assert model.flops(2, 9, 7) == counter.get_total_flops()


@pytest.mark.parametrize("family", ["remixer", "mixer", "mixer-transformer"])
def test_a_source_that_is_too_long_is_refused(family: str) -> None:
    model = built(family)
    source, mask = sources([10])
    message = r"^source: got 10 tokens, but the model is built for at most 9; truncate .* max_source_len = 10$"
    with pytest.raises(ConfigError, match=message):
        model(source, mask, targets(1, 2))
    with pytest.raises(ConfigError, match=message):
        model.start(source, mask)


@pytest.mark.parametrize("family", ["remixer", "mixer"])
def test_a_target_that_is_too_long_is_refused(family: str) -> None:
    model, (source, mask) = built(family), sources([4])
    message = r"^target: got 13 tokens, but the model is built for at most 12; truncate .* max_target_len = 13$"
    with pytest.raises(ConfigError, match=message):
        model(source, mask, targets(1, 13))
    state = model.start(source, mask)
    for now in range(12):
        _, state = model.step(targets(1, 12)[:, now], state)
    with pytest.raises(ConfigError, match="got 13 tokens, built for at most 12"):
        model.step(targets(1, 1)[:, 0], state)


@pytest.mark.parametrize("family", ["t5", "hypermixer"])
def test_models_without_a_fixed_length_take_any(family: str) -> None:
    model = built(family)
    assert (model.max_source_len, model.max_target_len) == (None, None)
    assert model(*sources([20]), targets(1, 25)).isfinite().all()


def test_tied_tables_answer_with_the_inputs_table() -> None:
    config = FAMILIES["t5"](SHAPE)
    own = build_encoder_decoder(config, vocab_size=SUBWORDS).double().eval()
    tied = build_encoder_decoder(config.model_copy(update={"tied": True}), vocab_size=SUBWORDS).double().eval()
    drawn(own)
    keys = [key for key in own.state_dict() if key != "output.weight"]
    assert list(tied.state_dict()) == keys
    tied.load_state_dict({key: own.state_dict()[key] for key in keys})
    with torch.no_grad():
        own.output.weight.copy_(own.table.weight / math.sqrt(SHAPE.dim))
    given = (*sources(SOURCE_LENGTHS), targets(3, 4))
    torch.testing.assert_close(tied(*given), own(*given), **EXACT)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_large_tables_are_multiplied_another_way_for_the_same(
    batch: int, tied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = FAMILIES["t5"](SHAPE).model_copy(update={"tied": tied})
    model = build_encoder_decoder(config, vocab_size=SUBWORDS, seed=0).double().eval()
    (source, mask), target = sources(SOURCE_LENGTHS[:batch]), targets(batch, 2)
    found = []
    for large in (2**22, 1):
        monkeypatch.setattr("mixling.research.seq2seq.model._LARGE_TABLE", large)
        found.append(model.step(target[:, 0], model.start(source, mask))[0])
    torch.testing.assert_close(*found, **EXACT)


def test_first_weights_depend_on_the_seed_only() -> None:
    config = FAMILIES["t5"](SHAPE)
    first = build_encoder_decoder(config, vocab_size=SUBWORDS, seed=3)
    torch.rand(5)
    again = build_encoder_decoder(config, vocab_size=SUBWORDS, seed=3)
    other = build_encoder_decoder(config, vocab_size=SUBWORDS, seed=4)
    for one, two, three in zip(first.parameters(), again.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)
        assert one.unique().numel() == 1 or not torch.equal(one, three)


@every_family
def test_first_logits_are_of_the_size_of_one(family: str) -> None:
    shape = SHAPE.model_copy(update={"dim": 64, "ffn_dim": 128, "head_dim": 32})
    model = build_encoder_decoder(FAMILIES[family](shape), vocab_size=200, seed=0).eval()
    logits = model(*sources(SOURCE_LENGTHS, subwords=200), targets(3, 8))
    assert 0.7 < float(logits.detach().std()) < 1.3


def test_dropout_reaches_every_part_in_training_only() -> None:
    shape = SHAPE.model_copy(update={"dropout": 0.5})
    model = build_encoder_decoder(FAMILIES["remixer"](shape), vocab_size=SUBWORDS, seed=0)
    given = (*sources(SOURCE_LENGTHS), targets(3, 4))
    assert not torch.equal(model(*given), model(*given))
    model.eval()
    assert torch.equal(model(*given), model(*given))
    for config in (FAMILIES["t5"](shape), FAMILIES["remixer"](shape)):
        rates = [config.dropout]
        for block in (*config.encoder.blocks, *config.decoder.blocks):
            rates += [block.dropout, *(mixer.dropout for mixer in block.mixers)]
            rates += [] if block.feed_forward is None else [block.feed_forward.dropout]
            rates += [] if block.cross is None else [block.cross.dropout]
        assert set(rates) == {0.5}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@every_family
def test_half_precision_works(family: str, dtype: torch.dtype) -> None:
    model, given = built(family), (*sources(SOURCE_LENGTHS), targets(3, 6))
    exact = model(*given)
    found = model.to(dtype)(*given)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), exact, rtol=0.0, atol=0.1 * float(exact.detach().abs().max()))


@every_family
def test_configurations_round_trip(family: str) -> None:
    config = FAMILIES[family](SHAPE)
    assert parse(EncoderDecoderConfig, config.to_dict(), where="x") == config


ATTENTION = {"type": "attention", "num_heads": 2}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "x: decoder: none of its layers has `cross`"),
        ({"encoder": {"layers": [{"cross": ATTENTION}]}}, r"^encoder\.layers\.0\.cross: got 'attention', where no"),
        ({"decoder": {"layers": [{"mixers": [{"type": "fourier"}]}]}}, r"^x: decoder: none of its layers"),
        (
            {"decoder": {"layers": [{"cross": ATTENTION}, {"mixers": [{"type": "fourier"}]}]}},
            r"^decoder\.layers\.1\.mixers\.0: mixer 'fourier' has no causal form",
        ),
        (
            {"decoder": {"layers": [{"cross": {"type": "remixing"}}]}},
            r"^decoder\.layers\.0\.cross: mixer 'remixing' has no form that reads a context",
        ),
        (
            {"decoder": {"layers": [{"cross": {**ATTENTION, "positions": {}}}]}},
            r"^decoder\.layers\.0\.cross: mixer 'attention' has no form that reads a context",
        ),
        ({"decoder": {"layers": [{"cross": {"type": "atention"}}]}}, r"cross: unknown mixer 'atention'; did you mean"),
        ({"decoder": {"layers": [{"cross_after": 0}]}}, r"cross_after = 0 has no use without `cross`"),
        ({"decoder": {"layers": [{"cross": ATTENTION, "cross_after": 1}]}}, r"cross_after: got 1; there are 0 mixers"),
    ],
)
def test_what_cannot_be_built_is_reported_with_its_location(values: dict, message: str) -> None:
    decoder = {"layers": [{"cross": ATTENTION}]} if "encoder" in values else {}
    with pytest.raises(ConfigError, match=message):
        build_encoder_decoder(
            parse(EncoderDecoderConfig, {"dim": 8, "decoder": decoder, **values}, where="x"), vocab_size=SUBWORDS
        )


def test_golden_names_of_a_saved_models_tensors() -> None:
    shape = SHAPE.model_copy(update={"num_layers": 1, "num_decoder_layers": 1})
    attention = [f"{name}.weight" for name in ("query", "key", "value", "out")]
    feed_forward = [f"feed_forward.{name}.weight" for name in ("expand", "contract", "value")]
    own = [f"mixers.0.{name}" for name in (*attention, "relative.weight")]
    encoder = [*own, "mixer_norms.0.weight", *feed_forward, "feed_forward_norm.weight"]
    cross = [*(f"cross.{name}" for name in attention), "cross_norm.weight"]
    decoder = [*own, "mixer_norms.0.weight", *cross, *feed_forward, "feed_forward_norm.weight"]
    assert list(build_encoder_decoder(FAMILIES["t5"](shape), vocab_size=SUBWORDS).state_dict()) == [
        "table.weight",
        *(f"encoder.layers.0.{name}" for name in encoder),
        "encoder.norm.weight",
        *(f"decoder.layers.0.{name}" for name in decoder),
        "decoder.norm.weight",
        "output.weight",
    ]
