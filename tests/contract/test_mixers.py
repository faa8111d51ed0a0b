"""What every file of mixling.mixers must keep to; a new file is found and held to it without a word here.

Each is checked as its defaults make it; variants.py adds configurations.
"""

from __future__ import annotations

import inspect
import io
import json
import logging
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad, jvp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import mixling.mixers
from mixling import ConfigError
from mixling.config import parse
from mixling.export.encode import encode_model
from mixling.export.graph_builder import GraphBuilder
from mixling.export.scope import NoWriter, Scope
from mixling.export.write import all_writers
from mixling.layers import mixer as steps
from mixling.layers import plain_operations
from mixling.mixers import Mixer, MixerConfig, config_class, mixer_config, mixer_types

from .from_weights import FROM_WEIGHTS, NOT_NORMALIZED
from .variants import VARIANTS

DIM, MAX_LEN = 8, 12
EXACT = {"rtol": 0.0, "atol": 1e-12}  # in float64: sums of another order, nothing more
LENGTHS = [5, 1, 7]

CASES = {
    name if variant == "default" else f"{name}-{variant}": {"type": name, **values}
    for name in mixer_types()
    for variant, values in {"default": {}, **VARIANTS.get(name, {})}.items()
}
every_type = pytest.mark.parametrize("name", mixer_types())
every_mixer = pytest.mark.parametrize("name", CASES)


def config(name: str) -> MixerConfig:
    return mixer_config(dict(CASES[name]))


def built(name: str, *, causal: bool = False, dtype: torch.dtype = torch.float64) -> Mixer:
    torch.default_generator.manual_seed(0)  # torch.manual_seed formats the stack for absent accelerators
    mixer = config(name).build(DIM, MAX_LEN, causal=causal)
    for parameter in mixer.parameters():  # what begins at zero or one must not hide an error
        torch.nn.init.normal_(parameter, std=0.3)
    return mixer.to(dtype).eval()


def batch(lengths: list[int], width: int | None = None, *, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Tokens whose real part depends on seed and number only, and the mask; what is in padding is large."""
    width = max(lengths) if width is None else width
    x = torch.full((len(lengths), width, DIM), 1e3, dtype=torch.float64)
    x[..., ::2] = -77.0
    mask = torch.zeros(len(lengths), width, dtype=torch.bool)
    for i, length in enumerate(lengths):
        generator = torch.Generator().manual_seed(1000 * seed + i)
        x[i, :length] = torch.randn(length, DIM, generator=generator, dtype=torch.float64)
        mask[i, :length] = True
    return x, mask


def counted(mixer: Mixer, *inputs: Tensor) -> int:
    """FLOPs by PyTorch's counter; it does not know the CPU's fused attention, so that is run as matrix products."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        mixer(*inputs)
    return counter.get_total_flops()


def test_the_mixers_are_the_files_of_the_package() -> None:
    files = {path.stem for path in Path(mixling.mixers.__path__[0]).glob("*.py")}
    assert set(mixer_types()) == files - {"__init__"}
    assert {"identity", "token_mlp"} <= files


@every_type
def test_mixer_and_configuration_can_be_imported_from_the_package(name: str) -> None:
    for item in (type(built(name)), config_class(name)):
        assert getattr(mixling.mixers, item.__name__) is item
        assert item.__name__ in dir(mixling.mixers)


def test_the_package_has_no_other_names() -> None:
    for name in ("HyperMixin", "Hypermixing", "Literal", "hyper_mixing", "Config", ""):
        with pytest.raises(AttributeError, match=f"'mixling.mixers' has no attribute '{name}'"):
            getattr(mixling.mixers, name)
    assert "Literal" not in dir(mixling.mixers)
    assert (mixling.mixers.Mixer, mixling.mixers.MixerConfig) == (Mixer, MixerConfig)
    assert {"Mixer", "MixerConfig"} <= set(dir(mixling.mixers))


@every_type
def test_every_option_is_described(name: str) -> None:
    given = config_class(name)
    documented = inspect.getdoc(given) or ""
    for key, field in given.model_fields.items():
        if key != "type":
            assert field.description, f"{key}: give it a Field(description=...)"
            assert f"\n    {key}: {field.description}\n" in f"{documented}\n"


@every_type
def test_type_is_the_name_of_the_file(name: str) -> None:
    assert config_class(name)().type == name
    assert inspect.getdoc(type(built(name))), "a mixer states its equation, cost and source"


@every_type
def test_unknown_keys_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"mixer '{name}': unknown key 'not_a_key'"):
        mixer_config({"type": name, "not_a_key": 1})


