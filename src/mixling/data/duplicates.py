"""Find texts that repeat earlier ones, exactly or nearly, while they are read."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from mixling.arrays import Float32, Int64
from mixling.data.near_duplicates import MIN_WORDS, compared_words
from mixling.errors import ConfigError, shown
from mixling.native import _counts
from mixling.text.clean import normalize
from mixling.text.encoder import Text

THRESHOLD = 0.7  # of the Jaccard index, by default
# Bands, and hashes of each: of pairs with a Jaccard index of .7 all but .4% become candidates, of those with .2 3%.
_BANDS = 20
_HASHES = 4
_MOST_WORDS = 1 << 19  # whose hashes are remembered
_TOGETHER = 2048  # texts that are split at a time


class DuplicateFinder:
    """Finds texts that repeat an earlier one: an equal one, but for case and blanks, or one with almost the same words.

    Two texts are near-duplicates if the Jaccard index of their sets of words, in lower case and without symbols,
    reaches a threshold. Texts of fewer than 4 different words are compared for equality alone. Candidates are found by
    MinHash in bands (mixling/native/vectors/duplicates.c), so that a few near-duplicates are missed, and then
    compared. Later texts are compared with those that repeat nothing, and whose
    words and bands are kept: about 450 bytes for a sentence.

    Args:
        threshold: the least Jaccard index, above 0 and up to 1.

    Raises:
        ConfigError: it is out of range.
    """

    def __init__(self, threshold: float = THRESHOLD) -> None:
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold <= 1:
            raise ConfigError(f"threshold: got {shown(threshold)}; allowed: a number above 0, up to 1")
        self._finder = _counts.new_duplicates(_BANDS, _HASHES, float(threshold), MIN_WORDS)
        self._hashes: dict[str, int] = {}

    def add(self, texts: Sequence[Text]) -> tuple[Int64, Float32]:
        """Compare texts with all before them, also from earlier calls.

        Returns:
            For each text (B,) the number of the text that it repeats, counted from 0 over all calls, or -1; and how
            similar they are: 1.0 for equal ones and for those with the same words, the Jaccard index of others; 0
            where there is none.
        """
        numbers: list[Int64] = []
        similarities: list[Float32] = []
        for first in range(0, len(texts), _TOGETHER):
            part = [text if isinstance(text, str) else "\n".join(text) for text in texts[first : first + _TOGETHER]]
            words, index, lengths = compared_words(part)
            keys = [_hash(normalize(" ".join(text.split()), lowercase=True), 8) for text in part]
            found = _counts.add_texts(
                self._finder,
                np.array(keys, np.uint64).view(np.int64),
                self._word_hashes(words)[index].view(np.int32),
                lengths.astype(np.int32),
            )
            numbers.append(np.frombuffer(found[0], np.int64))
            similarities.append(np.frombuffer(found[1], np.float32))
        empty: tuple[Int64, Float32] = (np.zeros(0, np.int64), np.zeros(0, np.float32))
        return np.concatenate([empty[0], *numbers]), np.concatenate([empty[1], *similarities])

    def _word_hashes(self, words: Sequence[str]) -> npt.NDArray[np.uint32]:
        known = self._hashes
        if len(known) > _MOST_WORDS:
            known.clear()
        known.update((word, _hash(word, 4)) for word in words if word not in known)
        return np.fromiter(map(known.__getitem__, words), np.uint32, len(words))


def _hash(text: str, size: int) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=size).digest(), "little")
