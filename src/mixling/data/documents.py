"""Documents as numbers: what stands in prepared text, for a masked model and for one that reads and writes subwords."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mixling.text.encoder import TextEncoder
from mixling.text.subwords import SubwordTokenizer
from mixling.text.table import SEPARATOR


@dataclass(frozen=True, slots=True)
class Document:
    """A document with what separates it from the next one at its end.

    starts: which tokens begin a word; None: the reader does not tell.
    """

    rows: npt.NDArray[np.int32]
    starts: npt.NDArray[np.bool_] | None
    truncated: bool = False


class DocumentReader(Protocol):
    """Gives documents their numbers, which are below `len(reader)`."""

    @property
    def reading(self) -> dict[str, Any]:
        """What decides the numbers, beside the words: readers in which it is equal read alike. JSON values."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What of `Document` there is for each token: "rows", or "rows" and "starts"."""

    @property
    def separator(self) -> int:
        """The last number of every document."""

    @property
    def max_words(self) -> int | None:
        """Words at which longer documents are cut; None: none is."""

    def __len__(self) -> int: ...

    def read(self, documents: Sequence[str]) -> list[Document]:
        """The documents as numbers; words that are new may get the next ones."""

    def words(self) -> list[str]:
        """The words that have got numbers, in their order."""

    def learn(self, words: Sequence[str]) -> None:
        """Give words the numbers that they had in the reader whose `words` they are."""


class WordReader:
    """Documents as rows of an encoder's word table, each with a separator at its end."""

    columns = ("rows", "starts")
    separator = SEPARATOR

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder

    @property
    def reading(self) -> dict[str, Any]:
        """What of the encoder's configuration decides the rows."""
        kept = {"tokens", "max_word_chars", "lowercase", "contractions"}
        return self._encoder.config.model_dump(mode="json", include=kept)

    @property
    def max_words(self) -> int:
        """The encoder's."""
        return self._encoder.config.max_len

    def __len__(self) -> int:
        return len(self._encoder)

    def read(self, documents: Sequence[str]) -> list[Document]:
        """The documents as rows; new words are entered in the table."""
        out = []
        for encoded in self._encoder.encode(documents):
            rows = np.append(encoded.words, np.int32(self.separator))
            starts = np.ones(len(rows), bool)
            if encoded.starts is not None:
                starts[:-1] = False
                starts[encoded.starts] = True
            out.append(Document(rows, starts, encoded.truncated))
        return out

    def words(self) -> list[str]:
        """Those of the table."""
        return self._encoder.table_words()

    def learn(self, words: Sequence[str]) -> None:
        """Enter them in the table."""
        self._encoder.learn(words)


class SubwordReader:
    """Documents as numbers of subwords, each with the end piece at its end; they are never cut."""

    columns = ("rows",)
    max_words = None

    def __init__(self, coder: SubwordTokenizer) -> None:
        self._coder = coder
        self.separator = coder.eos_id

    @property
    def reading(self) -> dict[str, Any]:
        """The coder's file, by its digest."""
        name, content = self._coder.serialize()
        return {"tokenizer": len(self._coder), name: hashlib.sha256(content.encode()).hexdigest()}

    def __len__(self) -> int:
        return len(self._coder)

    def read(self, documents: Sequence[str]) -> list[Document]:
        """The documents as subwords."""
        found = self._coder.encode_many(documents)
        return [Document(np.array([*subwords, self.separator], np.int32), None) for subwords in found]

    def words(self) -> list[str]:
        """None: the numbers are the coder's own."""
        return []

    def learn(self, words: Sequence[str]) -> None:
        """There is nothing to learn."""
        if words:
            raise ValueError("subwords have their numbers from their own file")
