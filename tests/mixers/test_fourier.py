"""FNet's transform against its equation in loops, NumPy's FFT and the layer of transformers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mixling.mixers import Fourier, fourier

EXACT = {"rtol": 0.0, "atol": 1e-12}


def texts(lengths: list[int], dim: int, width: int | None = None) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    mask = torch.arange(width or max(lengths))[None] < torch.tensor(lengths)[:, None]
    return torch.randn(*mask.shape, dim, dtype=torch.float64), mask


def by_loops(x: list[list[float]]) -> list[list[float]]:
    """Y[a, c] = sum_jd X[j, d] cos(2 pi (a j / N + c d / D))."""
    length, dim = len(x), len(x[0])
    return [
        [
            sum(
                x[j][d] * math.cos(2 * math.pi * (a * j / length + c * d / dim))
                for j in range(length)
                for d in range(dim)
            )
            for c in range(dim)
        ]
        for a in range(length)
    ]


@pytest.mark.parametrize("dim", [1, 4, 5])
def test_each_text_is_the_equation_over_its_own_length(dim: int) -> None:
    lengths = [1, 6, 3, 6, 7]
    x, mask = texts(lengths, dim, 9)
    y = Fourier(dim=x.shape[2], per_length=True)(x, mask)
    for i, length in enumerate(lengths):
        expected = torch.tensor(by_loops(x[i, :length].tolist()), dtype=torch.float64)
        torch.testing.assert_close(y[i, :length], expected, **EXACT)
        numpys = np.fft.fft2(x[i, :length].numpy()).real
        np.testing.assert_allclose(y[i, :length].numpy(), numpys, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dim", [1, 6, 64])
def test_the_matrices_of_an_exported_graph_give_what_the_fft_gives(dim: int) -> None:
    x, mask = texts([1, 50, 0, 33, 64], dim, 70)
    y, expected = fourier._by_matrices(x, mask), fourier._by_fft(x, mask)
    torch.testing.assert_close(y[mask], expected[mask], rtol=0, atol=1e-10)  # sums of 4,096 numbers
    assert y.isfinite().all()


def theirs(**options: int) -> nn.Module:
    from transformers.models.fnet import modeling_fnet  # takes seconds

    return modeling_fnet.FNetLayer(modeling_fnet.FNetConfig(hidden_size=8, **options)).double().eval()


def test_large_angles_are_exact_in_float32() -> None:
    x, mask = texts([1500, 1021], 2)
    exact = fourier._by_fft(x, mask)
    y = fourier._by_matrices(x.float(), mask)
    torch.testing.assert_close(y[mask].double(), exact[mask], rtol=0, atol=1e-3)  # outputs are about 50


def test_real_tokens_are_numbered_without_gaps() -> None:
    x, _ = texts([7], 4)
    mask = torch.tensor([[False, True, True, False, True, False, True]])
    expected = torch.fft.fft2(x[:, mask[0]]).real
    torch.testing.assert_close(fourier._by_fft(x, mask)[:, mask[0]], expected, **EXACT)
    torch.testing.assert_close(fourier._by_matrices(x, mask)[:, mask[0]], expected, **EXACT)


@pytest.mark.parametrize("per_length", [True, False])
def test_without_padding_both_forms_are_that_of_transformers(per_length: bool) -> None:
    torch.manual_seed(0)
    layer = theirs(intermediate_size=12)
    x, mask = texts([6, 6], 8)
    mixed = layer.fourier.output(Fourier(dim=x.shape[2], per_length=per_length)(x, mask), x)
    torch.testing.assert_close(layer.feed_forward_chunk(mixed), layer(x)[0], **EXACT)


def test_padding_changes_the_papers_form_and_not_the_form_by_length() -> None:
    layer = theirs()
    x, mask = texts([6, 4], 8)
    paper, own = Fourier(dim=8, per_length=False), Fourier(dim=8, per_length=True)
    torch.testing.assert_close(paper(x, mask), layer.fourier.self(x)[0], **EXACT)
    alone = x[1:, :4], mask[1:, :4]
    assert (paper(x, mask)[1, :4] - paper(*alone)[0]).abs().max() > 1.0
    torch.testing.assert_close(own(x, mask)[1, :4], own(*alone)[0], **EXACT)


def test_a_text_of_padding_only_becomes_zeros() -> None:
    x, mask = texts([3, 0], 4)
    assert not Fourier(dim=x.shape[2], per_length=True)(x, mask)[1].any()


def test_there_are_no_parameters() -> None:
    assert not Fourier(dim=4, per_length=True).state_dict()