@every_mixer
def test_the_configuration_round_trips(name: str) -> None:
    given = config(name)
    values = json.loads(json.dumps(given.to_dict()))
    assert parse(type(given), values, where="x") == mixer_config(values) == mixer_config(given) == given


@pytest.mark.parametrize("values", ["token_mlp", 3, None])
def test_a_mixer_that_is_no_table_is_refused(values: object) -> None:
    with pytest.raises(ConfigError, match="a mixer is a table with a type"):
        mixer_config(values)


def test_an_unknown_mixer_is_refused_with_the_near_miss() -> None:
    with pytest.raises(ConfigError, match="unknown mixer 'token_mpl'; did you mean 'token_mlp'"):
        mixer_config({"type": "token_mpl"})
    with pytest.raises(ConfigError, match="unknown mixer 'base'"):
        mixer_config({"type": "base"})
    with pytest.raises(ConfigError, match="unknown mixer None"):
        mixer_config({})


@every_mixer
@pytest.mark.parametrize("width", [1, 7, MAX_LEN])
def test_the_shape_is_kept_and_everything_is_finite(name: str, width: int) -> None:
    x, mask = batch([min(width, length) for length in LENGTHS], width)
    y = built(name)(x, mask)
    assert y.shape == x.shape
    assert y.dtype == x.dtype
    assert y.isfinite().all()  # in padding too: the next layer multiplies it by zero


@every_mixer
@pytest.mark.parametrize("shape", [(0, 5), (2, 0), (0, 0)])
def test_nothing_is_mixed_to_nothing(name: str, shape: tuple[int, int]) -> None:
    x = torch.zeros(*shape, DIM, dtype=torch.float64)
    for causal in {False, config(name).supports_causal}:
        mixer = built(name, causal=causal)
        for mask in (None, torch.ones(shape, dtype=torch.bool)):
            assert mixer(x, mask).shape == x.shape
        with pytest.raises(ConfigError, match=r"^mask: got the shape"):
            mixer(x, torch.ones(3, 3, dtype=torch.bool))


@every_mixer
def test_masks_may_be_of_numbers(name: str) -> None:
    dtypes = (torch.int64, torch.uint8, torch.float32, torch.float64, torch.bfloat16)
    x, mask = batch(LENGTHS, 10)
    for causal in {False, config(name).supports_causal}:
        mixer = built(name, causal=causal)
        y, weights = mixer(x, mask), mixer.weights(x, mask)
        for dtype in dtypes:
            torch.testing.assert_close(mixer(x, mask.to(dtype)), y, rtol=0.0, atol=0.0)
            torch.testing.assert_close(mixer.weights(x, mask.to(dtype)), weights, rtol=0.0, atol=0.0)
    if config(name).supports_cross:
        mixer = built(name)
        context, context_mask = batch([4, 9, 2], seed=2)
        y, state = mixer(x, mask, context, context_mask), mixer.start(x[:, 0], context, context_mask)
        for dtype in dtypes:
            given = mixer(x, mask.to(dtype), context, context_mask.to(dtype))
            torch.testing.assert_close(given, y, rtol=0.0, atol=0.0)
            started = mixer.start(x[:, 0], context, context_mask.to(dtype))
            torch.testing.assert_close(started, state, rtol=0.0, atol=0.0)


@every_mixer
def test_without_a_mask_all_tokens_are_real(name: str) -> None:
    mixer = built(name)
    x, mask = batch([7, 7])
    torch.testing.assert_close(mixer(x), mixer(x, mask), rtol=0.0, atol=0.0)
    for key, matrix in mixer.weights(x).items():
        torch.testing.assert_close(matrix, mixer.weights(x, mask)[key], rtol=0.0, atol=0.0)
    norm = torch.nn.LayerNorm(DIM, dtype=x.dtype)
    torch.testing.assert_close(torch.nn.Sequential(norm, mixer)(x), mixer(norm(x), mask), rtol=0.0, atol=0.0)


