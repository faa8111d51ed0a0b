"""Recurrent layers, which read a text token by token: LSTM and QRNN, for comparison."""

from __future__ import annotations

from typing import Literal, cast

import torch
from jaxtyping import Bool, Float
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.layers.masks import real
from mixling.layers.mixer import DEFAULT_MAX_LEN, Mixer, State, wide
from mixling.layers.recurrence import recur
from mixling.networks.mixer import MixerConfig


class LSTM(nn.Module):
    """i, f, g, o = W x_t + U h_{t-1} + b; c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g); h_t = sigmoid(o) tanh(c_t)."""

    def __init__(self, *, dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.macs = 4 * hidden_dim * (dim + hidden_dim)  # of one token
        self.hidden_dim = hidden_dim
        self.cell = nn.LSTM(dim, hidden_dim, batch_first=True)

    def forward(self, x: Float[Tensor, "B N I"]) -> Float[Tensor, "B N H"]:
        return self._onnx(x) if torch.onnx.is_in_onnx_export() else self.cell(x)[0]

    def _onnx(self, x: Float[Tensor, "B N I"]) -> Float[Tensor, "B N H"]:
        """ONNX's LSTM, with gates in the order i, o, f, g; torch 2.13's own export of nn.LSTM fixes the length."""
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        parts = [self.cell.get_parameter(name).chunk(4) for name in names]
        w, r, *b = (torch.cat([i, o, f, g])[None] for i, f, g, o in parts)
        batch, length, _ = x.shape
        last = (1, batch, self.hidden_dim)
        y, _, _ = torch.onnx.ops.symbolic_multi_out(
            "LSTM",
            (x.transpose(0, 1), w, r, torch.cat(b, 1)),
            {"hidden_size": self.hidden_dim},
            dtypes=(x.dtype, x.dtype, x.dtype),
            shapes=((length, *last), last, last),
        )
        return y[:, 0].transpose(0, 1)

    def start(self, like: Tensor) -> tuple[Tensor, ...]:
        zeros = like.new_zeros(len(like), self.hidden_dim)
        return zeros, zeros

    def step(self, x: Float[Tensor, "B I"], state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        h, c = (item[None] for item in state)
        y, (h, c) = self.cell(x[:, None], (h, c))
        return y[:, 0], (h[0], c[0])


class QRNN(nn.Module):
    """z, f, o = W [x_{t-w+1} .. x_t] + b; c_t = sigmoid(f) c_{t-1} + (1 - sigmoid(f)) tanh(z); h_t = sigmoid(o) c_t.

    W (3 H, w I) is the convolution; zeros precede the text.
    """

    def __init__(self, *, dim: int, hidden_dim: int, window: int, max_len: int) -> None:
        super().__init__()
        self.macs = 3 * hidden_dim * window * dim
        self.dim = dim
        self.hidden_dim = hidden_dim
        self.window = window
        self.max_len = max_len
        self.gates = nn.Linear(window * dim, 3 * hidden_dim)

    def forward(self, x: Float[Tensor, "B N I"]) -> Float[Tensor, "B N H"]:
        length = x.shape[1]
        padded = F.pad(x, (0, 0, self.window - 1, 0))
        keep, new, out = self._gates(torch.cat([padded[:, k : k + length] for k in range(self.window)], -1))
        c = recur(keep, new, longest=length if isinstance(length, int) else self.max_len)  # an open length is no number
        return out * c.to(out.dtype)

    def start(self, like: Tensor) -> tuple[Tensor, ...]:
        dtype = torch.promote_types(like.dtype, torch.float32)
        past = like.new_zeros(len(like), self.window - 1, self.dim)
        return past, like.new_zeros(len(like), self.hidden_dim, dtype=dtype)

    def step(self, x: Float[Tensor, "B I"], state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        past, c = state
        seen = torch.cat([past, x[:, None]], 1)
        keep, new, out = self._gates(seen.flatten(1))
        c = keep * c + new
        return out * c.to(out.dtype), (seen[:, 1:], c)

    def _gates(self, windows: Float[Tensor, "... W"]) -> tuple[Tensor, Tensor, Tensor]:
        z, f, o = self.gates(windows).chunk(3, -1)
        f = wide(f)  # half precision cannot keep c for long
        return f.sigmoid(), (-f).sigmoid() * z.tanh(), o.sigmoid()


class Recurrent(Mixer):
    """H_l = [cell_l(H_{l-1}) | reverse(cell'_l(reverse(H_{l-1})))] for each layer l, H_0 = X; Y = H_L W_p + b_p.

    Each cell has H units; W_p (2 H, D), or (H, D) in one direction, is there only where the width is not D.
    Cost is O(N * H * (D + H)) for the LSTM, one token after the other, and O(N * w * D * H) for the QRNN, whose only
    step by step part is elementwise. `flops` counts the products that torch takes one by one in float64; its counter
    does not see into the fused LSTM of float32. Sources: LSTM as torch.nn.LSTM; QRNN: Bradbury et al. 2017, section 2,
    fo-pooling; pQRNN is the bidirectional QRNN.
    Decided beyond the papers: the backward direction reads each text from its own last token, so that padding, which
    follows the text, changes nothing. An exported QRNN is exact for texts of up to `max_len` tokens.

    Args:
        dim: D, the width of the tokens.
        max_len: tokens of the longest input to an exported QRNN.
        cell: the recurrent layer.
        hidden_dim: H, units of each direction; None: D.
        num_layers: recurrent layers, one on another.
        bidirectional: read each text backwards too; False in the causal form.
        window: tokens that a gate of the QRNN sees; None: 2.
    """

    def __init__(
        self,
        *,
        dim: int,
        max_len: int = DEFAULT_MAX_LEN,
        cell: Literal["lstm", "qrnn"] = "lstm",
        hidden_dim: int | None = None,
        num_layers: int = 1,
        bidirectional: bool = True,
        window: int | None = None,
    ) -> None:
        super().__init__()
        hidden_dim = hidden_dim or dim

        def make_cell(width: int) -> LSTM | QRNN:
            if cell == "lstm":
                return LSTM(dim=width, hidden_dim=hidden_dim)
            return QRNN(dim=width, hidden_dim=hidden_dim, window=window or 2, max_len=max_len)

        self.dim = dim
        self.bidirectional = bidirectional
        self.width = hidden_dim * (2 if bidirectional else 1)
        widths = [dim] + [self.width] * (num_layers - 1)
        self.forwards = nn.ModuleList(make_cell(width) for width in widths)
        self.backwards = nn.ModuleList(make_cell(width) for width in widths if bidirectional)
        self.project = None if self.width == dim else nn.Linear(self.width, dim)

    def mix(self, x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        x = real(x, mask)  # a gradient of zero times a value that is not finite would not be zero
        for layer, ahead in enumerate(self.forwards):
            y = ahead(x)
            if self.bidirectional:
                y = torch.cat([y, _reverse(self.backwards[layer](_reverse(x, mask)), mask)], -1)
            x = y
        return x if self.project is None else self.project(x)

    def flops(self, batch: int, length: int, context_length: int | None = None) -> int:
        macs = sum(cell.macs for cell in [*self.forwards, *self.backwards])
        operations: int = 2 * batch * length * (macs + (0 if self.project is None else self.width * self.dim))
        return operations

    def initial_state(self, like: Float[Tensor, "B D"]) -> State:
        return _named([cell.start(like) for cell in self._cells()])

    def step(self, x: Float[Tensor, "B D"], state: State) -> tuple[Float[Tensor, "B D"], State]:
        states = []
        for layer, cell in enumerate(self._cells()):
            x, after = cell.step(x, (state[f"{layer}.0"], state[f"{layer}.1"]))
            states.append(after)
        return x if self.project is None else self.project(x), _named(states)

    def _cells(self) -> list[LSTM | QRNN]:
        return cast("list[LSTM | QRNN]", list(self.forwards))


def _named(states: list[tuple[Tensor, ...]]) -> State:
    return {f"{layer}.{i}": item for layer, items in enumerate(states) for i, item in enumerate(items)}


def _reverse(x: Float[Tensor, "B N D"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
    """Reverse the real tokens of each text; padding stays after them."""
    positions = torch.arange(x.shape[1], device=x.device)
    mirrored = torch.where(mask, mask.sum(1, keepdim=True) - 1 - positions, positions)
    return x.gather(1, mirrored[..., None].expand_as(x))


class RecurrentConfig(MixerConfig):
    """An LSTM or QRNN; the causal form reads in one direction and needs `bidirectional` false."""

    type: Literal["recurrent"] = "recurrent"
    cell: Literal["lstm", "qrnn"] = Field(default="lstm", description="the recurrent layer")
    hidden_dim: int | None = Field(default=None, ge=1, description="units of each direction; None: the width")
    num_layers: int = Field(default=1, ge=1, description="recurrent layers, one on another")
    bidirectional: bool = Field(default=True, description="read each text backwards too; False in the causal form")
    window: int | None = Field(
        default=None, ge=1, description="tokens that a gate of the QRNN sees, 2 by default; the LSTM has none"
    )

    @model_validator(mode="after")
    def _window_has_a_use(self) -> RecurrentConfig:
        if self.cell == "lstm" and self.window is not None:
            raise ValueError(f"window = {self.window} is of the QRNN; leave it out, or set cell = 'qrnn'")
        return self

    @property
    def supports_causal(self) -> bool:  # type: ignore[override]
        return not self.bidirectional

    def _build(self, dim: int, max_len: int, causal: bool) -> Recurrent:
        return Recurrent(dim=dim, max_len=max_len, **self.model_dump(exclude={"type"}))
