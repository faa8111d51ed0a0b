"""Small models of every task with random weights, and a service for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("torch", reason="exports models, which needs the extra train")

from starlette.testclient import TestClient

from mixling import ModelConfig, Predictor, TextConfig, build_model
from mixling.export.onnx import export_onnx
from mixling.mixers.token_mlp import TokenMLPConfig
from mixling.models.block import BlockConfig, FeedForwardConfig
from mixling.serving.app import Service
from mixling.serving.settings import ServerSettings
from mixling.tasks import task_type
from mixling.tasks.question_answering import ANSWER_ENDS
from mixling.text.encoder import train_vocabulary
from mixling.text.fingerprint import MinHash
from mixling.text.labels import LabelSet
from mixling.text.windows import ReadingConfig

GOLDEN = Path(__file__).parents[1] / "golden"
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
        model, text=config.text, task=task_name, labels=labels, vocabulary=vocabulary, precision="float32",
        pairs=pairs, reading=reading,
    )  # fmt: skip


@pytest.fixture(scope="session")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Model files by name."""
    folder = tmp_path_factory.mktemp("served")
    for name in LABELS:
        (folder / f"{name}.onnx").write_bytes(_export(name))
    return {name: folder / f"{name}.onnx" for name in LABELS}


@pytest.fixture(scope="session")
def predictors(paths: dict[str, Path]) -> dict[str, Predictor]:
    return {name: Predictor(path) for name, path in paths.items()}


@pytest.fixture(scope="session")
def service(paths: dict[str, Path]) -> Service:
    return Service(ServerSettings(models=tuple(paths.items())))


@pytest.fixture(scope="session")
def client(service: Service) -> Iterator[TestClient]:
    with TestClient(service) as found:
        yield found


@pytest.fixture(scope="session")
def make_client() -> Callable[..., TestClient]:
    """A client of a service with other settings, of the first golden model; use it as a context manager."""

    def make(models: dict[str, Path] | None = None, **settings: Any) -> TestClient:
        models = models or {"golden": GOLDEN / "model-v1.onnx"}
        return TestClient(Service(ServerSettings(models=tuple(models.items()), **settings)))

    return make
