"""The recurrent mixers against torch's LSTM on packed texts and against their equations in loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from mixling.layers import recurrence
from mixling.layers.recurrence import CHUNK
from mixling.mixers import Recurrent, RecurrentConfig
from mixling.mixers.recurrent import LSTM, QRNN

DIM, HIDDEN = 4, 3
LENGTHS = [5, 1, 7]
EXACT = {"rtol": 0.0, "atol": 1e-12}


def built(*, causal: bool = False, dim: int = DIM, **values: object) -> Recurrent:
    torch.manual_seed(0)
    mixer = RecurrentConfig.model_validate(values).build(dim, 16, causal=causal).double()
    for parameter in mixer.parameters():
        nn.init.normal_(parameter, std=0.5)
    assert isinstance(mixer, Recurrent)
    return mixer


def texts(lengths: list[int] = LENGTHS, width: int = 8) -> tuple[Tensor, Tensor]:
    mask = torch.arange(width)[None] < torch.tensor(lengths)[:, None]
    return torch.randn(len(lengths), width, DIM, dtype=torch.float64), mask


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def affine(weight: Tensor, bias: Tensor, x: list[float]) -> list[float]:
    rows = zip(weight.tolist(), bias.tolist(), strict=True)
    return [sum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in rows]


def lstm_by_loops(cell: nn.LSTM, x: list[list[float]]) -> list[list[float]]:
    h, c, y = [0.0] * HIDDEN, [0.0] * HIDDEN, []
    for row in x:
        ahead = affine(cell.weight_ih_l0, cell.bias_ih_l0, row)
        back = affine(cell.weight_hh_l0, cell.bias_hh_l0, h)
        gates = [a + b for a, b in zip(ahead, back, strict=True)]
        i, f, g, o = (gates[k * HIDDEN : (k + 1) * HIDDEN] for k in range(4))
        c = [sigmoid(f[k]) * c[k] + sigmoid(i[k]) * math.tanh(g[k]) for k in range(HIDDEN)]
        h = [sigmoid(o[k]) * math.tanh(c[k]) for k in range(HIDDEN)]
        y.append(h)
    return y


def qrnn_by_loops(cell: QRNN, x: list[list[float]]) -> list[list[float]]:
    """The convolution has one matrix (3 H, I) for each of its `window` places, the last of them the present token's."""
    kernels = cell.gates.weight.unflatten(1, (cell.window, -1)).unbind(1)
    c, y = [0.0] * HIDDEN, []
    for t in range(len(x)):
        gates = cell.gates.bias.tolist()
        for k, kernel in enumerate(kernels):
            location = t - cell.window + 1 + k
            if location >= 0:
                gates = affine(kernel, torch.tensor(gates, dtype=torch.float64), x[location])
        z, f, o = (gates[k * HIDDEN : (k + 1) * HIDDEN] for k in range(3))
        c = [sigmoid(f[k]) * c[k] + (1 - sigmoid(f[k])) * math.tanh(z[k]) for k in range(HIDDEN)]
        y.append([sigmoid(o[k]) * c[k] for k in range(HIDDEN)])
    return y


def by_loops(mixer: Recurrent, x: list[list[float]]) -> list[list[float]]:
    for layer, ahead in enumerate(mixer.forwards):
        directions = [one_way(ahead, x)]
        if mixer.bidirectional:
            directions.append(one_way(mixer.backwards[layer], x[::-1])[::-1])
        x = [[value for row in rows for value in row] for rows in zip(*directions, strict=True)]
    return x if mixer.project is None else [affine(mixer.project.weight, mixer.project.bias, row) for row in x]


def one_way(cell: nn.Module, x: list[list[float]]) -> list[list[float]]:
    if isinstance(cell, LSTM):
        return lstm_by_loops(cell.cell, x)
    assert isinstance(cell, QRNN)
    return qrnn_by_loops(cell, x)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize(("cell", "window"), [("lstm", None), ("qrnn", None), ("qrnn", 1), ("qrnn", 3)])
