"""Models on the hub are served by name: those that predict, and those that generate text."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from mixling import ModelFileError
from mixling.serving import ServerSettings, Service, named_models

from ..serving.generator import write_generator
from .conftest import FakeHub

MODEL = Path(__file__).parents[1] / "golden" / "model-v1.onnx"


def test_a_model_is_one_file(fake_hub: FakeHub) -> None:
    fake_hub.commit("org/model", "main", {"model.onnx": MODEL.read_bytes(), "model.safetensors": b"not needed"})
    ((name, path),) = named_models(["hf:org/model"])
    assert (name, path.read_bytes()) == ("model", MODEL.read_bytes())
    assert fake_hub.downloads() == ["model.onnx"]


def test_a_model_that_generates_text_is_a_folder(fake_hub: FakeHub, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch")
    folder = write_generator(tmp_path / "writer", seed=0, tasks=[])
    fake_hub.commit("org/writer", "main", {file.name: file.read_bytes() for file in folder.iterdir()})
    models = [*named_models(["hf:org/writer@main"]), ("local", folder)]
    with TestClient(Service(ServerSettings(models=tuple(models)))) as client:
        answers = [
            client.post(f"/v1/models/{name}/predict", json={"texts": ["red cat"]}).json()["predictions"]
            for name in ("writer", "local")
        ]
    assert answers[0] == answers[1]
    assert answers[0][0].keys() == {"answer", "score", "stopped"}


@pytest.mark.parametrize(
    ("files", "message"),
    [({"README.md": b"#"}, "holds no model"), ({"model.onnx": MODEL.read_bytes()[:-9]}, "model.onnx is damaged")],
)
def test_another_repository_is_refused(fake_hub: FakeHub, files: dict[str, bytes], message: str) -> None:
    fake_hub.commit("org/other", "main", files)
    with pytest.raises(ModelFileError, match=message):
        named_models(["hf:org/other"])
