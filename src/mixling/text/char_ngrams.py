"""The character n-grams of many words at once, as feature indices (`CharNgrams` of `mixling.text.fingerprint`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixling.arrays import Float32, Int32, Int64, UInt8, UInt32
from mixling.text.hashes import hash_family, hash_parts

_WORDS = 1024  # at a time, whose n-grams fit into a processor's cache


def char_ngram_features(
    words: Sequence[str], *, num_features: int, min_n: int, max_n: int, most: int, seed: int
) -> tuple[Int32, Float32]:
    """Return the features (W, P) of each word, itself and then its n-grams in the order of their hashes, and weights.

    Args:
        min_n, max_n: the lengths of n-grams in characters of "<word>".
        most: features of a word; of more, the smallest hashes are kept.

    Returns:
        indices below `num_features`, and weights (W, P), one over the word's number of features, 0 behind them.
    """
    parts = [
        _features(words[first : first + _WORDS], min_n, max_n, most, seed) for first in range(0, len(words), _WORDS)
    ]
    width = max((part.shape[1] for part, _ in parts), default=1)
    features = np.zeros((len(words), width), np.int32)
    weights = np.zeros((len(words), width), np.float32)
    for number, (part, counts) in enumerate(parts):
        rows = slice(number * _WORDS, (number + 1) * _WORDS)
        present = np.arange(width) < counts[:, None]
        features[rows, : part.shape[1]] = part % np.uint32(num_features)
        weights[rows] = np.where(present, 1 / counts[:, None], 0)
    return features, weights


def _features(words: Sequence[str], min_n: int, max_n: int, most: int, seed: int) -> tuple[UInt32, Int64]:
    """Return the hashes (W, P) of each word, and how many (W,) it has."""
    encoded = [f"<{word}>".encode() for word in words]
    data = np.frombuffer(b"".join(encoded), np.uint8)
    sizes = np.array([len(word) for word in encoded], np.int64)
    begins = np.cumsum(sizes) - sizes
    owners, hashes = _grams(data, begins, min_n, max_n, seed)
    keys = np.unique(owners.astype(np.uint64) << np.uint64(32) | hashes)  # once in a word, in the order of hashes
    owners = (keys >> np.uint64(32)).astype(np.int64)
    hashes = keys.astype(np.uint32)
    counts = np.bincount(owners, minlength=len(words))
    rank = 1 + np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = rank < most
    counts = np.minimum(counts + 1, most)
    found = np.zeros((len(words), int(counts.max())), np.uint32)
    found[:, 0] = hash_family(hash_parts(data, begins, sizes), 1, seed)[:, 0]
    found[owners[kept], rank[kept]] = hashes[kept]
    return found, counts


def _grams(data: UInt8, begins: Int64, min_n: int, max_n: int, seed: int) -> tuple[Int64, UInt32]:
    """Return the word (G,) and the hash (G,) of each n-gram of words in UTF-8, which begin at bytes `begins`."""
    chars = np.flatnonzero((data & 0xC0) != 0x80)
    ends = np.append(chars, len(data))
    first = np.searchsorted(chars, begins)  # character of each word
    lengths = np.diff(np.append(first, len(chars)))
    owner = np.repeat(np.arange(len(begins)), lengths)
    place = np.arange(len(chars)) - first[owner]
    length = lengths[owner]
    owners = []
    hashes = []
    for n in range(min_n, min(max_n, int(lengths.max()) - 1) + 1):
        # A mark alone carries no information, and the whole is no n-gram.
        inside = (place > 0) & (place < length - 1) if n == 1 else (place + n <= length) & (n < length)
        where = np.flatnonzero(inside)
        owners.append(owner[where])
        hashes.append(hash_parts(data, chars[where], ends[where + n] - chars[where]))
    base = np.concatenate([np.zeros(0, np.uint32), *hashes])
    return np.concatenate([np.zeros(0, np.int64), *owners]), hash_family(base, 1, seed)[:, 0]
