"""Positions: vectors added to tokens, biases by distance, and products with Toeplitz matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from mixling.config import Config
from mixling.errors import ConfigError

if TYPE_CHECKING:
    Size = int
else:
    Size = int | torch.SymInt  # a length that stays open while a graph is exported


_T5_DISTANCE = 128
# Products with Toeplitz matrices of this size and more use the FFT: benchmarks/toeplitz.py times both ways for every N,
# in float32 on one core, forward and with backward, at widths 256 and 1536 and batches of 1 and 16.
FFT_FROM = 384
# On a GPU the matrix is for matrix units, and the FFT is not: 6.1 ms for .33 ms of arithmetic at 512 tokens of 3,072
# channels (H200). From where on the FFT is faster there no card has measured.
FFT_FROM_ON_GPU = 4096
# Floats of one transform, so that it stays in a core's cache: from 2^16 to 2^19 the time is the same; the whole batch
# at once takes up to 3 times as long.
_FFT_CHUNK = 1 << 18


class Positions(nn.Module):
    """x_i + p_i.

    "sinusoidal": p[2k] = sin(i / 10000^(2k/D)), p[2k+1] = cos of the same (Transformer, section 3.5), without scaling
    of x; positions beyond a table of max_len rows are computed. "learned": a table of max_len rows that starts at
    N(0, 0.02^2); "none": x.

    Args:
        kind: "none", "sinusoidal" or "learned".
        dim: D, the width of the tokens.
        max_len: rows of the table; of learned positions also the longest input.
    """

    def __init__(self, kind: Literal["none", "sinusoidal", "learned"], *, dim: int, max_len: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_len, dim)) if kind == "learned" else None
        if self.weight is not None:
            nn.init.normal_(self.weight, std=0.02)
        self.table: Tensor | None
        table = _sinusoidal(torch.arange(max_len), dim) if kind == "sinusoidal" else None
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Float[Tensor, "B N D"], start: int = 0) -> Float[Tensor, "B N D"]:
        """Add the positions from `start` on.

        Raises:
            ConfigError: positions are learned, and end before the tokens do.
        """
        end = start + x.shape[1]
        if self.weight is not None:
            if not torch.compiler.is_compiling() and end > len(self.weight):  # one row would be added to all tokens
                raise ConfigError(
                    f"learned positions: got {end} tokens, built for at most {len(self.weight)}; "
                    "build the model with a larger max_len, or cut the input"
                )
            rows = self.weight[start:end]
        elif self.table is None:
            return x
        elif torch.compiler.is_compiling() or end > len(self.table):  # a table would bound the lengths of a graph
            rows = _sinusoidal(torch.arange(start, end, device=x.device), x.shape[2])
        else:
            rows = self.table[start:end]
        return x + rows.to(x.dtype)


class PublishedPositions(nn.Module):
    """sqrt(D) x_i + p_i, p[2k] = sin((i + 1) / 10000^(4k/D)), p[2k+1] = cos((i + 1) / 10000^((4k+2)/D)).

    The positions of HyperMixer's published code (idiap/hypermixing), which differ from the paper's: x is scaled,
    positions are counted from 1, and the exponent grows twice as fast.
    """

    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.weight = None

    def forward(self, x: Float[Tensor, "B N D"], start: int = 0) -> Float[Tensor, "B N D"]:
        """Scale the tokens, and add the positions from `start` on."""
        numbers = torch.arange(start + 1, start + x.shape[1] + 1, device=x.device).double()
        rates, phases = (torch.tensor(part, dtype=torch.float64, device=x.device) for part in self.turns())
        turns = numbers[:, None] * rates + phases
        rows = ((turns - turns.round()).float() * (2 * math.pi)).sin()
        return x * math.sqrt(self.dim) + rows.to(x.dtype)

    def turns(self) -> tuple[list[float], list[float]]:
        """Return the turns by position of each channel, and at which turn it starts: a cosine leads by a quarter."""
        rates = [10_000.0 ** (-2 * channel / self.dim) / (2 * math.pi) for channel in range(self.dim)]
        return rates, [channel % 2 / 4 for channel in range(self.dim)]


def _sinusoidal(positions: Int[Tensor, " N"], dim: int) -> Float[Tensor, "N D"]:
    """Return single precision of angles in double precision: at position 10^6 single angles are off by 0.1."""
    rates = torch.exp(torch.arange(0, dim, 2, device=positions.device).double() * (-math.log(10_000.0) / dim))
    turns = positions.double()[:, None] * (rates / (2 * math.pi))
    angles = (turns - turns.round()).float() * (2 * math.pi)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :dim]


class RelativePositions(Config):
    """Biases by distance, added to scores."""

    num_buckets: int | None = Field(
        default=None,
        ge=4,
        multiple_of=2,
        description="T5 has 32; None: one for each distance, which fixes the longest input",
    )
    max_distance: int | None = Field(
        default=None, ge=1, description="where the last bucket begins; T5's and the default: 128"
    )
    shared: bool = Field(default=False, description="all layers of a stack use the biases of the first, as T5's do")
    init: Literal["zero", "alibi"] = Field(
        default="zero", description="what they begin with; alibi: near keys weigh more"
    )

    @model_validator(mode="after")
    def _buckets_grow(self) -> RelativePositions:
        if self.num_buckets is None and self.max_distance is not None:
            raise ValueError(f"max_distance = {self.max_distance} is of buckets; set num_buckets, or leave it out")
        # Half of the buckets, or all in the causal form, and of these the first half are of single distances.
        if self.num_buckets is not None and (self.max_distance or _T5_DISTANCE) <= self.num_buckets // 2:
            raise ValueError(
                f"max_distance: got {self.max_distance or _T5_DISTANCE}; with num_buckets = {self.num_buckets} it must "
                f"be over {self.num_buckets // 2}"
            )
        return self


def shared_positions(positions: RelativePositions | None, num_heads: int) -> dict[str, Any] | None:
    """Return `MixerConfig.shared_positions` of a mixer with biases by distance."""
    if positions is None or not positions.shared:
        return None
    return {"num_heads": num_heads, "positions": positions.to_dict()}


class RelativeBias(nn.Module):
    """A bias for each head and each distance j - i between key and query.

    They start at zero or, with `init = "alibi"`, at -2^(-8 h / H) |j - i| for head h = 1..H (Press et al. 2022), and
    are trained from there: from zero, AdamW needs thousands of steps to learn to look at neighbors.

    With buckets they are T5's (section 2.1): one half of the buckets for keys up to the query, the other for later keys
    (all for keys up to the query, if causal). The first half of each are single distances, the others grow
    logarithmically up to `max_distance`, and the last is for all beyond. As in T5, the first bucket of the later half
    belongs to no distance and is never read, unless causal.
    Without buckets every distance has its own bias: 2 max_len - 1 of them, or max_len if causal.

    Args:
        positions: buckets and start.
        num_heads: H.
        max_len: tokens of the longest input; buckets take longer ones.
        causal: there are no later keys.
    """

    rows: Tensor

    def __init__(self, positions: RelativePositions, *, num_heads: int, max_len: int, causal: bool = False) -> None:
        super().__init__()
        num_buckets = positions.num_buckets
        max_distance = positions.max_distance or _T5_DISTANCE
        self.reach = max_len - 1 if num_buckets is None else max(max_distance, max_len)
        self.bucketed = num_buckets is not None
        distances = torch.arange(-self.reach, self.reach + 1)
        if num_buckets is None:
            rows = distances.clamp(max=0 if causal else self.reach) + self.reach
        else:
            rows = _t5_buckets(distances, num_buckets=num_buckets, max_distance=max_distance, causal=causal)
        # A table, since a logarithm that is rounded differently on another machine moves distances to other buckets.
        self.register_buffer("rows", rows, persistent=False)
        self.weight = nn.Parameter(torch.zeros(num_buckets or (max_len if causal else 2 * max_len - 1), num_heads))
        if positions.init == "alibi":
            slopes = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
            near = -slopes * distances.abs()[:, None]  # of a bucket the nearest distance counts
            none = torch.full_like(self.weight, -torch.inf)
            start = none.scatter_reduce(0, rows[:, None].expand_as(near), near, "amax")
            self.weight.data.copy_(torch.where(start.isinf(), 0.0, start))  # T5's unused bucket

    def forward(self, queries: Size, keys: Size, start: int = 0) -> Float[Tensor, "H N M"]:
        """Return the biases of `queries` queries, the first at position `start`, on keys 0 to `keys` - 1."""
        if not torch.compiler.is_compiling() and max(start + queries - 1, keys - start - 1) <= self.reach:
            rows = self.rows[self.reach + 1 - start - queries : self.reach + keys - start]
            return toeplitz(self.weight[rows].mT, queries)
        distances = torch.arange(1 - start - queries, keys - start, device=self.weight.device)
        if self.bucketed:
            distances = distances.clamp(-self.reach, self.reach)
        return toeplitz(self.weight[self.rows[distances + self.reach]].mT, queries)


def _t5_buckets(
    distances: Int[Tensor, " R"], *, num_buckets: int, max_distance: int, causal: bool
) -> Int[Tensor, " R"]:
    number = num_buckets if causal else num_buckets // 2
    later = torch.zeros_like(distances) if causal else (distances > 0) * number
    far = (-distances).clamp(min=0) if causal else distances.abs()
    exact = number // 2
    ratio = (far.clamp(min=1) / exact).log() / math.log(max_distance / exact)
    logarithmic = (exact + (ratio * (number - exact)).to(far.dtype)).clamp(max=number - 1)
    return later + torch.where(far < exact, far, logarithmic)


def position_softmax(scores: Float[Tensor, "*K N N"], *, causal: bool) -> Float[Tensor, "*K N N"]:
    """Return the softmax of learned scores between the positions of a text without padding."""
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
    return scores.softmax(-1)


def toeplitz(values: Float[Tensor, "... R"], rows: Size) -> Float[Tensor, "... N M"]:
    """Return T[i, j] = values[N-1 + j - i], N = `rows` and M = R - N + 1: the last row begins with the first value."""
    number = values.shape[-1]
    columns = number - rows + 1
    if not torch.compiler.is_compiling():
        if rows == 1:
            return values[..., None, :]
        return values.unfold(-1, columns, 1).flip(-2)
    # Windows would fix the length of an exported graph. Here each row is a full turn of a ring of one more value: it
    # begins one value before the row above. The extra column is cut off.
    ring = torch.cat([values[..., rows - 1 :], values[..., :1], values[..., : rows - 1]], dim=-1)
    turns = ring[..., None, :].expand(*values.shape[:-1], rows, number + 1).flatten(-2)
    shifted: Tensor = turns[..., : rows * number].unflatten(-1, (rows, number))[..., :columns]
    return shifted


def toeplitz_product(values: Float[Tensor, " R"], x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
    """Return T X for T = toeplitz(values, N), R = 2N - 1: by the matrix in O(N^2 D), or the FFT in O(N log N D).

    The FFT computes half precision in float32, and is never part of an exported graph.
    """
    if torch.compiler.is_compiling() or x.shape[1] < (FFT_FROM if x.device.type == "cpu" else FFT_FROM_ON_GPU):
        kind = x.device.type
        if values.dtype == torch.float32 and kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind):
            values = values.to(torch.get_autocast_dtype(kind))  # once, not in a copy of the matrix for each text
        # not `@`, which multiplies a transposed copy of x: up to 1.3 times slower with gradients
        return torch.bmm(toeplitz(values, x.shape[1]).expand(x.shape[0], -1, -1), x)
    exact = torch.promote_types(torch.promote_types(x.dtype, values.dtype), torch.float32)
    # Without gradients what surrounds the transforms would take a sixth of the time of a small product.
    product = _FFTProduct.apply if torch.is_grad_enabled() else _FFTProduct.forward
    return product(values.to(exact), x.to(exact)).to(x.dtype)


class _FFTProduct(torch.autograd.Function):
    """Compute the product as a circular convolution, chunk by chunk; the spectra are not kept for the gradient."""

    generate_vmap_rule = True  # for torch.func

    @staticmethod
    def forward(values: Float[Tensor, " R"], x: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        length = x.shape[1]
        size = _fft_size(len(values))
        kernel = torch.fft.rfft(values.flip(0), size)
        y = torch.empty_like(x)
        for part in _chunks(x, size):
            spectrum = torch.fft.rfft(x[part].mT, size) * kernel
            y[part] = torch.fft.irfft(spectrum, size)[..., length - 1 : 2 * length - 1].mT
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Float[Tensor, "B N D"]) -> tuple[Float[Tensor, " R"], Float[Tensor, "B N D"]]:
        values, x = ctx.saved_tensors
        length = x.shape[1]
        size = _fft_size(len(values))
        kernel = torch.fft.rfft(values, size)  # not flipped: the transposed matrix
        grad_x = torch.empty_like(grad)
        correlation = torch.zeros_like(kernel)
        for part in _chunks(x, size):
            spectrum = torch.fft.rfft(grad[part].mT, size)
            grad_x[part] = torch.fft.irfft(spectrum * kernel, size)[..., length - 1 : 2 * length - 1].mT
            products = torch.fft.rfft(x[part].mT, size) * spectrum.conj()
            correlation = correlation + products.sum(tuple(range(products.ndim - 1)))
        # Distances key - query run from 1 - N to N - 1, the negative ones from the end of the circle.
        return torch.fft.irfft(correlation, size).roll(length - 1)[: len(values)], grad_x


def _chunks(x: Float[Tensor, "B N D"], size: int) -> Iterator[tuple[int | slice, ...]]:
    if x.device.type != "cpu":
        yield (slice(None),)
        return
    parts = -(-x.shape[2] * size // _FFT_CHUNK)
    channels = -(-x.shape[2] // parts)  # all parts alike
    for item in range(x.shape[0]):
        for first in range(0, x.shape[2], channels):
            yield item, slice(None), slice(first, first + channels)


def toeplitz_fft_flops(length: int, channels: int) -> int:
    """Estimate the operations of `toeplitz_product` by FFTs of real numbers; 0 where it multiplies by the matrix.

    Each channel has a transform, its inverse and a product of size / 2 complex numbers; w has a transform.
    """
    if length < FFT_FROM:
        return 0
    size = _fft_size(2 * length - 1)
    transform = 2.5 * size * math.log2(size)
    return round(transform + channels * (2 * transform + 3 * size))


def _fft_size(least: int) -> int:
    """Return the next m 2^k for small m: transforms of such sizes are fast."""
    return min(m << (-(-least // m) - 1).bit_length() for m in (1, 3, 5, 7, 9, 15, 25))
