"""Augmentation of training texts with words that they do not contain: pseudo-words and typos.

A projection turns an unseen word into a vector as large as any other, made of the n-grams of words with other meanings;
with subwords it is an unseen sequence of subwords. A model trained on known words only mistakes it for the words it
resembles. Training with random words, the label unchanged, teaches it not to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Annotated, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from mixling.config import Config
from mixling.data.batches import Indices, real_tokens, split_like
from mixling.text.encoder import Encoded, Text, TextEncoder, number_of_texts
from mixling.text.noise import NOISES, WordNumbers, blend, blendable
from mixling.text.several import join_texts
from mixling.text.table import FIRST
from mixling.training.changed_words import ChangedWords

TypoKind = Literal["swap", "delete", "insert", "keyboard", "ocr"]
_TABLE_WORDS = 1 << 17  # words in the table of the encoder, changed ones included
_PSEUDO_WORDS = 1 << 12  # different pseudo-words
_TYPOS = 1 << 18  # typos that are remembered
_SPLIT_WORDS = 1 << 22  # words of texts that are split once, in 8 bytes each
WORD_SAMPLE_BYTES = 4 << 20  # of training text whose words are blended


class AugmentationConfig(Config):
    """Changes of the words of training texts, drawn anew at each step; a word is changed at most once."""

    pseudo_words: float = Field(
        default=0.1, ge=0, le=1, description="fraction of words that become blends of two others"
    )
    typos: float = Field(default=0.4, ge=0, le=1, description="fraction of words that are misspelled")
    typo_kinds: Annotated[tuple[TypoKind, ...], Field(min_length=1, description="kinds of typos, equally frequent")] = (
        "swap",
        "delete",
        "insert",
        "keyboard",
        "ocr",
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


MILD_AUGMENTATION = AugmentationConfig(pseudo_words=0.1, typos=0.1, typo_kinds=("swap", "delete", "keyboard"))
NO_AUGMENTATION = AugmentationConfig(pseudo_words=0.0, typos=0.0)


class BatchPart(NamedTuple):
    """Which texts of a batch are read, on which alone their changes depend.

    Attributes:
        chosen: the indices of the texts in the batch.
        size: number of texts in the complete batch.
    """

    chosen: Indices
    size: int
    seed: int
    step: int

    def draw(self, width: int) -> npt.NDArray[np.float64]:
        """Return a number from 0 to below 1 for each of the first `width` words of the texts, whatever the width."""
        return np.random.default_rng([self.seed, 2, self.step]).random((width, self.size))[:, self.chosen].T


class Augmenter:
    """Encodes texts with some of their words changed.

    The result for a text depends on the seed, the step and its index in the batch only, not on the process.
    Pseudo-words and the typos of a word are many, but each is made once, since a changed word takes longer to make and
    to hash than the rest of its text takes to encode.

    Args:
        encoder: the encoder of the training texts; changed words are not added to its table.
        words: words of the training texts, for pseudo-words.
        spellings: typos of a kind in a word; some may be the same.
    """

    def __init__(
        self, config: AugmentationConfig, encoder: TextEncoder, words: Iterable[str], *, spellings: int = 2
    ) -> None:
        self.config = config
        self.encoder = TextEncoder(encoder.config, encoder.vocabulary, max_table=_TABLE_WORDS)
        self.encoder.keep_splits(_SPLIT_WORDS)
        self._words = blendable(words)
        self._spellings = spellings
        self._kinds = [NOISES[kind] for kind in config.typo_kinds]
        self._pseudo_words: dict[int, str] = {}
        self._typos: dict[tuple[str, int], str] = {}
        self._copied = -1  # the generation of the encoder that was copied

    @classmethod
    def of_texts(cls, config: AugmentationConfig, encoder: TextEncoder, texts: Sequence[str]) -> Augmenter:
        """Return an augmenter whose pseudo-words are made from the words of texts."""
        return cls(config, encoder, encoder.normal_words(texts))

    def encode(self, texts: Sequence[Text], part: BatchPart) -> list[Encoded]:
        """Encode texts of a batch as rows of the augmenter's own encoder, which are valid until the next call."""
        width = self.encoder.config.max_len * max(number_of_texts(texts), 1)
        changes = [_Change(self._changed, self.config.rate, row) for row in part.draw(width)]
        return self.encoder.encode(texts, changes=changes)

    def change(
        self, texts: Sequence[npt.NDArray[np.int32]], encoder: TextEncoder, part: BatchPart
    ) -> list[npt.NDArray[np.int32]]:
        """Return what `encode` does for single texts whose tokens are words, given as rows of another encoder."""
        words = self._changed_words(encoder)
        read = real_tokens(texts)
        flat = np.concatenate(texts)
        drawn = part.draw(read.shape[1])[read]
        at = ((drawn < self.config.rate) & (flat >= FIRST)).nonzero()[0]
        flat[at] = words.rows(self._change(words, words.of_rows[flat[at]], drawn[at]))
        return split_like(flat, texts)

    def change_several(
        self, texts: Sequence[tuple[str, ...]], encoder: TextEncoder, part: BatchPart
    ) -> list[npt.NDArray[np.int32]]:
        """Return what `encode` does for several texts whose tokens are words; rows of `encoder` are known already."""
        words = self._changed_words(encoder)
        split = encoder.split_strings(list(itertools.chain.from_iterable(texts)))
        lengths = split.lengths.reshape(len(texts), -1).sum(1)
        read = np.arange(lengths.max(initial=0)) < lengths[:, None]
        flat = words.add(split.words)[split.index]
        drawn = part.draw(read.shape[1])[read]
        at = (drawn < self.config.rate).nonzero()[0]
        flat[at] = self._change(words, flat[at], drawn[at])
        joined = join_texts(flat, split.lengths, len(texts[0]), words.lowered, encoder.config)
        return np.split(words.rows(joined.index, joined.marks), np.cumsum(joined.lengths)[:-1])

    def _changed_words(self, encoder: TextEncoder) -> ChangedWords:
        """Return the words that are known; all changed ones are forgotten where the table of an encoder is emptied."""
        if self._copied != encoder.generation or self.encoder.is_full:
            self.encoder = encoder.copy(max_table=_TABLE_WORDS)
            self._copied = encoder.generation
            self._known = ChangedWords(self.encoder, self.config.typo_kinds, self._spellings, _PSEUDO_WORDS)
        return self._known

    def _change(
        self, known: ChangedWords, words: npt.NDArray[np.int32], drawn: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.int32]:
        """Return what `_changed` makes of words, by number."""
        out = words.copy()
        pseudo = self.config.pseudo_words
        typos = self._spellings * len(self._kinds)
        is_typo = drawn >= pseudo
        at = is_typo.nonzero()[0]
        numbers = ((drawn[at] - pseudo) / (self.config.typos or 1) * typos).astype(np.int64)
        out[at] = known.typos(words[at], np.minimum(numbers, typos - 1))
        if self._words:
            at = (~is_typo & known.is_alpha(words)).nonzero()[0]
            numbers = np.minimum((drawn[at] / (pseudo or 1) * _PSEUDO_WORDS).astype(np.int64), _PSEUDO_WORDS - 1)
            out[at] = known.pseudo_words(numbers, self._pseudo_word)
        return out

    def _changed(self, word: str, drawn: float) -> str:
        """Return the word as a number below `rate` changes it."""
        pseudo = self.config.pseudo_words
        typos = self._spellings * len(self._kinds)
        if drawn >= pseudo:  # rounding must not make a number of a typo, or of a pseudo-word, that there is not
            return self._typo(word, min(int((drawn - pseudo) / self.config.typos * typos), typos - 1))
        if self._words and word[0].isalpha():
            return self._pseudo_word(min(int(drawn / pseudo * _PSEUDO_WORDS), _PSEUDO_WORDS - 1))
        return word

    def _pseudo_word(self, number: int) -> str:
        made = self._pseudo_words.get(number)
        if made is None:
            made = self._pseudo_words[number] = blend(self._words, Random(number))
        return made

    def _typo(self, word: str, number: int) -> str:
        made = self._typos.get((word, number))
        if made is None:
            if len(self._typos) >= _TYPOS:
                self._typos.clear()
            number_of_kind, kind = divmod(number, len(self._kinds))
            made = self._typos[word, number] = self._kinds[kind](word, WordNumbers(word, number_of_kind))
        return made


class _Change:
    """Changes the words of a text, or of several texts in order, where the numbers drawn for it are low."""

    __slots__ = ("_changed", "_drawn", "_rate", "_read")

    def __init__(self, changed: Callable[[str, float], str], rate: float, drawn: npt.NDArray[np.float64]) -> None:
        self._changed = changed
        self._rate = rate
        self._drawn = drawn
        self._read = 0

    def __call__(self, words: Sequence[str]) -> list[str]:
        out = list(words)
        drawn = self._drawn[self._read :][: len(out)]
        self._read = self._read + len(out)
        for i in (drawn < self._rate).nonzero()[0].tolist():
            out[i] = self._changed(out[i], float(drawn[i]))
        return out
