"""The cost of a result: of one example, times the examples, times the trainings of the search that found it."""

from __future__ import annotations

from dataclasses import dataclass

from mixling.models.counts import count
from mixling.networks.config import ModelConfig, sized


@dataclass(frozen=True, kw_only=True)
class ResultCost:
    """Cost(R) = E D H. Source: HyperMixer, section 1, after Schwartz et al. 2020, "Green AI".

    Attributes:
        flops: E, operations of the encoder for one text of the maximum length, see
            `mixling.models.counts.Counts`.
        examples: D, the number of training examples.
        trainings: H, how many models were trained to find this one.
    """

    flops: int
    examples: int
    trainings: int

    @classmethod
    def of(cls, config: ModelConfig, *, examples: int, trainings: int) -> ResultCost:
        """Return the cost of a model found by a search with a number of trainings."""
        return cls(flops=count(sized(config)).flops, examples=examples, trainings=trainings)

    @property
    def total(self) -> int:
        """E D H, for one pass over the examples in each training."""
        return self.flops * self.examples * self.trainings

    def line(self) -> str:
        """Return the factors and their product as a line for a terminal."""
        return (
            f"cost of the result: {self.flops / 1e6:,.2f} MFLOPs an example x {self.examples:,} examples x "
            f"{self.trainings:,} trainings = {self.total / 1e9:,.0f} GFLOPs an epoch"
        )
