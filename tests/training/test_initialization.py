"""The unsupervised start: ridge regression against scikit-learn's, and where its rows go."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from mixling import ConfigError, TextConfig, TextEncoder
from mixling.models import ProjectionEmbedding
from mixling.native import cholesky
from mixling.native._counts import multiply_upper
from mixling.networks import EmbeddingConfig
from mixling.text import Binary, MinHash, Projection, SubwordEmbedding, VectorConfig, WordVectors, train_vocabulary
from mixling.threads import limited_threads
from mixling.training import initialization
from mixling.training.initialization import Fit, init_bottleneck

from ..matrices import ours

DIM = 4


def word_vectors(number: int = 80, *, dim: int = DIM, lowercase: bool = True) -> WordVectors:
    rng = np.random.default_rng(0)
    words = tuple(dict.fromkeys("".join(rng.choice(list("abcde"), size=5)) for _ in range(number)))
    vectors = rng.standard_normal((len(words), dim)).astype(np.float32)
    counts = rng.integers(1, 100, len(words))
    return WordVectors(
        config=VectorConfig(dim=dim, lowercase=lowercase), words=words, counts=counts, vectors=vectors, num_tokens=9
    )


def encoder(projection: Projection, vectors: WordVectors, *, lowercase: bool = True) -> TextEncoder:
    config = TextConfig(projection=projection, lowercase=lowercase)
    return TextEncoder(config, train_vocabulary([" ".join(vectors.words)], config))


def embedding(config: EmbeddingConfig, *, num_features: int, dim: int = DIM) -> ProjectionEmbedding:
    torch.manual_seed(0)
    return ProjectionEmbedding(config, num_features=num_features, dim=dim, max_len=9)


def start(
    front: ProjectionEmbedding, reader: TextEncoder, vectors: WordVectors, options: EmbeddingConfig = EmbeddingConfig(),
    *, scale: float = 0.5,
) -> Fit:  # fmt: skip
    return init_bottleneck(front.weight.detach().numpy(), options, reader, vectors, dim=front.dim, scale=scale)


def rows_of(front: ProjectionEmbedding, reader: TextEncoder, words: tuple[str, ...]) -> torch.Tensor:
    locations = np.array([item.words[0] for item in reader.encode([[word] for word in words])])
    bags = reader.bags(locations)
    weights = None if bags.weights is None else torch.from_numpy(bags.weights)
    return front.word_rows(torch.from_numpy(bags.features), weights)[1:].detach()


@pytest.mark.parametrize("projection", [MinHash(num_features=50, num_hashes=6), Binary(num_features=50, num_hashes=3)])
def test_it_is_weighted_ridge_regression_up_to_its_scale(
    projection: MinHash | Binary, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sklearn.linear_model import Ridge

    vectors = word_vectors()
    reader, front = encoder(projection, vectors), embedding(EmbeddingConfig(), num_features=50)
    monkeypatch.setattr(initialization, "_PENALTY", 0.2)
    done = start(front, reader, vectors, scale=0.7)
    assert done.words == len(vectors.words)
    features = np.zeros((len(vectors.words), 50))
    for row, item in zip(features, reader.encode([[word] for word in vectors.words]), strict=True):
        bags = reader.bags(item.words)
        weights = np.ones_like(bags.features[0]) if bags.weights is None else bags.weights[0]
        np.add.at(row, bags.features[0], weights)
    weights = np.sqrt(vectors.counts)
    penalty = 0.2 * np.trace((features * weights[:, None]).T @ features) / 50
    ridge = Ridge(alpha=penalty, fit_intercept=False).fit(features, vectors.vectors, sample_weight=weights)
    found, expected = front.weight.detach().numpy(), ridge.coef_.T
    scale = np.linalg.norm(found) / np.linalg.norm(expected)
    np.testing.assert_allclose(found, expected * scale, rtol=1e-3, atol=1e-5)
    residual = np.square(ridge.predict(features) - vectors.vectors).sum(1)
    assert done.explained == pytest.approx(1 - residual @ weights / (np.square(vectors.vectors).sum(1) @ weights))
    made = rows_of(front, reader, vectors.words).numpy()
    assert np.sqrt(np.average(np.square(made).mean(1), weights=weights)) == pytest.approx(0.7, rel=1e-4)


def test_vectors_that_are_sums_over_the_features_are_explained() -> None:
    vectors = word_vectors(300)
    reader = encoder(MinHash(num_features=50, num_hashes=6), vectors)
    known = rows_of(embedding(EmbeddingConfig(), num_features=50), reader, vectors.words).numpy()
    copy = WordVectors(config=vectors.config, words=vectors.words, counts=vectors.counts, vectors=known, num_tokens=9)
    fractions = [start(embedding(EmbeddingConfig(), num_features=50), reader, v).explained for v in (vectors, copy)]
    assert fractions[0] < 0.4  # of random vectors, by as many rows as every sixth word
    assert fractions[1] > 0.95


@pytest.mark.parametrize("dim", [3, 6])
@pytest.mark.parametrize(("window", "template"), [(0, "full"), (2, "full"), (2, "factorized")])
def test_the_words_own_columns_are_set_and_no_others(window: int, template: str, dim: int) -> None:
    vectors = word_vectors()
    reader = encoder(MinHash(num_features=50, num_hashes=6), vectors)
    front = embedding(EmbeddingConfig(window=window, window_type=template), num_features=50, dim=dim)
    before = front.weight.detach().clone()
    start(front, reader, vectors, EmbeddingConfig(window=window, window_type=template))
    changed = (front.weight.detach() != before).any(0).nonzero().flatten().tolist()
    first = window * dim if template == "full" else 0
    assert changed == list(range(first, first + min(dim, DIM)))


def test_what_cannot_begin_so_is_reported() -> None:
    vectors = word_vectors(lowercase=False)
    front = embedding(EmbeddingConfig(), num_features=50)
    with pytest.raises(ConfigError, match="made with lowercase = False, but the model has"):
        start(front, encoder(MinHash(num_features=50), vectors), vectors)
    vectors = word_vectors()
    reader = encoder(MinHash(num_features=50), vectors)
    subwords = TextEncoder(
        TextConfig(projection=SubwordEmbedding(num_features=len(reader.vocabulary))), reader.vocabulary
    )
    with pytest.raises(ConfigError, match="projection 'subwords' has none"):
        start(front, subwords, vectors)


def test_squares_are_the_products_of_scipy() -> None:
    rng = np.random.default_rng(0)
    for words, features, width in ((0, 3, 1), (1, 1, 1), (300, 40, 9), (500, 700, 20)):
        columns = rng.integers(0, features, (words, width))  # some twice in a row
        values = rng.standard_normal(columns.size).astype(np.float32)
        matrix = csr_array((values, columns.ravel(), np.arange(words + 1) * width), (words, features))
        weighted = (matrix * rng.random((words, 1), np.float32)).tocsr()
        found = ours(matrix.T.tocsr()).upper_product(ours(weighted))
        np.testing.assert_allclose(np.triu(found), np.triu((matrix.T @ weighted).toarray()), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 50])
def test_equations_are_solved_block_by_block_in_any_number_of_threads(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cholesky, "_BLOCK", 8)
    rng = np.random.default_rng(size)
    half = rng.normal(size=(size, size + 5))
    squares = half @ half.T + np.eye(size)
    right = rng.normal(size=(size, 3))
    made = set()
    for number in (1, 3):
        with limited_threads(number):
            factor = cholesky.Cholesky(np.triu(squares).astype(np.float32))
            found = factor.solve(right.astype(np.float32))
        np.testing.assert_allclose(found, np.linalg.solve(squares, right), rtol=1e-3, atol=1e-4)
        made.add(found.tobytes())
        values = right.astype(np.float32)
        np.testing.assert_allclose(factor.transposed_times(factor.times(values)), squares @ right, rtol=1e-3, atol=1e-3)
    assert len(made) == 1


def test_the_native_module_refuses_what_is_no_matrix() -> None:
    starts, columns, values = np.array([0, 1, 3], np.int32), np.array([1, 0, 1], np.int32), np.ones(3, np.float32)
    sound = {"out": np.zeros((2, 2), np.float32)}
    sound |= {f"{name}{side}": item for side in "lr" for name, item in (("s", starts), ("c", columns), ("v", values))}
    multiply_upper(*sound.values())
    assert sound["out"].tolist() == [[1, 1], [0, 2]]
    wrong = [
        {"out": np.zeros((2, 3), np.float32)}, {"out": np.zeros((3, 3), np.float32)},
        *({f"s{side}": np.array(bad, np.int32)} for side in "lr" for bad in ([], [0], [0, 1], [0, 4, 3], [-1, 1, 3])),
        *({f"c{side}": np.array(bad, np.int32)} for side in "lr" for bad in ([1, 0], [1, 0, 2], [1, -1, 1])),
        *({f"v{side}": np.ones(2, np.float32)} for side in "lr"),
    ]  # fmt: skip
    for change in wrong:
        with pytest.raises(ValueError, match="matrices"):
            multiply_upper(*(sound | change).values())
