"""Small models of each kind as seeds: python fuzz/seeds.py FOLDER

Of each model the parts that the C core reads: weights, metadata, vocabulary and plan, without the graph's operators and
without the seal, which the harness writes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx

from mixling import PRESETS, ModelConfig, Predictor, Vocabulary, build_model
from mixling.answers import LabelSet
from mixling.config import merge, parse
from mixling.export import amend, export_onnx
from mixling.models import TorchNetwork
from mixling.runtime.onnx.session import Precision
from mixling.tasks import ANSWER_ENDS, task_type
from mixling.text import NgramBranch, NgramMetadata, ReadingConfig, Words

SEAL_LENGTH = 84
SUBWORDS = {"text": {"tokens": "subwords", "projection": {"type": "subwords", "num_features": None}}}
OTHERS: dict[str, Any] = {
    "mixers": {
        **SUBWORDS,
        "embedding": {"positions": "learned", "norm": True},
        "layers": [
            {
                "mixers": [
                    {"type": "spatial_gating", "ffn_dim": 12, "tiny_attention_dim": 8},
                    {"type": "hypermixing", "hidden_dim": 4, "num_heads": 2, "tied": False, "positions": "sinusoidal"},
                    {"type": "attention", "num_heads": 2, "positions": {"num_buckets": 8, "max_distance": 20}},
                    {"type": "fourier"},
                    {"type": "pooling"},
                ]
            }
        ],
    },
    "recurrent": {
        "text": {"projection": {"type": "tsp"}},
        "layers": [
            {
                "mixers": [
                    {"type": "recurrent", "hidden_dim": 4, "num_layers": 2},
                    {"type": "recurrent", "cell": "qrnn", "hidden_dim": 6, "window": 3},
                    {"type": "linear_attention", "num_heads": 2},
                    {"type": "synthesizer", "num_heads": 2},
                ]
            }
        ],
    },
    "one layer": {"num_layers": 1},
}


class Kind(NamedTuple):
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
    others: str = "one layer"


KINDS = {
    "int8": Kind("mixling-tiny", "int8"),
    "pairs": Kind("mixling-tiny", "float32", pairs=True),
    "mixer": Kind("mixling-mixer", "int8"),
    "branch": Kind("mixling-tiny", "int8", branch=1.0),
    "sparse-branch": Kind("mixling-tiny", "int8", pairs=True, branch=0.2),
    "tags": Kind("mixling-tiny", "int8", task="tagging"),
    "answers": Kind("mixling-mixer", "float32", task="question_answering"),
    "others": Kind("mixling-tiny", "int8", others="mixers"),
    "others-tags": Kind("mixling-tiny", "float32", task="tagging", others="mixers"),
    "recurrent": Kind("mixling-tiny", "int8", others="recurrent"),
}
LABELS = {
    "classification": LabelSet(("bad", "good", "über"), "single"),
    "tagging": LabelSet(("O", "B-a", "I-a", "B-b", "I-b"), "iob"),
    "question_answering": ANSWER_ENDS,
}
NGRAMS = NgramMetadata(min_n=3, max_n=4, network=0.5)
# Small tables, so that changes meet the structure of the file more often than a weight.
SMALL = {"text": {"max_len": 16, "projection": {"num_features": 32, "num_hashes": 4}}, "dim": 8}
WORDS = ["what", "a", "film", "unbelievable", "ça", "alors", "the", "quick", "brown", "fox", "over", "lazy", "dogs"]


def export(kind: Kind) -> bytes:
    """Return a small model of the kind with its first weights."""
    marks = {"text": {"segments": kind.pairs, "overlap": kind.pairs}}
    preset = PRESETS[kind.preset].config.to_dict()
    values = merge(merge(merge(preset, SMALL), marks), OTHERS[kind.others])
    vocabulary = Vocabulary.train(WORDS * 3, size=60)
    config = parse(ModelConfig, values, where=kind.preset)
    if config.text.projection.num_features is None:
        config = config.model_copy(update={"text": config.text.for_vocabulary(vocabulary)})
    labels, answers = LABELS[kind.task], kind.task == "question_answering"
    content = export_onnx(
        TorchNetwork(build_model(config, num_outputs=len(labels), output=task_type(kind.task).output, seed=0)),
        text=config.text,
        task=kind.task,
        labels=labels,
        vocabulary=vocabulary,
        precision=kind.precision,
        pairs=None if answers else kind.pairs,
        reading=ReadingConfig(max_question=8, max_answer=4) if answers else None,
    )
    return content if kind.branch is None else amend(content, branch=(_branch(content, kind.branch), NGRAMS))


def _branch(content: bytes, density: float) -> NgramBranch:
    """Return a branch of the words' terms, with random weights, of which this share is not 0."""
    encoder = Predictor(content).encoder
    encoder.encode([" ".join(WORDS)])
    words = Words.of_table(encoder, 0, NGRAMS.min_n, NGRAMS.max_n)
    terms = np.unique(np.concatenate([words.hashes, words.grams]))
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (len(terms), 3)).astype(np.int8)
    weights[rng.random(weights.shape) > density] = 0
    return NgramBranch(
        terms, np.ones(len(terms), np.uint8), weights, np.full(3, 0.01, np.float32), np.zeros(3, np.float32)
    )


def read_by_core(content: bytes) -> bytes:
    """Return a model file without its seal and without what the C core skips."""
    model = onnx.ModelProto.FromString(content)
    del model.graph.node[:], model.graph.input[:], model.graph.output[:], model.graph.value_info[:]
    used = model.SerializeToString()
    seal = model.metadata_props[-1]
    assert seal.key == "mixling_sha256"
    return used[:-SEAL_LENGTH]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, kind in KINDS.items():
        (folder / name).write_bytes(read_by_core(export(kind)))
