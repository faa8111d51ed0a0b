"""Features, fit, pruning and mixture of the n-gram branch against scikit-learn, loops and torch."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

import mixling.text.ngrams
from mixling import TextConfig, TextEncoder
from mixling.answers import LabelSet
from mixling.arrays import Int32
from mixling.ngrams import features as ngrams
from mixling.ngrams import fit as ngram_fit
from mixling.ngrams import fit_branch
from mixling.ngrams.features import Features, make_features
from mixling.ngrams.fit import compress
from mixling.ngrams.mixture import fit_mixture
from mixling.tasks import LossConfig, Task, task_type
from mixling.text import Distinct, Words, train_vocabulary

from ..matrices import dense

TEXTS = [
    "good film, good cast",
    "bad film and bad acting",
    "a good story",
    "the worst acting",
    "not good",
    "nothing bad here",
    "I liked it",
    "I hated it, it was bad",
]
OTHERS = ["good acting", "bad cast and the worst story", "unknown words only", ""]
UNSMOOTHED = LossConfig(label_smoothing=0)


def make_task(name: str, labels: int = 2) -> Task:
    if name == "regression":
        return task_type(name)(LabelSet(("value",), "number", {"mean": 1.0, "deviation": 2.0}), UNSMOOTHED)
    kind = task_type(name)
    return kind(LabelSet(tuple("abcdefgh"[:labels]), kind.kind), UNSMOOTHED)


def make_encoder() -> TextEncoder:
    return TextEncoder(TextConfig(), train_vocabulary(TEXTS, TextConfig()), keep=True)


def rows_of(encoder: TextEncoder, texts: list[str]) -> list[Int32]:
    return [item.words for item in encoder.encode(texts)]


def features_of(encoder: TextEncoder, texts: list[str], low: int, high: int) -> Features:
    return make_features(rows_of(encoder, texts), Words.of_table(encoder, 0, low, high))


def branch_logits(task, branch, encoder, texts):
    rows = rows_of(encoder, texts)
    words = Words.of_table(encoder, 0, 2, 3)
    return task.logits_of_scores(branch.logits(Distinct.of_texts(rows, words.hashes), branch.row_sums(words)))


def loops(texts: list[str], low: int, high: int) -> tuple[list[Counter], list[Counter], list[int]]:
    """Of each text the frequencies of words and pairs, of n-grams, and the number of distinct words."""
    wholes, parts, sizes = [], [], []
    for text in texts:
        words = text.lower().replace(",", " , ").split()
        distinct = sorted(set(words))
        wholes.append(Counter({*distinct, *itertools.pairwise(words)}))
        padded = [f" {word} " for word in distinct]
        parts.append(Counter(w[i : i + n] for w in padded for n in range(low, high + 1) for i in range(len(w) - n + 1)))
        sizes.append(len(distinct))
    return wholes, parts, sizes


def dense_features(train: list[str], texts: list[str], low: int, high: int, fewest: int = 1) -> np.ndarray:
    """The features that the module's text describes, of `texts`, with n-grams and frequencies of `train`."""
    all_factors, all_counts = [], []
    *blocks, sizes = loops(train, low, high)
    *others, _ = loops(texts, low, high)
    for known, given, least in zip(blocks, others, (1, fewest), strict=True):
        frequency = Counter(term for text in known for term in text)
        terms = [term for term, count in frequency.items() if count >= least]
        idf = np.array([math.log((1 + len(train)) / (1 + frequency[term])) + 1 for term in terms])
        of_word = sum(text[term] for text in known for term in terms) / sum(sizes)
        all_counts.append(np.array([[text[term] for term in terms] for text in given], np.float64))
        all_factors.append(idf / idf.mean() / math.sqrt(of_word))
    counts, factors = np.concatenate(all_counts, axis=1), np.concatenate(all_factors)
    unit = (factors**2).max() / 127
    lengths = counts @ np.clip(np.rint(factors**2 / unit), 1, 127)
    return counts * factors / np.sqrt(unit * np.maximum(lengths, 1))[:, None]


