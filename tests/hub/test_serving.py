"""Models on the hub are served by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from mixling import ModelFileError
from mixling.serving import named_models

from .conftest import FakeHub

MODEL = Path(__file__).parents[1] / "golden" / "model-v1.onnx"


def test_a_model_is_one_file(fake_hub: FakeHub) -> None:
    fake_hub.commit("org/model", "main", {"model.onnx": MODEL.read_bytes(), "model.safetensors": b"not needed"})
    ((name, path),) = named_models(["hf:org/model"])
    assert (name, path.read_bytes()) == ("model", MODEL.read_bytes())
    assert fake_hub.downloads() == ["model.onnx"]


@pytest.mark.parametrize(
    ("files", "message"),
    [({"README.md": b"#"}, "has no such file"), ({"model.onnx": MODEL.read_bytes()[:-9]}, "model.onnx is damaged")],
)
def test_another_repository_is_refused(fake_hub: FakeHub, files: dict[str, bytes], message: str) -> None:
    fake_hub.commit("org/other", "main", files)
    with pytest.raises(ModelFileError, match=message):
        named_models(["hf:org/other"])
