"""The words that augmentation changes, as numbers, and the rows that an encoder has for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from mixling.arrays import Int32, Int64
from mixling.text.encoder import TextEncoder
from mixling.text.noise import misspell
from mixling.text.several import LoweredWords
from mixling.text.table import FIRST, MARKS, SEPARATOR, plain_word

PseudoWord = Callable[[int], str]


class ChangedWords:
    """Words by number, in the order in which they were added; each typo and each pseudo-word is made once.

    Args:
        encoder: whose rows the words get; new ones are added to it.
        kinds: kinds of typos.
        spellings: typos of a kind in a word; some may be the same.
        pseudo_words: the number of different pseudo-words.
    """

    def __init__(self, encoder: TextEncoder, kinds: Sequence[str], spellings: int, pseudo_words: int) -> None:
        self.encoder = encoder
        self._kinds = kinds
        self._words: list[str] = []
        self._numbers: dict[str, int] = {}
        self._in_lower_case = LoweredWords()
        # By word: its typos, its row for each value of marks (-1: not made yet), and whether it begins with a letter.
        self._typos = np.zeros((0, len(kinds) * spellings), np.int32)
        self._rows = np.zeros((0, MARKS), np.int32)
        self._lowered = np.zeros(0, np.int64)  # of the first words; the others are not needed yet
        self._is_alpha = np.zeros(0, bool)
        self._pseudo_words = np.full(pseudo_words, -1, np.int32)
        self._grow(1)  # separators are found where there are no words, too
        keys = encoder.table_keys()
        self.of_rows = np.concatenate([np.zeros(FIRST, np.int32), self.add([plain_word(key) for key in keys])])
        marks = [0 if isinstance(key, str) else key[1] for key in keys]
        self._rows[self.of_rows[FIRST:], marks] = np.arange(FIRST, FIRST + len(keys))

    def add(self, words: Sequence[str]) -> Int32:
        """Return the numbers (W,) of words, which are added where they are new."""
        numbers = self._numbers
        before = len(self._words)
        try:
            return np.array([numbers[word] for word in words], np.int32)
        except KeyError:
            new = list(dict.fromkeys(word for word in words if word not in numbers))
        numbers.update(zip(new, range(before, before + len(new)), strict=True))
        self._words += new
        self._grow(len(self._words))
        self._is_alpha[before : len(self._words)] = [word[:1].isalpha() for word in new]
        return self.add(words)

    def _grow(self, number: int) -> None:
        if number <= len(self._typos):
            return
        more = max(number, 2 * len(self._typos)) - len(self._typos)
        for name, empty in (("_typos", -1), ("_rows", -1), ("_is_alpha", 0)):
            array = getattr(self, name)
            new = np.full((more, *array.shape[1:]), empty, array.dtype)
            setattr(self, name, np.concatenate([array, new]))

    @property
    def lowered(self) -> Int64:
        """The number (W,) of each word in lower case, equal for equal ones."""
        if (known := len(self._lowered)) < len(self._words):
            self._lowered = np.concatenate([self._lowered, self._in_lower_case.of(self._words[known:])])
        return self._lowered

    def is_alpha(self, words: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """Return whether each of some words begins with a letter."""
        letters: npt.NDArray[np.bool_] = self._is_alpha[words]
        return letters

    def typos(self, words: npt.NDArray[np.integer], numbers: Int64) -> Int32:
        """Return the words that the typos `numbers` (W,) make of words (W,)."""
        new = (self._typos[words, numbers] < 0).nonzero()[0]
        if len(new):
            of_kind, kinds = np.divmod(numbers[new], len(self._kinds))
            before = [self._words[i] for i in words[new].tolist()]
            made = self.add(misspell(before, [self._kinds[kind] for kind in kinds.tolist()], of_kind))
            self._typos[words[new], numbers[new]] = made
        typos: Int32 = self._typos[words, numbers]
        return typos

    def pseudo_words(self, numbers: Int64, make: PseudoWord) -> Int32:
        """Return the pseudo-words (W,) of some numbers, given what makes one."""
        new = (self._pseudo_words[numbers] < 0).nonzero()[0]
        if len(new):
            self._pseudo_words[numbers[new]] = self.add([make(number) for number in numbers[new].tolist()])
        return self._pseudo_words[numbers]

    def rows(self, words: npt.NDArray[np.integer], marks: npt.NDArray[np.integer] | None = None) -> Int32:
        """Return the encoder's rows (W,) of words with marks, 0 where there are none; -1 is a separator."""
        marks = np.zeros(len(words), np.int32) if marks is None else marks
        out: npt.NDArray[np.int32] = self._rows[words, marks]
        new = ((out < 0) & (words >= 0)).nonzero()[0]
        if len(new):
            pairs = zip(words[new].tolist(), marks[new].tolist(), strict=True)
            keys = [(self._words[word], mark) if mark else self._words[word] for word, mark in pairs]
            self._rows[words[new], marks[new]] = self.encoder.rows(keys)
            out = self._rows[words, marks]
        out[words < 0] = SEPARATOR
        return out
