"""What 8-bit weights did to a model's decisions, which decides whether it may be exported with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationCheck:
    """What 8 bits did to a model's decisions on the validation data.

    agreement: fraction of the decisions that are those of the float model.
    accuracy_drop: in points (hundredths); negative where 8 bits did better.
    decisions, changed: how many there are, and how many are not those of the float model.
    worse, better: texts of which 8 bits have fewer decisions right than floats, or more.
    """

    agreement: float
    accuracy_drop: float
    decisions: int
    changed: int
    worse: int
    better: int


def compare_quantized(
    before: npt.NDArray, after: npt.NDArray, targets: npt.NDArray, *, lengths: Sequence[int] | None = None
) -> QuantizationCheck:
    """Compare the decisions of two models on the same texts, or on their words one after another.

    Args:
        before, after: decisions (S,) or (S, C) of the float model and of the 8-bit one.
        targets: the right decisions, of the same shape.
        lengths: the number of words of each text; None where a row of decisions is a text.
    """
    assert before.shape == after.shape == targets.shape
    assert len(targets) > 0
    lost = (before == targets).astype(np.int64) - (after == targets)
    texts = lost.reshape(len(lost), -1).sum(1)
    if lengths is not None:
        texts = np.array([part.sum() for part in np.split(texts, np.cumsum(lengths)[:-1])])
    return quantization_check(texts, changed=int((before != after).sum()), decisions=before.size)


def quantization_check(lost: npt.NDArray[np.integer], *, changed: int, decisions: int) -> QuantizationCheck:
    """Return the gate of `decisions`, of which 8 bits changed some.

    Args:
        lost: (texts,) right decisions of the float model less those of the 8-bit one.
    """
    return QuantizationCheck(
        agreement=1 - changed / decisions,
        accuracy_drop=100 * int(lost.sum()) / decisions,
        decisions=decisions,
        changed=changed,
        worse=int((lost > 0).sum()),
        better=int((lost < 0).sum()),
    )
