"""The graph that mixling writes itself, beside the one that torch traces."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from mixling import PRESETS, build_model, model_config
from mixling.export.encode import encode_model
from mixling.export.graph_builder import WrittenGraph
from mixling.export.layers import layers_of, table_of
from mixling.export.native_modules import layer_plan
from mixling.export.quantize import quantize, quantize_graph
from mixling.export.trace import ExportedModel, trace
from mixling.export.write import write_graph
from mixling.mixers import TokenMLPConfig
from mixling.models import TorchNetwork
from mixling.networks import Output, sized


def exported(name: str, precision: Any = "float32", output: Output = "text", **changes: Any) -> ExportedModel:
    text = {"text": {"max_len": 12}, "dim": 16, **changes}
    config = sized(model_config(name, text), vocabulary=70)
    model = build_model(config, 3, output=output, seed=1).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():  # what begins at zero or one must not hide an error
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
    table: Any = table_of(TorchNetwork(model).weights())
    table, scale = quantize(table, axis=1) if precision == "int8" else (table, None)
    return ExportedModel(model, table, scale, has_weights=config.text.projection.weighted)


def write(module: ExportedModel) -> WrittenGraph | None:
    scale = None if module.scale is None else module.scale.numpy()
    network = TorchNetwork(module.model)
    layers = layers_of(network, network.weights(), network.module())
    return write_graph(layers, module.table.numpy(), scale, has_weights=module.has_weights)


def texts(num_columns: int) -> dict[str, np.ndarray]:
    """The input of texts of 5, 1 and no tokens, without weights."""
    random = np.random.default_rng(3)
    return {
        "cached": random.standard_normal((2, num_columns)).astype(np.float32),
        "positions": random.integers(0, 60, (4, 3)).astype(np.int32),
        "index": np.array([[6, 1, 3, 2, 4], [5, 0, 0, 0, 0], [0, 0, 0, 0, 0]], np.int32),
    }


def run(graph: WrittenGraph | None) -> list[np.ndarray]:
    """The logits and rows of `texts`."""
    assert graph is not None
    content = encode_model(graph, {"mixling": "{}"}, producer=("mixling", "1"))
    proto = onnx.ModelProto.FromString(content)
    assert proto.SerializeToString(deterministic=True) == content, "as protobuf writes it"
    onnx.checker.check_model(proto, full_check=True)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    feed = texts(session.get_inputs()[0].shape[1])
    if any(item.name == "weights" for item in session.get_inputs()):
        feed["weights"] = np.random.default_rng(4).standard_normal((4, 3)).astype(np.float32)
    return session.run(["logits", "rows"], feed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "output", "precision"),
    [
        ("mixling-mixer", "text", "int8"),
        ("pnlp-mixer-base", "tokens", "float32"),
        ("amlp-tiny", "text", "int8"),
        ("bert-tiny", "text", "int8"),
        ("hypermixer", "text", "float32"),
    ],
)
def test_the_written_graph_equals_the_traced_one(name: str, output: Output, precision: str) -> None:
    module = exported(name, precision, output, num_layers=1)
    written, traced = write(module), trace(module, max_len=12)
    assert written is not None
    if precision == "int8":
        quantize_graph(written)
        quantize_graph(traced)
    assert len(written.nodes) <= len(traced.nodes)
    sizes = [
        sorted(array.size for array in graph.weights.values() if array.dtype == np.int8) for graph in (written, traced)
    ]
    assert sizes[0] == sizes[1], "the same matrices have 8 bits"
    for ours, theirs in zip(run(written), run(traced), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_written(name: str) -> None:
    layers = PRESETS[name].config.to_dict()["layers"][:1]
    mixers = [mixer for layer in layers for mixer in layer["mixers"]]
    for mixer in mixers:
        mixer.update({"num_heads": 2} if "num_heads" in mixer else {})
    assert write(exported(name, layers=layers, num_layers=len(layers))) is not None


def test_the_authors_positions_are_written_as_they_are_computed() -> None:
    mixer = {"type": "hypermixing", "hidden_dim": 6, "positions": "idiap"}
    module = exported("pnlp-mixer-x-small", "float32", "text", layers=[{"mixers": [mixer]}], num_layers=1)
    layers: Any = module.model.encoder.layers
    assert layer_plan(Mock(), layers[0].mixers[0]) is None, "the native engine does not know them"
    written = run(write(module))
    with torch.no_grad():
        expected = module(*map(torch.from_numpy, texts(16).values()))
    for ours, theirs in zip(written, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_another_class_is_not_taken_for_its_parent() -> None:
    class Doubled(TokenMLPConfig):
        """Another mixer of the same type."""

    module = exported("pnlp-mixer-x-small")
    assert write(module) is not None
    block = module.model.config.blocks[0]
    other = block.model_copy(update={"mixers": (Doubled(),)})
    module.model.config = module.model.config.model_copy(update={"layers": (other,), "num_layers": 1})
    assert write(module) is None
