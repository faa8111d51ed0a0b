"""All figures of a GPU, by one command of less than six minutes; what the time does not allow is listed as left out.

    python benchmarks/gpu.py

In bfloat16, 65,536 tokens a batch, all of them real. Calls of a table take turns, and each one waits for the card:
- gemm: the rate of a large matrix product, of which the others are a share;
- exactness: mixers on the card beside the processor, in float32; and gradients of attention with very low scores;
- mixers: forward, and forward with backward, by length, beside torch's attention with its four projections ("sdpa").
  It is Figure 2 of HyperMixer on a GPU; attention and the causal forms are the library's;
- compiled: the same by torch.compile, of which the lengths stay open;
- padded: attention with texts that fill three quarters of the batch, by lengths beside a mask;
- toeplitz: the product by the matrix and by the FFT;
- pretraining: steps of `Trainer`, with the making of batches, beside transformers' BERT as large as bert-large, and the
  steps of a small model on the card and on the processor;
- borders: what FFT_FROM_ON_GPU, GPU_OPERATIONS and COMPILE_WEIGHTS should be by these; printed at the end.
`--tiny` runs all of it in seconds on a processor, on sizes that say nothing. Written to benchmarks/results/gpu.json.
"""

from __future__ import annotations

import copy
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from gpu_run import Run, milliseconds
from gpu_steps import border, borders, pretraining
from side_by_side import Calls, arguments, in_turn
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.layers import positions, toeplitz
from mixling.mixers import attention, mixer_config
from mixling.provenance import provenance
from mixling.storage import write_json

MIXERS: dict[str, dict[str, Any]] = {
    "hypermixing": {"type": "hypermixing", "hidden_dim": 512},
    "attention": {"type": "attention"},
    "attention, biases": {"type": "attention", "positions": {"num_buckets": 32}},
    "attention, causal": {"type": "attention", "causal": True},
    "hypermixing, causal": {"type": "hypermixing", "hidden_dim": 512, "causal": True},
    "spatial gating": {"type": "spatial_gating", "ffn_dim": 3072},
    "linear attention": {"type": "linear_attention"},
}
LONGEST = {"hypermixing, causal": 2048, "spatial gating": 2048, "attention, biases": 8192}


class Sdpa(nn.Module):
    """One projection to queries, keys and values, torch's attention without a mask, one output projection."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.heads = max(1, dim // 64)
        self.inner, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.inner(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2))


def gemm(run: Run) -> float:
    """Operations a second of the best of a few products."""
    size = 64 if run.tiny else 8192
    a, b = (torch.randn(size, size, device=run.device, dtype=torch.bfloat16) for _ in range(2))
    calls: Calls = {"product": lambda: (a @ b, run.wait())}
    return 2 * size**3 / min(in_turn(calls, 30, time.perf_counter)["product"])


def modules(run: Run, length: int) -> Iterator[tuple[str, nn.Module]]:
    """The mixers that are timed at a length, and the rival."""
    yield "sdpa", run.half(Sdpa(run.dim))
    for name, options in MIXERS.items():
        if length <= LONGEST.get(name, length):
            values = dict(options)
            causal = values.pop("causal", False)
            if options["type"] == "attention":
                values["num_heads"] = max(1, run.dim // 64)
            yield name, run.half(mixer_config(values).build(run.dim, length, causal=causal))


def passes(module: Any, x: Tensor) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A pass forward without gradients, and one with backward."""

    def forward() -> None:
        with torch.no_grad():
            module(x)

    def both() -> None:
        y = module(x)
        y.backward(torch.ones_like(y))

    return forward, both


