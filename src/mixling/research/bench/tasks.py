"""Small versions of the tasks that token mixers are compared on: a mixer in two blocks, trained from scratch.

ListOps (Nangia and Bowman 2018) is generated: nested maxima, minima, medians and sums modulo 10 of digits, of at most
100 tokens, where Long Range Arena has 2,000. SST-2, SICK and ConjNLI are read in the layout of `experiments/layout.py`;
what has no test split here is tested on its validation rows, and 5% of the training rows choose. COGS is text to text:
the mixer is the encoder's, and the decoder is T5's, whatever the mixer. Every mixer is trained at the same rates, and
the one that is best on validation is tested, with one seed.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mixling.config import merge, parse
from mixling.data.config import ColumnsConfig
from mixling.data.dataset import Dataset
from mixling.data.examples import Example, read_examples
from mixling.data.readers.rows import OnBadRow
from mixling.data.splits import split_validation
from mixling.errors import ConfigError
from mixling.networks.mixer import MixerConfig
from mixling.networks.presets import WORDS_AS_THEY_ARE, model_config
from mixling.research.bench.recall import NUM_BLOCKS, RATES, block
from mixling.research.seq2seq.config import SEQ2SEQ_DEFAULTS, PairRunConfig
from mixling.research.seq2seq.evaluation import exact_matches
from mixling.research.seq2seq.generator import TextGenerator
from mixling.research.seq2seq.pairs import PairColumns, read_pairs
from mixling.research.seq2seq.presets import Shape, t5
from mixling.research.seq2seq.run import fit_pairs
from mixling.runs.evaluation import evaluate
from mixling.runs.resolve.config import RunConfig
from mixling.runs.training import fit
from mixling.runtime.predictor import Predictor
from mixling.tasks.classification import Classification
from mixling.training.callbacks import Log

TaskSteps = tuple[Callable[[float, Path], None], Callable[[Path], float]]  # at a rate into a folder; tested from there
WIDTH = 128
GENERATED = (10_000, 1_000, 2_000)  # expressions of training, validation and test
_OPERATIONS: dict[str, Callable[[list[int]], int]] = {
    "max": max,
    "min": min,
    "median": lambda values: sorted(values)[len(values) // 2],
    "sum": lambda values: sum(values) % 10,
}


class LabelTask(NamedTuple):
    """Files of a data set with one label a text, without .jsonl.gz.

    Where there is no folder rows are generated; where `validation` is None, a part of train chooses.
    """

    folder: str | None
    train: str
    validation: str | None
    test: str
    epochs: int
    max_len: int


LABELED = {
    "listops": LabelTask(None, "", "", "", 8, 100),
    "sst2": LabelTask("sst2_glue", "train", None, "dev", 1, 64),
    "sick": LabelTask("sick", "train", "dev", "test", 10, 64),
    "conjnli": LabelTask("conjnli", "train_adversarial", None, "dev", 2, 128),
}
BENCH_TASKS = (*LABELED, "cogs")


def expression(rng: np.random.Generator, depth: int) -> tuple[list[str], int]:
    """Return the tokens of an expression of at most `depth` operations within each other, and its value."""
    if depth == 0 or rng.random() < 0.4:
        digit = int(rng.integers(10))
        return [str(digit)], digit
    name = str(rng.choice(list(_OPERATIONS)))
    parts = [expression(rng, depth - 1) for _ in range(rng.integers(2, 6))]
    tokens = [name, *(token for part, _ in parts for token in part), "end"]
    return tokens, _OPERATIONS[name]([value for _, value in parts])


def listops(count: int, max_len: int, seed: int) -> Dataset:
    """Return expressions of 5 tokens to `max_len`, labeled with their values."""
    rng = np.random.default_rng(seed)
    examples: list[Example] = []
    while len(examples) < count:
        tokens, value = expression(rng, 4)
        if 5 <= len(tokens) <= max_len:
            examples.append(Example(" ".join(tokens), str(value), "listops", len(examples) + 1))
    return Dataset.from_examples(examples)


def run_task(mixer: MixerConfig, name: str, data: Path | None, log: Log = lambda message: None) -> dict[str, Any]:
    """Return the accuracy of a mixer on a task: on validation by learning rate, and on test at the best rate.

    Raises:
        ConfigError: the mixer does not fit, or there is no data.
        DataError: a file cannot be read.
    """
    train, test = (_pairs if name == "cogs" else _labels)(mixer, name, data)
    validation = {}
    with tempfile.TemporaryDirectory(prefix="mixling-bench-") as folder:
        for rate in RATES:
            place = Path(folder) / f"{rate:g}"
            train(rate, place)
            metrics = json.loads((place / "metrics.json").read_text("utf-8"))["validation"]
            validation[rate] = metrics["text"]["exact_match"] if name == "cogs" else metrics["accuracy"]
            log(f"{mixer.type}, {name}, learning rate {rate:g}: {validation[rate]:.3f}")
        best = max(RATES, key=validation.__getitem__)
        tested = test(Path(folder) / f"{best:g}")
    found = {f"{rate:g}": round(value, 4) for rate, value in validation.items()}
    return {"validation": found, "rate": best, "test": round(tested, 4)}


def _labels(mixer: MixerConfig, name: str, data: Path | None) -> TaskSteps:
    task = LABELED[name]
    if task.folder is None:
        train, validation, test = (listops(count, task.max_len, seed) for seed, count in enumerate(GENERATED))
    else:
        source, columns, bad = _folder(data) / task.folder, ColumnsConfig(), OnBadRow("error")

        def read(split: str) -> Dataset:
            path = source / f"{split}.jsonl.gz"
            rows = read_examples([path], reader=Classification.reader, columns=columns, on_bad_row=bad)
            return Dataset.from_examples(rows)

        if task.validation is None:
            train, validation = split_validation(read(task.train), fraction=0.05, seed=0)
        else:
            train, validation = read(task.train), read(task.validation)
        test = read(task.test)
    layer = merge(block(mixer).to_dict(), {"feed_forward": {"ffn_dim": 2 * WIDTH}, "dropout": 0.1})
    shape = {"dim": WIDTH, "num_layers": NUM_BLOCKS, "layers": [layer], "text": {"max_len": task.max_len}}
    values = {"model": model_config("transformer", shape).to_dict(), "decisions": {"precision": "float32"}}

    def trained(rate: float, folder: Path) -> None:
        training = {"epochs": task.epochs, "optim": {"lr": rate}, "token_dropout": 0.0, **WORDS_AS_THEY_ARE}
        fit(parse(RunConfig, {**values, "train": training}, where=name), train, validation, folder=folder)

    def tested(folder: Path) -> float:
        return float(evaluate(Predictor(folder), list(test)).metrics.to_dict()["accuracy"])

    return trained, tested


def _pairs(mixer: MixerConfig, name: str, data: Path | None) -> TaskSteps:
    source = _folder(data) / name
    shape = Shape(dim=WIDTH, ffn_dim=2 * WIDTH, num_heads=4, head_dim=32, num_layers=2, num_decoder_layers=2,
                  max_source_len=64, max_target_len=256, biases="alibi", source_positions="sinusoidal")  # fmt: skip
    model = t5(shape).to_dict()
    for layer in model["encoder"]["layers"]:
        layer["mixers"] = [mixer.to_dict()]
    files = {"train": [str(source / "train.jsonl.gz")], "validation": [str(source / "dev.jsonl.gz")]}
    values = {
        "tasks": [{**files, "recombination": 0.3}],
        "model": model,
        "tokenizer": {"size": 900, "join_symbols": True, "whole_words": 1},
        "generation": {"max_len": 256},
    }

    def trained(rate: float, folder: Path) -> None:
        training = {"epochs": 4, "batch_size": 32, "load_best_at_end": False, "optim": {"lr": rate / 3}}
        own = {**values, "train": merge(SEQ2SEQ_DEFAULTS.to_dict(), training)}
        fit_pairs(parse(PairRunConfig, own, where=name), folder=folder)

    def tested(folder: Path) -> float:
        rows = read_pairs([source / "gen.jsonl.gz"], columns=PairColumns(), on_bad_row=OnBadRow("error"))
        return float(np.mean(exact_matches(TextGenerator(folder), list(rows))))

    return trained, tested


def _folder(data: Path | None) -> Path:
    if data is None or not data.is_dir():
        got = "nothing" if data is None else str(data)
        raise ConfigError(f"--data: got {got}; this task needs the folder that experiments/layout.py makes")
    return data