@every_mixer
@pytest.mark.usefixtures("unchecked_shapes")
def test_what_is_no_batch_of_tokens_is_refused(name: str) -> None:
    mixer = built(name)
    x, mask = batch([5, 5])
    for wrong, got in (
        (x[..., 1:], r"\(2, 5, 7\) of torch.float64"),
        (x[0], r"\(5, 8\) of torch.float64"),
        (x[None], r"\(1, 2, 5, 8\) of torch.float64"),
        (x.long(), r"\(2, 5, 8\) of torch.int64"),
        (x.tolist(), "list, not a tensor"),
    ):
        with pytest.raises(ConfigError, match=rf"^x: got {got}; allowed: \(batch, tokens, 8\) of floats$"):
            mixer(wrong, mask)
    if config(name).supports_cross:
        with pytest.raises(ConfigError, match=r"^context: got \(2, 5, 7\) of torch.float64; allowed: "):
            mixer(x, mask, x[..., 1:])


@every_mixer
@pytest.mark.usefixtures("unchecked_shapes")
def test_what_is_no_mask_is_refused(name: str) -> None:
    mixer = built(name)
    x, mask = batch([5, 5])
    allowed = r"allowed: None \(all tokens are real\), or \(2, 5\), 1 or True at real tokens, 0 in padding$"
    for wrong, got in (
        (mask[:, 1:], r"the shape \(2, 4\)"),
        (mask[:1], r"the shape \(1, 5\)"),
        (mask.mT, r"the shape \(5, 2\)"),
        (mask[:, None, None], r"the shape \(2, 1, 1, 5\)"),
        (mask[..., None], r"the shape \(2, 5, 1\)"),
        ((1 - mask.float()) - 1e4, "the value -10000"),
        (mask * 2, "the value 2"),
        (torch.full((2, 5), torch.nan), "the value nan"),
        (mask.tolist(), "list, not a tensor"),
    ):
        with pytest.raises(ConfigError, match=f"^mask: got {got}; {allowed}"):
            mixer(x, wrong)
    if config(name).supports_cross:
        with pytest.raises(ConfigError, match=r"^context_mask: got the shape \(2, 4\); "):
            mixer(x, mask, x, mask[:, 1:])
        with pytest.raises(ConfigError, match=r"^context_mask: got the shape \(2, 4\); "):
            mixer.start(x[:, 0], x, mask[:, 1:])


@every_mixer
def test_every_parameter_gets_a_gradient(name: str) -> None:
    mixer = built(name)
    x, mask = batch([MAX_LEN, 3])
    (mixer(x.requires_grad_(), mask)[mask] ** 2).sum().backward()
    assert x.grad is not None
    assert x.grad[mask].count_nonzero() > 0
    for key, parameter in mixer.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
        assert parameter.grad.count_nonzero() > 0, key


@every_mixer
def test_what_is_in_padding_never_reaches_real_tokens(name: str) -> None:
    x, mask = batch(LENGTHS, 10)
    for causal in {False, config(name).supports_causal}:
        mixer = built(name, causal=causal)
        for padding in (torch.randn(x.shape, dtype=x.dtype) * 50, torch.tensor(torch.inf), torch.tensor(torch.nan)):
            other = torch.where(mask[..., None], x, padding.to(x.dtype))
            torch.testing.assert_close(mixer(other, mask)[mask], mixer(x, mask)[mask], **EXACT)


@every_mixer
def test_padding_gives_no_gradient(name: str) -> None:
    x, mask = batch(LENGTHS, 10)
    x.requires_grad_()
    built(name)(x, mask)[mask].sum().backward()
    assert x.grad is not None
    assert not x.grad[~mask].any()


