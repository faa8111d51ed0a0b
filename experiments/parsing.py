"""Remixer, Table 4, scaled down: exact match of parses, of familiar (MTOP, COGS) and new combinations (COGS).

Paper (pretrained, COGS' generalization set): T5.1.1 77.4, Remixer 79.2. Published from scratch: Transformer 35, LSTM
32, BiLSTM 16 (Kim and Linzen 2020); Transformer with relative positions and scaled embeddings, trained beyond the point
at which validation no longer improves, 81 (Csordas et al. 2021). Here all models are trained from scratch.

    python experiments/parsing.py cogs --data ../shared/data --runs runs/parsing     # 100 seconds an epoch of one core
    python experiments/parsing.py mtop --data ../shared/data --runs runs/parsing
    python experiments/parsing.py held-out --data ../shared/data --runs runs/parsing --models T5.1.1 --seeds 1 ...
    python experiments/parsing.py cogs --models T5.1.1 --variants "dropout of 0.1" "the table learns" --seeds 1 ...

LSTM, BiLSTM and CBoW (Tables 2 and 4) are trained if they are named with --models. Encoder and decoder have two layers
of width 192 each. The feed-forward layers (or Remixer blocks) of each model are as wide as it takes to have the
parameters of T5.1.1, within one percent. Subwords are trained on the training rows and may contain spaces and symbols;
for COGS the tokens are whole words. Position embeddings are added to the source's tokens. Sources, answers and output
share one embedding table, which for COGS is random and not trained; COGS' words are also exchanged for each other in
training (`recombination`). The learning rate of each model is the one with the best exact match on validation after
three epochs. The last evaluation is kept, because validation does not show how well new combinations are parsed. COGS'
generalization set and the test splits are used once, by the models of all seeds. Exact matches are those of greedy
search, computed without generating (`exact_matches`). `--variants` change one setting of one model each: the choices
above (COGS), and the variants of the block in Table 5 (Remixer).

Settings are chosen on held-out rows of COGS' training split: 24 nouns and names, and 10 verbs in one voice, are drawn
among those of medium frequency, and all rows with them but one each are removed from training and evaluated on. For
half of the nouns and names the remaining row is the word alone, as in some rows of COGS. Subwords and table were chosen
with an earlier draw, which had no such rows. These rows and recombination were added after the generalization set had
been evaluated by kind, for one seed of T5.1.1 without recombination, so what they choose is not independent of that
set."""

from __future__ import annotations

import argparse
import functools
import gzip
import itertools
import json
import math
import random
import re
import statistics
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from mixling import TextGenerator
from mixling.artifacts import RUN_FILE, is_finished
from mixling.config import merge, parse
from mixling.data import OnBadRow
from mixling.models import count_parameters
from mixling.provenance import provenance
from mixling.research.seq2seq import (
    SEQ2SEQ_DEFAULTS,
    EncoderDecoder,
    EncoderDecoderConfig,
    Family,
    PairColumns,
    PairRunConfig,
    Shape,
    bag_of_words,
    exact_matches,
    fit_pairs,
    hypermixer,
    lstm,
    mixer,
    read_pairs,
    remixer,
    t5,
)
from mixling.storage import write_json


class Data(NamedTuple):
    """A data set: its folder, its splits that are read at the end, and the lengths that its models have."""

    folder: str
    tests: tuple[str, ...]
    max_source_len: int
    max_target_len: int
    subwords: int
    whole_words: int | None = None
    recombination: float = 0.0
    embedding_lr: float = 0.0


DATA = {
    "cogs": Data("cogs", ("test", "gen"), 64, 256, 900, whole_words=1, recombination=0.3),
    "held-out": Data("cogs", ("dev",), 64, 256, 900, whole_words=1, recombination=0.3),
    "mtop": Data("mtop_en_seq2seq", ("test",), 96, 128, 1000, embedding_lr=1.0),
}
SHAPE = Shape(
    dim=192,
    ffn_dim=512,
    num_heads=4,
    head_dim=48,
    num_layers=2,
    num_decoder_layers=2,
    dropout=0.0,
    biases="alibi",
    source_positions="sinusoidal",
)
MODELS: dict[str, Family] = {
    "T5.1.1": t5,
    "Remixer": remixer,
    "Mixer": mixer,
    "HyperMixer": hypermixer,
    "LSTM": lstm,
    "BiLSTM": partial(lstm, bidirectional=True),
    "CBoW": bag_of_words,
}
RATES, LOOK = (5e-4, 1e-3), 3  # epochs

