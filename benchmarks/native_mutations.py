"""Changed model files opened and asked by the native engine under the address and undefined behavior sanitizers.

    make native-asan                    # or: python benchmarks/native_mutations.py --copies 100000
    make native-asan FUZZ="--minutes 60"    # as many copies as an hour allows

tests/native/mutate.c, built with gcc, changes bytes of a model's file (bits, digits, stretches from elsewhere, its
length), renews the checksum of seven copies in eight, opens the copy and predicts with what still opens. The first
finding ends the run with the sanitizer's report. Models: channel and token MLPs, in 8 bits and in float32, with first
weights, without and with an n-gram branch whose weights are stored in full and one by one; a tagger, one for questions,
and the other mixers with subwords; recurrent ones and linear attention with TSP.
Written to benchmarks/results/native_mutations.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mixling import PRESETS, ModelConfig, Predictor, Vocabulary, build_model
from mixling.answers import LabelSet
from mixling.config import merge, parse
from mixling.export import amend, export_onnx
from mixling.provenance import provenance
from mixling.runtime.onnx import Precision
from mixling.storage import write_json
from mixling.tasks import ANSWER_ENDS, task_type
from mixling.text import NgramBranch, NgramMetadata, ReadingConfig, Words

ROOT = Path(__file__).resolve().parents[1]
NATIVE = ROOT / "src" / "mixling" / "native"
FLAGS = ("-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
SUBWORDS = {"text": {"tokens": "subwords", "projection": {"type": "subwords", "num_features": None}}}
OTHERS: dict[str, Any] = {}
OTHERS["other mixers"] = {
    **SUBWORDS,
    "embedding": {"positions": "learned", "norm": True},
    "layers": [
        {
            "mixers": [
                {"type": "spatial_gating", "ffn_dim": 24, "tiny_attention_dim": 8},
                {"type": "hypermixing", "hidden_dim": 8, "num_heads": 2, "tied": False, "positions": "sinusoidal"},
                {"type": "attention", "num_heads": 2, "positions": {"num_buckets": 8, "max_distance": 20}},
                {"type": "fourier"},
                {"type": "pooling"},
            ]
        }
    ],
}
OTHERS["recurrent mixers and TSP"] = {
    "text": {"projection": {"type": "tsp"}},
    "layers": [
        {
            "mixers": [
                {"type": "recurrent", "hidden_dim": 8, "num_layers": 2},
                {"type": "recurrent", "cell": "qrnn", "hidden_dim": 12, "window": 3},
                {"type": "linear_attention", "num_heads": 2},
                {"type": "synthesizer", "num_heads": 2},
            ]
        }
    ],
}


class Part(NamedTuple):
    """A kind of model.

    Attributes:
        branch: the share of the weights of its n-gram branch that are not 0, if it has one.
        others: a key of `OTHERS`.
    """

    preset: str
    precision: Precision
    pairs: bool = False
    branch: float | None = None
    task: str = "classification"
    others: str = ""

    @property
    def name(self) -> str:
        parts = [self.preset, self.precision, "pairs" * self.pairs, f"branch {self.branch}" if self.branch else ""]
        kind = "" if self.task == "classification" else self.task
        return ", ".join(filter(None, [*parts, kind, self.others]))


PARTS = (
    Part("mixling-tiny", "int8"),
    Part("mixling-tiny", "float32", pairs=True),
    Part("mixling-mixer", "int8"),
    Part("mixling-tiny", "int8", branch=1.0),
    Part("mixling-tiny", "int8", pairs=True, branch=0.2),
    Part("mixling-tiny", "int8", task="tagging"),
    Part("mixling-mixer", "float32", task="question_answering"),
    Part("mixling-tiny", "int8", others="other mixers"),
    Part("mixling-tiny", "float32", task="tagging", others="other mixers"),
    Part("mixling-tiny", "int8", others="recurrent mixers and TSP"),
)
LABELS = {
    "classification": LabelSet(("bad", "good", "über"), "single"),
    "tagging": LabelSet(("O", "B-a", "I-a", "B-b", "I-b"), "iob"),
    "question_answering": ANSWER_ENDS,
}
NGRAMS = NgramMetadata(min_n=3, max_n=4, network=0.5)
# Small tables, so that changes meet the structure of the file more often than a weight.
SMALL = {"text": {"max_len": 32, "projection": {"num_features": 64, "num_hashes": 8}}, "dim": 24}
WORDS = ["what", "a", "film", "unbelievable", "ça", "alors", "the", "quick", "brown", "fox", "over", "lazy", "dogs"]


def main() -> None:
    """Write benchmarks/results/native_mutations.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=100_000, help="of all models together")
    parser.add_argument("--minutes", type=float, help="of all models together, instead of a number of copies")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "native_mutations.json")
    args = parser.parse_args()
    origin = provenance(seed=args.seed, packages=("onnx",))
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        sources = [str(file) for file in NATIVE.glob("*.c") if file.name not in ("python.c", "example.c")]
        program = f"{folder}/mutate"
        main_file = str(ROOT / "tests" / "native" / "mutate.c")
        subprocess.run(["gcc", *FLAGS, f"-I{NATIVE}", main_file, *sources, "-lm", "-o", program], check=True)
        for part in PARTS:
            path = Path(folder) / "model.onnx"
            content = exported(part)
            if part.branch is not None:
                content = amend(content, branch=(branch(content, part.branch), NGRAMS))
            path.write_bytes(content)
            begin = time.perf_counter()
            command = [program, str(path), str(args.copies // len(PARTS)), str(args.seed)]
            if args.minutes is not None:
                command.append(str(max(1, round(60 * args.minutes / len(PARTS)))))
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            counts = dict(item.rsplit(" ", 1) for item in done.stdout.strip().split(", "))
            results[part.name] = {
                **{name: int(count) for name, count in counts.items()},
                "seconds": round(time.perf_counter() - begin, 1),
            }
    write_json(args.out, {**origin, "flags": list(FLAGS), "findings": 0, "results": results})
    print(json.dumps(results, indent=2))


def exported(part: Part) -> bytes:
    """A small model of the kind."""
    marks = {"text": {"segments": part.pairs, "overlap": part.pairs}}
    values = merge(merge(merge(PRESETS[part.preset].config.to_dict(), SMALL), marks), OTHERS.get(part.others, {}))
    vocabulary = Vocabulary.train(WORDS * 3, size=100)
    config = parse(ModelConfig, values, where=part.preset)
    if config.text.projection.num_features is None:
        config = config.model_copy(update={"text": config.text.for_vocabulary(vocabulary)})
    labels, answers = LABELS[part.task], part.task == "question_answering"
    return export_onnx(
        build_model(config, num_outputs=len(labels), output=task_type(part.task).output, seed=0),
        text=config.text,
        task=part.task,
        labels=labels,
        vocabulary=vocabulary,
        precision=part.precision,
        pairs=None if answers else part.pairs,
        reading=ReadingConfig(max_question=8) if answers else None,
    )


def branch(content: bytes, density: float) -> NgramBranch:
    """A branch of the words' terms, with random weights, of which this share is not 0."""
    encoder = Predictor(content).encoder
    encoder.encode([" ".join(WORDS)])
    words = Words.of_table(encoder, 0, NGRAMS.min_n, NGRAMS.max_n)
    terms = np.unique(np.concatenate([words.hashes, words.grams]))
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (len(terms), 3)).astype(np.int8)
    weights[rng.random(weights.shape) > density] = 0
    return NgramBranch(terms, weights, np.full(3, 0.01, np.float32), np.zeros(3, np.float32))


if __name__ == "__main__":
    main()