@every_mixer
@pytest.mark.parametrize("value", [torch.inf, torch.nan])
def test_what_is_in_padding_never_reaches_gradients(name: str, value: float) -> None:
    """A text of padding only is beside the others, and has no gradient either."""
    x, mask = batch([5, 0, 7], 10)
    for causal in {False, config(name).supports_causal}:
        mixer = built(name, causal=causal)
        found = []
        for padding in (0.0, value):
            mixer.zero_grad()
            tokens = x.masked_fill(~mask[..., None], padding).requires_grad_()
            (mixer(tokens, mask)[mask] ** 2).sum().backward()
            found.append([tokens.grad, *(parameter.grad for parameter in mixer.parameters())])
        for plain, other in zip(*found, strict=True):
            torch.testing.assert_close(plain, other, **EXACT)


@every_mixer
def test_more_padding_and_other_texts_beside_it_change_nothing(name: str) -> None:
    mixer = built(name)
    x, mask = batch(LENGTHS)
    together = mixer(x, mask)
    wide, wide_mask = batch(LENGTHS, MAX_LEN)
    torch.testing.assert_close(mixer(wide, wide_mask)[wide_mask], together[mask], **EXACT)
    for i, length in enumerate(LENGTHS):
        alone = mixer(x[i : i + 1, :length], mask[i : i + 1, :length])[0]
        torch.testing.assert_close(alone, together[i, :length], **EXACT)


@every_mixer
def test_the_order_of_the_batch_does_not_matter(name: str) -> None:
    mixer = built(name)
    x, mask = batch(LENGTHS)
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(mixer(x[order], mask[order])[mask[order]], mixer(x, mask)[order][mask[order]], **EXACT)


@every_mixer
def test_the_causal_form_sees_no_future_or_is_refused(name: str) -> None:
    if not config(name).supports_causal:
        with pytest.raises(ConfigError, match="has no causal form"):
            built(name, causal=True)
        return
    mixer = built(name, causal=True)
    x, mask = batch([9, 9])
    for now in range(8):
        other = x.clone()
        other[:, now + 1 :] += 1.0
        torch.testing.assert_close(mixer(other, mask)[:, : now + 1], mixer(x, mask)[:, : now + 1], **EXACT)


@every_mixer
def test_the_causal_form_keeps_to_padding_too(name: str) -> None:
    if not config(name).supports_causal:
        return
    mixer = built(name, causal=True)
    x, mask = batch(LENGTHS, 10)
    y = mixer(x, mask)
    assert y.isfinite().all()
    for i, length in enumerate(LENGTHS):
        alone = mixer(x[i : i + 1, :length], mask[i : i + 1, :length])[0]
        torch.testing.assert_close(alone, y[i, :length], **EXACT)


@every_mixer
@pytest.mark.parametrize("apart", [2, 32])
def test_steps_give_what_the_causal_form_gives(monkeypatch: pytest.MonkeyPatch, name: str, apart: int) -> None:
    """However many of the last positions are held apart."""
    if not config(name).supports_causal:
        return
    monkeypatch.setattr(steps, "_NEW", apart)
    monkeypatch.setattr(steps, "_NEW_NUMBERS", 0)
    mixer = built(name, causal=True)
    x, mask = batch([MAX_LEN, MAX_LEN])
    state = mixer.start(x[:, 0])
    expected = mixer(x, mask)
    for now in range(MAX_LEN):
        y, state = mixer.step(x[:, now], state)
        torch.testing.assert_close(y, expected[:, now], **EXACT)
    assert all(value.shape[0] == 2 for value in state.values())


