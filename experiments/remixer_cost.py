"""Remixer, Table 1: parameters, operations and training steps per second of Remixer, T5.1.1 and the Mixer.

    python experiments/remixer_cost.py                               # a minute of one core

Parameters and operations are those of the base size (768 channels, 12 and 12 layers, 32,128 subwords; T5's span
corruption: 512 subwords of source, 114 of target, one text), and can be compared with the paper's parameters;
`printed_counts.py` has both. The paper's operations cannot: what it counts is not stated. Its steps per second are
of TPUs. Here they are of one core, and of models whose proportions are those of the base size, at a sixth of its width
and a third of its layers, on sources and targets half as long; only their ratios to T5.1.1's mean something. A step
is the recipe's (t5 of recipes.py): forward, backward and Adafactor, in single precision. All models take turns, and the
median over the rounds counts.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from recipes import RECIPES
from torch.nn import functional as F

from mixling.provenance import provenance
from mixling.research.cost.flops import count_encoder_decoder
from mixling.research.seq2seq import build_encoder_decoder, seq2seq_config
from mixling.storage import write_json
from mixling.training import OptimConfig
from mixling.training.backends.optimizer import build_optimizer

VOCABULARY = 32_128
SOURCE, TARGET = 512, 114
MODELS = ("t5-1.1", "remixer", "remixer-scaled", "mixer-transformer", "mixer-mixer", "hypermixer-hypermixer")
SMALLER: dict[str, Any] = {"dim": 128, "ffn_dim": 342, "num_heads": 2, "num_layers": 4, "num_decoder_layers": 4}


def counted(name: str) -> dict[str, int]:
    """Parameters of the base size, for targets of up to 512 subwords, and its operations for one text."""
    parameters = count_encoder_decoder(seq2seq_config(f"{name}-base"), vocabulary=VOCABULARY).parameters
    config = seq2seq_config(f"{name}-base", max_source_len=SOURCE, max_target_len=TARGET)
    output = 2 * TARGET * config.dim * VOCABULARY
    return {"parameters": parameters, "flops": count_encoder_decoder(config, vocabulary=VOCABULARY).flops + output}


def step_of(name: str, *, batch: int, vocabulary: int) -> Callable[[], None]:
    """A training step of the smaller model, on subwords at random."""
    source, target = SOURCE // 2, TARGET // 2
    config = seq2seq_config(f"{name}-base", max_source_len=source, max_target_len=target, **SMALLER)
    model = build_encoder_decoder(config, vocab_size=vocabulary, seed=0).train()
    optimizer = build_optimizer(model, OptimConfig(**RECIPES["t5"].train["optim"]))
    generator = torch.Generator().manual_seed(0)
    texts, answers = (
        torch.randint(vocabulary, (batch, length), generator=generator) for length in (source, target + 1)
    )

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(texts, None, answers[:, :-1]).flatten(0, 1), answers[:, 1:].flatten()).backward()
        optimizer.step()

    return step


def per_second(steps: Mapping[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The steps per second of each, by the median of the rounds, in which they take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + 1):
        for name, step in steps.items():
            began = time.perf_counter()
            step()
            if number:  # the first is a warm-up
                seconds[name].append(time.perf_counter() - began)
    return {name: 1 / statistics.median(values) for name, values in seconds.items()}


def main() -> None:
    """Count, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=4096, help="of the models whose steps are measured")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "remixer_cost.json")
    options = parser.parse_args()
    made = provenance(seed=0)
    torch.set_num_threads(1)
    steps = {name: step_of(name, batch=options.batch_size, vocabulary=options.vocabulary) for name in options.models}
    speeds = per_second(steps, options.rounds)
    first = speeds[options.models[0]]
    rows = {
        name: {**counted(name), "steps_per_second": speed, "relative_speed": speed / first}
        for name, speed in speeds.items()
    }
    settings = {"batch_size": options.batch_size, "vocabulary": options.vocabulary, **SMALLER, "rounds": options.rounds}
    write_json(options.out, {**made, "settings": settings, "models": rows})
    for name, row in rows.items():
        print(
            f"{name:<22} {row['parameters']:>12,} parameters, {row['flops'] / 1e9:>6.1f} GFLOPs, "
            f"{row['steps_per_second']:>5.2f} steps/s, {row['relative_speed']:.2f} of {options.models[0]}"
        )


if __name__ == "__main__":
    main()
