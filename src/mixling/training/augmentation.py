"""Augmentation of training texts with words that they do not contain: pseudo-words and typos.

A projection turns an unseen word into a vector as large as any other, made of the n-grams of words with other meanings;
with subwords it is an unseen sequence of subwords. A model trained on known words only mistakes it for the words it
resembles. Training with random words, the label unchanged, teaches it not to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from random import Random
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from mixling.config import Config
from mixling.data.batches import Indices
from mixling.text.encoder import Encoded, Text, TextEncoder
from mixling.text.noise import NOISES, blend, blendable

TypoKind = Literal["swap", "delete", "insert", "keyboard", "ocr"]
_TABLE_WORDS = 1 << 16  # words in the table of an encoder that meets most of its words once
_SPLIT_WORDS = 1 << 22  # words of texts that are split once, in 8 bytes each
WORD_SAMPLE_BYTES = 4 << 20  # of training text whose words are blended


class AugmentationConfig(Config):
    """Changes of the words of training texts, drawn anew at each step; a word is changed at most once."""

    pseudo_words: float = Field(0.1, ge=0, le=1, description="fraction of words that become blends of two others")
    typos: float = Field(0.1, ge=0, le=1, description="fraction of words that are misspelled")
    typo_kinds: Annotated[tuple[TypoKind, ...], Field(min_length=1, description="kinds of typos, equally frequent")] = (
        "swap",
        "delete",
        "keyboard",
    )

    @model_validator(mode="after")
    def _fits(self) -> AugmentationConfig:
        if self.pseudo_words + self.typos > 1:
            raise ValueError(
                f"pseudo_words and typos together are {self.pseudo_words + self.typos:g} of the words; at most 1 is "
                "allowed"
            )
        return self

    @property
    def rate(self) -> float:
        """The fraction of words that are changed."""
        return self.pseudo_words + self.typos


NO_AUGMENTATION = AugmentationConfig(pseudo_words=0.0, typos=0.0)


class Augmenter:
    """Encodes texts with some of their words changed.

    The result for a text depends on the seed, the step and its index in the batch only, not on the process.

    Args:
        encoder: the encoder of the training texts; changed words are not added to its table.
        words: words of the training texts, for pseudo-words.
    """

    def __init__(self, config: AugmentationConfig, encoder: TextEncoder, words: Iterable[str]) -> None:
        self.config = config
        self.encoder = TextEncoder(encoder.config, encoder.vocabulary, max_table=_TABLE_WORDS)
        self.encoder.keep_splits(_SPLIT_WORDS)
        self._words = blendable(words)
        self._kinds = [NOISES[kind] for kind in config.typo_kinds]

    @classmethod
    def of_texts(cls, config: AugmentationConfig, encoder: TextEncoder, texts: Sequence[str]) -> Augmenter:
        """Return an augmenter whose pseudo-words are made from the words of texts."""
        return cls(config, encoder, (word for text in texts for word in encoder.words(text)))

    def encode(self, texts: Sequence[Text], chosen: Indices, size: int, *, seed: int, step: int) -> list[Encoded]:
        """Encode texts of a batch as rows of the augmenter's own encoder, which are valid until the next call.

        Args:
            chosen: the indices of the texts in the batch.
            size: number of texts in the complete batch.
        """
        seeds = np.random.default_rng([seed, 2, step]).integers(1 << 62, size=size)[chosen]
        changes = [partial(self._change, Random(number)) for number in seeds.tolist()]
        return self.encoder.encode(texts, changes=changes)

    def _change(self, rng: Random, words: Sequence[str]) -> list[str]:
        pseudo, rate, chance = self.config.pseudo_words, self.config.rate, rng.random
        out = list(words)
        for i, word in enumerate(words):
            drawn = chance()
            if drawn >= rate:
                continue
            if drawn >= pseudo:
                out[i] = self._kinds[int(chance() * len(self._kinds))](word, rng)
            elif self._words and word[0].isalpha():
                out[i] = blend(self._words, rng)
        return out
