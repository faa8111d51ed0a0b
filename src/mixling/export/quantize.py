"""Quantize exported models to 8 bits, and reject quantization that harms a model.

Only weights have 8 bits; sums and activations stay float, and ONNX Runtime unpacks the weights once, on loading. On one
core, 8-bit activations (MatMulInteger) were 5 to 20% faster for texts of 8 to 20 words; but their scale depends on the
whole batch, so a prediction would depend on the other texts in it. Independence was judged more valuable.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.arrays import Int8
from mixling.metrics.quantization import QuantizationCheck

# The 8-bit model is rejected if it misses one of these by more than chance explains: of 150 texts, one is 0.67 points.
MIN_AGREEMENT = 0.99
MAX_ACCURACY_DROP = 0.5
SIGNIFICANCE = 0.01
# Quantizing smaller matrices saves less than the nodes and names for unpacking them take.
MIN_WEIGHTS = 1024

_Float32 = npt.NDArray[np.float32]


def quantize(values: _Float32, axis: int) -> tuple[Int8, _Float32]:
    """Quantize to symmetric 8-bit integers, -127 to 127, with one scale for each index of `axis`.

    Returns:
        integers of the shape of `values`, and scales that broadcast to it; the error of integers * scales is at most
        half a scale.
    """
    others = tuple(i for i in range(values.ndim) if i != axis % values.ndim)
    largest = np.abs(values).max(axis=others, keepdims=True)
    scales = np.where(largest > 0, largest / np.float32(127), np.float32(1)).astype(np.float32)
    return np.clip(np.rint(values / scales), -127, 127).astype(np.int8), scales


def quantize_weights(values: _Float32) -> tuple[Int8, _Float32]:
    """Quantize along the axis with the smallest squared error."""

    def error(packed: tuple[Int8, _Float32]) -> float:
        return float(np.square(packed[0] * packed[1] - values, dtype=np.float64).sum())

    return min((quantize(values, axis) for axis in range(values.ndim)), key=error)


def quantize_graph(graph: Any) -> None:
    """Store each large float matrix of an ONNX graph in 8 bits, unpacked by Cast and Mul.

    DequantizeLinear would be computed on each run by default, instead of once.
    """
    from onnx import TensorProto, helper, numpy_helper

    unpacking = []
    for tensor in list(graph.initializer):
        if tensor.data_type != TensorProto.FLOAT or len(tensor.dims) < 2 or np.prod(tensor.dims) < MIN_WEIGHTS:
            continue
        name = tensor.name
        packed, scales = quantize_weights(numpy_helper.to_array(tensor))
        tensor.CopyFrom(numpy_helper.from_array(packed, f"{name}.int8"))
        graph.initializer.append(numpy_helper.from_array(scales, f"{name}.scale"))
        unpacking += [
            helper.make_node("Cast", [f"{name}.int8"], [f"{name}.cast"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"{name}.cast", f"{name}.scale"], [name]),
        ]
    nodes = [*unpacking, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def quantization_problem(quantization: QuantizationCheck) -> str | None:
    """Return why a model may not be exported in 8 bits; None if it may.

    Exceeding a limit is not enough, because on small validation sets a single prediction can do that; the excess must
    also be significant in an exact one-sided test at the level `SIGNIFICANCE`. For agreement this is a binomial test
    against `MIN_AGREEMENT`; for accuracy a sign test of texts that got worse against those that got better (McNemar's
    exact test if a text is one decision).
    """
    check = quantization
    problems = []
    changed = _tail_probability(check.changed, check.decisions, 1 - MIN_AGREEMENT)
    if check.agreement < MIN_AGREEMENT and changed < SIGNIFICANCE:
        problems.append(
            f"it agrees with the float model on {check.agreement:.2%} of decisions, less than {MIN_AGREEMENT:.0%}"
        )
    worse = _tail_probability(check.worse, check.worse + check.better, 0.5)
    if check.accuracy_drop > MAX_ACCURACY_DROP and worse < SIGNIFICANCE:
        problems.append(
            f"its accuracy is {check.accuracy_drop:.2f} points lower ({check.worse} texts worse, {check.better} "
            f"better), more than {MAX_ACCURACY_DROP} and more than chance explains"
        )
    return None if not problems else f"the 8-bit model is rejected: on the validation data {' and '.join(problems)}"


def _tail_probability(successes: int, trials: int, probability: float) -> float:
    """Return the probability of at least this many successes in independent trials."""
    from scipy.special import bdtrc

    return float(bdtrc(successes - 1, trials, probability)) if successes else 1.0
