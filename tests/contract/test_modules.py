"""Every registered mixer is a plain module: its class makes what its configuration makes, with the same defaults."""

from __future__ import annotations

import ast
import copy
import inspect
import io
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

import mixling.mixers
from mixling import ConfigError
from mixling.mixers import HyperMixing, Mixer, MixerConfig, SpatialGating, config_class, mixer_types, register_mixer
from mixling.networks.mixer import MIXERS

from .variants import VARIANTS

DIM, MAX_LEN = 8, 12
every_type = pytest.mark.parametrize("name", mixer_types())


def class_of(name: str) -> type[Mixer]:
    return type(config_class(name)().build(DIM, MAX_LEN))


def same(first: Mixer, second: Mixer) -> bool:
    one, two = first.state_dict(), second.state_dict()
    return one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


@every_type
def test_the_defaults_of_the_signature_are_those_of_the_configuration(name: str) -> None:
    arguments = inspect.signature(class_of(name)).parameters
    fields = config_class(name).model_fields
    assert set(fields) - {"type"} <= set(arguments) <= {*fields, "dim", "max_len", "causal"}
    for field in set(fields) - {"type"}:
        assert arguments[field].default == fields[field].default, field
    assert "dim" in arguments
    assert all(argument.kind is argument.KEYWORD_ONLY for argument in arguments.values())


@every_type
def test_the_class_makes_what_the_configuration_makes(name: str) -> None:
    kind = class_of(name)
    for values in ({}, *VARIANTS.get(name, {}).values()):
        config = mixling.mixers.mixer_config({"type": name, **values})
        torch.manual_seed(0)
        expected = config.build(DIM, MAX_LEN)
        torch.manual_seed(0)
        made = kind(dim=DIM, max_len=MAX_LEN, **values)
        assert same(made, expected)
        assert (made.dim, made.causal) == (DIM, False)
        if config.supports_causal:
            assert kind(dim=DIM, max_len=MAX_LEN, causal=True, **values).causal


@every_type
def test_a_mixer_is_copied_saved_and_used_as_any_module(name: str) -> None:
    made = class_of(name)(dim=DIM, max_len=MAX_LEN)
    stack = nn.Sequential(nn.LayerNorm(DIM), made)
    assert stack(torch.randn(2, 5, DIM)).shape == (2, 5, DIM)
    assert same(copy.deepcopy(made), made)
    file = io.BytesIO()
    torch.save(made.state_dict(), file)
    file.seek(0)
    other = class_of(name)(dim=DIM, max_len=MAX_LEN)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert same(other, made)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SpatialGating(dim=8), "SpatialGating: max_len is missing"),  # type: ignore[call-arg]
        (lambda: HyperMixing(), "HyperMixing: dim is missing"),  # type: ignore[call-arg]
        (lambda: HyperMixing(dim=8, hiden_dim=4), "HyperMixing: unknown key 'hiden_dim'; did you mean 'hidden_dim'"),
        (lambda: HyperMixing(dim=9, num_heads=2), "width 9 is not a multiple of num_heads 2"),
        (lambda: HyperMixing(dim=0), "HyperMixing: dim: got 0; allowed: a whole number from 1"),
        (lambda: SpatialGating(dim=8, max_len=4, ffn_dim=7), "ffn_dim = 7 cannot be split"),
        (lambda: mixling.mixers.Fourier(dim=8, causal=True), "has no causal form"),
        (lambda: mixling.mixers.Recurrent(dim=8, window=3), "window = 3 is of the QRNN"),
    ],
)
def test_options_are_checked_as_in_a_configuration(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_registered_mixer_is_made_by_its_class_too() -> None:
    class Shift(Mixer):
        def __init__(self, *, dim: int, by: int = 1) -> None:
            super().__init__()
            self.by = by

        def mix(self, x: Tensor, mask: Tensor) -> Tensor:
            return x.roll(self.by, 1)

        def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
            return 0

    class ShiftConfig(MixerConfig):
        """Shifts."""

        type: Literal["shift_of_a_test"] = "shift_of_a_test"
        by: int = 1

        def _build(self, dim: int, max_len: int, causal: bool) -> Mixer:
            return Shift(dim=dim, by=self.by)

    assert Shift(dim=4).by == 1  # nothing knows it yet
    register_mixer(ShiftConfig)
    try:
        made = Shift(dim=4, by=2)
        assert (made.dim, made.by) == (4, 2)
        with pytest.raises(ConfigError, match="Shift: unknown key 'bye'; did you mean 'by'"):
            Shift(dim=4, bye=2)  # type: ignore[call-arg]
    finally:
        MIXERS.registered.pop("shift_of_a_test")


def test_type_checkers_know_every_mixer() -> None:
    tree = ast.parse(Path(mixling.mixers.__file__).read_text("utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    listed = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert listed == {
        "Mixer",
        *(config_class(name).__name__ for name in mixer_types()),
        *(class_of(name).__name__ for name in mixer_types()),
    }