def test_each_text_is_the_equation(bidirectional: bool, num_layers: int, cell: str, window: int | None) -> None:
    mixer = built(cell=cell, window=window, hidden_dim=HIDDEN, num_layers=num_layers, bidirectional=bidirectional)
    x, mask = texts()
    y = mixer(x, mask)
    for i, length in enumerate(LENGTHS):
        expected = torch.tensor(by_loops(mixer, x[i, :length].tolist()), dtype=torch.float64)
        torch.testing.assert_close(y[i, :length], expected, **EXACT)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_lstm_is_torchs_on_packed_texts(bidirectional: bool) -> None:
    mixer = built(hidden_dim=HIDDEN, num_layers=2, bidirectional=bidirectional)
    theirs = nn.LSTM(DIM, HIDDEN, num_layers=2, bidirectional=bidirectional, batch_first=True).double()
    for layer in range(2):
        directions = [("", mixer.forwards[layer])]
        if bidirectional:
            directions.append(("_reverse", mixer.backwards[layer]))
        for suffix, ours in directions:
            for name, value in ours.cell.named_parameters():
                theirs.get_parameter(f"{name.removesuffix('0')}{layer}{suffix}").data.copy_(value)
    x, mask = texts()
    packed = pack_padded_sequence(x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(theirs(packed)[0], batch_first=True, total_length=8)
    assert mixer.project is not None
    torch.testing.assert_close(mixer(x, mask)[mask], mixer.project(expected)[mask], **EXACT)


@pytest.mark.parametrize("length", [2, 5, 2 * CHUNK, 2 * CHUNK + 1, 3 * CHUNK, 5 * CHUNK + 5])
def test_the_recurrence_by_chunks_and_by_doubling_is_that_by_steps(length: int) -> None:
    torch.manual_seed(0)
    keep = torch.rand(2, length, 3, dtype=torch.float64).sqrt().requires_grad_()
    new = torch.randn(2, length, 3, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(2, length, 3, dtype=torch.float64)
    c, expected = torch.zeros(2, 3, dtype=torch.float64), []
    for t in range(length):
        c = keep[:, t] * c + new[:, t]
        expected.append(c)
    by_steps = torch.stack(expected, 1)
    gradients = torch.autograd.grad((by_steps * weights).sum(), (keep, new))
    for other in (recurrence.recur(keep, new, longest=length), recurrence._recur_by_doubling(keep, new, length)):
        torch.testing.assert_close(other, by_steps, **EXACT)
        for got, wanted in zip(torch.autograd.grad((other * weights).sum(), (keep, new)), gradients, strict=True):
            torch.testing.assert_close(got, wanted, **EXACT)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal_steps", [False, True])
def test_half_precision_keeps_what_it_read_for_long(dtype: torch.dtype, causal_steps: bool) -> None:
    """With sigmoid(f) = 1 - 1 / 1100, which is 1 in bfloat16, c would never change."""
    mixer = built(cell="qrnn", bidirectional=False, causal=True, hidden_dim=DIM)
    (cell,) = mixer.forwards
    with torch.no_grad():
        cell.gates.weight.zero_()
        cell.gates.bias.copy_(torch.tensor([1.0, 7.0, 0.0]).repeat_interleave(DIM))
    length = 300
    x, mask = torch.zeros(1, length, DIM, dtype=dtype), torch.ones(1, length, dtype=torch.bool)
    exact = mixer(x.double(), mask)[:, -1].detach()
    mixer = mixer.to(dtype)
    if causal_steps:
        state = mixer.start(x[:, 0])
        for _ in range(length):
            y, state = mixer.step(x[:, 0], state)
    else:
        y = mixer(x, mask)[:, -1]
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), exact, rtol=0.01, atol=0.0)


@pytest.mark.parametrize("cell", ["lstm", "qrnn"])
def test_the_state_does_not_grow(cell: str) -> None:
    mixer = built(cell=cell, bidirectional=False, causal=True, num_layers=2, hidden_dim=HIDDEN)
    x = torch.randn(2, DIM, dtype=torch.float64)
    state = mixer.start(x)
    shapes = {key: value.shape for key, value in state.items()}
    for _ in range(20):
        _, state = mixer.step(x, state)
    assert {key: value.shape for key, value in state.items()} == shapes


def test_there_is_a_projection_only_where_the_width_is_another() -> None:
    assert built(bidirectional=False).project is None
    assert built(hidden_dim=DIM // 2).project is None
    both = built()
    assert both.project is not None
    assert both.project.weight.shape == (DIM, 2 * DIM)  # by default each direction is as wide as the tokens


def test_a_text_of_padding_only_stays_finite() -> None:
    x, mask = texts([3, 0])
    for cell in ("lstm", "qrnn"):
        assert built(cell=cell)(x, mask).isfinite().all()