def test_texts_that_are_not_counted_change_nothing_about_the_others() -> None:
    encoder = make_encoder()
    rows = rows_of(encoder, [*TEXTS, *OTHERS])
    words = Words.of_table(encoder, 0, 2, 3)
    counted, whole = make_features(rows[: len(TEXTS)], words), make_features(rows, words, counted=len(TEXTS))
    for name in ("hashes", "factors", "spread"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(counted, name))
    np.testing.assert_array_equal(dense(whole.matrix.part(0, len(TEXTS))), dense(counted.matrix))
    assert whole.matrix.shape == (len(rows), len(counted.hashes))
    # A text that is not counted has the features that it would have as a counted one.
    again = make_features(rows_of(encoder, TEXTS) + rows_of(encoder, TEXTS[:1]), words, counted=len(TEXTS))
    np.testing.assert_array_equal(dense(again.matrix)[len(TEXTS)], dense(counted.matrix)[0])


@pytest.mark.parametrize(("few", "fewest"), [(len(TEXTS), 1), (len(TEXTS) - 1, 2)])
def test_features_are_those_of_the_description(monkeypatch, few, fewest):
    monkeypatch.setattr("mixling.ngrams.features._FEW_TEXTS", few)
    encoder = make_encoder()
    found = features_of(encoder, TEXTS, 2, 3)
    expected = dense_features(TEXTS, TEXTS, 2, 3, fewest)
    assert found.matrix.shape == expected.shape
    np.testing.assert_allclose(dense(found.matrix) @ dense(found.matrix).T, expected @ expected.T, rtol=1e-5, atol=1e-6)
    squares = (dense(found.matrix) / found.factors) ** 2
    np.testing.assert_allclose(found.spread, np.sqrt(squares.mean(0)), rtol=1e-5)
    assert found.chosen.tolist() == list(range(len(TEXTS)))


@pytest.mark.parametrize("words", [1, 7])
def test_features_that_are_computed_in_parts_are_those_of_all_texts(monkeypatch, words):
    encoder = make_encoder()
    rows = rows_of(encoder, TEXTS)
    whole = make_features(rows, Words.of_table(encoder, 0, 2, 3))
    monkeypatch.setattr(mixling.text.ngrams, "_PART_WORDS", words)
    parts = make_features(rows, Words.of_table(encoder, 0, 2, 3))
    assert parts.hashes.tolist() == whole.hashes.tolist()
    np.testing.assert_allclose(dense(parts.matrix), dense(whole.matrix), rtol=1e-6)
    np.testing.assert_allclose(parts.spread, whole.spread, rtol=1e-6)


@pytest.mark.parametrize("words", [1, 30, 1 << 15])
def test_features_that_are_kept_are_columns_of_the_matrix(monkeypatch, words):
    found, again = (features_of(make_encoder(), TEXTS, 2, 3) for _ in range(2))
    monkeypatch.setattr(mixling.text.ngrams, "_PART_WORDS", words)
    columns = np.arange(len(found.hashes))[::-3]
    kept = found.keep(columns)
    numbers = (dense(again.matrix) / again.factors * again.lengths[:, None])[:, columns]
    np.testing.assert_allclose(numbers, np.rint(numbers), atol=1e-4)
    lengths = np.sqrt(np.maximum(np.rint(numbers) @ again.squares[columns], 1))
    np.testing.assert_allclose(kept.lengths, lengths, rtol=1e-6)
    np.testing.assert_allclose(dense(kept.matrix), numbers * kept.factors / lengths[:, None], rtol=1e-4)
    for name in ("hashes", "factors", "squares", "spread"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(again, name)[columns])
    assert again.keep(np.zeros(0, np.int64)).matrix.nnz == 0


def test_of_many_texts_a_sample_is_taken_from_everywhere(monkeypatch):
    monkeypatch.setattr(ngrams, "MAX_NONZEROS", 200)
    encoder = make_encoder()
    found = features_of(encoder, TEXTS * 4, 2, 3)
    assert found.matrix.nnz <= 300
    assert 1 < len(found.chosen) < 32
    assert (found.chosen[0], found.chosen[-1]) == (0, 31)


