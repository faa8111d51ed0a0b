"""All figures of a GPU, by one command of less than six minutes; what the time does not allow is listed as left out.

    python benchmarks/gpu.py

In bfloat16, 65,536 tokens a batch, all of them real. Calls of a table take turns, and each one waits for the card:
- gemm: the rate of a large matrix product, of which the others are a share;
- exactness: mixers on the card beside the processor, in float32; and gradients of attention with very low scores;
- mixers: forward, and forward with backward, by length, beside torch's attention with its four projections ("sdpa").
  It is Figure 2 of HyperMixer on a GPU; attention and the causal forms are the library's;
- compiled: the same by torch.compile, of which the lengths stay open;
- toeplitz: the product by the matrix and by the FFT, which FFT_FROM_ON_GPU is set by;
- pretraining: steps of `Trainer`, with the making of batches, beside transformers' BERT as large as bert-large, and the
  steps of a small model on the card and on the processor, which GPU_OPERATIONS is set by.
`--tiny` runs all of it in seconds on a processor, on sizes that say nothing. Written to benchmarks/results/gpu.json.
"""

from __future__ import annotations

import copy
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from pretraining import our_step, their_step
from side_by_side import Calls, arguments, in_turn
from torch import Tensor, nn
from torch.nn import functional as F

from mixling import PRESETS, ModelConfig, TrainConfig, model_config
from mixling.layers import positions, toeplitz
from mixling.mixers import mixer_config
from mixling.provenance import provenance
from mixling.storage import write_json
from mixling.training import Callback, OptimConfig, Step, Trainer

MINUTES = 5.5
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
MODELS = ("gmlp-base", "bert-large", "hypermixer", "gmlp-tiny")
RIVAL = "bert-large"  # its shape is also given to transformers


@dataclass
class Run:
    """Sizes, and the time that is left."""

    device: torch.device
    tokens: int = 65_536
    dim: int = 256
    lengths: tuple[int, ...] = (128, 512, 2048, 8192, 32_768)
    rounds: int = 11
    tiny: bool = False
    begun: float = field(default_factory=time.monotonic)
    left_out: list[str] = field(default_factory=list)

    def allows(self, what: str, seconds: float) -> bool:
        """Whether there is time for something that takes so long."""
        fits = time.monotonic() - self.begun + seconds < 60 * MINUTES
        if not fits:
            self.left_out.append(what)
        return fits

    def wait(self) -> None:
        """Let the card finish."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def half(self, module: nn.Module) -> nn.Module:
        """A module on the card, in bfloat16."""
        return module.to(self.device, torch.bfloat16).train()

    def compiled(self, module: Any) -> Any:
        """A module by torch.compile, of open lengths; as it is where sizes are tiny."""
        return module if self.tiny else torch.compile(module, dynamic=True)


class Sdpa(nn.Module):
    """One projection to queries, keys and values, torch's attention without a mask, one output projection."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.heads = max(1, dim // 64)
        self.inner, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.inner(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2))


def milliseconds(run: Run, calls: Calls, what: str) -> dict[str, float | None]:
    """Medians of calls that take turns; None: not enough memory."""
    fitting: Calls = {}
    times: dict[str, float | None] = {}
    for name, call in calls.items():
        times[name] = None
        with suppress(torch.OutOfMemoryError):
            call()
            run.wait()
            begin = time.perf_counter()
            call()
            run.wait()
            if run.allows(f"{what}: {name}", (run.rounds + 1) * (time.perf_counter() - begin)):
                fitting[name] = lambda call=call: (call(), run.wait())
    spent = in_turn(fitting, run.rounds, time.perf_counter)
    return times | {name: round(1e3 * statistics.median(values), 4) for name, values in spent.items()}


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


