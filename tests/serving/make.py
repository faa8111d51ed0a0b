"""Write the models of this folder's tests: one of each task, small, with random weights.

    python tests/serving/make.py

The tests compare the server's answers with those of `Predictor` for the same file, so the weights do not matter.
"""

from __future__ import annotations

from pathlib import Path

from mixling import ModelConfig, TextConfig, build_model
from mixling.answers import LabelSet
from mixling.export import export_onnx
from mixling.mixers import TokenMLPConfig
from mixling.models import TorchNetwork
from mixling.networks import BlockConfig, FeedForwardConfig
from mixling.tasks import ANSWER_ENDS, task_type
from mixling.text import MinHash, ReadingConfig, train_vocabulary

FOLDER = Path(__file__).parent / "models"
SENTENCE = "play some music by the beatles what is the weather in paris tomorrow book a table for two"
LABELS = {
    "intents": ("classification", LabelSet(("music", "weather", "<b>table</b>"), "single"), False),
    "pairs": ("classification", LabelSet(("no", "yes"), "single"), True),
    "topics": ("multi_label", LabelSet(("a", "b", "c"), "multi"), False),
    "stars": ("regression", LabelSet(("value",), "number", {"mean": 2.0, "deviation": 1.5}), False),
    "slots": ("tagging", LabelSet(("O", "B-x", "I-x", "B-y"), "iob"), False),
    "answers": ("question_answering", ANSWER_ENDS, True),
}


def _export(name: str) -> bytes:
    task_name, labels, pairs = LABELS[name]
    task = task_type(task_name)
    layer = BlockConfig(mixers=(TokenMLPConfig(hidden_dim=40),), feed_forward=FeedForwardConfig(ffn_dim=40))
    config = ModelConfig(
        text=TextConfig(projection=MinHash(num_features=64, num_hashes=8), max_len=32), dim=16, layers=(layer,)
    )
    output = task(labels).output
    model = build_model(config, num_outputs=len(labels), output=output, seed=len(name))
    reading = ReadingConfig() if task.windows else None
    vocabulary = train_vocabulary([SENTENCE], TextConfig(vocabulary_size=100))
    return export_onnx(
        TorchNetwork(model), text=config.text, task=task_name, labels=labels,
        vocabulary=vocabulary, precision="float32",
        pairs=pairs, reading=reading,
    )  # fmt: skip


if __name__ == "__main__":
    for name in LABELS:
        (FOLDER / f"{name}.onnx").write_bytes(_export(name))