def test_with_many_labels_the_terms_are_as_many_as_a_reader_holds(monkeypatch):
    encoder = make_encoder()
    rows = rows_of(encoder, TEXTS)
    whole = make_features(rows, Words.of_table(encoder, 0, 2, 3), outputs=5)
    monkeypatch.setattr(ngrams, "MAX_CELLS", 200)
    few = make_features(rows, Words.of_table(encoder, 0, 2, 3), outputs=5)
    assert few.matrix.shape == (len(TEXTS), 40)
    assert len(few.hashes) == len(few.factors) == len(few.spread) == 40
    lengths = {
        int(term): float(column)
        for term, column in zip(whole.hashes, np.square(dense(whole.matrix)).sum(0), strict=True)
    }
    kept = [lengths.pop(int(term)) for term in few.hashes]
    assert min(kept) >= max(lengths.values()) * (1 - 1e-5)


@pytest.mark.parametrize("labels", [2, 3])
def test_an_unpruned_branch_decides_as_scikit_learn(labels):
    task, encoder = make_task("classification", labels), make_encoder()
    targets = np.arange(len(TEXTS)) % labels
    features = features_of(encoder, TEXTS, 2, 3)
    branch = fit_branch(task, features, targets, None, strength=1.0, max_bytes=None)
    model = LinearSVC(C=1.0, tol=1e-6, max_iter=100_000).fit(dense_features(TEXTS, TEXTS, 2, 3), targets)
    expected = model.decision_function(dense_features(TEXTS, OTHERS, 2, 3))
    got = branch_logits(task, branch, encoder, OTHERS)
    if labels == 2:
        assert (got[:, 0] == -got[:, 1]).all()
        got = 2 * got[:, 1]
    np.testing.assert_allclose(got, expected, atol=0.03)  # 8 bits, and the two fits' tolerances


def test_a_regression_branch_is_ridge_regression_of_standard_numbers():
    task, encoder = make_task("regression"), make_encoder()
    targets = np.arange(len(TEXTS), dtype=np.float64)
    features = features_of(encoder, TEXTS, 2, 3)
    branch = fit_branch(task, features, targets, None, strength=2.0, max_bytes=None)
    model = Ridge(alpha=0.5).fit(dense_features(TEXTS, TEXTS, 2, 3), (targets - 1) / 2)
    expected = model.predict(dense_features(TEXTS, OTHERS, 2, 3))
    np.testing.assert_allclose(branch_logits(task, branch, encoder, OTHERS)[:, 0], expected, atol=0.02)


def test_each_label_of_several_is_fitted_by_itself():
    task, encoder = make_task("multi_label", 3), make_encoder()
    targets = np.array([[i % 2, 1, 0] for i in range(len(TEXTS))])
    features = features_of(encoder, TEXTS, 2, 3)
    branch = fit_branch(task, features, targets, None, strength=1.0, max_bytes=None)
    got = branch_logits(task, branch, encoder, OTHERS)
    alone = fit_branch(make_task("classification"), features, targets[:, 0], None, strength=1.0, max_bytes=None)
    expected = branch_logits(make_task("classification"), alone, encoder, OTHERS)
    np.testing.assert_allclose(got[:, 0], 2 * expected[:, 1], atol=1e-5)
    assert got[:, 1:].tolist() == [[1.0, -1.0]] * len(OTHERS)


def test_weights_of_examples_and_a_label_that_no_text_has():
    task, encoder = make_task("classification", 4), make_encoder()
    targets = np.array([0, 1, 0, 1, 0, 1, 2, 2])
    features = features_of(encoder, TEXTS, 2, 3)
    heavy = np.where(targets == 2, 50, 1).astype(np.float32)
    plain, weighed = (
        branch_logits(task, fit_branch(task, features, targets, item, strength=0.1, max_bytes=None), encoder, OTHERS)
        for item in (None, heavy)
    )
    assert (plain[:, 3] == -1).all()
    assert (weighed[:, 2] > plain[:, 2] + 0.1).all()


def test_two_labels_of_three_that_the_texts_have_are_reported_apart():
    task, encoder = make_task("classification", 3), make_encoder()
    targets = np.array([0, 2, 0, 2, 0, 2, 0, 2])
    features = features_of(encoder, TEXTS, 2, 3)
    got = branch_logits(task, fit_branch(task, features, targets, None, strength=10.0, max_bytes=None), encoder, TEXTS)
    assert got.argmax(1).tolist() == targets.tolist()


