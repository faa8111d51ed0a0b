"""Pseudo-attention maps against matrices that are known, and against finite differences; pictures of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mixling.mixers import AttentionConfig, HyperMixingConfig, IdentityConfig, Mixer, MixerConfig
from mixling.research.inspect import maps, plots, pseudo_attention


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_of_a_mixing_matrix_it_is_the_absolute_value() -> None:
    matrix = torch.randn(5, 7, generator=generator())
    found = pseudo_attention(lambda x: matrix @ x, torch.randn(1, 7, 1, generator=generator(1)))
    torch.testing.assert_close(found, matrix.abs())


def test_of_vectors_it_is_the_frobenius_norm_of_each_pairs_jacobian() -> None:
    tokens = torch.randn(5, 7, generator=generator())
    channels = torch.randn(3, 2, generator=generator(1))
    found = pseudo_attention(lambda x: tokens @ x @ channels.mT, torch.randn(1, 7, 2, generator=generator(2)))
    norm = sum(float(value) ** 2 for value in channels.flatten()) ** 0.5
    torch.testing.assert_close(found, tokens.abs() * norm)


def test_without_token_mixing_it_is_a_diagonal() -> None:
    found = pseudo_attention(IdentityConfig().build(4, 6), torch.zeros(1, 6, 4))
    torch.testing.assert_close(found, 2 * torch.eye(6))  # the norm of the 4 x 4 unit matrix is 2


@pytest.mark.parametrize("at_once", [1 << 20, 50])
@pytest.mark.parametrize("config", [AttentionConfig(num_heads=2), HyperMixingConfig(hidden_dim=5)])
def test_of_a_mixer_it_equals_finite_differences(
    config: MixerConfig, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maps, "_NUMBERS", at_once)
    length, dim, step = 5, 4, 1e-5
    torch.manual_seed(0)
    mixer: Mixer = config.build(dim, length).double()
    for parameter in mixer.parameters():  # biases too
        torch.nn.init.normal_(parameter)
    mask = torch.tensor([[True, True, True, True, False]])
    x = torch.randn(1, length, dim, dtype=torch.float64)

    def function(x: Tensor) -> Tensor:
        return mixer(x, mask.expand(len(x), -1))[:, :4]  # what comes out at padding is not defined

    expected = torch.zeros(4, length, dtype=torch.float64)
    with torch.no_grad():
        for j in range(length):
            for channel in range(dim):
                moved = torch.zeros_like(x)
                moved[0, j, channel] = step
                slope = (function(x + moved) - function(x - moved)) / (2 * step)
                for i in range(4):
                    expected[i, j] += sum(float(value) ** 2 for value in slope[0, i])
    assert (expected[:, 4] == 0).all()  # padding reaches no real token
    with torch.inference_mode():  # it needs gradients, whatever is set around it
        found = pseudo_attention(function, x)
    torch.testing.assert_close(found, expected.sqrt(), rtol=1e-6, atol=1e-8)
    assert not found.requires_grad
    assert not x.requires_grad
    assert all(parameter.grad is None for parameter in mixer.parameters())


def test_a_batch_is_refused() -> None:
    with pytest.raises(AssertionError, match="must be a single input, got 2"):
        pseudo_attention(lambda x: x, torch.zeros(2, 3, 1))


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that are drawn, so that their parts can be looked at."""
    drawn: list[Any] = []
    make = plots.new_figure
    monkeypatch.setattr(plots, "new_figure", lambda *size: drawn.append(make(*size)) or drawn[-1])
    return drawn


def test_maps_are_drawn_below_their_signals(tmp_path: Path, figures: list[Any]) -> None:
    token_map = np.arange(12.0).reshape(3, 4)
    signals = {"input": np.arange(4.0), "output": np.ones(4)}
    plots.token_maps({"one": (token_map, signals), "two": (np.zeros((3, 4)), signals)}, tmp_path / "maps.png")
    assert (tmp_path / "maps.png").read_bytes().startswith(b"\x89PNG")
    above, other, below = figures[0].axes[:3]
    assert (above.get_title(), other.get_title()) == ("one", "two")
    drawn = {line.get_label(): line.get_ydata().tolist() for line in above.lines}
    assert drawn == {name: signal.tolist() for name, signal in signals.items()}
    np.testing.assert_array_equal(below.images[0].get_array(), token_map)
    assert above.get_xlim() == below.get_xlim()


def test_learning_curves_have_medians_and_the_range_of_all_runs(tmp_path: Path, figures: list[Any]) -> None:
    runs = {1000: [0.5, 0.25, 0.75], 100: [2.0, 1.0, 4.0]}
    plots.learning_curves({"one": runs}, tmp_path / "curves.png", metric="test MSE", levels={"input": 7.0})
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    axes = figures[0].axes[0]
    assert axes.lines[0].get_xydata().tolist() == [[100, 2.0], [1000, 0.5]]
    band = axes.collections[0].get_paths()[0].get_extents()
    assert (band.x0, band.x1, band.y0, band.y1) == (100, 1000, 0.25, 4.0)
    assert axes.lines[1].get_ydata() == [7.0, 7.0]
    assert [text.get_text() for text in axes.texts] == ["input"]
    assert (axes.get_xscale(), axes.get_ylabel()) == ("log", "test MSE")