@every_mixer
def test_cross_mixing_reads_the_context_only(name: str) -> None:
    if not config(name).supports_cross:
        with pytest.raises(ConfigError, match="has no form that reads a context"):
            config(name).build(DIM, MAX_LEN, cross=True)
        x, mask = batch(LENGTHS)
        if not type(built(name)).reads_context:
            for use in (built(name), built(name).weights):
                with pytest.raises(ConfigError, match="got a context; it has no form that reads one"):
                    use(x, mask, x, mask)
        return
    mixer = built(name)
    x, mask = batch(LENGTHS)
    torch.testing.assert_close(mixer(x, mask, x), mixer(x, mask, x, torch.ones_like(mask)), **EXACT)
    context, context_mask = batch([4, 9, 2], seed=2)
    y = mixer(x, mask, context, context_mask)
    assert y.shape == x.shape
    torch.testing.assert_close(mixer(x, mask, x, mask)[mask], mixer(x, mask)[mask], **EXACT)
    wide, wide_mask = batch([4, 9, 2], MAX_LEN, seed=2)
    torch.testing.assert_close(mixer(x, mask, wide, wide_mask)[mask], y[mask], **EXACT)
    unknown = torch.where(context_mask[..., None], context, torch.inf)
    torch.testing.assert_close(mixer(x, mask, unknown, context_mask)[mask], y[mask], **EXACT)
    other = x.clone()
    other[:, 0] += 1.0  # a query does not see another
    torch.testing.assert_close(mixer(other, mask, context, context_mask)[:, 1:], y[:, 1:], **EXACT)
    state = mixer.start(x[:, 0], context, context_mask)
    for now in range(x.shape[1]):
        stepped, state = mixer.step(x[:, now], state)
        real = mask[:, now]
        torch.testing.assert_close(stepped[real], y[:, now][real], **EXACT)
    assert mixer.flops(3, x.shape[1], context.shape[1]) == counted(mixer, x, mask, context, context_mask)


@every_mixer
def test_the_output_is_made_of_the_values_by_the_weights_and_filters(name: str) -> None:
    for causal in {False, config(name).supports_causal}:
        mixer = built(name, causal=causal)
        x, mask = batch([7, 7])
        found = {**mixer.weights(x, mask), **mixer.filters(7)}
        if config(name).type not in FROM_WEIGHTS:
            assert not found, "from_weights.py must say how the output is made of them"
            continue
        for key, matrix in found.items():
            assert matrix.shape[-2:] == (7, 7), key
            if causal:
                assert not matrix.triu(1).any(), key
            if key not in NOT_NORMALIZED:
                torch.testing.assert_close(matrix.sum(-1), torch.ones_like(matrix[..., 0]), **EXACT)
        y = FROM_WEIGHTS[config(name).type](mixer, x, x, found)
        torch.testing.assert_close(y, mixer(x, mask), **EXACT)


@every_mixer
def test_weights_of_a_text_among_padding_are_those_of_the_text_alone(name: str) -> None:
    for causal in {False, config(name).supports_causal}:
        mixer = built(name, causal=causal).train()  # no dropout falls on them
        x, mask = batch(LENGTHS, 10)
        for key, together in mixer.weights(torch.where(mask[..., None], x, torch.nan), mask).items():
            for i, length in enumerate(LENGTHS):
                alone = mixer.weights(x[i : i + 1, :length], mask[i : i + 1, :length])[key]
                torch.testing.assert_close(together[i : i + 1, :, :length, :length], alone, **EXACT)
                assert not together[i, :, :length, length:].any(), key


@every_mixer
def test_weights_of_cross_mixing_are_on_the_context(name: str) -> None:
    if not config(name).supports_cross:
        return
    mixer = built(name)
    x, mask = batch([7, 7, 7])
    context, context_mask = batch([4, 9, 2], seed=2)
    found = mixer.weights(x, mask, context, context_mask)
    if config(name).type not in FROM_WEIGHTS:
        assert not found, "from_weights.py must say how the output is made of them"
        return
    for key, matrix in found.items():
        assert not matrix.masked_select(~context_mask[:, None, None]).any(), key
        if key not in NOT_NORMALIZED:
            torch.testing.assert_close(matrix.sum(-1), torch.ones_like(matrix[..., 0]), **EXACT)
    values = torch.where(context_mask[..., None], context, 0.0)
    y = FROM_WEIGHTS[config(name).type](mixer, x, values, found)
    torch.testing.assert_close(y, mixer(x, mask, context, context_mask), **EXACT)
    everything = mixer.weights(x, mask, context, torch.ones_like(context_mask))
    for key, matrix in mixer.weights(x, mask, context).items():
        torch.testing.assert_close(matrix, everything[key], **EXACT)


