"""How text becomes the positions of a model, as a configuration."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mixling.config import Config
from mixling.errors import ConfigError
from mixling.text.fingerprint import HASH_VERSION, MinHash, Projection
from mixling.text.vocabulary import Vocabulary, VocabularyKind


class TextConfig(Config):
    """How text becomes the positions of a model."""

    projection: Projection = MinHash()
    tokens: Literal["words", "subwords"] = Field(
        "words", description="whether a token is a word, or each of its subwords"
    )
    segments: bool = Field(False, description="two more rows, added to the words of a first (or only) and second text")
    overlap: bool = Field(
        False,
        description="two more rows, added to the words of a pair that only one text has, and to those that both have",
    )
    max_len: int = Field(64, ge=1, le=1_000_000, description="tokens per text (pairs: with the separator)")
    max_word_chars: int = Field(100, ge=1, le=1_000, description="characters per word that are read")
    lowercase: bool = True
    contractions: bool = Field(False, description='English: "isn\'t" is two words, "is" and "n\'t"')
    vocabulary: str | None = Field(
        None,
        description="vocab.txt, tokenizer.json, a SentencePiece .model, a folder or a hub name; None: trained here",
    )
    vocabulary_kind: VocabularyKind = Field("wordpiece", description="subwords to train where `vocabulary` is None")
    vocabulary_size: int | None = Field(
        None, ge=100, le=1_000_000, description="subwords to train; None: from the data"
    )
    hash_version: Literal[1] = HASH_VERSION  # type: ignore[assignment]

    @property
    def max_chars(self) -> int:
        """Characters per text that are looked at, enough for `max_len` words of full length."""
        return self.max_len * (self.max_word_chars + 1)

    @property
    def num_rows(self) -> int:
        """Rows of the table that the bags of words point into.

        Raises:
            ConfigError: the table has a row for each unit, and the vocabulary is not known yet.
        """
        if self.projection.num_features is None:
            raise ConfigError("projection 'subwords': num_features is known with the vocabulary only; set it here")
        return self.projection.num_features + 2 * self.segments + 2 * self.overlap

    def with_rows(self, number: int) -> TextConfig:
        """Return this configuration with an embedding table of this number of rows."""
        return self.model_copy(update={"projection": self.projection.model_copy(update={"num_features": number})})

    def for_vocabulary(self, vocabulary: Vocabulary) -> TextConfig:
        """Return this configuration with what it leaves to the vocabulary.

        Raises:
            ConfigError: the projection has rows for another number of subwords.
        """
        projection = self.projection
        if projection.num_features is None:
            return self.with_rows(len(vocabulary))
        if projection.hashed or projection.num_features == len(vocabulary):
            return self
        raise ConfigError(
            f"projection {projection.type!r}: num_features is {projection.num_features}, but the vocabulary has "
            f"{len(vocabulary)} subwords; set model.text.projection.num_features and model.text.vocabulary to fit"
        )
