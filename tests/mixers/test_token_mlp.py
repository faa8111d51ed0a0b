"""The token-mixing MLP against its equation in loops, its truncation to the real length, and its causal form."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mixling import ConfigError
from mixling.mixers import TokenMLP, TokenMLPConfig

MAX_LEN, DIM, HIDDEN = 9, 3, 5


def built() -> TokenMLP:
    torch.manual_seed(0)
    return TokenMLP(dim=DIM, max_len=MAX_LEN, hidden_dim=HIDDEN).double()


def gelu(value: float) -> float:
    return 0.5 * value * (1 + math.erf(value / math.sqrt(2)))


def by_loops(mixer: TokenMLP, x: list[list[float]]) -> list[list[float]]:
    """Y[i, c] = b2[i] + sum_h W2[i, h] gelu(b1[h] + sum_j W1[h, j] X[j, c]), for a text of `max_len` tokens."""
    w1, b1 = mixer.expand.weight.tolist(), mixer.expand.bias.tolist()
    w2, b2 = mixer.contract.weight.tolist(), mixer.contract.bias.tolist()
    y = [[0.0] * DIM for _ in range(MAX_LEN)]
    for c in range(DIM):
        hidden = [gelu(b1[h] + sum(w1[h][j] * x[j][c] for j in range(MAX_LEN))) for h in range(HIDDEN)]
        for i in range(MAX_LEN):
            y[i][c] = b2[i] + sum(w2[i][h] * hidden[h] for h in range(HIDDEN))
    return y


def test_a_full_text_is_the_equation() -> None:
    mixer, x = built(), torch.randn(2, MAX_LEN, DIM, dtype=torch.float64)
    y = mixer(x, torch.ones(2, MAX_LEN, dtype=torch.bool))
    expected = torch.tensor([by_loops(mixer, item.tolist()) for item in x], dtype=torch.float64)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", range(1, MAX_LEN + 1))
@pytest.mark.parametrize("padding", [0, 2])
def test_a_short_text_is_the_equation_on_its_zero_padded_form(length: int, padding: int) -> None:
    mixer, x = built(), torch.randn(1, length, DIM, dtype=torch.float64)
    full = torch.zeros(MAX_LEN, DIM, dtype=torch.float64)
    full[:length] = x[0]
    expected = torch.tensor(by_loops(mixer, full.tolist()), dtype=torch.float64)[:length]
    width = min(length + padding, MAX_LEN)
    shown = torch.full((1, width, DIM), 9.0, dtype=torch.float64)
    shown[:, :length] = x
    mask = torch.arange(width)[None] < length
    torch.testing.assert_close(mixer(shown, mask)[0, :length], expected, rtol=0, atol=1e-12)


def test_there_is_one_weight_matrix_for_all_channels() -> None:
    shapes = {name: tuple(value.shape) for name, value in built().named_parameters()}
    assert shapes == {
        "expand.weight": (HIDDEN, MAX_LEN),
        "expand.bias": (HIDDEN,),
        "contract.weight": (MAX_LEN, HIDDEN),
        "contract.bias": (MAX_LEN,),
    }


def causal(*, max_len: int = MAX_LEN, hidden_dim: int = HIDDEN, window: int | None = None) -> TokenMLP:
    torch.manual_seed(0)
    config = TokenMLPConfig(hidden_dim=hidden_dim, window=window)
    mixer = config.build(DIM, max_len, causal=True).double()
    assert isinstance(mixer, TokenMLP)
    return mixer


def causal_by_loops(mixer: TokenMLP, window: int, x: list[list[float]]) -> list[list[float]]:
    """The equation with the sums cut to the entries that count, all hidden units made, those of the future too."""
    max_len, size = mixer.max_len, mixer.hidden_dim
    w1, b1 = mixer.expand.weight.tolist(), mixer.expand.bias.tolist()
    w2, b2 = mixer.contract.weight.tolist(), mixer.contract.bias.tolist()
    location = [math.floor(k * max_len / size) for k in range(size)]
    y = [[0.0] * DIM for _ in x]
    for c in range(DIM):
        hidden = []
        for k in range(size):
            seen = [j for j in range(len(x)) if 0 <= location[k] - j < window]
            hidden.append(gelu(b1[k] + sum(w1[k][j] * x[j][c] for j in seen)))
        for i in range(len(x)):
            y[i][c] = b2[i] + sum(w2[i][k] * hidden[k] for k in range(size) if 0 <= i - location[k] < window)
    return y


SIZES = [1, 5, 9, 20, 27]  # fewer subwords than positions, as many, more; multiples or not
WINDOWS = [1, 2, 4, 9, 50, None]


@pytest.mark.parametrize("hidden_dim", SIZES)
@pytest.mark.parametrize("window", WINDOWS)
def test_the_causal_form_is_the_equation_with_the_entries_of_the_band(hidden_dim: int, window: int | None) -> None:
    mixer = causal(hidden_dim=hidden_dim, window=window)
    for length in (1, 4, MAX_LEN):
        x = torch.randn(2, length, DIM, dtype=torch.float64)
        mask = torch.ones(2, length, dtype=torch.bool)
        mask[1, : length // 2] = False
        shown = torch.where(mask[..., None], x, 0.0)
        expected = [causal_by_loops(mixer, window or MAX_LEN, text.tolist()) for text in shown]
        torch.testing.assert_close(mixer(x, mask), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize("hidden_dim", SIZES)
@pytest.mark.parametrize("window", WINDOWS)
def test_steps_give_what_the_causal_form_gives_in_the_memory_of_the_window(hidden_dim: int, window: int | None) -> None:
    mixer = causal(hidden_dim=hidden_dim, window=window)
    x = torch.randn(2, MAX_LEN, DIM, dtype=torch.float64)
    expected = mixer(x, torch.ones(2, MAX_LEN, dtype=torch.bool))
    state = mixer.start(x[:, 0])
    for now in range(MAX_LEN):
        y, state = mixer.step(x[:, now], state)
        torch.testing.assert_close(y, expected[:, now], rtol=0, atol=1e-12)
        assert state["position"].tolist() == [now + 1] * 2
        assert state["tokens"].shape[-1] <= (window or MAX_LEN)
        assert state["hidden"].shape[-1] <= math.ceil((window or MAX_LEN) * hidden_dim / MAX_LEN)
    with pytest.raises(ConfigError, match=f"got {MAX_LEN + 1} tokens, built for at most {MAX_LEN}"):
        mixer.step(x[:, 0], state)


@pytest.mark.parametrize(("max_len", "hidden_dim"), [(7, 1), (7, 3), (7, 7), (7, 10), (6, 24), (12, 5), (16, 256)])
def test_no_output_depends_on_the_future_or_on_what_is_before_the_window(max_len: int, hidden_dim: int) -> None:
    for window in (1, 2, 3, max_len):
        mixer = causal(max_len=max_len, hidden_dim=hidden_dim, window=window)
        x = torch.randn(1, max_len, DIM, dtype=torch.float64, requires_grad=True)
        y = mixer(x, torch.ones(1, max_len, dtype=torch.bool))
        for i in range(max_len):
            (gradient,) = torch.autograd.grad(y[0, i].sum(), x, retain_graph=True)
            read = set(gradient[0].any(dim=-1).nonzero()[:, 0].tolist())
            assert read <= set(range(max(0, i - 2 * (window - 1)), i + 1))
            if hidden_dim >= max_len:  # no gaps between the subwords
                assert read == set(range(max(0, i - 2 * (window - 1)), i + 1))


@pytest.mark.parametrize("window", [1, 2, 4])
def test_entries_outside_the_band_are_not_read_and_get_no_gradient(window: int) -> None:
    mixer = causal(hidden_dim=20, window=window)
    x, mask = torch.randn(2, MAX_LEN, DIM, dtype=torch.float64), torch.ones(2, MAX_LEN, dtype=torch.bool)
    y = mixer(x, mask)
    (y**2).sum().backward()
    location = torch.tensor([math.floor(k * MAX_LEN / 20) for k in range(20)])
    back = location[:, None] - torch.arange(MAX_LEN)
    for weight, inside in (
        (mixer.expand.weight, (back >= 0) & (back < window)),
        (mixer.contract.weight, (back.mT <= 0) & (back.mT > -window)),
    ):
        assert weight.grad is not None
        assert torch.equal(weight.grad != 0, inside)
        with torch.no_grad():
            weight[~inside] = torch.nan
    assert torch.equal(mixer(x, mask), y)


def test_the_full_window_of_one_subword_a_position_is_a_triangle() -> None:
    mixer = causal(hidden_dim=MAX_LEN)
    x = torch.randn(1, MAX_LEN, DIM, dtype=torch.float64)
    plain = built_like(mixer)
    with torch.no_grad():
        plain.expand.weight.tril_()
        plain.contract.weight.tril_()
    mask = torch.ones(1, MAX_LEN, dtype=torch.bool)
    torch.testing.assert_close(mixer(x, mask), plain(x, mask), rtol=0, atol=1e-12)


def built_like(mixer: TokenMLP) -> TokenMLP:
    """The plain form with the same weights: both have the same keys."""
    plain = TokenMLP(dim=mixer.dim, max_len=mixer.max_len, hidden_dim=mixer.hidden_dim).double()
    plain.load_state_dict(mixer.state_dict())
    return plain


@pytest.mark.parametrize("window", [None, 2])
def test_every_parameter_of_the_causal_form_gets_a_gradient(window: int | None) -> None:
    mixer = causal(window=window)
    x = torch.randn(1, MAX_LEN, DIM, dtype=torch.float64)
    (mixer(x, torch.ones(1, MAX_LEN, dtype=torch.bool)) ** 2).sum().backward()
    for name, parameter in mixer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_causal_form_in_half_precision(dtype: torch.dtype) -> None:
    mixer = causal(hidden_dim=20, window=3).to(dtype)
    x = torch.randn(2, MAX_LEN, DIM, dtype=torch.float64).to(dtype)
    mask = torch.arange(MAX_LEN)[None] < torch.tensor([[MAX_LEN], [4]])
    y = mixer(x, mask)
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), mixer.double()(x.double(), mask), rtol=0, atol=0.02)


@pytest.mark.parametrize("length", [1, 4, MAX_LEN])
@pytest.mark.parametrize("hidden_dim", SIZES)
def test_flops_of_the_causal_form_are_those_that_are_counted(hidden_dim: int, length: int) -> None:
    mixer = causal(hidden_dim=hidden_dim)
    x = torch.randn(2, length, DIM, dtype=torch.float64)
    with FlopCounterMode(display=False) as counter:
        mixer(x, torch.ones(2, length, dtype=torch.bool))
    assert mixer.flops(2, length) == counter.get_total_flops()


def test_a_window_without_the_causal_form_is_refused() -> None:
    with pytest.raises(ConfigError, match="window = 3 is for the causal form"):
        TokenMLPConfig(window=3).build(DIM, MAX_LEN)
