"""The steps of pretraining of gpu.py, and what constants of the product should be."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import torch
from gpu_run import Run, milliseconds
from pretraining import our_step, their_step

from mixling import PRESETS, ModelConfig, TrainConfig, model_config
from mixling.training import Callback, OptimConfig, Step, Trainer
from mixling.training.backends import multiplied_weights

MODELS = ("gmlp-base", "bert-large", "hypermixer", "gmlp-tiny")
RIVAL = "bert-large"  # its shape is also given to transformers


def first_from(rows: list[tuple[float, bool]]) -> float | None:
    """The least size from which on all larger ones win; None: the largest does not."""
    least = None
    for size, wins in sorted(rows, reverse=True):
        if not wins:
            break
        least = size
    return least


def borders(report: dict[str, Any], device: str) -> dict[str, float | None]:
    """What constants of the product should be; None: no size that was measured is enough."""
    ffts = [(int(n), t["fft"] < t["matrix"]) for n, t in report["toeplitz"].items() if t.get("fft") and t.get("matrix")]
    rates = [(row["operations"], row["tokens_per_second"]) for row in report["border"]]
    steps = report["pretraining"]
    compiled = [
        (row["weights"], steps[f"{name}, compiled"]["tokens_per_second"] > row["tokens_per_second"])
        for name, row in steps.items() if f"{name}, compiled" in steps
    ]  # fmt: skip
    return {
        "FFT_FROM_ON_GPU": first_from(ffts),
        "GPU_OPERATIONS": first_from([(size, rate[device] > rate["cpu"]) for size, rate in rates]),
        "COMPILE_WEIGHTS": first_from(compiled),
    }


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
    begun = time.perf_counter()
    Trainer(model, data, training, callback=timer, last_step=steps).fit()
    subwords = model.embedding.weight.shape[0]
    products = model.encoder.flops(1, length) / length + 2 * 0.15 * config.dim * subwords
    rate = timer.rate()
    counted = {"tokens_per_second": round(rate), "flops": 3 * products * rate, "weights": multiplied_weights(model)}
    # That torch.compile takes long to begin is not in the rate.
    return {"batch": batch, "length": length, "begin_seconds": round(timer.steps[0][0] - begun, 1), **counted}, data


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
