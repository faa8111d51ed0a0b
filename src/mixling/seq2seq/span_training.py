"""Prepared text as a task of a mixture: span corruption, T5's and Remixer's pretraining."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
import numpy.typing as npt

from mixling.data.prepared import Prepared, Tokens
from mixling.errors import ConfigError
from mixling.seq2seq.batches import Pieces
from mixling.seq2seq.span_corruption import SpanConfig, check_sentinels, corrupt, corrupted_lengths, raw_length
from mixling.seq2seq.training import Part
from mixling.text.pieces import PieceCoder


@dataclass
class SpanPart(Part):
    """Texts of `length` pieces, the longest whose sources and targets fit; documents follow each other in them.

    What is taken out of a text is drawn anew each time, but on dev, where it is always the same. The end piece of a
    document is a piece like others: it may be taken out, and stands in the midst of a target then.

    Args:
        prepared: documents as a `PieceReader` of the coder reads them.

    Raises:
        ConfigError: no text fits, the documents are shorter than one, or the coder has too few sentinels.
    """

    prepared: Prepared
    config: SpanConfig
    coder: PieceCoder
    _: KW_ONLY
    name: str = "spans"
    max_source_len: int
    max_target_len: int
    length: int = field(init=False)
    lengths: npt.NDArray[np.int32] = field(init=False)
    dev: Sequence[tuple[Pieces, Pieces]] = field(init=False)

    def __post_init__(self) -> None:
        self.length = raw_length(self.config, self.max_source_len, self.max_target_len)
        check_sentinels(self.length, self.config, len(self.coder.sentinel_ids))
        train, dev = self.prepared.train, self.prepared.dev
        # As in masked text a held-out text may be a short one, where it is the only one.
        for tokens, needed, what in ((train, self.length, "to train on"), (dev, 2, "held out")):
            if len(tokens.rows) < needed:
                raise ConfigError(
                    f"the text has {len(tokens.rows)} pieces {what}, span corruption takes {needed} at a time; give "
                    "more text, or --set model.max_source_len=N, model.max_target_len=N"
                )
        together = sum(corrupted_lengths(self.length, self.config))
        self.lengths = np.full(train.blocks(self.length), together, np.int32)
        blocks = range(dev.blocks(self.length))
        self.dev = [self._pair(dev, index, np.random.default_rng([0, 3, index])) for index in blocks]

    def pair(self, index: int, rng: np.random.Generator) -> tuple[Pieces, Pieces]:
        return self._pair(self.prepared.train, index, rng)

    def _pair(self, tokens: Tokens, index: int, rng: np.random.Generator) -> tuple[Pieces, Pieces]:
        rows, _ = tokens.block(index, self.length)
        return corrupt(rows, self.config, self.coder.sentinel_ids, self.coder.eos_id, rng)
