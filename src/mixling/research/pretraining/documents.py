"""Encode documents as token ids for pretraining: of words for a masked model, of subwords for text to text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mixling.text.encoder import Encoded, TextEncoder
from mixling.text.subwords import SubwordTokenizer
from mixling.text.table import SEPARATOR


@dataclass(frozen=True, slots=True)
class Document:
    """A document with a separator at its end.

    Attributes:
        rows: (T,) token ids.
        starts: (T,) True at tokens that begin a word; None if this is unknown.
        truncated: whether words were dropped.
    """

    rows: npt.NDArray[np.int32]
    starts: npt.NDArray[np.bool_] | None
    truncated: bool = False


class DocumentReader(Protocol):
    """Encodes documents as token ids below `len(reader)`."""

    @property
    def reading(self) -> dict[str, Any]:
        """JSON values that determine the ids, except for the words: equal for readers that give equal ids."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The per-token fields of `Document` that are set: "rows", or "rows" and "starts"."""

    @property
    def separator(self) -> int:
        """The last id of every document."""

    @property
    def max_words(self) -> int | None:
        """The number of words to which documents are truncated; None: they are not truncated."""

    def __len__(self) -> int: ...

    def read(self, chunks: Iterable[Sequence[str]]) -> Iterator[list[Document]]:
        """Encode chunks of documents; new words may get the next ids."""

    def words(self) -> list[str]:
        """Return the words that have ids, in their order."""

    def learn(self, words: Sequence[str]) -> None:
        """Give words the ids that they have in the reader that returned them from `words`."""


class WordReader:
    """Encodes documents as rows of an encoder's word table."""

    columns = ("rows", "starts")
    separator = SEPARATOR

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder

    @property
    def reading(self) -> dict[str, Any]:
        """The fields of the encoder's configuration that determine the rows."""
        kept = {"tokens", "max_word_chars", "lowercase", "contractions"}
        return self._encoder.config.model_dump(mode="json", include=kept)

    @property
    def max_words(self) -> int:
        """The encoder's `max_len`."""
        return self._encoder.config.max_len

    def __len__(self) -> int:
        return len(self._encoder)

    def read(self, chunks: Iterable[Sequence[str]]) -> Iterator[list[Document]]:
        """Encode chunks of documents; new words are added to the table."""
        for chunk in self._encoder.encode_stream(chunks):
            yield [self._document(encoded) for encoded in chunk]

    def _document(self, encoded: Encoded) -> Document:
        rows = np.append(encoded.words, np.int32(self.separator))
        starts = np.ones(len(rows), bool)
        if encoded.starts is not None:
            starts[:-1] = False
            starts[encoded.starts] = True
        return Document(rows, starts, encoded.truncated)

    def words(self) -> list[str]:
        """Return the words of the table."""
        return self._encoder.table_words()

    def learn(self, words: Sequence[str]) -> None:
        """Add words to the table."""
        self._encoder.learn(words)


class SubwordReader:
    """Encodes documents as subword ids, each with an end token; documents are never truncated."""

    columns = ("rows",)
    max_words = None

    def __init__(self, tokenizer: SubwordTokenizer) -> None:
        self._tokenizer = tokenizer
        self.separator = tokenizer.eos_id

    @property
    def reading(self) -> dict[str, Any]:
        """The digest of the tokenizer's file."""
        name, content = self._tokenizer.serialize()
        return {"tokenizer": len(self._tokenizer), name: hashlib.sha256(content.encode()).hexdigest()}

    def __len__(self) -> int:
        return len(self._tokenizer)

    def read(self, chunks: Iterable[Sequence[str]]) -> Iterator[list[Document]]:
        """Encode chunks of documents, in the threads of the tokenizer."""
        for chunk in chunks:
            encoded = self._tokenizer.encode_many(chunk)
            yield [Document(np.array([*subwords, self.separator], np.int32), None) for subwords in encoded]

    def words(self) -> list[str]:
        """Return no words: ids are defined by the tokenizer."""
        return []

    def learn(self, words: Sequence[str]) -> None:
        """Check that there are no words to learn."""
        if words:
            raise ValueError("the ids of subwords are defined by their tokenizer")
