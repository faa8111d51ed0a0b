"""Pairs of texts as training data: one task, or a mixture of several and of span corruption."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from mixling.data.batches import Indices, length_batches, training_batches
from mixling.errors import TrainingError
from mixling.seq2seq.batches import PairBatch, SubwordIds, collate_pairs
from mixling.seq2seq.mixture import MixingConfig, draw, draws
from mixling.seq2seq.objective import TextToText
from mixling.seq2seq.pairs import Pair
from mixling.seq2seq.recombination import Lexicon, learn_lexicon, recombine
from mixling.tasks.base import NO_TARGET
from mixling.training.dataset_adapter import Forward, TrainingData

_VALIDATION_BATCH = 128
_VALIDATION_LOGITS = 1 << 26  # numbers


class Part(ABC):
    """One task of a mixture.

    Attributes:
        lengths: (len,) subwords of source and target together, roughly; batches are of examples of like length.
        validation: sources and targets of the examples that measures are made on.
    """

    name: str
    lengths: npt.NDArray[np.int32]
    validation: Sequence[tuple[SubwordIds, SubwordIds]]

    def __len__(self) -> int:
        return len(self.lengths)

    @abstractmethod
    def pair(self, index: int, rng: np.random.Generator) -> tuple[SubwordIds, SubwordIds]:
        """Source and target of a training example, each with its end piece."""

    def where(self, index: int) -> tuple[str, int] | None:
        """File and line of a training example, if they are known."""
        return None


@dataclass(kw_only=True)
class PairPart(Part):
    """Pairs that are known beforehand.

    Args:
        recombination: share of the lexicon's words in an example that others take the place of.

    Attributes:
        lexicon: found in the training pairs; None without recombination.
    """

    name: str
    train: Sequence[tuple[SubwordIds, SubwordIds]]
    validation: Sequence[tuple[SubwordIds, SubwordIds]]
    locations: Sequence[Pair]
    recombination: float = 0.0
    lengths: npt.NDArray[np.int32] = field(init=False)
    lexicon: Lexicon | None = field(init=False)

    def __post_init__(self) -> None:
        self.lengths = np.array([len(source) + len(target) for source, target in self.train], np.int32)
        self.lexicon = learn_lexicon(self.train) if self.recombination else None

    def pair(self, index: int, rng: np.random.Generator) -> tuple[SubwordIds, SubwordIds]:
        if self.lexicon is None:
            return self.train[index]
        return recombine(*self.train[index], self.lexicon, self.recombination, rng)

    def where(self, index: int) -> tuple[str, int]:
        return self.locations[index].path, self.locations[index].line


@dataclass(frozen=True, kw_only=True)
class PairData(TrainingData):
    """A mixture of tasks; an epoch has as many examples as all of them together, drawn by their rates.

    Measures are made with the right subwords before each one. What greedy search would write is right exactly where
    each next piece is then the likeliest, so `exact_match` needs no search; only an answer that is right in other
    subwords, which a text's own are, is missed. Of several tasks `exact_match` is the mean of those of pairs.
    """

    objective: TextToText
    parts: Sequence[Part]
    mixing: MixingConfig
    pad: int

    def __post_init__(self) -> None:
        assert len({part.name for part in self.parts}) == len(self.parts), "two tasks of one name"

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def epoch(self, number: int, batch_size: int, *, seed: int) -> list[Indices]:
        sizes = {part.name: len(part) for part in self.parts}
        firsts = np.cumsum([0, *sizes.values()])[:-1]
        counts = draws(self.mixing, sizes)
        chosen = np.concatenate(
            [
                first + draw(size, count, epoch=number, seed=[seed, 4, location])
                for location, (first, size, count) in enumerate(zip(firsts, sizes.values(), counts, strict=True))
            ]
        )
        lengths = np.concatenate([part.lengths for part in self.parts])[chosen]
        return [chosen[batch] for batch in training_batches(lengths, batch_size, seed=seed, epoch=number)]

    def batch(
        self, indices: Indices, chosen: Indices, *, seed: int, step: int
    ) -> tuple[PairBatch, Tensor, Tensor | None]:
        pairs = []
        for location in chosen:
            part, index = self._find(int(indices[location]))
            pairs.append(part.pair(index, np.random.default_rng([seed, 2, step, int(location)])))
        sources, targets = zip(*pairs, strict=True)
        return *collate_pairs(sources, targets, pad=self.pad), None

    def evaluate(self, model: nn.Module, forward: Forward) -> tuple[dict[str, float], float]:
        scores = {part.name: evaluate_pairs(part.validation, forward, pad=self.pad) for part in self.parts}
        total = sum(scores.values(), Scores())
        if not math.isfinite(total.loss):
            raise TrainingError("an answer on validation is not finite")
        values = total.numbers()
        known = [scores[part.name].exact_match for part in self.parts if isinstance(part, PairPart)]
        if known:
            values["exact_match"] = float(np.mean(known))
        if len(self.parts) > 1:
            values |= {f"{name}_{key}": value for name, item in scores.items() for key, value in item.numbers().items()}
        return values, total.loss / max(total.subwords, 1)

    def where(self, index: int) -> tuple[str, int] | None:
        part, own = self._find(index)
        return part.where(own)

    def _find(self, index: int) -> tuple[Part, int]:
        """The part that an example is of, and its number there."""
        for part in self.parts:
            if index < len(part):
                return part, index
            index -= len(part)
        raise IndexError(f"example {index} beyond the last")


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Sums over pairs, whose right subwords stood before each that was told; `exact` numbers those told whole."""

    pairs: int = 0
    subwords: int = 0
    loss: float = 0.0
    hits: int = 0
    exact: tuple[int, ...] = ()

    def __add__(self, other: Scores) -> Scores:
        return Scores(**{name: getattr(self, name) + getattr(other, name) for name in vars(self)})

    @property
    def exact_match(self) -> float:
        """The part of the pairs of which every piece was told."""
        return len(self.exact) / max(self.pairs, 1)

    def numbers(self) -> dict[str, float]:
        """Perplexity and accuracy of subwords, and exact match."""
        subwords = max(self.subwords, 1)
        return {
            "exact_match": self.exact_match,
            "perplexity": math.exp(min(self.loss / subwords, 700)),
            "accuracy": self.hits / subwords,
        }


@torch.inference_mode()
def evaluate_pairs(pairs: Sequence[tuple[SubwordIds, SubwordIds]], forward: Forward, *, pad: int) -> Scores:
    """How well a model tells each piece of the targets from those before it."""
    objective = TextToText()
    lengths = np.array([len(source) + len(target) for source, target in pairs], np.int32)
    total, most, subwords = Scores(), _VALIDATION_BATCH, 0
    for indices in length_batches(lengths, most):
        wanted = math.ceil(len(indices) * int(lengths[indices].max()) * subwords / _VALIDATION_LOGITS)
        for part in np.array_split(indices, min(max(1, wanted), len(indices))):
            sources, targets = zip(*(pairs[i] for i in part), strict=True)
            batch, right = collate_pairs(sources, targets, pad=pad)
            logits = forward(batch).float()
            subwords, right = logits.shape[-1], right.to(logits.device)
            loss, count = objective.loss(logits, right, None)
            hit = logits.argmax(-1) == right
            whole = (hit | (right == NO_TARGET)).all(1).cpu().numpy()
            total += Scores(
                pairs=len(part),
                subwords=int(count),
                loss=float(loss),
                hits=int(hit.sum()),
                exact=tuple(part[whole].tolist()),
            )
    return total
