"""The ternary projection (TSP) of PRADO and pQRNN: a word becomes a row of -1, 0 and 1, without a vocabulary.

A 128-bit variant of MurmurHash 2 reads the word's UTF-8 bytes, 8 at a time; each pair of bits, low to high, is one
feature: 0 -> 0, 1 -> 1, 2 -> -1, 3 -> 0. Beyond 64 features, each further round of mixing yields another 128 bits.

Source: Kaliamoorthi et al. 2019 (PRADO), 2020 (pQRNN); the hash equals TensorFlow's seq_flow_lite bit for bit,
including its quirk that bytes from 0x80 on are sign-extended, which sets all higher bits of their 8 bytes. As there, an
empty word is hashed as `<null>`; the caller is responsible for lower case and for `<BOS>` and `<EOS>`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# uint64 products below wrap around on purpose. NumPy warns about that only for scalars, so all operands are arrays.
MUL = np.uint64(0xC6A4A7935BD1E995)
MUL2 = np.uint64(0x9E3779B97F4A7835)
BYTE_SHIFTS = np.arange(0, 64, 8, dtype=np.uint64)
# The four features of each value of a byte: (256, 4).
TERNARY = np.array([0, 1, -1, 0], np.int8)[(np.arange(256)[:, None] >> np.array([0, 2, 4, 6])) & 3]


def tsp_hash(word: str, num_features: int) -> NDArray[np.uint64]:
    """Return the hash of a word: (2 * ceil(num_features / 64),) codes of 64 bits, one for 32 features each."""
    codes: NDArray[np.uint64] = tsp_hashes([word], num_features)[0]
    return codes


def tsp_features(words: Sequence[str], num_features: int) -> NDArray[np.int8]:
    """Return the ternary features (-1, 0 or 1) of words: (len(words), num_features)."""
    octets = tsp_hashes(words, num_features).astype("<u8", copy=False).view(np.uint8)
    ternary: NDArray[np.int8] = TERNARY[octets].reshape(len(words), 4 * octets.shape[1])[:, :num_features]
    return ternary


def tsp_hashes(words: Sequence[str], num_features: int) -> NDArray[np.uint64]:
    """Return the hashes of words: (len(words), 2 * ceil(num_features / 64))."""
    assert num_features > 0, num_features
    first, second = _murmur128([word.encode() or b"<null>" for word in words])
    codes = [first, second]
    for _ in range(64, num_features, 64):
        first = _shift_mix(first) * MUL
        second = second ^ first
        first, second = _shift_mix(second * MUL2) * MUL2, _shift_mix(first)
        codes += [first, second]
    return np.stack(codes, axis=1)


def _murmur128(raw: Sequence[bytes]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return both halves of the hash of each byte string, (len(raw),) each. No string may be empty."""
    lengths = np.array(list(map(len, raw)), np.int64)
    chunks, starts, num_chunks = _chunks(raw, lengths)
    first = lengths.astype(np.uint64) * MUL
    second = np.zeros_like(first)
    active = np.arange(len(raw))
    for index in range(int(num_chunks.max(initial=0))):
        active = active[num_chunks[active] > index]
        data = chunks[starts[active] + index]
        full = lengths[active] >= 8 * (index + 1)  # the bytes left over at the end go in unmixed
        state = (first[active] ^ np.where(full, _shift_mix(data * MUL) * MUL, data)) * MUL
        first[active] = state
        second[active] ^= state
    first = _shift_mix(first) * MUL
    second = _shift_mix((second ^ first) * MUL2) * MUL2
    return _shift_mix(first), second


def _chunks(
    raw: Sequence[bytes], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the strings as little-endian numbers of 8 bytes, and the index of the first and count for each string."""
    num_chunks = -(-lengths // 8)
    padded = b"".join(item.ljust(8 * count, b"\0") for item, count in zip(raw, num_chunks.tolist(), strict=True))
    signed = np.frombuffer(padded, np.int8).reshape(-1, 8).astype(np.int64).view(np.uint64)
    return np.bitwise_or.reduce(signed << BYTE_SHIFTS, axis=1), np.cumsum(num_chunks) - num_chunks, num_chunks


def _shift_mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return value ^ (value >> np.uint64(47))
