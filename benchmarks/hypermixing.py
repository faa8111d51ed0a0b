"""Speed of HyperMixing beside torch's own scaled-dot-product attention with its four projections, on one core.

    python benchmarks/hypermixing.py

Width 256, 512 hidden units, tied, sinusoidal positions, output norm and a mask, against attention of 1, 4 and 8 heads
(8 is the default of torch.nn.Transformer) without a mask. Forward, in batches of 8,192 tokens: 256 texts of 32 to one
of 8,192; and steps of training, forward and backward, in batches of 64 texts of 12 to 128 tokens. "without native" is
the same layer by torch's operations, as where the native module is not built; "unchunked" is the equation with the
whole batch at once and nothing else done to it. All run in one process with one thread, in an order that is drawn anew
each round; times are CPU time, since a machine that does other work would add its waiting. A ratio is the median of the
rounds' ratios. The machine's limit is the rate of its float32 matrix product, in turn with the rest; "limit" is the
ratio that attention's least time would leave to a HyperMixing of nothing but matrix products at the best rate.
Then: time per token at 8,192 against 512, in turn; and building a layer of width 512 for 3,000 positions.
Written to benchmarks/results/hypermixing.json.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from side_by_side import Calls, arguments, in_turn, on_one_core, ratio
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.layers.precision import has_bfloat16
from mixling.mixers import HyperMixing, HyperMixingConfig, hypermixing
from mixling.provenance import provenance

DIM, HIDDEN, TOKENS = 256, 512, 8192
HEADS = (1, 4, 8)
RIVALS = (*(f"attention {n}" for n in HEADS), "without native", "unchunked")
LENGTHS = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
TRAINED = (12, 24, 48, 128)
TEXTS = 64
REACH = {
    "unchunked at 32": 1.8,
    "attention": {"256": 1.0, "512": 1.8, "2048": 4.0, "8192": 13.0},
    "over_512": 1.1,
    "build_ms": 20,
}


class Attention(nn.Module):
    """Four projections around torch's attention kernel."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query, self.key, self.value, self.out = (nn.Linear(DIM, DIM) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            linear(x).unflatten(2, (self.num_heads, -1)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        return self.out(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


def without_native(mixer: HyperMixing, x: Tensor, mask: Tensor) -> Tensor:
    """The layer by torch's operations."""
    usual, hypermixing.can_fuse = hypermixing.can_fuse, lambda *given: False
    try:
        return mixer(x, mask)
    finally:
        hypermixing.can_fuse = usual


def unchunked(mixer: HyperMixing, x: Tensor, mask: Tensor) -> Tensor:
    """LayerNorm(W gelu(W^T X)), line by line."""
    first, second = mixer.keys.first, mixer.keys.second
    x = x * mask[..., None]
    w = F.linear(F.gelu(F.linear(mixer.positions(x), first.weight, first.bias)), second.weight, second.bias)
    return mixer.norm(w @ F.gelu(w.mT @ x))


def rounds_in(calls: Calls, seconds: float) -> int:
    """How many rounds fit."""
    once = sum(values[0] for values in in_turn(calls, 1).values())
    return min(301, max(9, round(seconds / once)))


def layer(length: int, batch: int) -> tuple[HyperMixing, Tensor, Tensor]:
    """A layer and a batch for it."""
    mixer = HyperMixingConfig(hidden_dim=HIDDEN).build(DIM, length).eval()
    assert isinstance(mixer, HyperMixing)
    return mixer, torch.randn(batch, length, DIM), torch.ones(batch, length, dtype=torch.bool)


