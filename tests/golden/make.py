"""Makes the saved model of format version 1 that tests/golden/test_format.py reads. Run it only for a new version.

python tests/golden/make.py
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from mixling.config import merge, parse
from mixling.data.batches import collate
from mixling.export.onnx import export_onnx
from mixling.models.model import ModelConfig, build_model
from mixling.models.presets import PRESETS
from mixling.text.encoder import TextEncoder
from mixling.text.labels import LabelSet
from mixling.text.vocabulary import Vocabulary

HERE = Path(__file__).parent
TEXTS = ["what a film", "", "Ça alors, 你好!", "un-be-lievable " * 20]


def main() -> None:
    """Write model-v1.onnx, and the logits that torch gives with the 8-bit weights' float originals."""
    text = {"max_len": 16, "projection": {"num_features": 128, "num_hashes": 8}}
    changes = {"dim": 8, "embedding": {"window": 1}, "text": text, "num_layers": 1}
    config = parse(ModelConfig, merge(PRESETS["pnlp-mixer-x-small"].config.to_dict(), changes), where="golden")
    vocabulary = Vocabulary.train(["what", "a", "film", "un", "be", "lievable", "ça", "alors"] * 3, size=100)
    labels = LabelSet(("bad", "good", "über"), "single")
    model = build_model(config, num_outputs=3, output="text", seed=7)
    data = export_onnx(
        model, text=config.text, task="classification", labels=labels, vocabulary=vocabulary, precision="int8"
    )
    (HERE / "model-v1.onnx").write_bytes(data)
    encoder = TextEncoder(config.text, vocabulary)
    with torch.inference_mode():
        batches = [collate([item.words], encoder) for item in encoder.encode(TEXTS)]
        logits = [model.eval()(b.positions, b.weights, b.index, b.mask)[0].tolist() for b in batches]
    (HERE / "model-v1.json").write_text(json.dumps({"texts": TEXTS, "float_logits": logits}, indent=1) + "\n")


if __name__ == "__main__":
    main()
