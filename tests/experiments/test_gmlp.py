"""The pretraining experiments: models of one size, and a measure of how Toeplitz a matrix is."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from mixling import Dataset, Example, build_model
from mixling.models import count

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


def test_the_transformer_with_learned_positions_has_a_table_and_no_biases() -> None:
    """BERT's row of Table 3: one vector of the table for each of the 128 positions."""
    ablation = module("gmlp_ablation")
    models = {
        name: build_model(ablation.MODELS[name], num_outputs=2, output="text")
        for name in ("Transformer, learned positions", "Transformer, relative positions")
    }
    learned, relative = ({key: item.shape for key, item in model.named_parameters()} for model in models.values())
    assert {key: tuple(learned[key]) for key in learned.keys() - relative.keys()} == {
        "embedding.positions.weight": (128, 128)
    }
    assert {tuple(relative[key]) for key in relative.keys() - learned.keys()} == {(255, 4)}


def test_a_single_model_joins_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ablation = module("gmlp_ablation")
    out = tmp_path / "results.json"
    out.write_text('{"commit": "x", "models": {"aMLP": {"mean": 1.0}}}')
    monkeypatch.setattr(ablation, "encode_text", lambda *arguments: None)
    monkeypatch.setattr(ablation, "train", lambda model, text, folder, **values: {"perplexity": values["lr"] * 1e4})
    name = "Transformer, learned positions"
    arguments = ["--data", str(tmp_path), "--runs", str(tmp_path), "--only", name, "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["gmlp_ablation.py", *arguments])
    ablation.main()
    found = json.loads(out.read_text())["models"]
    assert found["aMLP"] == {"mean": 1.0}
    assert found[name]["rates"] == {"0.002": 20.0, "0.006": 60.0}
    assert (found[name]["rate"], found[name]["mean"], found[name]["paper"]) == (2e-3, 20.0, 4.37)
    assert found[name]["provenance"]["command"]


def test_a_power_law_is_found_through_its_points() -> None:
    """The logarithms' least squares by the normal equations, and a law without noise."""
    law = module("gmlp_scaling").power_law
    sizes = [1e5, 4e5, 9e5, 2e6]
    assert law(sizes, [700 * size**-0.21 for size in sizes]) == pytest.approx((700, 0.21))
    values = [150.0, 101.0, 97.0, 88.0]
    x, y = np.log(sizes), np.log(values)
    power = -np.sum((x - x.mean()) * (y - y.mean())) / np.sum((x - x.mean()) ** 2)
    assert law(sizes, values) == pytest.approx((np.exp(y.mean() + power * x.mean()), power))


def test_a_part_of_the_text_has_its_first_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoded text as `pretrain` keeps it, and parts of it that `pretrain` reads; held-out text is the same."""
    ablation, scaling = module("gmlp_ablation"), module("gmlp_scaling")
    documents = [" ".join([str(i), *(f"w{(i * i + j) % 40}" for j in range(9))]) for i in range(1000)]
    (tmp_path / "text.txt").write_text("\n".join(documents))
    monkeypatch.setattr(ablation, "SUBWORDS", 200)
    ablation.encode_text(tmp_path / "text.txt", tmp_path / "runs" / "text")
    options = SimpleNamespace(runs=tmp_path / "runs", kinds=["gmlp"], fractions=[0.25, 1.0], steps=1)
    short, full = scaling.data_axis(options, tmp_path / "runs" / "text")["gmlp"]
    assert 0.2 * full["tokens"] < short["tokens"] <= 0.25 * full["tokens"]
    assert short["perplexity"] != full["perplexity"]
    corpora = [tmp_path / "runs" / name / "corpus" for name in ("text-0.25", "text")]
    few, all_ = (np.fromfile(corpus / "train.rows", "<u4") for corpus in corpora)
    assert np.array_equal(few, all_[: len(few)])
    assert few[-1] == all_[-1]
    for column in ("validation.rows", "validation.starts"):
        assert (corpora[0] / column).read_bytes() == (corpora[1] / column).read_bytes()


def test_fine_tunings_have_their_median(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five seeds whose models answer 3, 1, 4, 2 and 4 of 4 texts right: the median is that of 3."""
    pretraining = module("pretraining")
    right = [3, 1, 4, 2, 4]
    rows = Dataset.from_examples([Example(f"t{i}", "yes", "x", i) for i in range(4)])
    monkeypatch.setattr(pretraining, "load", lambda *arguments: rows)
    monkeypatch.setattr(pretraining, "split_validation", lambda rows, **options: (rows, rows))
    monkeypatch.setattr(pretraining, "tune", lambda *arguments: 0.5)

    class Tuned:
        metadata = SimpleNamespace(parameters=1)

        def __init__(self, folder: Path) -> None:
            self.right = right[int(folder.name)]

        def predict_stream(self, texts: list[str]) -> list[SimpleNamespace]:
            return [SimpleNamespace(label="yes" if i < self.right else "no") for i in range(4)]

    baseline = SimpleNamespace(parameters=1, predict=lambda texts: ["yes"] * len(texts))
    monkeypatch.setattr(pretraining, "Predictor", Tuned)
    monkeypatch.setattr(pretraining, "choose", lambda *arguments: (baseline, None))
    monkeypatch.setattr(pretraining, "fit_tfidf", lambda *arguments, **options: baseline)
    options = SimpleNamespace(
        runs=tmp_path, data=tmp_path, models=["gmlp"], starts=["pretrained"], seeds=5, validation_only=False
    )
    row = pretraining.tune_all("sst2_glue", options)["gmlp, pretrained"]
    assert row["test"] == [0.75, 0.25, 1.0, 0.5, 1.0]
    assert row["median"] == 0.75


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
