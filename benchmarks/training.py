"""Training steps of mixling-small beside textbook forms of the same model, and whole commands, all on one core.

    python benchmarks/training.py --data ../shared/data
    python benchmarks/training.py --data ../shared/data --parts imdb million

- `steps`, on the intents of SNIPS. The textbook forms have the same layers and parameters, in float32, with
  torch.nn.EmbeddingBag on every token, or with dense counters of the features and torch.nn.Linear; clipping, AdamW and
  batches of padded arrays, which are ready before the step. "mixling", with PyTorch's backend and
  with the native one, makes its batches in the step: without changes of the texts, as the textbook forms, and as it
  trains by default, with typos, pseudo-words and token dropout. All take turns in one process, in an order drawn anew
  each round; times are CPU seconds of the process, since a machine that does other work would add its waiting.
  `limit` is the time of the products of a step in float32 at the rate of a product of two large matrices in PyTorch,
  which takes its turn, too; beside it the megabytes of the table and its moments that a step reads and writes.
- `layers`: a feed-forward sublayer of mixling-small and of mixling-base, forward and backward, in the instructions that
  the processor has: in float32, in bfloat16 in its registers, and in its matrix unit (AMX). GFLOP/s count its six
  products, not those that are computed again, norms or GELUs.
- `snips`, `imdb` and `million`: `mixling train` as a whole, with its phases, which end with lines that it prints, on
  SNIPS with all its epochs, on IMDB with one, and for 50 steps on a million rows (those of SNIPS with a number).
- `baselines`: TF-IDF with logistic regression, and fastText where it is installed, on the texts of SNIPS. Their options
  are those with the fewest CPU seconds among those that reach the accuracy of the command's model on the validation
  texts, or if none does, those with the highest accuracy.

Written to benchmarks/results/training.json, where the parts that are not run stay as they are.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from side_by_side import arguments, in_turn, on_one_core, ratio
from torch import Tensor, nn
from torch.nn import functional as F

from mixling import Dataset, Example, TextEncoder, TrainConfig, build_model, model_config
from mixling.comparison import BASELINES
from mixling.data import TextSet, collate
from mixling.layers import fused
from mixling.models import Block
from mixling.provenance import provenance
from mixling.storage import write_json
from mixling.tasks import Classification, LossConfig
from mixling.text import train_vocabulary
from mixling.training import AugmentationConfig, Augmenter, Interrupts, LabeledData, Trainer

Rows = list[tuple[str, str]]
_LARGE = 512  # rows and columns of a product that computes at the processor's rate
# Phases of the command, each with what is in the line that ends it.
PHASES = {
    "loading": "first line",
    " examples": "imports and reading",
    "losses during": "vocabulary, vectors, encoding",
    "calibration error": "steps and evaluations",
    " without it": "n-gram branch",
    "file  ": "8 bits, final evaluation, files",
}
# Whole commands first: the memory of this process when it starts one is part of that one's peak.
PARTS = ("snips", "imdb", "million", "steps", "layers", "baselines")


class Textbook(nn.Module):
    """mixling-small: a layer over features, a convolution over three words, an MLP, three pools."""

    def __init__(self, features: int, dim: int, ffn_dim: int, labels: int, *, dense: bool) -> None:
        super().__init__()
        self.features = features
        self.table = nn.Linear(features, dim, bias=False) if dense else nn.EmbeddingBag(features, dim, mode="sum")
        self.window = nn.Conv1d(dim, dim, 3, padding=1)
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, ffn_dim), nn.GELU(), nn.Linear(ffn_dim, dim))
        self.score, self.output = nn.Linear(dim, 1), nn.Linear(3 * dim, labels)

    def forward(self, bags: Tensor, mask: Tensor) -> Tensor:
        if isinstance(self.table, nn.EmbeddingBag):
            x = self.table(bags.flatten(0, 1)).unflatten(0, mask.shape)
        else:
            counts = torch.zeros(*mask.shape, self.features)
            x = self.table(counts.scatter_add_(2, bags, torch.ones(bags.shape)))
        real = mask[..., None]
        x = self.window((x * real).mT).mT
        x = x + self.mlp(self.norm(x))
        weights = self.score(x).masked_fill(~real, -1e30).softmax(1)
        mean = (x * real).sum(1) / real.sum(1).clamp(min=1)
        return self.output(torch.cat([(weights * x).sum(1), mean, x.masked_fill(~real, -1e30).amax(1)], 1))


def textbook_step(data: LabeledData, batch_size: int, *, dense: bool) -> Callable[[], None]:
    """A function that makes a step of the textbook's on the next batch."""
    encoder, blocks = data.train.encoder, model_config("mixling-small").blocks
    assert blocks[0].feed_forward is not None
    model = Textbook(
        encoder.config.num_rows, 64, blocks[0].feed_forward.ffn_dim, len(data.objective.labels), dense=dense
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    batches = []
    for indices in data.epoch(0, batch_size, seed=0)[:40]:
        made = collate(data.train.words(indices), encoder)
        bags = F.pad(made.features.long(), (0, 0, 1, 0))[made.index]
        batches.append((bags, made.mask, torch.tensor([int(data.train_targets[i]) for i in indices])))
    number = 0

    def step() -> None:
        nonlocal number
        bags, mask, targets = batches[number % len(batches)]
        number += 1
        optimizer.zero_grad()
        F.cross_entropy(model(bags, mask), targets, label_smoothing=0.1).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def our_step(data: LabeledData, batch_size: int, backend: Literal["torch", "native"]) -> Callable[[], None]:
    """A function that makes a step of the training loop."""
    config = model_config("mixling-small").model_copy(update={"text": data.train.encoder.config})
    model = build_model(config, len(data.objective.labels), seed=0)
    trainer = Trainer(model, data, TrainConfig(batch_size=batch_size, steps=100_000, device="cpu", backend=backend))
    state = trainer._plan()
    return lambda: (trainer._step(state, Interrupts(enabled=False)), None)[1]


def work_of_step(data: LabeledData, batch_size: int) -> tuple[float, float]:
    """Multiplications and additions in products of a step, and the bytes that it moves beside those of the layers."""
    config = model_config("mixling-small")
    block, dim, text = config.blocks[0], config.dim, data.train.encoder.config
    assert block.feed_forward is not None
    batches = [
        collate(data.train.words(indices), data.train.encoder) for indices in data.epoch(0, batch_size, seed=0)[:40]
    ]
    words = statistics.mean(len(batch.features) for batch in batches)
    tokens = statistics.mean(batch.mask.numel() for batch in batches)
    operations = 6 * dim * (words * 3 * dim + 2 * tokens * block.feed_forward.ffn_dim)
    # AdamW reads and writes weights and two moments, and a gradient is written and read; rows are read, and collected.
    return operations, 4 * dim * (8 * text.num_rows + 2 * words * batches[0].features.shape[1])


def labeled(rows: Rows) -> tuple[LabeledData, LabeledData]:
    """The data without and with the changes that training makes by default."""
    examples = dataset(rows)
    task_of = Classification(Classification.label_set(examples), LossConfig(), np.full(7, len(rows) // 7))
    text = model_config("mixling-small").text
    vocabulary = train_vocabulary([row[0] for row in rows], text)
    encoder = TextEncoder(text.for_vocabulary(vocabulary), vocabulary)
    texts, targets = TextSet(examples, encoder), task_of.targets(examples.targets)
    changes = Augmenter.of_texts(AugmentationConfig(), encoder, [row[0] for row in rows])

    def made(dropout: float, augmenter: Augmenter | None) -> LabeledData:
        return LabeledData(
            objective=task_of, train=texts, train_targets=targets,
            validation=texts, validation_task=task_of, validation_targets=targets,
            token_dropout=dropout, augmenter=augmenter,
        )  # fmt: skip

    return made(0.0, None), made(0.2, changes)


def dataset(rows: Rows) -> Dataset:
    return Dataset.from_examples(Example(text, label, "snips", number) for number, (text, label) in enumerate(rows, 1))


def command(train: Rows, validation: Rows, *options: str) -> dict[str, Any]:
    """The phases of `mixling train`, by what it prints, with CPU seconds and memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = ["train", folder / "train.jsonl", "-o", folder / "run", *options]
        for part, rows in (("train", train), ("validation", validation)):
            if rows:
                write(rows, folder / f"{part}.jsonl")
        if validation:
            words += ["--validation", folder / "validation.jsonl"]
        return timed([str(word) for word in words], folder / "run")


def timed(words: list[str], run: Path) -> dict[str, Any]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "mixling", *words],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stdout is not None
    ends = iter(PHASES.items())
    phases: dict[str, float] = {}
    last, (end, phase) = begin, next(ends)
    for line in process.stderr:
        while end in line:
            now = time.monotonic()
            phases[phase], last = round(now - last, 2), now
            end, phase = next(ends, ("\0", ""))
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, output
    accuracy = json.loads((run / "metrics.json").read_text())["validation"]["accuracy"]
    return {
        "phases_wall_s": phases,
        "wall_s": round(time.monotonic() - begin, 2),
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "peak_mb": used.ru_maxrss // 1024,
        "accuracy": round(accuracy, 4),
        "result": output.strip(),
    }


def baselines(train: Rows, dev: Rows, accuracy: float) -> dict[str, Any]:
    """The baselines of `mixling compare` that reach an accuracy in the fewest CPU seconds, or come closest to it."""
    texts, targets = (list(column) for column in zip(*train, strict=True))
    read, labels = zip(*dev, strict=True)
    out: dict[str, Any] = {}
    for name in Classification.baselines:
        kind = BASELINES[name]
        if kind.missing():
            continue
        tried = []
        fits = kind.fit(Classification, texts, targets, seed=0)
        begin = time.process_time()
        for fitted in fits:
            spent = time.process_time() - begin
            found = float(np.mean(np.array(fitted.predict(read)) == np.array(labels)))
            tried.append({"cpu_s": round(spent, 2), "accuracy": round(found, 4), "options": fitted.options})
            begin = time.process_time()
        enough = [one for one in tried if one["accuracy"] >= accuracy]
        best = min(enough, key=itemgetter("cpu_s")) if enough else max(tried, key=itemgetter("accuracy"))
        begin = time.process_time()  # of this fit alone; in the grid, fits share what they read
        next(kind.fit(Classification, texts, targets, seed=0, only=(best["options"],)))
        out[name] = {**best, "cpu_s": round(time.process_time() - begin, 2)}
    return out


def read(path: Path) -> Rows:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = map(json.loads, file)
        return [
            (row["text"], row["label"]) if "text" in row else (" ".join(row["tokens"]), row["intent"]) for row in rows
        ]


def write(rows: Iterable[tuple[str, str]], path: Path) -> Path:
    """Write texts and labels to a file, which all revisions of mixling read; its path."""
    lines = (json.dumps({"text": text, "label": label}) for text, label in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def steps(rows: Rows, rounds: int) -> dict[str, Any]:
    """Milliseconds of a step by batch size, and how many times as fast mixling's is."""
    plain, changed = labeled(rows)
    out: dict[str, Any] = {}
    for batch_size in (64, 256):
        calls: dict[str, Callable[[], Any]] = {
            "mixling, native": our_step(plain, batch_size, "native"),
            "mixling, native, with changes of texts": our_step(changed, batch_size, "native"),
            "mixling": our_step(plain, batch_size, "torch"),
            "mixling, with changes of texts": our_step(changed, batch_size, "torch"),
            "embedding bag": textbook_step(plain, batch_size, dense=False),
            "dense counters": textbook_step(plain, batch_size, dense=True),
        }
        operations, moved = work_of_step(plain, batch_size)
        large = torch.randn(_LARGE, _LARGE)
        calls["a large product"] = partial(torch.mm, large, large)
        found = in_turn(calls, rounds if batch_size == 64 else rounds // 2, time.process_time)
        rate = statistics.median(found["a large product"])
        out[str(batch_size)] = {
            "ms": {name: round(1000 * statistics.median(values), 2) for name, values in found.items()},
            "mixling_is_faster_than": {name: ratio(found[name], found["mixling"]) for name in list(calls)[4:6]},
            "native_is_faster_than": {name: ratio(found[name], found["mixling, native"]) for name in list(calls)[2:6]},
            "limit": {
                "gflop": round(operations / 1e9, 4),
                "mb_moved": round(moved / 1e6, 2),
                "gflop_per_s_of_a_large_product": round(2 * _LARGE**3 / rate / 1e9, 1),
                "ms_of_products_at_that_rate": round(1000 * operations * rate / (2 * _LARGE**3), 2),
            },
        }
    return out


def layers(rounds: int) -> dict[str, Any]:
    """Milliseconds of a feed-forward sublayer by kind of instructions, and how many times as fast the last kind is."""
    kinds = {"float32": (torch.float32, 16), "bfloat16": (torch.bfloat16, 16)}
    if fused._native.has_matrix_unit():
        kinds["bfloat16, matrix unit"] = (torch.bfloat16, fused._TILE)
    out: dict[str, Any] = {}
    for name, tokens in (("mixling-small", 2_400), ("mixling-base", 16_000)):
        config = model_config(name)
        block = Block(config.layers[0].model_copy(update={"mixers": ()}), dim=config.dim, max_len=1).train()
        x = torch.randn(tokens, 1, config.dim, requires_grad=True)

        def passes(precision: torch.dtype, registers: int, *, block: Block = block, x: Tensor = x) -> None:
            fused._REGISTERS = registers
            with torch.autocast("cpu", torch.bfloat16, enabled=precision is torch.bfloat16):
                block(x).backward(torch.ones_like(x))

        found = in_turn({kind: partial(passes, *how) for kind, how in kinds.items()}, rounds, time.process_time)
        operations = 12 * tokens * config.dim * config.layers[0].feed_forward.ffn_dim
        ms = {kind: round(1000 * statistics.median(values), 2) for kind, values in found.items()}
        out[f"{name}, {tokens} tokens"] = {
            "ms": ms,
            "gflop_per_s": {kind: round(operations / value / 1e6) for kind, value in ms.items()},
            "times_float32": {kind: ratio(found["float32"], found[kind]) for kind in list(kinds)[1:]},
        }
    fused._REGISTERS = fused._TILE
    return out


def million(rows: Rows) -> Rows:
    return [(f"{text} {number}", label) for number, (text, label) in zip(range(1_000_000), itertools.cycle(rows))]


def main() -> None:
    """Measure and write."""
    assert __doc__ is not None
    parser = arguments(__doc__, "training")
    parser.add_argument("--data", type=Path, required=True, help="folder with the folders snips and imdb")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    made = {**provenance(seed=0, packages=("scikit-learn",)), "settings": {"rounds": options.rounds}}
    on_one_core()
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    train, validation = (read(options.data / "snips" / f"{name}.jsonl.gz") for name in ("train", "dev"))
    # How much a point of accuracy above that of the most frequent label costs.
    common = max(np.unique([label for _, label in validation], return_counts=True)[1]) / len(validation)
    for part in sorted(options.parts, key=PARTS.index):
        match part:
            case "steps":
                found: dict[str, Any] = steps(train, options.rounds)
            case "layers":
                found = layers(options.rounds)
            case "snips":
                found = command(train, validation)
            case "imdb":
                found = command(read(options.data / "imdb" / "train.jsonl.gz"), [], "--set", "train.epochs=1")
            case "million":
                found = command(million(train), [], "--set", "train.steps=50")
            case "baselines":
                found = baselines(train, validation, results["snips"]["accuracy"])
                points = {"mixling": results["snips"], **found}
                found["cpu_s_per_point"] = {
                    name: round(one["cpu_s"] / (100 * (one["accuracy"] - common)), 3) for name, one in points.items()
                }
        results[part] = {**found, "provenance": made}
        write_json(options.out, results)
        print(part, json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
