"""Are damaged files of every kind of folder refused? One bit of one file is flipped, and the file read as a user does.

    OMP_NUM_THREADS=1 python benchmarks/bit_flips.py

A small model of each kind is trained, and word vectors, kept answers of a teacher, encoded text and a checkpoint are
made. Of every file of theirs that decides an answer bits are flipped at random, one at a time; the file must be refused
with an error for users. Model cards, pictures and metrics.jsonl, which nothing reads, are left out. Written to
benchmarks/results/bit_flips.json: of each file the flips, how many were refused, and the bits that were not.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mixling import Predictor, TextGenerator, UserError
from mixling.answers import LabelSet
from mixling.artifacts import describe, read_run
from mixling.provenance import provenance
from mixling.research.pretraining import WordReader, document_encoder, load_pretraining, open_prepared
from mixling.research.saved import load_model
from mixling.runs.resolve import resumed_config
from mixling.storage import read_json, write_json
from mixling.tasks import Classification
from mixling.teachers import FunctionTeacher, collect_predictions
from mixling.text import VectorConfig, WordVectors, train_vectors
from mixling.training import load_checkpoint, save_checkpoint

Read = Callable[[], object]
WORDS = ["film", "plot", "good", "bad", "dull", "fine", "very", "not", "the", "a", "is", "was", "seen", "by", "all"]


def mixling(*arguments: object) -> None:
    """Run a command."""
    done = subprocess.run([sys.executable, "-m", "mixling", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)


def make(folder: Path) -> dict[str, dict[Path, Read]]:
    """Make every kind of folder, and return by kind the files with what reads them."""
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=9)) for _ in range(300)]
    (folder / "text.txt").write_text("\n".join(texts))
    (folder / "rows.csv").write_text("text,label\n" + "".join(f"{text},{'good' in text}\n" for text in texts))
    (folder / "pairs.csv").write_text("source,target\n" + "".join(f"{text},{text[::-1]}\n" for text in texts))
    short = ("--set", "train.steps=4", "--set", "train.evaluations=1")
    mixling(
        "train",
        folder / "rows.csv",
        "--model",
        "mixling-tiny",
        *short,
        "--test-fraction",
        "0",
        "-o",
        folder / "trained",
    )
    kept = ("--set", "corpus.keep=true", "--set", "corpus.validation_fraction=0.1", "--set", "model.text.max_len=16")
    sizes = ("--set", "model.dim=16", "--set", "model.text.vocabulary_size=100")
    pretraining = ("--model", "gmlp-base", "--set", "model.num_layers=1", *sizes, *kept)
    mixling("pretrain", folder / "text.txt", *pretraining, *short, "-o", folder / "pretrained")
    layers = [f"model.{stack}.num_layers=1" for stack in ("encoder", "decoder")]
    small = [*layers, "train.steps=4", "generation.max_len=8"]
    changes = [item for change in small for item in ("--set", change)]
    pairs = ("--task", "text2text", "--model", "t5-10m", *changes, "--set", "train.evaluations=1")
    mixling("train", folder / "pairs.csv", *pairs, "-o", folder / "text to text")
    train_vectors((folder / "text.txt").read_text().splitlines(), VectorConfig(dim=8)).save(folder / "vectors")
    selves = ("--teacher", "self", "--set", "distill.members=1", "--model", "mixling-tiny")
    mixling("distill", folder / "rows.csv", *selves, *short, "-o", folder / "distilled")
    save_checkpoint(folder / "checkpoint.safetensors", {"a": torch.ones(9, 9), "b": torch.zeros(3)}, {"step": 3})

    def answers() -> object:
        task = Classification(LabelSet(("no", "yes"), "single"))
        teacher = FunctionTeacher(lambda asked: np.full((len(asked), 2), 0.5), key="teacher")
        return collect_predictions(teacher, texts[:100], task, folder=folder / "answers")

    def corpus() -> object:
        return open_prepared(pretrained / "corpus", WordReader(document_encoder(encoder.config, encoder.vocabulary)))

    answers()
    trained, pretrained, writer = folder / "trained", folder / "pretrained", folder / "text to text"
    teacher = folder / "distilled" / "teacher"
    _, encoder = load_pretraining(pretrained)
    return {
        "trained": {
            trained / "model.onnx": lambda: Predictor(trained),
            trained / "run.json": lambda: resumed_config(trained),
            trained / "metrics.json": lambda: describe(str(trained)),
            **files_of(trained, "config.json", "model.safetensors", "vocab.txt", read=lambda: load_model(trained)),
        },
        "pretrained": {
            pretrained / "run.json": lambda: read_run(pretrained),
            pretrained / "metrics.json": lambda: describe(str(pretrained)),
            **files_of(
                pretrained, "config.json", "model.safetensors", "vocab.txt", read=lambda: load_pretraining(pretrained)
            ),
            **dict.fromkeys(sorted((pretrained / "corpus").iterdir()), corpus),
        },
        "text to text": {
            writer / "run.json": lambda: read_run(writer),
            writer / "metrics.json": lambda: describe(str(writer)),
            **files_of(
                writer, "config.json", "model.safetensors", "tokenizer.json", read=lambda: TextGenerator(writer)
            ),
        },
        "word vectors": {
            path: lambda: WordVectors.load(folder / "vectors") for path in sorted((folder / "vectors").iterdir())
        },
        "distilled": {
            teacher / "teacher.json": lambda: read_json(teacher / "teacher.json"),
            teacher / "self-1.json": lambda: read_json(teacher / "self-1.json"),
            **dict.fromkeys(sorted((folder / "answers").iterdir()), answers),
        },
        "interrupted": {
            folder / "checkpoint.safetensors": lambda: load_checkpoint(folder / "checkpoint.safetensors"),
        },
    }


def files_of(folder: Path, *names: str, read: Read) -> dict[Path, Read]:
    """Return files that one call reads."""
    return {folder / name: read for name in names}


def flip(path: Path, read: Read, count: int) -> dict[str, Any]:
    """Flip bits one at a time, and count the refusals."""
    good, draw, taken = path.read_bytes(), random.Random(path.name), []
    read()
    for _ in range(count):
        location, bit = draw.randrange(len(good)), draw.randrange(8)
        path.write_bytes(good[:location] + bytes([good[location] ^ 1 << bit]) + good[location + 1 :])
        try:
            read()
        except UserError:
            continue
        taken.append([location, bit])
    path.write_bytes(good)
    return {"bytes": len(good), "flips": count, "refused": count - len(taken), "taken": taken}


def main() -> None:
    """Make, flip, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=1_000, help="of each file")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "bit_flips.json")
    options = parser.parse_args()
    made, found = provenance(seed=0), {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, files in make(Path(folder)).items():
            for path, read in files.items():
                name = f"{kind}: {'corpus/' * (path.parent.name == 'corpus')}{path.name}"
                name = name if path.parent.name != "answers" else f"{kind}: answers/*.safetensors"
                found[name] = flip(path, read, options.flips)
                print(f"{name}: {found[name]['refused']} of {options.flips} refused", flush=True)
    write_json(options.out, {"provenance": made, "files": found})
    if any(item["taken"] for item in found.values()):
        sys.exit("a damaged file was taken")


if __name__ == "__main__":
    main()