@every_mixer
def test_filters_are_of_any_length_that_the_parameters_know(name: str) -> None:
    mixer = built(name)
    for key, matrix in mixer.filters().items():
        assert matrix.isfinite().all(), key
        assert matrix.shape[-1] == mixer.max_len or mixer.max_len is None, key
        assert mixer.filters(1)[key].shape == (len(matrix), 1, 1)
    if mixer.filters() and mixer.max_len is not None:
        with pytest.raises(ConfigError, match=f"got {MAX_LEN + 1} tokens, built for at most {MAX_LEN}"):
            mixer.filters(MAX_LEN + 1)


@every_mixer
def test_longer_than_the_parameters_allow_is_refused(name: str) -> None:
    mixer = built(name)
    x, mask = batch([MAX_LEN + 1])
    if mixer.max_len is None:
        assert mixer(x, mask).isfinite().all()
        return
    with pytest.raises(ConfigError, match=f"got {MAX_LEN + 1} tokens, built for at most {MAX_LEN}"):
        mixer(x, mask)
    if config(name).supports_causal:
        causal = built(name, causal=True)
        state = causal.start(x[:, 0])
        for now in range(MAX_LEN):
            _, state = causal.step(x[:, now], state)
        with pytest.raises(ConfigError, match=f"got {MAX_LEN + 1} tokens, built for at most {MAX_LEN}"):
            causal.step(x[:, MAX_LEN], state)


@pytest.mark.usefixtures("unchecked_shapes")  # which take half of the time of its thousands of calls
@pytest.mark.slow
@every_mixer
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    for causal in {False, config(name).supports_causal}:
        mixer = built(name, causal=causal)
        x, mask = batch([4, 2])
        x = torch.where(mask[..., None], x, 0.5).requires_grad_()
        torch.manual_seed(2)  # along random directions; without a future, each number alone
        exact = {"atol": 1e-6, "fast_mode": causal}
        assert torch.autograd.gradcheck(lambda x, mixer=mixer, mask=mask: mixer(x, mask)[mask], x, **exact)
        names, values = zip(*mixer.named_parameters(), strict=True) if list(mixer.parameters()) else ((), ())

        def of_parameters(*values: Tensor, mixer=mixer, names=names, x=x, mask=mask) -> Tensor:
            return torch.func.functional_call(mixer, dict(zip(names, values, strict=True)), (x.detach(), mask))[mask]

        if values:  # along random directions: some have thousands
            torch.manual_seed(3)
            assert torch.autograd.gradcheck(of_parameters, values, atol=1e-5, fast_mode=True)


@every_mixer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_with_a_mask_works(name: str, dtype: torch.dtype) -> None:
    x, mask = batch(LENGTHS, 10)
    x, exact = x.to(dtype), built(name)(x.to(dtype).double(), mask)
    y = built(name, dtype=dtype)(x, mask)
    assert y.dtype == dtype
    assert y.isfinite().all()
    scale = float(exact[mask].detach().abs().max())
    torch.testing.assert_close(y[mask].double(), exact[mask], rtol=0.0, atol=0.05 * scale)


@every_type
def test_float16_holds_long_texts_of_tokens_that_are_alike(name: str) -> None:
    torch.manual_seed(0)
    mixer = mixer_config({"type": name}).build(256, 512).eval()
    alike = torch.nn.functional.layer_norm(torch.randn(1, 512, 256) + torch.randn(256), (256,)).half()
    mask = torch.ones(1, 512, dtype=torch.bool)
    with torch.no_grad():
        exact = mixer(alike.float(), mask)
        found = []
        if name != "recurrent":  # torch has no LSTM for the CPU's float16 autocast
            with torch.autocast("cpu", torch.float16):
                found.append(mixer(alike.float(), mask).float())
        found.append(mixer.half()(alike, mask).float())
    for y in found:
        torch.testing.assert_close(y, exact, rtol=0.0, atol=0.02 * float(exact.abs().max()))