def evaluate(length: int, seconds: float) -> dict[str, Any]:
    """Medians, minima and ratios of one length."""
    batch = max(1, TOKENS // length)
    given = mixer, x, mask = layer(length, batch)
    a = torch.randn(1024, 1024)
    calls: Calls = {f"attention {n}": lambda m=Attention(n).eval(): m(x) for n in HEADS}
    calls |= {
        "hypermixing": lambda: mixer(x, mask),
        "without native": lambda: without_native(*given),
        "unchunked": lambda: unchunked(*given),
        "gemm": lambda: a @ a,
    }
    spent = in_turn(calls, rounds_in(calls, seconds))
    least = {name: min(values) for name, values in spent.items()}
    gflop = mixer.flops(batch, length) / 1e9
    rate = 2 * 1024**3 / 1e9 / least["gemm"]
    return {
        "length": length,
        "batch": batch,
        "rounds": len(spent["gemm"]),
        "median_ms": {name: round(1e3 * statistics.median(values), 2) for name, values in spent.items()},
        "min_ms": {name: round(1e3 * value, 2) for name, value in least.items()},
        "faster_than": {name: ratio(spent[name], spent["hypermixing"]) for name in RIVALS},
        "faster_than_by_minima": {name: round(least[name] / least["hypermixing"], 2) for name in RIVALS},
        "gflop": round(gflop, 3),
        "gemm_gflops": round(rate, 1),
        "share_of_gemm_rate": round(gflop / least["hypermixing"] / rate, 2),
        "limit": {f"attention {n}": round(least[f"attention {n}"] * rate / gflop, 2) for n in HEADS},
    }


def train(length: int, bfloat16: bool, seconds: float) -> dict[str, Any]:
    """Medians and ratios of steps of training."""
    mixer, x, mask = layer(length, TEXTS)
    mixer.train()
    x.requires_grad_()
    attentions = {n: Attention(n) for n in HEADS}
    weights = torch.randn(TEXTS, length, DIM)

    def step(forward: Callable[[], Tensor]) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            out = forward()
        out.backward(weights.to(out.dtype))

    forwards: dict[str, Callable[[], Tensor]] = {f"attention {n}": lambda n=n: attentions[n](x) for n in HEADS}
    forwards |= {
        "hypermixing": lambda: mixer(x, mask),
        "without native": lambda: without_native(mixer, x, mask),
        "unchunked": lambda: unchunked(mixer, x, mask),
    }
    calls: Calls = {name: lambda forward=forward: step(forward) for name, forward in forwards.items()}
    spent = in_turn(calls, rounds_in(calls, seconds), time.process_time)
    return {
        "length": length,
        "batch": TEXTS,
        "precision": "bfloat16" if bfloat16 else "float32",
        "rounds": len(spent["hypermixing"]),
        "median_ms": {name: round(1e3 * statistics.median(values), 2) for name, values in spent.items()},
        "faster_than": {name: ratio(spent[name], spent["hypermixing"]) for name in RIVALS},
    }


def per_token(seconds: float) -> dict[str, Any]:
    """Time per token at 8,192 over that at 512, of batches of the same number of tokens and of single texts."""
    shapes = {"8192": (8192, 1), "512": (512, 16), "512, one text": (512, 1)}
    calls: Calls = {}
    for name, shape in shapes.items():
        mixer, x, mask = layer(*shape)
        calls[name] = lambda mixer=mixer, x=x, mask=mask: mixer(x, mask)
    spent = in_turn(calls, rounds_in(calls, seconds))
    each = {name: [value / math.prod(shapes[name]) for value in values] for name, values in spent.items()}
    return {
        "us_per_token": {name: round(1e6 * statistics.median(values), 2) for name, values in each.items()},
        "over_512": ratio(each["8192"], each["512"]),
        "over_512_one_text": ratio(each["8192"], each["512, one text"]),
    }


def building() -> float:
    """Milliseconds to build a layer."""
    config = HyperMixingConfig(hidden_dim=HIDDEN)
    return round(1e3 * statistics.median(in_turn({"build": lambda: config.build(512, 3000)}, 21)["build"]), 2)


def main() -> None:
    """Measure and write."""
    parser = arguments(__doc__, "hypermixing")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each shape")
    options = parser.parse_args()
    on_one_core()
    made = provenance(seed=0)
    rows = []
    with torch.inference_mode():
        for length in options.lengths:
            rows.append(evaluate(length, options.seconds))
            print(json.dumps(rows[-1]), flush=True)
        report: dict[str, Any] = {
            "dim": DIM,
            "hidden_dim": HIDDEN,
            "reach": REACH,
            "lengths": rows,
            "time_per_token": per_token(options.seconds),
            "build_ms": building(),
        }
    halves = (False, True) if has_bfloat16(torch.device("cpu")) else (False,)
    report["training"] = [train(length, half, options.seconds) for half in halves for length in TRAINED]
    for row in report["training"]:
        print(json.dumps(row), flush=True)
    print(json.dumps({name: report[name] for name in ("time_per_token", "build_ms")}))
    report["provenance"] = made
    options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
