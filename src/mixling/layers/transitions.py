"""The loss of sequences of tags with learned transitions: a linear-chain conditional random field.

    loss = log Z - sum_t logits[t, y_t] - sum_t A[y_{t-1}, y_t]

log Z is the logarithm of the sum over all C^W sequences, computed from left to right: O(W C^2) (Lafferty, McCallum and
Pereira, ICML 2001). Decided beyond the paper: Z includes the sequences that IOB2 excludes, whose transitions become
improbable in training, and which `mixling.answers.tag_sequences` excludes in predictions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from mixling.layers.fused import SequenceLosses, can_fuse
from mixling.layers.lengths import real_first


class TagScores(NamedTuple):
    """What a model with transitions returns in training.

    Attributes:
        logits: (B, N, C) of the words.
        transitions: (C, C), the score of each tag after each other one.
    """

    logits: Float[Tensor, "B N C"]
    transitions: Float[Tensor, "C C"]

    def float(self) -> TagScores:
        """Return both in float32."""
        return TagScores(self.logits.float(), self.transitions.float())


def sequence_losses(
    scores: TagScores, targets: Int[Tensor, "B N"] | Float[Tensor, "B N C"], *, ignored: int
) -> tuple[Float[Tensor, " B"], Int[Tensor, " B"]]:
    """Return the loss of each sentence, and its number of words with a target; others count as if they were not there.

    Args:
        targets: the ids of the tags, or their probabilities, which are taken as independent.
        ignored: the id of words without a target; without one, all probabilities are 0.
    """
    soft = targets.is_floating_point()
    mask = targets.sum(-1) > 0 if soft else targets != ignored
    if not soft and can_fuse(scores.logits, torch.is_grad_enabled()):
        return SequenceLosses.apply(*scores, targets.long(), ignored), mask.sum(1)
    order = real_first(mask)  # words with a target
    mask = mask.gather(1, order)
    logits = scores.logits.gather(1, order[..., None].expand_as(scores.logits))
    own = targets.to(logits.dtype) if soft else F.one_hot(targets.clamp_min(0), logits.shape[-1]).to(logits.dtype)
    own = own.gather(1, order[..., None].expand_as(own))
    follows = ((own[:, :-1] @ scores.transitions) * own[:, 1:]).sum(-1)
    score = ((logits * own).sum(-1) * mask).sum(1) + (follows * mask[:, 1:]).sum(1)
    losses = (_log_sums(logits, scores.transitions, mask) - score) * mask[:, 0]
    return losses, mask.sum(1)


def _log_sums(logits: Tensor, transitions: Tensor, mask: Tensor) -> Tensor:
    """Return log Z (B,) of the first words of each row, as many as the mask has."""
    # Products of probabilities, not sums of logarithms: a matrix product for each word.
    highest = transitions.max().detach()
    factors = (transitions - highest).exp()
    sums = logits[:, 0]
    for word in range(1, logits.shape[1]):
        peak = sums.max(-1, keepdim=True).values.detach()
        after = ((sums - peak).exp() @ factors).clamp_min(torch.finfo(sums.dtype).tiny).log() + peak + highest
        sums = torch.where(mask[:, word, None], after + logits[:, word], sums)
    return sums.logsumexp(-1)
