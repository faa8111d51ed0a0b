"""The branch's logits against a dictionary and loops, and what a file holds of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mixling import TextConfig, TextEncoder
from mixling.errors import ModelFileError
from mixling.text import (
    Distinct,
    NgramBranch,
    SparseWeights,
    Words,
    pack_sorted,
    stored_bytes,
    term_bytes,
    train_vocabulary,
    unpack_sorted,
)

TEXTS = ["the cat sat on the mat", "", "a cat", "dogs and cats and dogs", "zzz"]


def make_branch(terms: np.ndarray, outputs: int, *, full: float = 1.0, seed: int = 0) -> NgramBranch:
    rng = np.random.default_rng(seed)
    weights = rng.integers(-127, 128, (len(terms), outputs)).astype(np.int8)
    weights[rng.random(weights.shape) >= full] = 0
    scale = rng.random(outputs).astype(np.float32) + np.float32(0.01)
    squares = rng.integers(1, 128, len(terms)).astype(np.uint8)
    return NgramBranch(terms, squares, weights, scale, rng.standard_normal(outputs).astype(np.float32))


def make_texts() -> tuple[Words, Distinct]:
    encoder = TextEncoder(TextConfig(), train_vocabulary([text for text in TEXTS if text], TextConfig()))
    rows = [item.words for item in encoder.encode(TEXTS)]
    words = Words.of_table(encoder, 0, 2, 3)
    return words, Distinct.of_texts(rows, words.hashes)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("gathered", [1, 5, 1 << 22])
def test_logits_are_the_sums_over_distinct_words_and_pairs(outputs, gathered, monkeypatch):
    monkeypatch.setattr("mixling.text.ngram_branch._GATHERED", gathered)
    words, texts = make_texts()
    everything = np.unique(np.concatenate([words.hashes, words.grams, texts.pairs]))
    branch = make_branch(everything[::2], outputs)
    known = dict(zip(branch.terms.tolist(), branch.weights.astype(np.int64), strict=True))
    squares = dict(zip(branch.terms.tolist(), branch.squares.tolist(), strict=True))
    zero = np.zeros(outputs, np.int64)
    got = branch.logits(texts, branch.row_sums(words))
    assert got.dtype == np.float32
    assert any((row != branch.bias).any() for row in got)
    for number in range(len(TEXTS)):
        rows = texts.rows[texts.word_texts == number]
        terms = words.hashes[rows].tolist() + texts.pairs[texts.pair_texts == number].tolist()
        terms += [gram for row in rows for gram in words.grams[words.starts[row] : words.starts[row + 1]].tolist()]
        total = sum((known.get(term, zero) for term in terms), zero)
        expected = branch.bias + branch.scale * total / math.sqrt(max(sum(squares.get(term, 0) for term in terms), 1))
        np.testing.assert_allclose(got[number], expected, rtol=1e-5, atol=1e-5)


def test_a_text_has_the_same_logits_alone_and_among_others():
    words, texts = make_texts()
    branch = make_branch(np.unique(np.concatenate([words.hashes, texts.pairs])), 4)
    sums = branch.row_sums(words)
    together = branch.logits(texts, sums)
    encoder = TextEncoder(TextConfig(), train_vocabulary([text for text in TEXTS if text], TextConfig()))
    rows = [item.words for item in encoder.encode(TEXTS)]
    for number, row in enumerate(rows):
        np.testing.assert_array_equal(branch.logits(Distinct.of_texts([row], words.hashes), sums)[0], together[number])


def test_a_branch_has_the_same_logits_from_its_own_terms_alone():
    words, texts = make_texts()
    everything = np.unique(np.concatenate([words.hashes, words.grams, texts.pairs]))
    branch = make_branch(everything[1::3], 2)
    own_words, own_texts = words.only(branch.terms), texts.only(branch.terms)
    assert 0 < len(own_words.grams) < len(words.grams)
    assert 0 < len(own_texts.pairs) < len(texts.pairs)
    expected = branch.logits(texts, branch.row_sums(words))
    np.testing.assert_array_equal(branch.logits(own_texts, branch.row_sums(own_words)), expected)


def test_a_branch_without_terms_has_its_bias():
    words, texts = make_texts()
    branch = make_branch(np.zeros(0, np.uint32), 2)
    np.testing.assert_array_equal(branch.logits(texts, branch.row_sums(words)), np.tile(branch.bias, (len(TEXTS), 1)))


@pytest.mark.parametrize("number", [0, 1, 2, 3, 15, 16, 17, 1000, 70_000])
def test_packed_hashes_come_back_in_the_bytes_that_were_counted(number):
    rng = np.random.default_rng(number)
    values = np.unique(np.append(rng.integers(0, 2**32, number, dtype=np.uint64), [0, 2**32 - 1][: min(number, 2)]))
    values = values.astype(np.uint32)[:number]
    high, low = pack_sorted(values)
    np.testing.assert_array_equal(unpack_sorted(high, low, len(values)), values)
    assert len(high) + len(low) + len(values) == term_bytes(len(values))  # and a square for each
    if number == 70_000:
        assert term_bytes(number) < 3.4 * number


@pytest.mark.parametrize(("outputs", "full"), [(1, 1.0), (2, 1.0), (150, 0.05), (256, 0.02), (300, 0.01), (300, 1.0)])
def test_what_a_file_holds_gives_the_same_branch(outputs, full):
    terms = np.unique(np.random.default_rng(1).integers(0, 2**32, 500, dtype=np.uint32))
    branch = make_branch(terms, outputs, full=full)
    arrays = branch.to_arrays()
    assert ("counts" in arrays) == (full < 1)
    again = NgramBranch.from_arrays(arrays, outputs)
    for name in ("terms", "weights", "scale", "bias"):
        np.testing.assert_array_equal(getattr(again, name), getattr(branch, name))
    if full < 1:
        used = int(np.count_nonzero(branch.weights))
        found = sum(arrays[name].nbytes for name in ("counts", "outputs", "weights"))
        assert found == stored_bytes(len(terms), used, outputs)


def test_scaling_scales_the_logits():
    words, texts = make_texts()
    branch = make_branch(np.unique(words.hashes), 3)
    sums = branch.row_sums(words)
    bias = np.arange(branch.weights.shape[1], dtype=np.float32) - 1
    wanted = 2.5 * branch.logits(texts, sums) + bias
    np.testing.assert_allclose(branch.scaled(2.5, bias).logits(texts, sums), wanted, rtol=1e-5, atol=1e-6)


def break_it(arrays: dict[str, np.ndarray], how: str) -> dict[str, np.ndarray]:
    out = {name: array.copy() for name, array in arrays.items()}
    match how:
        case "missing":
            del out["bias"]
        case "unknown":
            out["more"] = np.zeros(1, np.uint8)
        case "type":
            out["weights"] = out["weights"].astype(np.int32)
        case "double":
            out["scale"] = out["scale"].astype(np.float64)
        case "infinite":
            out["scale"][0] = np.inf
        case "outputs":
            out["bias"] = np.append(out["bias"], np.float32(1))
        case "short":
            out["low"] = out["low"][:-1]
        case "bit":
            out["high"][np.flatnonzero(out["high"])[0]] = 0
        case "order":
            out["high"], out["low"] = pack_sorted(np.array([4, 5], np.uint32))
            out["low"][:] = 0  # both are 0 now
            out["weights"] = np.zeros((2, out["weights"].shape[1]), np.int8)
        case "scalar":
            out["weights"] = np.int8(1).reshape(())
        case "count":
            out["counts"][0] += 1
        case "column":
            out["outputs"][0] = 200
        case "flat":
            out["counts"] = out["counts"].reshape(1, -1)
    return out


@pytest.mark.parametrize(
    ("sparse", "how"),
    [
        *((False, how) for how in ("missing", "unknown", "type", "double", "infinite", "outputs", "short", "bit")),
        *((False, how) for how in ("order", "scalar")),
        *((True, how) for how in ("missing", "type", "short", "bit", "count", "column", "flat", "scalar")),
    ],
)
def test_damaged_arrays_are_refused(sparse, how):
    terms = np.unique(np.random.default_rng(1).integers(0, 2**32, 100, dtype=np.uint32))
    outputs = 150 if sparse else 2
    arrays = make_branch(terms, outputs, full=0.05 if sparse else 1.0).to_arrays()
    NgramBranch.from_arrays(arrays, outputs)
    with pytest.raises(ModelFileError, match="n-gram branch cannot be read"):
        NgramBranch.from_arrays(break_it(arrays, how), outputs)


def test_more_weights_than_a_reader_holds_are_refused_before_they_are_made():
    arrays = make_branch(np.zeros(0, np.uint32), 1).to_arrays()
    arrays |= {
        "counts": np.zeros((1 << 25) + 1, np.uint8),
        "outputs": np.zeros(0, np.uint8),
        "weights": np.zeros(0, np.int8),
    }
    arrays |= {"scale": np.ones(1000, np.float32), "bias": np.ones(1000, np.float32)}
    with pytest.raises(ModelFileError, match="33,554,433 terms with 1,000 outputs"):
        NgramBranch.from_arrays(arrays, 1000)


@pytest.mark.parametrize("outputs", [200, 300, 70_000])
def test_weights_that_stay_sparse_give_the_same_logits(outputs, monkeypatch):
    words, texts = make_texts()
    everything = np.unique(np.concatenate([words.hashes, words.grams, texts.pairs]))
    dense = make_branch(everything[::2], outputs, full=3 / outputs)
    arrays = dense.to_arrays()
    assert arrays["outputs"].shape[1:] == {200: (), 300: (2,), 70_000: (3,)}[outputs]
    expected = dense.logits(texts, dense.row_sums(words))
    monkeypatch.setattr("mixling.text.ngram_branch.MAX_CELLS", 1000)
    monkeypatch.setattr("mixling.text.sparse_weights._GATHERED", 5)
    sparse = NgramBranch.from_arrays(arrays, outputs)
    assert isinstance(sparse.weights, SparseWeights)
    np.testing.assert_array_equal(sparse.logits_of_words(texts, words), expected)
    np.testing.assert_array_equal(sparse.logits(texts, sparse.row_sums(words)), expected)
    again = sparse.to_arrays()
    assert all(np.array_equal(array, again[name]) for name, array in arrays.items())
