"""The 8-bit arithmetic of exported models, and the gate that refuses a model which it harms.

Only weights are 8 bits; sums and activations stay float, and ONNX Runtime unpacks the weights once, when it loads.
Measured on one core, 8-bit activations (MatMulInteger) made texts of 8 to 20 words 5 to 20% quicker, but their scale is
taken over the whole batch, so that an answer would depend on the texts beside it: that was judged worth more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.metrics.quantization import QuantizationCheck

# The 8-bit model is refused where it misses one of these by more than chance explains: on 150 texts one answer is 0.67
# points.
MIN_AGREEMENT = 0.99
MAX_ACCURACY_DROP = 0.5
SIGNIFICANCE = 0.01
# Smaller matrices save less than the two nodes and the names that unpacking them takes.
MIN_WEIGHTS = 1024

Int8 = npt.NDArray[np.int8]
Float32 = npt.NDArray[np.float32]


def quantize(values: Float32, axis: int) -> tuple[Int8, Float32]:
    """Symmetric 8-bit integers, -127 to 127, with one scale for each index of `axis`.

    Returns:
        integers of the shape of `values`, and scales that broadcast to it; values = integers * scales, to half a scale.
    """
    others = tuple(i for i in range(values.ndim) if i != axis % values.ndim)
    largest = np.abs(values).max(axis=others, keepdims=True)
    scales = np.where(largest > 0, largest / np.float32(127), np.float32(1)).astype(np.float32)
    return np.clip(np.rint(values / scales), -127, 127).astype(np.int8), scales


def quantize_weights(values: Float32) -> tuple[Int8, Float32]:
    """`quantize` along the axis, of all, that leaves the smaller squared error."""

    def error(packed: tuple[Int8, Float32]) -> float:
        return float(np.square(packed[0] * packed[1] - values, dtype=np.float64).sum())

    return min((quantize(values, axis) for axis in range(values.ndim)), key=error)


def quantize_graph(graph: Any) -> None:
    """Store each large float matrix of an ONNX graph in 8 bits, unpacked by Cast and Mul.

    Not DequantizeLinear, which ONNX Runtime does by default at each run instead of once.
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
    """Return why a model may not be exported in 8 bits; None where it may.

    Both reasons need more than a number beyond its limit, since small validation sets put it there by a single answer:
    an exact one-sided test at the level `SIGNIFICANCE`. For agreement that is a binomial test against `MIN_AGREEMENT`;
    for accuracy a sign test of the texts that got worse against those that got better (McNemar's exact test, where a
    text is one decision).
    """
    problems = []
    if (
        quantization.agreement < MIN_AGREEMENT
        and _at_least(quantization.changed, quantization.decisions, 1 - MIN_AGREEMENT) < SIGNIFICANCE
    ):
        problems.append(
            f"it agrees with the float model on {quantization.agreement:.2%} of decisions, under {MIN_AGREEMENT:.0%}"
        )
    if (
        quantization.accuracy_drop > MAX_ACCURACY_DROP
        and _at_least(quantization.worse, quantization.worse + quantization.better, 0.5) < SIGNIFICANCE
    ):
        problems.append(
            f"its accuracy is {quantization.accuracy_drop:.2f} points lower ({quantization.worse} texts worse, "
            f"{quantization.better} better), "
            f"more than {MAX_ACCURACY_DROP} and than chance explains"
        )
    return None if not problems else f"the 8-bit model is refused: on the validation data {' and '.join(problems)}"


def _at_least(successes: int, trials: int, probability: float) -> float:
    """The chance of so many successes or more in independent trials."""
    from scipy.special import bdtrc

    return float(bdtrc(successes - 1, trials, probability)) if successes else 1.0