# One thing changed each: of the configuration, or of the model's.
VARIANTS: dict[str, dict[str, Any]] = {
    "no recombination": {"task": {"recombination": 0.0}},
    "recombination of 0.1": {"task": {"recombination": 0.1}},
    "recombination of 0.3": {"task": {"recombination": 0.3}},
    "no source positions": {"shape": {"source_positions": "none"}},
    "no source positions, biases from zero": {"shape": {"source_positions": "none", "biases": "zero"}},
    "subwords within words": {"tokenizer": {"join_symbols": False}},
    "the best on validation": {"train": {"keep": "best"}},
    "dropout of 0.1": {"shape": {"dropout": 0.1}},
    "four layers of 128": {
        "shape": {"dim": 128, "ffn_dim": 320, "head_dim": 32, "num_layers": 4, "num_decoder_layers": 4}
    },
    "Adafactor, constant 1e-3": {"train": {"optim": {"name": "adafactor", "lr": 1e-3, "schedule": "constant"}}},
    "cosine": {"train": {"optim": {"schedule": "cosine"}}},
    "a table for the output": {"model": {"tied": False}},
    "the table does not learn": {"train": {"optim": {"embedding_lr": 0.0}}},
    "the table learns": {"train": {"optim": {"embedding_lr": 1.0}}},
    "two tables that learn": {"model": {"tied": False}, "train": {"optim": {"embedding_lr": 1.0}}},
    "subwords of words": {"tokenizer": {"whole_words": None}},
}
# Table 5 of the paper: what the block's parts are worth.
BLOCKS: dict[str, dict[str, Any]] = {
    "without compositional remixing": {"compositional": False},
    "gated alpha": {"alpha": "gated"},
    "a gate between composed and mixed": {"choose": True},
    "dropout on H of 0.1": {"dropout": 0.1},
    "dropout on H of 0.2": {"dropout": 0.2},
    "vector alpha": {"alpha": "vector"},
    "alpha fixed at 0.5": {"alpha": 0.5},
}


@functools.cache
def size(config: EncoderDecoderConfig, subwords: int) -> int:
    """Parameters of a model, which is not made for it."""
    with torch.device("meta"):
        return count_parameters(EncoderDecoder(config, vocab_size=subwords))


def matched(family: Family, shape: Shape, subwords: int, *, tied: bool = False) -> EncoderDecoderConfig:
    """The family's model of the width between the tokens' that makes it as large as T5.1.1 of the shape."""
    of = {"tied": tied}
    wanted = size(t5(shape).model_copy(update=of), subwords)

    def model(width: int) -> EncoderDecoderConfig:
        return family(shape.model_copy(update={"ffn_dim": width})).model_copy(update=of)

    # The number of parameters is affine in the width, so that two models give the width of all.
    widths = range(16, 4 * shape.ffn_dim, 8)
    first, last = (size(model(width), subwords) for width in (widths[0], widths[-1]))
    location = math.ceil((wanted - first) / (last - first) * (len(widths) - 1))
    near = [model(width) for width in widths[max(location - 1, 0) : location + 1]]
    return min(near, key=lambda config: abs(size(config, subwords) - wanted))


def with_block(model: EncoderDecoderConfig, changes: Mapping[str, Any]) -> EncoderDecoderConfig:
    """The model with these values in every Remixer block."""
    values = model.to_dict()
    for stack in ("encoder", "decoder"):
        for layer in values[stack]["layers"]:
            layer["mixers"] = [
                {**mixer, **changes} if mixer["type"] == "remixing" else mixer for mixer in layer["mixers"]
            ]
    return parse(EncoderDecoderConfig, values, where="variant")


