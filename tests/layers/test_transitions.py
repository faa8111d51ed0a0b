"""The loss of sequences of tags against the sum over all sequences."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from mixling.answers import LabelSet
from mixling.layers import TagScores, sequence_losses
from mixling.tasks import LossConfig, Tagging

TAGS, WORDS, NONE = 3, 4, -100


def made(seed: int = 0) -> TagScores:
    generator = torch.Generator().manual_seed(seed)
    return TagScores(
        torch.randn(4, WORDS, TAGS, generator=generator, dtype=torch.float64).requires_grad_(),
        (2 * torch.randn(TAGS, TAGS, generator=generator, dtype=torch.float64)).requires_grad_(),
    )


def expected_loss(logits: Tensor, transitions: Tensor, own: list[list[float]]) -> float:
    """log Z - the mean score, where the tag of each word is drawn from its probabilities `own`."""

    def score(ids: tuple[int, ...]) -> float:
        total = sum(logits[word, tag].item() for word, tag in enumerate(ids))
        return total + sum(transitions[a, b].item() for a, b in itertools.pairwise(ids))

    every = list(itertools.product(range(TAGS), repeat=len(own)))
    log_z = math.log(sum(math.exp(score(ids)) for ids in every))
    return log_z - sum(math.prod(row[tag] for row, tag in zip(own, ids, strict=True)) * score(ids) for ids in every)


TARGETS = torch.tensor([[0, 1, 2, 2], [1, 1, NONE, NONE], [2, NONE, 0, NONE], [NONE] * 4])


def test_hard_targets() -> None:
    scores = made()
    losses, words = sequence_losses(scores, TARGETS, ignored=NONE)
    for row, targets in enumerate(TARGETS.tolist()):
        kept = [word for word, tag in enumerate(targets) if tag != NONE]  # others are as if they were not there
        assert words[row] == len(kept)
        own = [[float(targets[word] == tag) for tag in range(TAGS)] for word in kept]
        expected = expected_loss(scores.logits[row, kept], scores.transitions, own) if kept else 0.0
        assert losses[row].item() == pytest.approx(expected)


def test_soft_targets() -> None:
    scores = made(1)
    own = torch.rand(4, WORDS, TAGS, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    own /= own.sum(-1, keepdim=True)
    own[1, 2:] = 0  # padding
    losses, words = sequence_losses(scores, own, ignored=NONE)
    assert words.tolist() == [4, 2, 4, 4]
    for row, length in enumerate(words.tolist()):
        expected = expected_loss(scores.logits[row, :length], scores.transitions, own[row, :length].tolist())
        assert losses[row].item() == pytest.approx(expected)


def test_gradients() -> None:
    scores = made(3)

    def loss(logits: Tensor, transitions: Tensor) -> Tensor:
        return sequence_losses(TagScores(logits, transitions), TARGETS, ignored=NONE)[0].sum()

    assert torch.autograd.gradcheck(loss, (scores.logits, scores.transitions))


def test_extreme_scores_have_a_finite_loss() -> None:
    logits = torch.full((1, 3, TAGS), -60.0)
    logits[0, :, 0] = 60
    transitions = torch.full((TAGS, TAGS), 80.0)
    transitions[0, 0] = -80
    for item in (logits, transitions):
        item.requires_grad_()
    losses, _ = sequence_losses(TagScores(logits, transitions), torch.tensor([[0, 0, 0]]), ignored=NONE)
    losses.sum().backward()
    assert torch.isfinite(losses).all()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("soft", [False, True])
def test_a_sentence_counts_by_its_weight_and_the_mean_class_weight_of_its_words(soft: bool) -> None:
    counts = np.array([6, 2, 1])
    task = Tagging(LabelSet(("O", "B-x", "I-x"), "iob"), LossConfig(class_weights="balanced"), counts)
    assert task.class_weights is not None
    scores, weights = made(4), torch.tensor([1.0, 0.5, 2.0, 1.0], dtype=torch.float64)
    targets = torch.nn.functional.one_hot(TARGETS.clamp_min(0), TAGS).double() if soft else TARGETS
    if soft:
        targets = targets * (TARGETS != NONE)[..., None]
    loss, weight = task.loss(scores, targets, weights)
    losses, _ = sequence_losses(scores, TARGETS, ignored=NONE)
    expected = total = 0.0
    for row, ids in enumerate(TARGETS.tolist()):
        own = [float(task.class_weights[tag]) for tag in ids if tag != NONE]
        if own:
            expected += losses[row].item() * float(weights[row]) * sum(own) / len(own)
            total += float(weights[row]) * sum(own)
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    assert weight.item() == pytest.approx(total, rel=1e-6)
