"""Quantize exported models to 8 bits, and reject quantization that harms a model.

Only weights have 8 bits; sums and activations stay float, and ONNX Runtime unpacks the weights once, on loading. On one
core, 8-bit activations (MatMulInteger) were 5 to 20% faster for texts of 8 to 20 words; but their scale depends on the
whole batch, so a prediction would depend on the other texts in it. Independence was judged more valuable.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from mixling.arrays import Int8
from mixling.export.graph_builder import WrittenGraph
from mixling.metrics.quantization import QuantizationCheck
from mixling.runtime.onnx.graph import FLOAT, Node

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


def quantize_graph(graph: WrittenGraph) -> None:
    """Store each large float matrix of a graph in 8 bits, unpacked by Cast and Mul.

    DequantizeLinear would be computed on each run by default, instead of once.
    """
    unpacking: list[Node] = []
    stored: dict[str, npt.NDArray[Any]] = {}
    all_scales: dict[str, npt.NDArray[Any]] = {}
    for name, values in graph.weights.items():
        if values.dtype != np.float32 or values.ndim < 2 or values.size < MIN_WEIGHTS:
            stored[name] = values
            continue
        stored[f"{name}.int8"], all_scales[f"{name}.scale"] = quantize_weights(values)
        unpacking += [
            Node("Cast", (f"{name}.int8",), (f"{name}.cast",), {"to": FLOAT}),
            Node("Mul", (f"{name}.cast", f"{name}.scale"), (name,), {}),
        ]
    graph.weights = stored | all_scales
    graph.nodes = [*unpacking, *graph.nodes]


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
    if successes == 0:
        return 1.0
    numbers = np.arange(successes, trials + 1)
    logs = np.array([math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1) for k in numbers])
    logs += numbers * math.log(probability) + (trials - numbers) * math.log1p(-probability)
    return float(min(np.exp(logs).sum(), 1.0))
