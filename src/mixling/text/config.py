"""The configuration of how text becomes the input of a model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mixling.config import Config
from mixling.errors import ConfigError
from mixling.text.fingerprint import HASH_VERSION, MinHash, Projection
from mixling.text.vocabulary import Vocabulary, VocabularyKind


class TextConfig(Config):
    """How text becomes the input of a model."""

    projection: Projection = MinHash()
    tokens: Literal["words", "subwords"] = Field(
        default="words", description="whether a token is a word, or each of its subwords"
    )
    segments: bool = Field(
        default=False,
        description="add one of two embeddings to each word: of the first (or only) text, or of the second",
    )
    overlap: bool = Field(
        default=False, description="add one of two embeddings to each word of a pair: it occurs in one text, or in both"
    )
    max_len: int = Field(default=64, ge=1, le=1_000_000, description="tokens per text (pairs: with the separator)")
    max_word_chars: int = Field(default=100, ge=1, le=1_000, description="characters per word that are read")
    lowercase: bool = Field(default=True, description="read texts in lower case")
    contractions: bool = Field(default=False, description='English: "isn\'t" is two words, "is" and "n\'t"')
    vocabulary: str | None = Field(
        default=None,
        description="vocab.txt, tokenizer.json, a SentencePiece .model, a folder or a hub name; None: train one",
    )
    vocabulary_kind: VocabularyKind = Field(default="wordpiece", description="kind of subwords to train")
    vocabulary_size: int | None = Field(
        default=None, ge=100, le=1_000_000, description="number of subwords to train; None: from the data"
    )
    hash_version: Literal[1] = Field(default=HASH_VERSION, description="version of the hash functions")  # type: ignore[arg-type]

    @property
    def max_chars(self) -> int:
        """Characters of a text that are read, enough for `max_len` words of full length."""
        return self.max_len * (self.max_word_chars + 1)

    @property
    def num_rows(self) -> int:
        """Rows of the embedding table that feature indices refer to.

        Raises:
            ConfigError: the table has a row for each subword, and the vocabulary is not known yet.
        """
        if self.projection.num_features is None:
            raise ConfigError("projection 'subwords': num_features is unknown until there is a vocabulary; set it")
        return self.projection.num_features + 2 * self.segments + 2 * self.overlap

    def with_rows(self, number: int) -> TextConfig:
        """Return this configuration with an embedding table of `number` rows."""
        return self.model_copy(update={"projection": self.projection.model_copy(update={"num_features": number})})

    def for_vocabulary(self, vocabulary: Vocabulary) -> TextConfig:
        """Return this configuration with `num_features` set from the vocabulary.

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
            f"{len(vocabulary)} subwords; make model.text.projection.num_features and model.text.vocabulary agree"
        )
