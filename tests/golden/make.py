"""Makes the saved models that tests/golden/test_format.py reads. Run it only for a new version of the format.

python tests/golden/make.py NAME

`model-v1` is the first of format version 1, `plan-v1` the first with a plan for the native engine.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from mixling import PRESETS, ModelConfig, TextEncoder, Vocabulary, build_model
from mixling.answers import LabelSet
from mixling.config import merge, parse
from mixling.data import collate
from mixling.export import export_onnx
from mixling.models import TorchNetwork

HERE = Path(__file__).parent
TEXTS = ["what a film", "", "Ça alors, 你好!", "un-be-lievable " * 20]


def main(name: str) -> None:
    """Write NAME.onnx, and in NAME.json the logits that torch gives with the 8-bit weights' float originals."""
    text = {"max_len": 16, "projection": {"num_features": 128, "num_hashes": 8}}
    changes = {"dim": 8, "embedding": {"window": 1}, "text": text, "num_layers": 1}
    config = parse(ModelConfig, merge(PRESETS["pnlp-mixer-x-small"].config.to_dict(), changes), where="golden")
    vocabulary = Vocabulary.train(["what", "a", "film", "un", "be", "lievable", "ça", "alors"] * 3, size=100)
    labels = LabelSet(("bad", "good", "über"), "single")
    model = build_model(config, num_outputs=3, output="text", seed=7)
    data = export_onnx(
        TorchNetwork(model),
        text=config.text,
        task="classification",
        labels=labels,
        vocabulary=vocabulary,
        precision="int8",
    )
    (HERE / f"{name}.onnx").write_bytes(data)
    encoder = TextEncoder(config.text, vocabulary)
    with torch.inference_mode():
        batches = [collate([item.words], encoder) for item in encoder.encode(TEXTS)]
        logits = [model.eval()(b.features, b.weights, b.index, b.mask)[0].tolist() for b in batches]
    (HERE / f"{name}.json").write_text(json.dumps({"texts": TEXTS, "float_logits": logits}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