class System(NamedTuple):
    """A model, and what its training has of its own."""

    label: str
    shape: Shape
    model: EncoderDecoderConfig
    changes: Mapping[str, Any]  # of PairRunConfig


def system(family: str, label: str, shape: Shape, subwords: int) -> System:
    """A family's model of the common size; with the change that the label names."""
    changes = VARIANTS.get(label, {})
    own = parse(Shape, {**shape.to_dict(), **changes.get("shape", {})}, where=label)
    model = matched(lambda shape: with_block(MODELS[family](shape), BLOCKS.get(label, {})), own, subwords, tied=True)
    model = parse(EncoderDecoderConfig, merge(model.to_dict(), changes.get("model", {})), where=label)
    return System(label, own, model, {key: changes[key] for key in ("train", "tokenizer", "task") if key in changes})


def train(data: Data, source: Path, model: EncoderDecoderConfig, folder: Path, changes: Mapping[str, Any]) -> float:
    """Train into a folder, unless that is done; exact match on validation."""
    if not (folder / RUN_FILE).exists() or not is_finished(folder):
        task = {
            "train": [str(source / "train.jsonl.gz")],
            "validation": [str(source / "dev.jsonl.gz")],
            "recombination": data.recombination,
        }
        values = {
            "tasks": [merge(task, changes.get("task", {}))],
            "model": model.to_dict(),
            "tokenizer": {"size": data.subwords, "join_symbols": True, "whole_words": data.whole_words},
            "generation": {"max_len": data.max_target_len},
            "train": merge(
                SEQ2SEQ_DEFAULTS.to_dict(),
                {
                    "load_best_at_end": False,
                    "batch_size": 32,
                    "precision": "bfloat16",
                    "optim": {"embedding_lr": data.embedding_lr},
                },
            ),
        }
        config = parse(
            PairRunConfig, merge(values, {key: changes[key] for key in changes if key != "task"}), where=str(folder)
        )
        resume = (folder / RUN_FILE).exists()
        fit_pairs(config, folder=folder, resume=resume, log=lambda message: print(message, flush=True))
    validation = float(json.loads((folder / "metrics.json").read_text())["validation"]["text"]["exact_match"])
    print(folder, round(validation, 4), flush=True)
    return validation


PRIMITIVES = {"noun": "LAMBDA a . {} ( a )", "name": "{}"}


def hold_out(source: Path, folder: Path) -> Path:
    """Write the training and validation rows of "held-out", the same each time."""
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(source, "rt", encoding="utf-8") as file:
        examples = [json.loads(line) for line in file]
    words: dict[str, dict[str, list[int]]] = {"noun": {}, "name": {}}
    verbs: dict[str, tuple[list[int], list[int]]] = {}
    for number, row in enumerate(examples):
        for kind, template in (("noun", r"(?:^|[;] |AND )(?:\* )?(\w+) \( x _ \d+ \)"), ("name", r", (\w[a-z]+) \)")):
            for word in set(re.findall(template, row["target"])):
                words[kind].setdefault(word, []).append(number)
        found = sorted(set(re.findall(r"(\w+) \. (?:agent|theme) ", row["target"])))
        if len(found) == 1:
            passive = re.search(r"\bwas \w+", row["source"]) is not None
            verbs.setdefault(found[0], ([], []))[passive].append(number)
    single = {row["source"] for row in examples if " " not in row["source"]}
    draw, alone = random.Random(0), []
    chosen: list[tuple[str, str, list[int]]] = []  # of each word: its kind, itself if it is to be known alone, its rows
    for kind in words:
        known = words[kind]
        some = [word for word in sorted(known) if 60 <= len(known[word]) <= 200 and word not in single]
        chosen += [
            (kind, word if location % 2 == 0 else "", known[word])
            for location, word in enumerate(draw.sample(some, 12))
        ]
    often = [verb for verb in sorted(verbs) if 20 <= len(verbs[verb][0]) <= 250 and len(verbs[verb][1]) >= 20]
    chosen += [("verb", "", verbs[verb][location % 2]) for location, verb in enumerate(draw.sample(often, 10))]
    uses = Counter(number for _, _, rows in chosen for number in rows)
    held: dict[int, str] = {}
    for kind, word, numbers in reversed(chosen):  # where a row has several of them, it is of the first
        if word:
            held |= dict.fromkeys(numbers, f"{kind} alone")
            alone.append({"source": word, "target": PRIMITIVES[kind].format(word), "kind": "primitive"})
        else:
            held |= dict.fromkeys(
                set(numbers) - {draw.choice([number for number in numbers if uses[number] == 1])}, kind
            )
    taken = [{**examples[number], "kind": held[number]} for number in sorted(held)]
    kept = [row for number, row in enumerate(examples) if number not in held]
    for name, part in (("train", kept + alone), ("dev", taken)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in part)
    return folder


