"""Training data of text to text: one task, or a mixture of several and of span corruption."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from mixling.data.batches import Indices, length_batches, training_batches
from mixling.errors import TrainingError
from mixling.research.seq2seq.batches import SubwordIds, collate_pairs
from mixling.research.seq2seq.mixture import MixingConfig, draw, draws
from mixling.research.seq2seq.pairs import Pair
from mixling.research.seq2seq.recombination import Lexicon, learn_lexicon, recombine
from mixling.tasks.objective import NO_TARGET, UNSMOOTHED, LossConfig, TokenObjective
from mixling.training.backends.pytorch import Forward, TorchBackend
from mixling.training.dataset_adapter import Targeted, TrainingData

_VALIDATION_BATCH = 128
_VALIDATION_LOGITS = 1 << 26  # maximum number of logits in memory


class TextToText(TokenObjective):
    """Cross-entropy of the targets' subwords, averaged over the batch (T5, section 2).

    Args:
        metric: the metric that decides which evaluation is the best.
    """

    def __init__(
        self, metric: Literal["exact_match", "perplexity"] = "exact_match", loss: LossConfig = UNSMOOTHED
    ) -> None:
        super().__init__(loss)
        self.metric = metric
        self.less_is_better = metric == "perplexity"


class Part(ABC):
    """A task of a mixture.

    Attributes:
        lengths: (examples,), approximate number of subwords of source and target; batches have similar lengths.
        validation: sources and targets of the validation examples.
    """

    name: str
    lengths: npt.NDArray[np.int32]
    validation: Sequence[tuple[SubwordIds, SubwordIds]]

    def __len__(self) -> int:
        return len(self.lengths)

    @abstractmethod
    def pair(self, index: int, rng: np.random.Generator) -> tuple[SubwordIds, SubwordIds]:
        """Return source and target of a training example, each with its end token."""

    def where(self, index: int) -> tuple[str, int] | None:
        """Return file and line of a training example, if they are known."""
        return None


@dataclass(kw_only=True)
class PairPart(Part):
    """The pairs of a task.

    Args:
        pairs: the training pairs, for their files and lines.
        recombination: fraction of the lexicon's words in an example that are replaced by others.

    Attributes:
        lexicon: learned from the training pairs; None without recombination.
    """

    name: str
    train: Sequence[tuple[SubwordIds, SubwordIds]]
    validation: Sequence[tuple[SubwordIds, SubwordIds]]
    pairs: Sequence[Pair]
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
        return self.pairs[index].path, self.pairs[index].line


@dataclass(frozen=True, kw_only=True)
class PairData(TrainingData):
    """A mixture of tasks; an epoch has as many examples as all tasks together, drawn by their rates.

    Metrics are teacher-forced. Greedy search generates the target exactly if each of its subwords is then the most
    likely one, so that `exact_match` needs no search; it only misses targets that are generated with another
    segmentation. With several tasks `exact_match` is the mean over those with pairs.
    """

    objective: TextToText
    parts: Sequence[Part]
    mixing: MixingConfig
    pad: int

    def __post_init__(self) -> None:
        assert len({part.name for part in self.parts}) == len(self.parts), "names of tasks are unique"

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def epoch(self, number: int, batch_size: int, *, seed: int) -> list[Indices]:
        sizes = {part.name: len(part) for part in self.parts}
        firsts = np.cumsum([0, *sizes.values()])[:-1]
        counts = draws(self.mixing, sizes)
        chosen = np.concatenate(
            [
                first + draw(size, count, epoch=number, seed=[seed, 4, task])
                for task, (first, size, count) in enumerate(zip(firsts, sizes.values(), counts, strict=True))
            ]
        )
        lengths = np.concatenate([part.lengths for part in self.parts])[chosen]
        return [chosen[batch] for batch in training_batches(lengths, batch_size, seed=seed, epoch=number)]

    def batch(self, indices: Indices, chosen: Indices, *, seed: int, step: int) -> Targeted:
        pairs = []
        for number in chosen:
            part, index = self._find(int(indices[number]))
            pairs.append(part.pair(index, np.random.default_rng([seed, 2, step, int(number)])))
        sources, targets = zip(*pairs, strict=True)
        return *collate_pairs(sources, targets, pad=self.pad), None

    def evaluate(self, model: TorchBackend) -> tuple[dict[str, float], float]:
        scores = {part.name: evaluate_pairs(part.validation, model.forward, pad=self.pad) for part in self.parts}
        total = sum(scores.values(), Scores())
        if not math.isfinite(total.loss):
            raise TrainingError("an output on validation data is not finite")
        values = total.numbers()
        matches = [scores[part.name].exact_match for part in self.parts if isinstance(part, PairPart)]
        if matches:
            values["exact_match"] = float(np.mean(matches))
        if len(self.parts) > 1:
            values |= {f"{name}_{key}": value for name, item in scores.items() for key, value in item.numbers().items()}
        return values, total.loss / max(total.subwords, 1)

    def where(self, index: int) -> tuple[str, int] | None:
        part, own = self._find(index)
        return part.where(own)

    def _find(self, index: int) -> tuple[Part, int]:
        """Return the part that an example belongs to, and its index there."""
        for part in self.parts:
            if index < len(part):
                return part, index
            index -= len(part)
        raise IndexError("there is no such example")


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Teacher-forced metrics summed over pairs; `exact` lists the indices of pairs predicted exactly."""

    pairs: int = 0
    subwords: int = 0
    loss: float = 0.0
    hits: int = 0
    exact: tuple[int, ...] = ()

    def __add__(self, other: Scores) -> Scores:
        return Scores(**{name: getattr(self, name) + getattr(other, name) for name in vars(self)})

    @property
    def exact_match(self) -> float:
        """The fraction of pairs all of whose subwords are predicted correctly."""
        return len(self.exact) / max(self.pairs, 1)

    def numbers(self) -> dict[str, float]:
        """Return exact match, and perplexity and accuracy of subwords."""
        subwords = max(self.subwords, 1)
        return {
            "exact_match": self.exact_match,
            "perplexity": math.exp(min(self.loss / subwords, 700)),
            "accuracy": self.hits / subwords,
        }


@torch.inference_mode()
def evaluate_pairs(pairs: Sequence[tuple[SubwordIds, SubwordIds]], forward: Forward, *, pad: int) -> Scores:
    """Evaluate how well a model predicts each subword of the targets, given the previous ones."""
    objective = TextToText()
    lengths = np.array([len(source) + len(target) for source, target in pairs], np.int32)
    total = Scores()
    most = _VALIDATION_BATCH
    subwords = 0
    for indices in length_batches(lengths, most):
        wanted = math.ceil(len(indices) * int(lengths[indices].max()) * subwords / _VALIDATION_LOGITS)
        for part in np.array_split(indices, min(max(1, wanted), len(indices))):
            sources, targets = zip(*(pairs[i] for i in part), strict=True)
            batch, expected = collate_pairs(sources, targets, pad=pad)
            logits = forward(batch).float()
            subwords = logits.shape[-1]
            expected = expected.to(logits.device)
            loss, count = objective.loss(logits, expected, None)
            hit = logits.argmax(-1) == expected
            exact = (hit | (expected == NO_TARGET)).all(1).cpu().numpy()
            total += Scores(
                pairs=len(part),
                subwords=int(count),
                loss=float(loss),
                hits=int(hit.sum()),
                exact=tuple(part[exact].tolist()),
            )
    return total
