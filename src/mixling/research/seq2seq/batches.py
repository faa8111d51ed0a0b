"""Batches of source and target subwords for an encoder-decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from mixling.data.batches import pad_targets
from mixling.tasks.objective import NO_TARGET

SubwordIds = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class PairBatch:
    """Sources, and targets as the decoder reads them: shifted right, beginning with the start token."""

    source: Int[Tensor, "B N"]
    source_mask: Bool[Tensor, "B N"]
    target: Int[Tensor, "B T"]
    num_tokens: int

    @property
    def arguments(self) -> tuple[Tensor | None, ...]:
        """The arguments of `EncoderDecoder.forward`."""
        return self.source, self.source_mask, self.target


def pad_sources(sources: Sequence[SubwordIds], *, pad: int) -> tuple[Int[Tensor, "B N"], Bool[Tensor, "B N"]]:
    """Return sources as one tensor, and its mask."""
    lengths = np.array(list(map(len, sources)))
    width = int(lengths.max())
    return torch.from_numpy(pad_targets(sources, width, pad)), torch.from_numpy(np.arange(width) < lengths[:, None])


def collate_pairs(
    sources: Sequence[SubwordIds], targets: Sequence[SubwordIds], *, pad: int
) -> tuple[PairBatch, Int[Tensor, "B T"]]:
    """Return a batch of pairs, and the subwords to predict at each position of the targets.

    Args:
        pad: the padding, which is also the start token, as in T5.
    """
    source, mask = pad_sources(sources, pad=pad)
    width = max(map(len, targets))
    shifted = [np.concatenate([[pad], target[:-1]]) for target in targets]
    count = sum(map(len, sources)) + sum(map(len, targets))
    batch = PairBatch(source, mask, torch.from_numpy(pad_targets(shifted, width, pad)), count)
    return batch, torch.from_numpy(pad_targets(targets, width, NO_TARGET))
