"""Pairs of shapes: error against the number of training signals, and which samples an answer depends on.

    python experiments/hypermixer_shapes.py             # about half an hour of one core

Paper: HyperMixer (arXiv:2203.03691), section 4.7 and Figure 5; the task is that of `shapes.py`.
Expected, from the paper: without token mixing the task cannot be learned; MLP-Mixer needs 5 to 10 times the signals
that HyperMixer needs; HyperMixer needs no more than attention, and its pseudo-attention |d output_i / d input_j| looks
at the other shape of a pair, as attention's does.

Ours, as the paper's layout is in an appendix that we do not have: the layer in front is linear in the 5 samples around
each (a convolution, as in Fleuret's network for the task), sinusoidal positions are added once, there, for all models
alike, so that HyperMixing has no second ones; 2 pre-norm blocks of width 32, 17 thousand parameters; a linear head.
Every model is given the same number of batches whatever the number of signals (1,800 of 16), under Adam, and keeps the
weights of its best evaluation on validation. The learning rate is chosen on validation for each model from one grid, at
3,000 signals with the first seed. Test is read once by each run that counts, and by no other. Seeds change weights,
batches and training signals; those of a small training set are the first of a larger one's. Errors are in the data's
subwords, in which heights are 1 to 25.

Written to experiments/results/hypermixer_shapes.json after every run; at the end with two pictures beside it. Runs that
are in the file and whose weights are in --weights are not repeated, so an interrupted command is given again to go on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from shapes import pairs_of_shapes
from torch import Tensor, nn
from torch.nn import functional as F

from mixling.layers import Positions
from mixling.mixers import AttentionConfig, HyperMixingConfig, IdentityConfig, MixerConfig, TokenMLPConfig
from mixling.models import Encoder, count_parameters
from mixling.networks import BlockConfig, EncoderConfig, FeedForwardConfig
from mixling.provenance import provenance
from mixling.research.inspect import learning_curves, pseudo_attention, token_maps
from mixling.storage import write_json

LENGTH, WINDOW, DIM, LAYERS, FFN = 100, 5, 32, 2, 64
# Mixers of (nearly) attention's 4 (d^2 + d) parameters; without one, the feed-forward is wider instead.
MIXERS: dict[str, tuple[MixerConfig, int]] = {
    "none": (IdentityConfig(), FFN + 65),
    "mlp-mixer": (TokenMLPConfig(hidden_dim=21), FFN),
    "attention": (AttentionConfig(num_heads=1), FFN),
    "hypermixer": (HyperMixingConfig(hidden_dim=3 * DIM, positions="none"), FFN),
}
VALIDATION_SEED, TEST_SEED = 1_000_001, 1_000_002  # of the signals; training sets have the runs' own
EVALUATIONS, PATIENCE = 20, 8  # a run ends when so many evaluations bring no better one
WARM_UP = 0.05  # part of the steps

SETTINGS = (
    "steps",
    "batch_size",
    "learning_rates",
    "tune_size",
    "validation",
    "test",
)  # options that results depend on

Split = tuple[Tensor, Tensor]  # signals and targets, (B, N) each


class ShapeModel(nn.Module):
    """Signal (B, N, 1) -> (B, N, 1): y = scale * head(encoder(W (x - shift) / scale + b + p)) + shift."""

    shift: Tensor
    scale: Tensor

    def __init__(self, name: str) -> None:
        super().__init__()
        mixer, ffn_dim = MIXERS[name]
        layer = BlockConfig(mixers=(mixer,), feed_forward=FeedForwardConfig(ffn_dim=ffn_dim))
        config = EncoderConfig(dim=DIM, layers=(layer,), num_layers=LAYERS, final_norm=True)
        self.embedding = nn.Conv1d(1, DIM, WINDOW, padding=WINDOW // 2)
        self.positions = Positions("sinusoidal", dim=DIM, max_len=LENGTH)
        self.encoder = Encoder(config.blocks, dim=DIM, max_len=LENGTH, final_norm=config.final_norm)
        self.head = nn.Linear(DIM, 1)
        self.register_buffer("shift", torch.zeros(()))
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        z = self.positions(self.embedding((x - self.shift).mT / self.scale).mT)
        return self.scale * self.head(self.encoder(z, mask)) + self.shift


def signals(count: int, seed: int, device: str) -> Split:
    """Signals and targets as tensors."""
    inputs, targets = pairs_of_shapes(count, length=LENGTH, seed=seed)
    return torch.from_numpy(inputs).to(device), torch.from_numpy(targets).to(device)


@torch.inference_mode()
def error(model: nn.Module, split: Split) -> float:
    """Mean squared error over all samples of all signals."""
    parts = zip(split[0].split(100), split[1].split(100), strict=True)
    return sum(float((model(x[..., None])[..., 0] - y).square().sum()) for x, y in parts) / split[1].numel()


def train(
    name: str, data: Split, validation: Split, *, seed: int, lr: float, steps: int, batch_size: int
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Adam, a short warm-up, a cosine to zero. Returns a record and the weights of the best evaluation on
    validation."""
    torch.manual_seed(seed)
    began = time.process_time()
    model = ShapeModel(name).to(data[0].device)
    model.shift, model.scale = data[0].mean(), data[0].std()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
    best: dict[str, Tensor] = {}
    least, best_step = math.inf, 0
    order = torch.empty(0, dtype=torch.int64)
    for step in range(1, steps + 1):
        if not len(order):
            order = torch.randperm(len(data[0]))
        chosen, order = order[:batch_size].to(data[0].device), order[batch_size:]
        done = step / steps
        optimizer.param_groups[0]["lr"] = lr * min(1.0, done / WARM_UP) * 0.5 * (1 + math.cos(math.pi * done))
        x, y = data[0][chosen], data[1][chosen]
        loss = F.mse_loss(model(x[..., None])[..., 0], y) / model.scale**2
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        interval = max(1, steps // EVALUATIONS)
        if step % interval == 0 or step == steps:
            found = error(model, validation)
            if found < least:
                least, best_step = found, step
                best = {key: value.detach().cpu().clone() for key, value in model.state_dict().items()}
            elif step - best_step >= PATIENCE * interval:
                break
    return {"val_mse": least, "best_step": best_step, "cpu_seconds": round(time.process_time() - began, 1)}, best


class Study:
    """All runs: what is there is read, what is missing is trained."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.provenance = provenance(seed=options.seeds[0], device=options.device)
        self.out: Path = options.out
        self.weights: Path = options.weights
        self.weights.mkdir(parents=True, exist_ok=True)
        self.validation = signals(options.validation, VALIDATION_SEED, options.device)
        self.test = signals(options.test, TEST_SEED, options.device)
        self.settings = {
            "dim": DIM,
            "layers": LAYERS,
            "window": WINDOW,
            "mixers": {name: {**config.to_dict(), "ffn_dim": ffn_dim} for name, (config, ffn_dim) in MIXERS.items()},
            "parameters": {name: count_parameters(ShapeModel(name)) for name in MIXERS},
            **{key: getattr(options, key) for key in SETTINGS},
        }
        self.results = self.out / "hypermixer_shapes.json"
        old = json.loads(self.results.read_text("utf-8")) if self.results.exists() else None
        if old is not None and old["settings"] != json.loads(json.dumps(self.settings)):
            raise SystemExit(f"{self.results} was made with other settings; name another --out, or remove it")
        self.runs: dict[str, dict[str, Any]] = {} if old is None else old["runs"]

    def run(self, name: str, size: int, seed: int, lr: float) -> dict[str, Any]:
        """The record of one training."""
        key = self._key(name, size, seed, lr)
        if key not in self.runs or not self._file(key).exists():
            data = signals(size, seed, self.options.device)
            steps, batch_size = self.options.steps, self.options.batch_size
            record, best = train(name, data, self.validation, seed=seed, lr=lr, steps=steps, batch_size=batch_size)
            save_file(best, self._file(key))
            self.runs[key] = {"model": name, "size": size, "seed": seed, "lr": lr, **record}
            self.save()
            print(json.dumps(self.runs[key]), flush=True)
        return self.runs[key]

    def chosen_rate(self, name: str) -> float:
        """The learning rate of the least error on validation, at one size with the first seed."""
        size, seed = self.options.tune_size, self.options.seeds[0]
        return min((self.run(name, size, seed, lr) for lr in self.options.learning_rates), key=_validation_error)["lr"]

    def evaluate(self, name: str, size: int, seed: int) -> None:
        """The test error of one model."""
        record = self.run(name, size, seed, self.chosen_rate(name))
        if "test_mse" not in record:
            record["test_mse"] = error(self.model(name, size, seed), self.test)
            self.save()

    def model(self, name: str, size: int, seed: int) -> ShapeModel:
        """A trained model, with the chosen learning rate."""
        model = ShapeModel(name).to(self.options.device)
        model.load_state_dict(load_file(self._file(self._key(name, size, seed, self.chosen_rate(name)))))
        return model.eval()

    def save(self) -> None:
        """Write what there is."""
        report = {
            "settings": self.settings,
            "identity_test_mse": error(nn.Identity(), self.test),
            "test_mse": {
                name: {size: _summary(values) for size, values in sizes.items()}
                for name, sizes in self.curves().items()
            },
            "runs": self.runs,
            "provenance": self.provenance,
        }
        write_json(self.results, report)

    def curves(self) -> dict[str, dict[int, list[float]]]:
        """Test errors of all seeds, by model and size."""
        found: dict[str, dict[int, list[float]]] = {}
        for run in self.runs.values():
            if "test_mse" in run:
                found.setdefault(run["model"], {}).setdefault(run["size"], []).append(run["test_mse"])
        return {name: dict(sorted(found[name].items())) for name in MIXERS if name in found}

    def draw(self) -> None:
        """The two pictures; the maps are of the first test signal, the largest training set and validation's best
        seed."""
        levels = {"output = input": error(nn.Identity(), self.test)}
        learning_curves(self.curves(), self.out / "hypermixer_shapes.png", metric="test MSE", levels=levels)
        x, y = (tensor[:1] for tensor in self.test)
        drawn = {}
        for name in self.options.models:
            size, lr = max(self.options.sizes), self.chosen_rate(name)
            best = min((self.run(name, size, seed, lr) for seed in self.options.seeds), key=_validation_error)
            model = self.model(name, size, best["seed"])
            answer = model(x[..., None]).detach()[0, :, 0]
            shown = {"input": x[0], "target": y[0], "output": answer}
            token_map = pseudo_attention(model, x[..., None]).cpu().numpy()
            drawn[name] = token_map, {key: signal.cpu().numpy() for key, signal in shown.items()}
        token_maps(drawn, self.out / "hypermixer_shapes_maps.png")

    def _key(self, name: str, size: int, seed: int, lr: float) -> str:
        return f"{name}-{size}-{seed}-{lr:g}"

    def _file(self, key: str) -> Path:
        return self.weights / f"{key}.safetensors"


def _validation_error(run: dict[str, Any]) -> float:
    return run["val_mse"]


def _summary(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "runs": len(values)}


def main() -> None:
    """Train what is missing, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MIXERS, default=list(MIXERS))
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1000, 3000, 10_000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--learning-rates", type=float, nargs="+", default=[3e-3, 1e-2, 3e-2, 1e-1])
    parser.add_argument("--tune-size", type=int, default=3000, help="signals that the learning rate is chosen with")
    parser.add_argument("--steps", type=int, default=1800)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--validation", type=int, default=500, help="signals")
    parser.add_argument("--test", type=int, default=5000, help="signals")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--weights", type=Path, default=Path("runs/hypermixer_shapes"), help="folder of trained models")
    options = parser.parse_args()
    torch.set_num_threads(1)
    study = Study(options)
    for seed, size, name in itertools.product(options.seeds, options.sizes, options.models):
        study.evaluate(name, size, seed)
    study.save()
    study.draw()


if __name__ == "__main__":
    main()
