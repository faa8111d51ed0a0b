"""Word vectors: counts and associations against loops, and what a user may do wrong."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import subspace_angles, svd
from scipy.sparse import coo_array, csr_array, random_array

from mixling import DataError, ModelFileError
from mixling.errors import StorageError
from mixling.native._counts import count_pairs
from mixling.native.sparse import SparseRows
from mixling.text import VectorConfig, WordVectors, train_vectors
from mixling.text import vectors as module
from mixling.threads import limited_threads

from ..matrices import dense

SMALL = VectorConfig(dim=2, window=2, max_words=6, max_contexts=3, min_count=2, smoothing=0.5)


def texts(number: int = 60, seed: int = 0) -> list[str]:
    """ "x1 sees y1" and the like: words of one kind stand beside the same words."""
    rng = np.random.default_rng(seed)
    kinds = [["cat", "dog", "cow"], ["red", "blue", "green"]]
    beside = [["eats", "runs", "sleeps"], ["shines", "paints", "fades"]]
    out = []
    for _ in range(number):
        kind = rng.integers(2)
        out.append(f"The {rng.choice(kinds[kind])} {rng.choice(beside[kind])} here")
    return out


def pairs_by_loops(documents: list[list[str]], words: list[str], config: VectorConfig) -> np.ndarray:
    contexts = words[: config.max_contexts]
    out = np.zeros((len(words), len(contexts)))
    for document in documents:
        for i, word in enumerate(document):
            for j, context in enumerate(document):
                if i != j and abs(i - j) <= config.window and word in words and context in contexts:
                    out[words.index(word), contexts.index(context)] += 1
    return out


def test_pairs_are_counted_within_the_window_and_within_a_text() -> None:
    documents = [line.split() for line in ("a b a c d a", "b a", "c", "a a b e f c b", "d b c")]
    tokens, words, counts, total = module._read([" ".join(line) for line in documents], SMALL)
    found = Counter(word for line in documents for word in line)
    assert total == sum(found.values())
    assert list(words) == ["a", "b", "c", "d"]  # by count, then as met; e and f stand once
    assert counts.tolist() == [found[word] for word in words]
    pairs = module._pairs(tokens, len(words), SMALL)
    np.testing.assert_array_equal(dense(pairs), pairs_by_loops(documents, list(words), SMALL))


@pytest.mark.parametrize(("words", "contexts"), [(1, 1), (200, 63), (200, 64), (20_000, 9_000), (5, 5)])
@pytest.mark.parametrize("window", [1, 5, 70])
def test_pairs_are_those_of_each_distance_in_order(words: int, contexts: int, window: int) -> None:
    rng = np.random.default_rng(words + contexts + window)
    config = VectorConfig(dim=1, window=window, max_words=max(words, 2), max_contexts=max(contexts, 2))
    for size in (0, 1, window + 1, 3000):
        tokens = np.minimum(rng.geometric(3 / (words + 3), size) - 2, words - 1).astype(np.int32)
        found = module._pairs(tokens, words, config)
        shape = (words, min(words, config.max_contexts))
        expected = csr_array(shape, dtype=np.float32)
        for distance in range(1, window + 1):
            for word, context in ((tokens[:-distance], tokens[distance:]), (tokens[distance:], tokens[:-distance])):
                counted = (word >= 0) & (context >= 0) & (context < shape[1])
                ones = np.ones(np.count_nonzero(counted), np.float32)
                expected = expected + coo_array((ones, (word[counted], context[counted])), shape).tocsr()
        for one, other in zip(
            (found.indptr, found.indices, found.data), (expected.indptr, expected.indices, expected.data), strict=True
        ):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


def test_the_native_module_refuses_what_is_no_text() -> None:
    tokens = np.array([0, 1, 2, -1], np.int32)
    count_pairs(tokens, 2, 3, 3)
    count_pairs(tokens, 2, 1 << 22, 1 << 22)  # some 16 seconds if each word took the contexts of all
    for wrong in (
        (tokens, 0, 3, 3),
        (tokens, 101, 3, 3),
        (tokens, 2, 2, 2),
        (tokens, 2, 3, 4),
        (tokens - 1, 2, 3, 3),
        (tokens, 2, 3, -1),
        (tokens, 2, 2**24 + 5, 3),  # more words than tokens by more than a limit
    ):
        with pytest.raises(ValueError, match="range"):
            count_pairs(*wrong)


def test_associations_are_positive_pointwise_mutual_information_of_smoothed_contexts() -> None:
    counts = np.array([[4.0, 1.0, 0.0], [1.0, 0.0, 2.0], [3.0, 3.0, 3.0]])
    found = dense(module._pmi(SparseRows.of_dense(counts), SMALL))
    smoothed = counts.sum(0) ** SMALL.smoothing
    for i, j in np.ndindex(3, 3):
        expected = 0.0
        if counts[i, j]:
            joint = counts[i, j] / counts.sum()
            expected = max(0.0, math.log(joint / (counts[i].sum() / counts.sum() * smoothed[j] / smoothed.sum())))
        assert found[i, j] == pytest.approx(expected, abs=1e-6)


def test_the_largest_singular_vectors_are_those_of_a_whole_decomposition() -> None:
    matrix = random_array((90, 60), density=0.3, format="csr", rng=np.random.default_rng(0)) * np.logspace(0, -3, 60)
    given = SparseRows.of_dense(matrix.toarray())
    left, sizes = module._largest_singular(given, 20)
    all_left, all_sizes, _ = svd(matrix.toarray())
    np.testing.assert_allclose(sizes, all_sizes[:20], rtol=1e-3)
    assert subspace_angles(left, all_left[:, :20]).max() < 0.02
    np.testing.assert_allclose(left.T @ left, np.eye(20), atol=1e-4)
    few, sizes = module._largest_singular(SparseRows.of_dense(matrix.toarray()[:, :5] @ np.ones((5, 30))), 8)
    assert np.isfinite(few).all()
    assert sizes[1:].max() < 1e-3 * sizes[0]  # of a single direction


def test_the_vectors_are_the_same_bytes_for_any_number_of_threads() -> None:
    made = set()
    for number in (1, 2, 3):
        with limited_threads(number):
            made.add(train_vectors(texts(400), VectorConfig(dim=3, max_contexts=10)).vectors.tobytes())
    assert len(made) == 1


def test_words_of_one_kind_are_near() -> None:
    made = train_vectors(texts(400), VectorConfig(dim=3, max_contexts=10))
    np.testing.assert_allclose(np.linalg.norm(made.vectors, axis=1), 1.0, atol=1e-5)
    near = made.vectors @ made.vectors.T
    cat, dog, red = (made.words.index(word) for word in ("cat", "dog", "red"))
    assert near[cat, dog] > 0.8 > near[cat, red] + 0.3
    assert "the" in made.words  # in lower case


def test_equal_texts_give_equal_vectors_and_pairs_are_two_texts() -> None:
    config = VectorConfig(dim=3, max_contexts=10)
    one, two = train_vectors(texts(), config), train_vectors(iter(texts()), config)
    np.testing.assert_array_equal(one.vectors, two.vectors)
    as_pairs = train_vectors(list(zip(texts()[::2], texts()[1::2], strict=True)), config)
    np.testing.assert_array_equal(as_pairs.vectors, one.vectors)
    split = train_vectors([line.split() for line in texts()], config)
    np.testing.assert_array_equal(split.vectors, one.vectors)


def test_reading_ends_at_the_greatest_number_of_tokens() -> None:
    made = train_vectors(texts(100), VectorConfig(dim=2, max_contexts=10, max_tokens=81))
    assert made.num_tokens == 84  # to the end of the text


def test_contractions_are_words_unless_they_should_not() -> None:
    lines = ["it isn't red", "it isn't blue"]
    assert "n't" in train_vectors(lines, VectorConfig(dim=1)).words
    assert "isn" in train_vectors(lines, VectorConfig(dim=1, contractions=False)).words


def test_they_are_saved_and_read(tmp_path: Path) -> None:
    made = train_vectors(texts(), VectorConfig(dim=3, max_contexts=10, contractions=True))
    made.save(tmp_path / "start")
    found = WordVectors.load(tmp_path / "start")
    assert (found.config, found.words, found.num_tokens) == (made.config, made.words, made.num_tokens)
    np.testing.assert_array_equal(found.vectors, made.vectors)
    np.testing.assert_array_equal(found.counts, made.counts)


def test_words_without_neighbors_get_no_vector() -> None:
    config = VectorConfig(dim=3, max_contexts=10)
    beside, alone = texts(), ["solo", "\u732b", "07", "\N{CAT FACE}"]
    made = train_vectors([*beside, *alone * 3], config)
    assert not set(alone).intersection(made.words)
    assert {"cat", "red", "eats"} <= set(made.words)
    assert len(made.words) == len(made.counts) == len(made.vectors)
    np.testing.assert_allclose(np.linalg.norm(made.vectors, axis=1), 1, atol=1e-6)
    with pytest.raises(DataError, match="0 distinct words occur 2 times or more and have neighbors"):
        train_vectors([f"word{number % 50}" for number in range(200)], config)


def _flatten(value: float) -> Callable[[Path], None]:
    """Return what replaces a vector in a folder."""

    def flatten(folder: Path) -> None:
        made = WordVectors.load(folder)
        made.vectors[1] = value
        made.save(folder)

    return flatten


def _cut(folder: Path) -> None:
    path = folder / "vectors.safetensors"
    path.write_bytes(path.read_bytes()[:-9])


def _lose_a_word(folder: Path) -> None:
    path = folder / "vectors.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "words": content["words"][1:]}))


@pytest.mark.parametrize(
    ("harm", "reported"),
    [
        (lambda folder: (folder / "vectors.json").unlink(), "has no word vectors, as"),
        (lambda folder: (folder / "vectors.json").write_text("{}"), "is damaged: 'config'"),
        (lambda folder: (folder / "vectors.json").write_text("[1"), "is damaged"),
        (_cut, "is damaged"),
        (_lose_a_word, "does not match its checksum"),
        (_flatten(0), "the vector of '.+' is not of unit length"),
        (_flatten(np.nan), "the vector of '.+' is not of unit length"),
        (_flatten(3e38), "the vector of '.+' is not of unit length"),
    ],
)
def test_a_damaged_folder_is_reported(tmp_path: Path, harm: Callable[[Path], object], reported: str) -> None:
    train_vectors(texts(), VectorConfig(dim=3, max_contexts=10)).save(tmp_path)
    harm(tmp_path)
    with pytest.raises(ModelFileError, match=reported):
        WordVectors.load(tmp_path)


def test_what_cannot_be_done_is_reported(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match="2 distinct words occur 2 times or more and have neighbors, but vectors of 3 dimensions"
    ):
        train_vectors(["a b a b"], VectorConfig(dim=3, max_contexts=10))
    with pytest.raises(DataError, match="0 distinct words"):
        train_vectors([], VectorConfig(dim=3, max_contexts=10))
    with pytest.raises(ValueError, match="dim: got 128; it must be less than max_contexts"):
        VectorConfig(max_contexts=64)
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(StorageError):
        train_vectors(texts(), VectorConfig(dim=3, max_contexts=10)).save(blocked)