@pytest.mark.parametrize("outputs", [1, 2, 40])
@pytest.mark.parametrize("room", [1500, 4000, 8000])
def test_pruning_keeps_the_heaviest_weights_and_to_its_bytes(outputs, room):
    rng = np.random.default_rng(0)
    texts = [" ".join("".join(rng.choice(list("abcdefgh"), 6)) for _ in range(20)) for _ in range(60)]
    encoder = make_encoder()
    features = features_of(encoder, texts, 2, 4)
    weights = rng.standard_normal((outputs, len(features.hashes))) ** 3
    branch = compress(features, weights, np.zeros(outputs), max_bytes=room)
    stored = sum(array.nbytes for array in branch.to_arrays().values())
    assert 0.6 * room < stored <= room
    matters = (np.abs(weights) * features.spread).T
    row = {int(term): i for i, term in enumerate(features.hashes)}
    kept = np.zeros(matters.shape, bool)
    for term, values in zip(branch.terms.tolist(), branch.weights, strict=True):
        kept[row[term]] = values != 0
    used, unused = matters[kept], matters[~kept]
    assert np.square(used).mean() > 2 * np.square(unused).mean()
    if outputs == 1 and room < 8000:  # with more room weights stay that 8 bits round to zero
        assert used.min() >= unused.max()


@pytest.mark.parametrize("labels", [2, 3])
def test_terms_that_are_left_are_fitted_as_if_there_were_no_others(labels, monkeypatch):
    monkeypatch.setattr("mixling.ngrams.features._FEW_TEXTS", 0)  # fewer terms, so that the fits end closer together
    task, encoder = make_task("classification", labels), make_encoder()
    targets = np.arange(len(TEXTS)) % labels
    features = features_of(encoder, TEXTS, 2, 3)
    pruned = ngram_fit.prune(task, features, targets, None, strength=1.0, max_bytes=600)
    assert 10 < len(pruned.hashes) < 0.9 * len(features.hashes)
    kept = np.ones((len(pruned.hashes), 1), bool) if labels == 2 else pruned.kept
    assert kept.any(1).all()
    branch = fit_branch(task, pruned, targets, None, strength=1.0, max_bytes=None)
    row = {int(term): i for i, term in enumerate(branch.terms)}
    columns = dense(pruned.matrix)
    for label in range(kept.shape[1]):
        model = LinearSVC(C=1.0, tol=1e-6, max_iter=100_000)
        model.fit(columns[:, kept[:, label]], targets == (1 if labels == 2 else label))
        expected = np.zeros(len(kept))
        expected[kept[:, label]] = model.coef_[0] * pruned.factors[kept[:, label]]
        got = [
            float(branch.weights[row[term], label] * branch.scale[label]) if term in row else 0.0
            for term in pruned.hashes.tolist()
        ]
        np.testing.assert_allclose(got, expected, atol=0.05, rtol=0.1)  # 8 bits, and the two fits' tolerances


def test_nothing_is_left_out_where_there_is_room():
    task, encoder = make_task("classification", 3), make_encoder()
    features = features_of(encoder, TEXTS, 2, 3)
    assert ngram_fit.prune(task, features, np.arange(len(TEXTS)) % 3, None, strength=1.0, max_bytes=100_000) is features


def test_8_bits_are_off_by_half_a_step_at_most():
    encoder = make_encoder()
    features = features_of(encoder, TEXTS, 2, 3)
    weights = np.random.default_rng(0).standard_normal((3, len(features.hashes)))
    branch = compress(features, weights, np.zeros(3), max_bytes=None)
    order = np.argsort(features.hashes)
    known = np.isin(features.hashes[order], branch.terms)
    error = branch.weights * branch.scale - weights.T[order][known]
    assert (np.abs(error) <= branch.scale / 2 * 1.001).all()


