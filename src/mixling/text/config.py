"""The configuration of how text becomes the input of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, field_serializer, field_validator

from mixling.config import Config
from mixling.errors import ConfigError, shown
from mixling.text.fingerprint import HASH_VERSION, MinHash, Projection
from mixling.text.vocabulary import Vocabulary, VocabularyKind

MOST_TOGETHER = 8  # that belong together, such as a title and a body


def default_names(number: int) -> tuple[str, ...]:
    """Return the names of texts that belong together where their columns have none."""
    return ("text", "text_pair", *(f"text_{place}" for place in range(3, number + 1)))[:number]


def check_together(names: Sequence[Any], option: str = "text") -> None:
    """Check the columns of the text, or of texts that belong together.

    Raises:
        ConfigError: there is none, one is named twice, or there are too many.
    """
    if not 1 <= len(names) <= MOST_TOGETHER:
        raise ConfigError(f"{option}: got {len(names)} columns; allowed: up to {MOST_TOGETHER}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{option}: got the column {shown(twice)} twice; name each once")


class TextConfig(Config):
    """How text becomes the input of a model."""

    projection: Projection = MinHash()
    tokens: Literal["words", "subwords"] = Field(
        default="words", description="whether a token is a word, or each of its subwords"
    )
    segments: int | bool = Field(
        default=0,
        ge=0,
        le=MOST_TOGETHER,
        description="embeddings of texts that belong together, one added to each word by its text; true: 2, of a pair",
    )
    overlap: bool = Field(
        default=False, description="add one of two embeddings to each word: it occurs in one text, or in several"
    )
    max_len: int = Field(default=64, ge=1, le=1_000_000, description="tokens per text (of several: with separators)")
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

    @field_validator("segments", mode="before")
    @classmethod
    def _of_pairs(cls, value: Any) -> Any:
        return 2 * value if isinstance(value, bool) else value

    @field_validator("segments")
    @classmethod
    def _not_of_one(cls, value: int) -> int:
        if value == 1:
            raise ValueError("got 1; allowed: 0, or an embedding for each of 2 texts or more")
        return value

    @field_serializer("segments")
    def _as_before(self, value: int) -> bool | int:
        return bool(value) if value in (0, 2) else value  # as files of pairs always had it

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
        return self.projection.num_features + self.segments + 2 * self.overlap

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