def mixers(run: Run, *, compiled: bool) -> list[dict[str, Any]]:
    """Milliseconds by length, and how many times as fast as torch's attention."""
    rows = []
    for length in run.lengths:
        batch = max(1, run.tokens // length)
        x = torch.randn(batch, length, run.dim, device=run.device, dtype=torch.bfloat16, requires_grad=True)
        row: dict[str, Any] = {"length": length, "batch": batch}
        for number, way in enumerate(("forward", "with backward")):
            calls = {}
            for name, module in modules(run, length):
                if not compiled or ("causal" not in name and "biases" not in name):
                    calls[name] = passes(run.compiled(module) if compiled else module, x)[number]
            what = f"mixers{', compiled' if compiled else ''}, {length} tokens, {way}"
            times = milliseconds(run, calls, what) if run.allows(what, 30 if compiled and not run.tiny else 1) else {}
            base = times.get("sdpa")
            row[way] = times
            row[f"{way}, times as fast as sdpa"] = {name: round(base / t, 3) for name, t in times.items() if t and base}
        rows.append(row)
        print(row, flush=True)
    return rows


def exactness(run: Run) -> dict[str, Any]:
    """Largest difference of outputs and gradients in float32, by the largest; and whether low scores are safe."""
    found: dict[str, Any] = {}
    length = run.lengths[0] + 3
    mask = torch.arange(length) < torch.tensor([length, length // 2, 0])[:, None]
    drawn = torch.randn(3, length, run.dim)
    for name, module in modules(run, length):
        if name == "sdpa":
            continue
        results = []
        for device in (torch.device("cpu"), run.device):
            mixer = copy.deepcopy(module).to(device, torch.float32)
            x = drawn.to(device).requires_grad_()
            y = mixer(x, mask.to(device))[mask.to(device)]
            results.append([item.detach().cpu() for item in (y, *torch.autograd.grad(y.square().sum(), x))])
        errors = [float((a - b).abs().max() / a.abs().max()) for a, b in zip(*results, strict=True)]
        found[name] = {"output": errors[0], "gradient": errors[1]}
        if name.startswith("attention"):
            with torch.no_grad():
                module.query.bias.fill_(40.0)
                module.key.bias.fill_(-40.0)
            x = drawn.to(run.device, torch.bfloat16).detach().requires_grad_()
            (grad,) = torch.autograd.grad(module(x, mask.to(run.device)).float().square().sum(), x)
            found[name]["finite with very low scores"] = bool(grad.isfinite().all())
    return found


def toeplitz_ways(run: Run) -> dict[str, Any]:
    """Milliseconds of the product with backward, by the matrix and by the FFT."""
    rows = {}
    for length in (8, 16) if run.tiny else (1024, 2048, 4096, 8192, 16_384):
        x = torch.randn(max(1, run.tokens // length), length, run.dim, device=run.device, requires_grad=True)
        values = torch.randn(2 * length - 1, device=run.device, requires_grad=True)
        half = x.detach().bfloat16().requires_grad_()

        def by_matrix(values: Tensor = values, x: Tensor = half) -> None:
            matrix = toeplitz(values.bfloat16(), x.shape[1])
            torch.bmm(matrix.expand(len(x), -1, -1), x).sum().backward()

        def by_fft(values: Tensor = values, x: Tensor = x) -> None:
            positions._FFTProduct.apply(values, x).sum().backward()

        rows[str(length)] = milliseconds(run, {"matrix": by_matrix, "fft": by_fft}, f"toeplitz, {length} tokens")
    return rows


def padded(run: Run) -> list[dict[str, Any]]:
    """Milliseconds of attention, forward and backward, where texts are given by their lengths and by a mask."""
    rows = []
    for length in run.lengths[:4]:
        batch = max(2, run.tokens // length)
        x = torch.randn(batch, length, run.dim, device=run.device, dtype=torch.bfloat16, requires_grad=True)
        sizes = torch.linspace(length // 2, length, batch, device=run.device)[:, None]
        mask = torch.arange(length, device=run.device) < sizes
        mixer = run.half(mixer_config({"type": "attention", "num_heads": max(1, run.dim // 64)}).build(run.dim, length))

        def both(*, by_lengths: bool, mixer: nn.Module = mixer, x: Tensor = x, mask: Tensor = mask) -> None:
            before = attention.takes_lengths
            attention.takes_lengths = before if by_lengths else lambda *_: False
            try:
                mixer(x, mask).sum().backward()
            finally:
                attention.takes_lengths = before

        calls = {"lengths": lambda both=both: both(by_lengths=True), "mask": lambda both=both: both(by_lengths=False)}
        rows.append({"length": length, "batch": batch, **milliseconds(run, calls, f"padded, {length} tokens")})
    return rows


def main(given: list[str] | None = None) -> None:
    """Measure and write."""
    parser = arguments(__doc__, "gpu")
    parser.add_argument("--tiny", action="store_true", help="on a processor, in seconds, without a figure that counts")
    options = parser.parse_args(given)
    if not options.tiny and not torch.cuda.is_available():
        raise SystemExit("error: no GPU; allowed without one: --tiny")
    if options.tiny:
        run = Run(torch.device("cpu"), tokens=64, dim=16, lengths=(8, 16), rounds=1, tiny=True)
    else:
        run = Run(torch.device("cuda"))
    torch.manual_seed(0)
    np.random.seed(0)
    made = provenance(seed=0, device=run.device.type, packages=("triton", "transformers"))
    with suppress(OSError):
        ask = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        made["hardware"]["driver"] = subprocess.run(ask, capture_output=True, text=True, check=False).stdout.strip()
    made["versions"]["cuda"] = torch.version.cuda
    rate = gemm(run)
    report: dict[str, Any] = {"tiny": run.tiny, "gemm_tflops": round(rate / 1e12, 3), "exactness": exactness(run)}
    report["pretraining"] = pretraining(run, rate)
    report["mixers"] = mixers(run, compiled=False)
    report["padded"] = padded(run)
    report["toeplitz"] = toeplitz_ways(run)
    report["border"] = border(run)
    report["compiled"] = mixers(run, compiled=True)
    report["borders"] = borders(report, run.device.type)
    print("borders", report["borders"], flush=True)
    report |= {"left_out": run.left_out, "seconds": round(time.monotonic() - run.begun), "provenance": made}
    write_json(options.out, report)


if __name__ == "__main__":
    main()
