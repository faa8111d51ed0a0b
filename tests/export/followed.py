"""What `GraphLimits` follows of a graph, beside what ONNX Runtime computes."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime

from mixling.runtime.onnx.file import read_model_file
from mixling.runtime.onnx.limits import GraphLimits
from mixling.runtime.onnx.shapes import Known


class Recording(GraphLimits):
    """Keeps what is known of every result."""

    def __init__(self, content: bytes) -> None:
        _, graph = read_model_file(content)
        self.followed: dict[str, Known] = {}
        self.row_dim = graph.inputs["cached"][1][1] or 0
        self.has_weights = "weights" in graph.inputs
        super().__init__(graph, self.row_dim)

    def _follow(self, nodes, known, **limits) -> None:  # type: ignore[no-untyped-def]
        super()._follow(nodes, known, **limits)
        self.followed.update(known)


def assert_followed(content: bytes, *, texts: int, tokens: int) -> None:
    """Every result of the graph has the type, shape and, where they are followed, the values that were foreseen."""
    limits = Recording(content)
    limits.check_logits(texts, tokens)
    proto = onnx.load_from_string(content)
    names = [name for node in proto.graph.node for name in node.output if name]
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(1)
    feed = {
        "cached": random.standard_normal((texts * tokens, limits.row_dim)).astype(np.float32),
        "positions": np.zeros((0, 1), np.int32),
        "index": random.integers(1, texts * tokens + 1, (texts, tokens)).astype(np.int32),
    }
    if limits.has_weights:
        feed["weights"] = np.zeros((0, 1), np.float32)
    assert names
    for name, found in zip(names, session.run(names, feed), strict=True):
        known = limits.followed[name]
        if None in known.shape:  # the rows that were cached, after one of zeros
            assert found.shape == (1 + texts * tokens, limits.row_dim), name
            continue
        assert (found.shape, found.dtype) == (
            known.shape,
            np.dtype(onnx.helper.tensor_dtype_to_np_dtype(known.kind)),
        ), name
        if known.value is not None:
            np.testing.assert_array_equal(found, known.value, err_msg=name)
        if known.positive:
            assert (found > 0).all(), name
