"""The pretraining experiments: models of one size, and a measure of how Toeplitz a matrix is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mixling.cost import count

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The experiments import from each other, as scripts beside each other do."""
    before = dict(sys.modules)
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    yield
    for name in ("gmlp_ablation", "gmlp_scaling", "gmlp_filters", "pretraining"):
        if name not in before:
            sys.modules.pop(name, None)


def module(name: str) -> ModuleType:
    return __import__(name)


def test_all_models_of_the_ablation_have_one_size() -> None:
    ablation = module("gmlp_ablation")
    bodies = {name: count(config, vocabulary=ablation.SUBWORDS).body for name, config in ablation.MODELS.items()}
    budget = bodies["Transformer, relative positions"]
    for name, body in bodies.items():
        if name == "Transformer, without content":  # no queries and keys: 3 layers of 2 (d^2 + d) fewer
            assert body == budget - 3 * 2 * (128**2 + 128)
        else:
            assert body == pytest.approx(budget, rel=0.01)
    assert set(ablation.PAPER) <= set(ablation.MODELS)


def test_pretrained_models_have_one_size_and_the_one_on_hashes_at_most_a_million() -> None:
    pretraining = module("pretraining")
    counts = {name: count(config, vocabulary=8192) for name, config in pretraining.MODELS.items()}
    assert counts.pop("hypermixer-minhash").parameters < 1_000_000
    bodies = [item.body for item in counts.values()]
    assert max(bodies) / min(bodies) < 1.01


def test_how_much_of_a_matrix_is_toeplitz() -> None:
    fraction = module("gmlp_filters").toeplitz_fraction
    rng = np.random.default_rng(0)
    values, location = rng.normal(size=39), np.arange(20)
    matrix = values[19 + location[None] - location[:, None]]
    assert fraction(matrix) == pytest.approx(1)
    noise = rng.normal(size=(20, 20))
    assert fraction(noise) == pytest.approx(39 / 400, abs=0.05)
    assert 0.2 < fraction(matrix + noise) < 0.9


def test_the_rates_of_the_scaling_are_of_its_depths_and_hold_that_of_the_ablation() -> None:
    scaling, ablation = module("gmlp_scaling"), module("gmlp_ablation")
    assert set(scaling.RATES) == {depth for depths in scaling.DEPTHS.values() for depth in depths}
    assert {rates[0] for rates in scaling.RATES.values()} == {max(ablation.RATES)}
