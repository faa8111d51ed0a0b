"""The product with a Toeplitz matrix of N x N as mixling takes it, beside the matrix and the FFT, for every N.

    OMP_NUM_THREADS=1 python benchmarks/toeplitz.py

One core, float32, the ways in one process, in another order each round; medians of the processor's milliseconds (other
work on the machine does not count), forward and forward + backward (gradients of the matrix's numbers and of the
tokens). All give the tokens' own layout. Written to benchmarks/results/toeplitz.json.

- chosen: `toeplitz_product`, which takes `matrix` below FFT_FROM and `chunks` from there on;
- matrix: the strided matrix and torch.bmm; chunks: the FFT by parts that fit a core's cache, with its own backward;
- plain matrix, plain fft: the strided matrix and `@`; one FFT of the whole batch; both left to autograd.

`ratio` is chosen / the fastest of all the others. A way that takes 5 times the fastest is left out after two calls.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from side_by_side import Calls, arguments, in_turn, on_one_core
from torch import Tensor

from mixling.layers import FFT_FROM, positions, toeplitz, toeplitz_product
from mixling.provenance import provenance

LENGTHS = (32, 48, 64, 96, 128, 192, 256, 320, 352, 384, 416, 448, 512, 640, 768, 1024, 1536, 2048, 3072, 4096, 8192)
SHAPES = ((1, 256), (1, 1536), (16, 256), (16, 1536))  # batch, width
MOST_FLOATS = 16 * 1536 * 1024  # of the tokens
Way = Callable[[Tensor, Tensor], Tensor]


def by_matrix(values: Tensor, x: Tensor) -> Tensor:
    """The matrix, once for every text."""
    return torch.bmm(toeplitz(values, x.shape[1]).expand(x.shape[0], -1, -1), x)


def by_chunks(values: Tensor, x: Tensor) -> Tensor:
    """The FFT of parts."""
    product = positions._FFTProduct.apply if torch.is_grad_enabled() else positions._FFTProduct.forward
    return product(values, x)


def by_plain_matrix(values: Tensor, x: Tensor) -> Tensor:
    """The matrix, and torch decides."""
    return toeplitz(values, x.shape[1]) @ x


def by_plain_fft(values: Tensor, x: Tensor) -> Tensor:
    """One circular convolution of the whole batch, of a size that is fast."""
    length, size = x.shape[1], positions._fft_size(len(values))
    spectrum = torch.fft.rfft(x.mT, size) * torch.fft.rfft(values.flip(0), size)
    return torch.fft.irfft(spectrum, size)[..., length - 1 : 2 * length - 1].mT.contiguous()


WAYS: dict[str, Way] = {
    "chosen": toeplitz_product,
    "matrix": by_matrix,
    "chunks": by_chunks,
    "plain matrix": by_plain_matrix,
    "plain fft": by_plain_fft,
}


def run(way: Way, values: Tensor, x: Tensor, grad: Tensor | None) -> None:
    """One call, with its backward pass if there is a gradient."""
    values.grad = x.grad = None
    with torch.set_grad_enabled(grad is not None):
        y = way(values, x)
    if grad is not None:
        y.backward(grad)


def evaluate(batch: int, width: int, length: int, backward: bool, seconds: float) -> dict[str, Any]:
    """The medians of all ways at one size, and the ratio."""
    values = torch.randn(2 * length - 1, requires_grad=backward)
    x = torch.randn(batch, length, width, requires_grad=backward)
    grad = torch.randn(batch, length, width) if backward else None
    calls: Calls = {name: partial(run, way, values, x, grad) for name, way in WAYS.items()}
    first = {name: times[0] for name, times in in_turn(calls, 1, time.process_time).items()}
    calls = {name: call for name, call in calls.items() if name == "chosen" or first[name] <= 5 * min(first.values())}
    rounds = min(200, max(7, round(seconds / sum(first[name] for name in calls))))
    spent = in_turn(calls, rounds, time.process_time)
    medians = {name: 1e3 * statistics.median(times) for name, times in spent.items()}
    ratio = medians["chosen"] / min(value for name, value in medians.items() if name != "chosen")
    return {
        "batch": batch,
        "width": width,
        "length": length,
        "backward": backward,
        "rounds": len(spent["chosen"]),
        "ms": {name: round(value, 4) for name, value in medians.items()},
        "ratio": round(ratio, 3),
    }


def main() -> None:
    """Measure and write."""
    parser = arguments(__doc__, "toeplitz")
    parser.add_argument("--seconds", type=float, default=1.5, help="for each size; 7 rounds at least")
    options = parser.parse_args()
    on_one_core()
    made = provenance(seed=0)
    sizes = []
    for batch, width in SHAPES:
        for length in LENGTHS:
            for backward in (False, True):
                if batch * width * length <= MOST_FLOATS:
                    sizes.append(evaluate(batch, width, length, backward, options.seconds))
                    print(json.dumps(sizes[-1]), flush=True)
    ratios = sorted(size["ratio"] for size in sizes)
    report = {
        "fft_from": FFT_FROM,
        "ratio": {"median": statistics.median(ratios), "worst": ratios[-1], "over 1.1": sum(r > 1.1 for r in ratios)},
        "sizes": sizes,
        "provenance": made,
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report["ratio"]))


if __name__ == "__main__":
    main()