@pytest.mark.parametrize("name", ["classification", "multi_label", "regression"])
def test_the_loss_in_numpy_is_torch_s_with_its_gradient(name):
    rng = np.random.default_rng(0)
    task = make_task(name, 4)
    labels = len(task.labels)
    logits = 3 * rng.standard_normal((6, labels))
    targets = {
        "classification": rng.integers(0, 4, 6),
        "multi_label": rng.integers(0, 2, (6, 4)),
        "regression": rng.standard_normal(6),
    }[name]
    loss, gradient = task.score_loss(logits, targets)
    given = torch.tensor(logits, requires_grad=True)
    total, weight = task.loss(
        given,
        torch.from_numpy(task.stack(list(targets), 1)).to(torch.float64 if name == "regression" else torch.int64),
        None,
    )
    (total / weight).backward()
    assert loss == pytest.approx((total / weight).item(), rel=1e-6)
    np.testing.assert_allclose(gradient, given.grad.numpy(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["classification", "multi_label", "regression"])
def test_a_mixture_is_no_worse_than_the_network_alone_and_near_the_best_of_a_grid(name):
    rng = np.random.default_rng(0)
    task = make_task(name, 3)
    truth = rng.standard_normal((400, len(task.labels)))
    network = 2.5 * truth + 3 * rng.standard_normal(truth.shape)
    branch = 0.3 * truth + 0.3 * rng.standard_normal(truth.shape)
    targets = {
        "classification": truth.argmax(1),
        "multi_label": (truth > 0).astype(np.int64),
        "regression": 1 + 2 * truth[:, 0],
    }[name]
    found, scaled = fit_mixture(task, network, branch, targets), fit_mixture(task, network, None, targets)
    assert found.alone == scaled.alone == pytest.approx(task.score_loss(network, targets)[0])
    assert found.loss < scaled.loss < found.alone
    assert scaled.branch == 0
    grid = [
        task.score_loss(a * network + b * branch, targets)[0]
        for a in np.linspace(0, 3, 31)
        for b in np.linspace(0, 20, 81)
    ]
    assert found.loss < min(grid) + 0.005
    mixed = found.network * network + found.branch * branch + task.logits_of_scores(found.bias[None])
    np.testing.assert_allclose(found.network * network + found.addition(task, branch), mixed, rtol=1e-5, atol=1e-5)
    assert task.score_loss(mixed, targets)[0] == pytest.approx(found.loss, rel=1e-5)


@pytest.mark.parametrize("name", ["classification", "multi_label", "regression"])
def test_a_mixture_corrects_a_wrong_frequency_of_labels(name):
    rng = np.random.default_rng(0)
    task = make_task(name, 3)
    truth = rng.standard_normal((2000, len(task.labels)))
    targets = {
        "classification": (truth + rng.gumbel(size=truth.shape)).argmax(1),
        "multi_label": (truth + rng.logistic(size=truth.shape) > 0).astype(np.int64),
        "regression": 1 + 2 * (truth[:, 0] + rng.standard_normal(2000)),
    }[name]
    wrong = np.arange(1.0, 1 + len(task.labels))
    found = fit_mixture(task, truth + wrong, None, targets)
    shift = found.network * wrong + task.logits_of_scores(found.bias[None])[0]
    if name == "classification":  # a number that is added to all logits changes nothing
        shift -= shift.mean()
    np.testing.assert_allclose(shift, 0, atol=0.15)
    without = min(task.score_loss(a * (truth + wrong), targets)[0] for a in np.linspace(0, 2, 41))
    assert found.loss < without - 0.03


def test_copies_of_examples_are_no_further_evidence_and_weighted_labels_have_no_biases():
    task = make_task("classification", 3)
    rng = np.random.default_rng(0)
    targets, network, branch = (
        rng.choice(3, 30, p=[0.7, 0.2, 0.1]),
        rng.standard_normal((30, 3)),
        rng.standard_normal((30, 3)),
    )
    once = fit_mixture(task, network, branch, targets)
    assert np.abs(once.bias).max() > 0.05
    twice = (np.concatenate([part, part]) for part in (network, branch, targets))
    again = fit_mixture(task, *twice, examples=30)
    assert (again.network, again.branch) == pytest.approx((once.network, once.branch), abs=1e-3)
    np.testing.assert_allclose(again.bias, once.bias, atol=1e-3)
    task.class_weights = np.ones(3, np.float32)
    assert not fit_mixture(task, network, branch, targets).bias.any()


def test_of_two_texts_the_weights_stay_near_to_the_usual_ones():
    task = make_task("classification")
    right = np.array([[1.0, -1.0], [-1.0, 1.0]])
    found = fit_mixture(task, right, right, np.array([0, 1]))
    assert 1 <= found.network < 2
    assert 3 <= found.branch < 6
