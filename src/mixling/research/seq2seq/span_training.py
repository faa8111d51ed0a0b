"""Span corruption of prepared text as a task of a mixture: the pretraining of T5 and Remixer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
import numpy.typing as npt

from mixling.errors import ConfigError
from mixling.research.pretraining.prepared import Prepared, Tokens
from mixling.research.seq2seq.batches import SubwordIds
from mixling.research.seq2seq.span_corruption import SpanConfig, check_sentinels, corrupt, corrupted_lengths, raw_length
from mixling.research.seq2seq.training import Part
from mixling.text.subwords import SubwordTokenizer


@dataclass
class SpanPart(Part):
    """Blocks of `length` subwords from consecutive documents; `length` is the maximum whose sources and targets fit.

    Spans are drawn anew each time, but are always the same for validation. The end token of a document is treated like
    any subword, and may be part of a span.

    Args:
        prepared: documents as read by a `SubwordReader` of the coder.

    Raises:
        ConfigError: no text fits, there is too little text, or the coder has too few sentinels.
    """

    prepared: Prepared
    config: SpanConfig
    coder: SubwordTokenizer
    _: KW_ONLY
    name: str = "spans"
    max_source_len: int
    max_target_len: int
    length: int = field(init=False)
    lengths: npt.NDArray[np.int32] = field(init=False)
    validation: Sequence[tuple[SubwordIds, SubwordIds]] = field(init=False)

    def __post_init__(self) -> None:
        self.length = raw_length(self.config, self.max_source_len, self.max_target_len)
        check_sentinels(self.length, self.config, len(self.coder.sentinel_ids))
        train = self.prepared.train
        validation = self.prepared.validation
        # As with masked text, validation may consist of a single short block.
        for tokens, needed, what in ((train, self.length, "to train on"), (validation, 2, "held out")):
            if len(tokens.rows) < needed:
                raise ConfigError(
                    f"the text has {len(tokens.rows)} subwords {what}, but span corruption needs at least {needed}; "
                    "give more text, or --set model.max_source_len=N, model.max_target_len=N"
                )
        total = sum(corrupted_lengths(self.length, self.config))
        self.lengths = np.full(train.blocks(self.length), total, np.int32)
        blocks = range(validation.blocks(self.length))
        self.validation = [self._pair(validation, index, np.random.default_rng([0, 3, index])) for index in blocks]

    def pair(self, index: int, rng: np.random.Generator) -> tuple[SubwordIds, SubwordIds]:
        return self._pair(self.prepared.train, index, rng)

    def _pair(self, tokens: Tokens, index: int, rng: np.random.Generator) -> tuple[SubwordIds, SubwordIds]:
        rows, _ = tokens.block(index, self.length)
        return corrupt(rows, self.config, self.coder.sentinel_ids, self.coder.eos_id, rng)
