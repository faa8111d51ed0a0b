"""Who takes part, and the Transformer of the same size."""

from __future__ import annotations

from pathlib import Path

import pytest

from mixling import ConfigError, Dataset, Example, RunConfig, build_model, model_config
from mixling.comparison import matched_transformer
from mixling.comparison.candidates import MATCHED, OWN, candidates
from mixling.models import count_parameters
from mixling.runs.resolve import LABELS, resolve
from mixling.runs.resolve.config import InitConfig

FEW = Dataset.from_examples(Example(f"some text {i}", "a", "x", i) for i in range(9))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("pnlp-mixer-x-small", {}),
        ("pnlp-mixer-small", {}),
        ("pnlp-mixer-base", {"final_norm": True}),
        ("pnlp-mixer-x-small", {"dim": 6, "num_layers": 1, "text": {"max_len": 256}}),
        ("pnlp-lstm", {}),
        ("pqrnn", {}),
    ],
)
def test_the_transformer_has_the_models_size_and_embedding_layer(name: str, changes: dict) -> None:
    model = model_config(name, changes)
    matched = matched_transformer(model)
    ours, theirs = (count_parameters(build_model(m, num_outputs=3, output="text")) for m in (model, matched))
    step = len(matched.blocks) * (2 * model.dim + 1)  # of one unit more in each feed-forward
    assert abs(ours - theirs) <= step / 2
    assert (matched.text, matched.head, matched.dim) == (model.text, model.head, model.dim)
    assert matched.embedding == model.embedding.model_copy(update={"positions": "sinusoidal"})
    assert matched.final_norm  # as pre-norm Transformers have
    assert {mixer.type for block in matched.blocks for mixer in block.mixers} == {"attention"}


def test_layers_go_where_attention_alone_would_take_their_parameters() -> None:
    thin = model_config("pnlp-mixer-x-small", {"layers": {"0": {"feed_forward": None}}, "num_layers": 4, "dim": 128})
    matched = matched_transformer(thin)
    assert len(matched.blocks) == 1
    assert len(matched_transformer(model_config("pnlp-mixer-x-small")).blocks) == 2


def test_the_transformer_of_a_bare_projection_is_one_small_layer() -> None:
    matched = matched_transformer(model_config("projection-only", {"dim": 8}))
    assert len(matched.blocks) == 1
    assert matched.blocks[0].feed_forward is not None


def test_the_choice_is_that_of_train() -> None:
    chosen = resolve({"task": "classification", "train": {"seed": 5}}, spec=LABELS).for_examples(FEW).config
    assert chosen.model == model_config("mixling-small", {"text": {"max_len": 64}})
    assert (chosen.train.seed, chosen.init.training_texts) == (5, True)
    started = resolve({"task": "classification", "init": {"vectors": "folder"}}, spec=LABELS)
    assert started.for_examples(FEW).config.init == InitConfig(vectors="folder")


def test_a_model_takes_part_once() -> None:
    config = RunConfig()
    field = candidates(config, config, ["pnlp-mixer-small", "pnlp-mixer-x-small"], matched=True)
    assert [one.name for one in field] == [OWN, "pnlp-mixer-small", MATCHED]
    assert field[0].about.endswith("pnlp-mixer-x-small")
    chosen = resolve({"task": "classification"}, spec=LABELS).for_examples(FEW).config
    assert candidates(config, chosen, [])[0].about.endswith("mixling-small")
    other = config.model_copy(update={"model": model_config("pnlp-mixer-base")})
    assert [one.name for one in candidates(config, other, ["pnlp-mixer-x-small"])] == [OWN, "pnlp-mixer-x-small"]
    assert field[2].config.train == config.train


def test_mistakes_are_reported_before_training(tmp_path: Path) -> None:
    config = RunConfig()
    with pytest.raises(ConfigError, match="did you mean 'pnlp-mixer-small'"):
        candidates(config, config, ["pnlp-mixer-smal"])
    started = config.model_copy(update={"init": InitConfig(vectors="folder")})
    with pytest.raises(ConfigError, match=r"--model gmlp-18: .*needs hashed features"):
        candidates(started, started, ["gmlp-18"])
    (tmp_path / "mixling.toml").write_text('preset = "pnlp-mixer-x-small"\ndim = 8\n')
    (tmp_path / "a b.toml").write_text('preset = "pnlp-mixer-x-small"\ndim = 8\n')
    (tmp_path / "a-b.toml").write_text('preset = "pnlp-mixer-x-small"\ndim = 16\n')
    with pytest.raises(ConfigError, match=r"two models are called .*a-b"):
        candidates(config, config, [str(tmp_path / "a b.toml"), str(tmp_path / "a-b.toml")])
