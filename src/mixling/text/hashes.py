"""The hashes of strings that projections have: FNV-1a, from which families of hashes are derived.

They belong to the file format (`HASH_VERSION` of `mixling.text.fingerprint`), in 32-bit arithmetic that a browser can
reproduce.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixling.arrays import Int64, UInt8, UInt32

# of FNV-1a
_OFFSET = 2166136261
_PRIME = np.uint32(16777619)


def hash_strings(strings: Sequence[str]) -> UInt32:
    """Return the 32-bit FNV-1a hash (S,) of each string's UTF-8 bytes."""
    encoded = [string.encode() for string in strings]
    lengths = np.array(list(map(len, encoded)), np.int64)
    return hash_parts(np.frombuffer(b"".join(encoded), np.uint8), np.cumsum(lengths) - lengths, lengths)


def hash_parts(data: UInt8, starts: Int64, lengths: Int64) -> UInt32:
    """Return the 32-bit FNV-1a hash (S,) of each of the parts of `data` (B,) that begin at `starts` (S,)."""
    out = np.full(len(starts), _OFFSET, np.uint32)
    left = np.flatnonzero(lengths > 0)
    column = 0
    while len(left):
        out[left] = (out[left] ^ data[starts[left] + column]) * _PRIME
        column += 1
        left = left[lengths[left] > column]
    return out


def hash_letters(strings: Sequence[str]) -> UInt32:
    """Return a hash (S,) of each string's code points in any order: the sum of their `mix`."""
    points = np.frombuffer("".join(strings).encode("utf-32-le"), np.uint32)
    sums = np.concatenate([np.zeros(1, np.uint32), np.cumsum(mix(points), dtype=np.uint32)])
    ends = np.cumsum([0, *map(len, strings)])
    sums_of_strings: UInt32 = sums[ends[1:]] - sums[ends[:-1]]
    return sums_of_strings


def hash_family(base: UInt32, num_hashes: int, seed: int) -> UInt32:
    """Return hashes (S, n), `mix(base xor mix(seed + (i + 1) * golden))`, of strings with FNV-1a hashes `base` (S,)."""
    keys = np.uint32(seed) + np.arange(1, num_hashes + 1, dtype=np.uint32) * np.uint32(0x9E3779B9)
    return mix(base[:, None] ^ mix(keys))


def mix(x: UInt32) -> UInt32:
    """Apply MurmurHash3's 32-bit finalizer, a permutation whose output bits each depend on all input bits."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))