class Times(Callback):
    """When each step was done, and its tokens."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, int]] = []

    def stepped(self, step: Step) -> None:
        self.steps.append((time.perf_counter(), step.tokens))

    def rate(self) -> float:
        """Tokens a second, without the first fifth of the steps."""
        (begin, _), *rest = self.steps[len(self.steps) // 5 :]
        return sum(tokens for _, tokens in rest) / (rest[-1][0] - begin)


def trained(run: Run, name: str, *, batch: int, compiled: bool = False, device: str = "") -> tuple[dict[str, Any], Any]:
    """The rate of a model's steps of pretraining, and the data."""
    config: ModelConfig = PRESETS[name].config
    if run.tiny:
        config = model_config(name, {"num_layers": 1, "text": {"max_len": 16}})
    length = config.text.max_len
    _, data, model = our_step(config, 100 if run.tiny else 30_000, batch, length, torch.float32)
    steps = 5 if run.tiny else 25
    training = TrainConfig(
        steps=steps,
        batch_size=batch,
        device=device or run.device.type,
        compile="on" if compiled and not run.tiny else "off",
        precision="bfloat16",
        optim=OptimConfig(embedding_lr=1.0),
    )
    timer = Times()
    Trainer(model, data, training, callback=timer, last_step=steps).fit()
    subwords = model.embedding.weight.shape[0]
    products = model.encoder.flops(1, length) / length + 2 * 0.15 * config.dim * subwords
    rate = timer.rate()
    return {"batch": batch, "length": length, "tokens_per_second": round(rate), "flops": 3 * products * rate}, data


def pretraining(run: Run, rate: float) -> dict[str, Any]:
    """Tokens a second, and the share of the rate of a product."""
    found: dict[str, Any] = {}
    tokens = 64 if run.tiny else run.tokens
    for name in MODELS:
        for compiled in (True, False):
            key = f"{name}{', compiled' if compiled else ''}"
            if not run.allows(key, 0 if run.tiny else 60 if compiled else 25):
                continue
            length = 16 if run.tiny else PRESETS[name].config.text.max_len
            with suppress(torch.OutOfMemoryError):
                found[key], data = trained(run, name, batch=tokens // length, compiled=compiled)
                found[key]["share_of_gemm"] = round(found[key].pop("flops") / rate, 4)
                print(key, found[key], flush=True)
                if name == RIVAL and compiled:
                    theirs = f"transformers, as large as {name}, compiled"
                    if run.allows(theirs, 0 if run.tiny else 60):
                        found[theirs] = rival(run, data, tokens)
    return found


def rival(run: Run, data: Any, tokens: int) -> dict[str, Any]:
    """Tokens a second of transformers' BERT, which is given tensors that are ready; answers are of hidden tokens."""
    config = model_config(RIVAL, {"num_layers": 1} if run.tiny else {})
    config = config.model_copy(update={"text": config.text.model_copy(update={"max_len": data.length})})
    heads = config.blocks[0].mixers[0].num_heads
    kind = run.device.type
    step, _ = their_step(
        config, len(data.encoder.vocabulary), data, torch.bfloat16, gather=True, heads=heads, device=kind,
        compiled=run.compiled,
    )  # fmt: skip
    times = milliseconds(run, {"step": lambda: step(0)}, "transformers")
    seconds = (times["step"] or float("nan")) / 1e3
    return {"tokens_per_second": round(tokens / seconds)}


def border(run: Run) -> list[dict[str, Any]]:
    """Tokens a second of a small model on the card and on the processor, by texts a step."""
    rows = []
    for batch in (1, 2) if run.tiny else (1, 4, 16, 64):
        if run.allows(f"border, {batch} texts", 0 if run.tiny else 15):
            kinds = {kind: trained(run, "gmlp-tiny", batch=batch, device=kind)[0] for kind in ("cpu", run.device.type)}
            operations = kinds["cpu"]["flops"] / kinds["cpu"]["tokens_per_second"] * batch * kinds["cpu"]["length"]
            rates = {kind: row["tokens_per_second"] for kind, row in kinds.items()}
            rows.append({"batch": batch, "operations": operations, "tokens_per_second": rates})
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
    report["toeplitz"] = toeplitz_ways(run)
    report["border"] = border(run)
    report["compiled"] = mixers(run, compiled=True)
    report |= {"left_out": run.left_out, "seconds": round(time.monotonic() - run.begun), "provenance": made}
    write_json(options.out, report)


if __name__ == "__main__":
    main()
