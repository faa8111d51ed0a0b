"""Linear models of labels with terms of their own: their terms by counting, their weights by minimizing the loss."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array, random_array

from mixling.native._margins import fit_own_terms as native
from mixling.native.own_terms import fit_own_terms, own_terms

from ..matrices import ours

LABELS = 5


@pytest.fixture
def features() -> csr_array:
    return csr_array(random_array((80, 30), density=0.15, format="csr", dtype=np.float32, rng=np.random.default_rng(0)))


@pytest.fixture
def members() -> csr_array:
    labels = np.random.default_rng(1).integers(0, LABELS - 1, 80)  # the last label has no text
    return csr_array((np.ones(80, np.float32), (labels, np.arange(80))), (LABELS, 80))


def test_the_terms_of_a_label_are_those_that_its_texts_have_most_of(features: csr_array, members: csr_array) -> None:
    starts, terms = own_terms(ours(features), ours(members), most=6)
    frequent = (features.toarray() > 0).sum(0)
    for label in range(LABELS):
        mine = terms[starts[label] : starts[label + 1]]
        sums = features.toarray()[members.toarray()[label] > 0].sum(0)
        assert set(mine) == set(np.argsort(-sums)[: min(6, np.count_nonzero(sums))])
        assert (np.diff(frequent[mine]) >= 0).all()


@pytest.mark.parametrize("most_texts", [0, 3, 1000])
def test_weights_minimize_the_squared_hinge_loss(features: csr_array, members: csr_array, most_texts: int) -> None:
    starts, terms = own_terms(ours(features), ours(members), most=6)
    costs = np.random.default_rng(2).uniform(0.5, 2, 80)
    got = fit_own_terms(ours(features), ours(members), costs, 3.0, starts, terms, most_texts=most_texts)
    dense = features.toarray().astype(float)
    for label in range(LABELS):
        mine = terms[starts[label] : starts[label + 1]]
        texts = np.flatnonzero(members.toarray()[label]).tolist()
        own = len(texts)
        for term in mine:  # the rarest first
            for text in np.flatnonzero(dense[:, term]).tolist():
                if text not in texts and len(texts) < own + most_texts:
                    texts.append(text)
        sign = np.where(np.arange(len(texts)) < own, 1, -1)

        def loss(weights: np.ndarray, texts=texts, sign=sign, mine=mine) -> float:
            scores = dense[np.ix_(texts, mine)] @ weights - 1
            errors = np.maximum(0, 1 - sign * scores) ** 2
            return float(weights @ weights / 2 + 3.0 * costs[texts] @ errors)

        best = minimize(loss, np.zeros(len(mine)), method="L-BFGS-B").fun if len(mine) else 0.0
        assert loss(got[starts[label] : starts[label + 1]]) <= best * 1.01 + 1e-6


def test_what_is_no_matrix_is_refused() -> None:
    one, ints = np.zeros(1, np.float32), np.zeros(2, np.int32)
    sound = [np.array([0, 1], np.int32), ints[:1], one, one, np.array([0, 1], np.int32), ints[:1]]
    sound += [np.array([0, 1], np.int32), ints[:1], np.array([0, 1], np.int32), ints[:1], one]
    native(*sound, 5, 0.1, 5)
    with pytest.raises(ValueError, match="passes"):
        native(*sound, 5, 0.0, 10_001)
    for number in range(len(sound)):
        for broken in (np.full_like(sound[number], 7), np.zeros(5, sound[number].dtype)):
            if sound[number].dtype == np.float32 and len(broken) == 1:
                continue
            given = [broken if i == number else item for i, item in enumerate(sound)]
            with pytest.raises(ValueError, match="no sparse matrix"):
                native(*given, 5, 0.1, 5)