@every_mixer
def test_the_causal_form_works_in_half_precision_too(name: str) -> None:
    if not config(name).supports_causal:
        return
    x, mask = batch(LENGTHS, 10)
    x = x.half()
    exact = built(name, causal=True)(x.double(), mask)
    mixer = built(name, causal=True, dtype=torch.float16)
    found = [mixer(x, mask)]
    state, stepped = mixer.start(x[:, 0]), []
    for now in range(10):
        y, state = mixer.step(torch.where(mask[:, now : now + 1], x[:, now], 0), state)
        stepped.append(y)
    found.append(torch.stack(stepped, 1))
    for y in found:
        assert y.dtype == torch.float16
        scale = float(exact[mask].detach().abs().max())
        torch.testing.assert_close(y[mask].double(), exact[mask], rtol=0.0, atol=0.05 * scale)


@every_type
def test_steps_are_of_causal_mixing(name: str) -> None:
    if config(name).supports_causal:
        with pytest.raises(AssertionError, match="steps are of causal mixing"):
            built(name).start(torch.zeros(2, DIM, dtype=torch.float64))


@every_mixer
def test_flops_are_those_that_are_counted(name: str) -> None:
    for causal in {False, config(name).supports_causal}:
        mixer = built(name, causal=causal)
        for size, length in ((1, 1), (1, MAX_LEN), (3, 7), (5, 2)):
            x, mask = batch([length] * size)
            assert mixer.flops(size, length) == counted(mixer, x, mask), (causal, size, length)


@pytest.mark.slow
@every_type
@pytest.mark.usefixtures("unchecked_shapes")
def test_compiling_and_exporting_work_without_a_mask_and_with_numbers(name: str) -> None:
    mixer = built(name)
    x, mask = batch([6, 4])
    for given, real in (((x,), torch.ones_like(mask)), ((x, mask.long()), mask)):
        torch.compiler.reset()  # there is a limit to how often a function is compiled
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, of nn.LSTM
            exported = torch.export.export(mixer, given, strict=False).module()
            whole = name != "recurrent"  # torch does not trace nn.LSTM
            for made in (torch.compile(mixer, backend="eager", fullgraph=whole), exported):
                torch.testing.assert_close(made(*given)[real], mixer(*given)[real], rtol=0.0, atol=1e-9)


def written(mixer: Mixer) -> bytes:
    """The ONNX file of what export writes for a mixer by itself.

    Raises:
        NoWriter: it is left to torch.
    """
    onnx = pytest.importorskip("onnx")
    graph = GraphBuilder({id(value): name for name, value in (*mixer.named_parameters(), *mixer.named_buffers())})
    length = graph.add("Shape", "x", start=1, end=2)
    scope = Scope(graph, all_writers(), length, graph.add("Unsqueeze", "mask", graph.integers(2)))
    y = graph.add("Identity", scope.write(mixer, "x"))  # an output is no input
    x = ("batch", "length", DIM)
    inputs = {"x": (onnx.TensorProto.FLOAT, x), "mask": (onnx.TensorProto.BOOL, x[:2])}
    file = encode_model(graph.build(inputs, {"y": (y, x)}), {}, producer=("mixling", "0"))
    onnx.checker.check_model(file, full_check=True)
    return file


class Beside(torch.nn.Module):
    """Mixers of the same input."""

    def __init__(self, mixers: list[Mixer]) -> None:
        super().__init__()
        self.mixers = torch.nn.ModuleList(mixers)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        return tuple(mixer(x, mask) for mixer in self.mixers)


def traced(mixers: list[Mixer]) -> bytes:
    """The ONNX file of the graph that torch traces, of all mixers at once, as each tracing takes seconds."""
    pytest.importorskip("onnxscript")
    x, mask = batch([6, 4])
    file = io.BytesIO()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        program = torch.onnx.export(
            Beside(mixers),
            (x.float(), mask),
            dynamo=True,
            verbose=False,
            input_names=["x", "mask"],
            output_names=[f"y{number}" for number in range(len(mixers))],  # of identity, too, which would be x
            dynamic_shapes={"x": {0: "batch", 1: "length"}, "mask": {0: "batch", 1: "length"}},
        )
    assert program is not None
    program.save(file)
    return file.getvalue()


def is_written(name: str) -> bool:
    """Whether export writes a mixer, and leaves it not to torch."""
    try:
        return bool(written(built(name, dtype=torch.float32)))
    except NoWriter:
        return False


