"""The effect of 8-bit weights on a model's decisions, which decides whether they may be exported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationCheck:
    """The effect of 8-bit weights on the decisions for the validation examples.

    agreement: fraction of decisions equal to the float model's.
    accuracy_drop: in percentage points; negative if 8 bits are better.
    decisions, changed: number of decisions, and of those that differ from the float model's.
    worse, better: number of texts with fewer, or more, right decisions than with the float model.
    """

    agreement: float
    accuracy_drop: float
    decisions: int
    changed: int
    worse: int
    better: int


def compare_quantized(
    before: npt.NDArray[Any],
    after: npt.NDArray[Any],
    targets: npt.NDArray[Any],
    *,
    lengths: Sequence[int] | None = None,
) -> QuantizationCheck:
    """Compare the decisions of two models on the same texts, or on the concatenated words of the texts.

    Args:
        before, after: decisions (S,) or (S, C) of the float model and of the 8-bit one.
        targets: the right decisions, of the same shape.
        lengths: number of words per text; None if each row of decisions is one text.
    """
    assert before.shape == after.shape == targets.shape
    assert len(targets) > 0
    lost = (before == targets).astype(np.int64) - (after == targets)
    texts = lost.reshape(len(lost), -1).sum(1)
    if lengths is not None:
        texts = np.array([part.sum() for part in np.split(texts, np.cumsum(lengths)[:-1])])
    return quantization_check(texts, changed=int((before != after).sum()), decisions=before.size)


def quantization_check(lost: npt.NDArray[np.integer], *, changed: int, decisions: int) -> QuantizationCheck:
    """Return the check of `decisions`; 8-bit weights changed `changed` of them.

    Args:
        lost: (texts,) right decisions of the float model minus the 8-bit one's.
    """
    return QuantizationCheck(
        agreement=1 - changed / decisions,
        accuracy_drop=100 * int(lost.sum()) / decisions,
        decisions=decisions,
        changed=changed,
        worse=int((lost > 0).sum()),
        better=int((lost < 0).sum()),
    )