def evaluate(data: Data, source: Path, folder: Path) -> dict[str, Any]:
    """Exact match on the test splits, and of each kind where there are several."""
    generator = TextGenerator(folder)
    out: dict[str, Any] = {}
    for split in data.tests:
        columns = PairColumns(group="kind")
        pairs = list(read_pairs([source / f"{split}.jsonl.gz"], columns=columns, on_bad_row=OnBadRow("error")))
        reported: dict[str, list[bool]] = {}
        for pair, whole in zip(pairs, exact_matches(generator, pairs), strict=True):
            reported.setdefault(str(pair.group), []).append(whole)
        out[split] = statistics.mean(itertools.chain.from_iterable(reported.values()))
        if len(reported) > 1:
            out[f"{split}_kinds"] = {kind: statistics.mean(values) for kind, values in sorted(reported.items())}
        print(folder, split, round(out[split], 4), flush=True)
    return out


def main() -> None:
    """Train what is missing, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=DATA)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["T5.1.1", "Remixer", "Mixer", "HyperMixer"])
    parser.add_argument("--variants", nargs="+", choices=[*VARIANTS, *BLOCKS], help="of the first model")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help="one: no choice is made")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--validation-only", action="store_true", help="train only; read no test split, write nothing")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "parsing.json")
    options = parser.parse_args()
    made = provenance()
    torch.set_num_threads(1)
    data = DATA[options.task]
    source, runs = options.data / data.folder, options.runs / options.task
    if options.task == "held-out":
        source = hold_out(source / "train.jsonl.gz", runs / "rows")
    shape = SHAPE.model_copy(update={"max_source_len": data.max_source_len, "max_target_len": data.max_target_len})
    if options.variants is None:
        systems = [system(name, name, shape, data.subwords) for name in options.models]
    else:
        systems = [system(options.models[0], name, shape, data.subwords) for name in options.variants]
    key = options.task if options.variants is None else f"{options.task}, variants of {options.models[0]}"
    for each in systems:

        def run(folder: str, rate: float, epochs: int, seed: int = 0, each: System = each) -> tuple[float, Path]:
            changes = merge({"train": {"epochs": epochs, "seed": seed, "optim": {"lr": rate}}}, each.changes)
            location = runs / each.label / folder
            return train(data, source, each.model, location, changes), location

        looks = {rate: run(f"{rate:g}/look", rate, LOOK)[0] for rate in options.rates if len(options.rates) > 1}
        rate = max(looks, key=looks.__getitem__) if looks else options.rates[0]
        done = [run(f"{rate:g}/{options.epochs}/{seed}", rate, options.epochs, seed) for seed in range(options.seeds)]
        if options.validation_only:
            continue
        tests = [evaluate(data, source, folder) for _, folder in done]
        for split in data.tests:
            values = [found[split] for found in tests]
            print(f"| {each.label} | {split} | {100 * statistics.mean(values):.1f} | {values}", flush=True)
        results = json.loads(options.out.read_text()) if options.out.exists() else {}
        results.setdefault(key, {})[each.label] = {
            "provenance": made,
            "shape": each.shape.to_dict(),
            "epochs": options.epochs,
            "parameters": json.loads((done[0][1] / "metrics.json").read_text())["parameters"],
            "looks": {f"{key:g}": value for key, value in looks.items()},
            "rate": rate,
            "validation": [validation for validation, _ in done],
            "tests": tests,
        }
        write_json(options.out, results)


if __name__ == "__main__":
    main()