@every_mixer
def test_onnx_that_export_writes(name: str) -> None:
    if not is_written(name):
        pytest.skip("it is traced")
    mixer = built(name, dtype=torch.float32)
    check_onnx(written(mixer), [mixer])


@pytest.mark.slow
@every_type
@pytest.mark.usefixtures("unchecked_shapes")
def test_onnx_that_torch_traces(name: str) -> None:
    cases = [case for case, values in CASES.items() if values["type"] == name and not is_written(case)]
    if not cases:
        pytest.skip("export writes it")
    mixers = [built(case, dtype=torch.float32) for case in cases]
    check_onnx(traced(mixers), mixers)


def check_onnx(file: bytes, mixers: list[Mixer]) -> None:
    """Compare the outputs of a file with those of mixers, for any batch and any length."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    given = {item.name for item in session.get_inputs()}
    for lengths in ([1], [3, 2, 1], [MAX_LEN - 1, 4], [MAX_LEN, 4], [6, 4]):
        x, mask = batch(lengths)
        feeds = {"x": x.float().numpy(), "mask": mask.numpy()}
        outputs = session.run(None, {key: value for key, value in feeds.items() if key in given})
        for mixer, y in zip(mixers, outputs, strict=True):
            expected = mixer(x.float(), mask).detach().numpy()
            np.testing.assert_allclose(y[mask.numpy()], expected[mask.numpy()], rtol=1e-4, atol=1e-4)


def in_training(name: str) -> tuple[Mixer, Tensor, Tensor]:
    """A mixer in training, as wide as kernels in C take, and a batch with padding."""
    torch.default_generator.manual_seed(0)
    kind = type(config(name))
    without_noise = {key: 0.0 for key in kind.model_fields if key.endswith("dropout")}
    mixer = mixer_config({**CASES[name], **without_noise}).build(16, MAX_LEN, causal=False).train()
    mask = torch.ones(3, 6, dtype=torch.bool)
    mask[0, 4:] = False
    return mixer, torch.randn(3, 6, 16), mask


of_torch = pytest.mark.filterwarnings(  # of operations that PyTorch has no batching rule for, and of its own use of jit
    "ignore:There is a performance drop:UserWarning", "ignore:.torch.jit.script. is deprecated:DeprecationWarning"
)


@of_torch
@every_mixer
def test_gradients_of_each_text_are_those_of_torch_func(name: str) -> None:
    mixer, x, mask = in_training(name)
    parameters = dict(mixer.named_parameters())
    if not parameters:
        pytest.skip("it has no parameters")

    def loss(values: dict[str, Tensor], text: Tensor, real: Tensor) -> Tensor:
        y: Tensor = functional_call(mixer, values, (text[None], real[None]))
        return torch.where(real[:, None], y[0], 0.0).square().sum()

    each = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, mask)
    mixer(x, mask)[mask].square().sum().backward()
    for key, parameter in parameters.items():
        torch.testing.assert_close(each[key].sum(0), parameter.grad, rtol=1e-4, atol=2e-3)


@of_torch
@every_mixer
def test_derivatives_forward_and_twice_are_had_in_training(name: str) -> None:
    mixer, x, mask = in_training(name)
    if CASES[name]["type"] == "recurrent" and CASES[name].get("cell", "lstm") == "lstm":
        pytest.skip("PyTorch's LSTM has no forward-mode derivative")
    direction = torch.randn_like(x)
    with sdpa_kernel(SDPBackend.MATH):  # PyTorch's fused attention has none either
        _, ahead = jvp(lambda tokens: mixer(tokens, mask), (x,), (direction,))
        with plain_operations():
            tokens = x.clone().requires_grad_()
            y = mixer(tokens, mask)
            weights = torch.randn_like(y, requires_grad=True)
            (once,) = torch.autograd.grad((y * weights).sum(), tokens, create_graph=True)
            (twice,) = torch.autograd.grad((once * direction).sum(), weights)  # the derivative along the direction
    torch.testing.assert_close(ahead[mask], twice[mask], rtol=1e-4, atol=1e-4)
