"""The papers' models: their parameter counts, and how a preset is asked for and changed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

from mixling import PRESETS, ConfigError, build_model, model_config
from mixling.config import read_overrides
from mixling.mixers import TokenMLPConfig
from mixling.models import count_parameters
from mixling.networks import DEFAULT_PRESET, Output

PNLP_MIXERS = [name for name in PRESETS if name.startswith(("pnlp-mixer", "projection"))]
SLOT_LABELS = 151  # MTOP's 75 slot types in IOB


def counted(name: str, num_outputs: int, output: Output, changes: dict | None = None) -> int:
    with torch.device("meta"):
        return count_parameters(build_model(model_config(name, changes), num_outputs=num_outputs, output=output))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("pnlp-mixer-x-large", 4_415_895),
        ("pnlp-mixer-large", 2_274_711),
        ("pnlp-mixer-base", 1_156_887),
        ("pnlp-mixer-small", 632_599),
        ("pnlp-mixer-x-small", 208_279),
        ("projection-only", 825_495),
        ("projection-only-w4", 2_398_359),
        ("pnlp-transformer", 1_221_271),
    ],
)
def test_parameters_of_the_slot_fillers(name: str, parameters: int) -> None:
    assert counted(name, SLOT_LABELS, "tokens") == parameters


@pytest.mark.parametrize(
    ("name", "max_len", "parameters"),
    [
        ("pnlp-mixer-x-small", 1024, 1_183_619),
        ("pnlp-mixer-base", 1024, 2_103_811),
        ("pnlp-mixer-x-large", 1024, 6_309_891),
        ("pnlp-mixer-x-small", 2048, 2_234_243),
        ("pnlp-mixer-base", 2048, 3_154_435),
        ("pnlp-mixer-x-large", 2048, 8_411_139),
    ],
)
def test_parameters_of_table_7(name: str, max_len: int, parameters: int) -> None:
    assert counted(name, 2, "text", {"text": {"max_len": max_len}}) == parameters


@cache
def bodies(name: str) -> int:
    """Parameters without the head, over the vocabulary that the paper counts with."""
    vocabulary = PRESETS[name].vocabulary
    changes = {} if vocabulary is None else {"text": {"projection": {"num_features": vocabulary}}}
    with torch.device("meta"):
        model = build_model(model_config(name, changes), num_outputs=2, output="text")
    return count_parameters(model.embedding) + count_parameters(model.encoder)


@pytest.mark.parametrize(
    ("name", "thousands"),
    [
        ("gmlp-18", 58_996),
        ("gmlp-36", 101_609),
        ("gmlp-72", 186_834),
        ("gmlp-144", 357_284),
        ("gmlp-base", 130_073),
        ("amlp-base", 108_790),
        ("gmlp-large", 365_273),
        ("amlp-large", 315_626),
        ("gmlp-x-large", 940_581),
        ("gmlp-36-linear", 92_172),
        ("gmlp-36-additive", 92_172),
        ("gmlp-36-multiplicative", 92_172),
        ("mlp-mixer-text", 112_030),
        ("bert-base-content-free", 95_496),
        ("bert-large", 335_606),
    ],
)
def test_parameters_of_gmlp_and_its_rivals(name: str, thousands: int) -> None:
    assert round(bodies(name) / 1000) == thousands


def gmlp_parameters(layers: int, d: int, f: int, n: int, a: int = 0, *, split: bool = True) -> int:
    """gMLP, section 2, with 2n - 1 + n spatial weights; `a` is the width of the tiny attention."""
    gated = f // 2 if split else f
    attention = a * (3 * d + gated) + 3 * a + gated if a else 0
    return 32_000 * d + layers * (2 * d + (d + 1) * f + 2 * gated + (3 * n - 1) + attention + (gated + 1) * d)


def bert_parameters(layers: int, d: int, embeddings: int, biases: int = 0, projections: int = 4) -> int:
    """Post-norm layers; 2 segments and a norm beside the table of subwords and other `embeddings`."""
    layer = projections * (d * d + d) + biases + 8 * d * d + 5 * d + 4 * d
    return 32_000 * d + 2 * d + embeddings + 2 * d + layers * layer


EXACTLY = {
    **{f"gmlp-{layers}": gmlp_parameters(layers, 512, 3072, 128) for layers in (18, 36, 72, 144)},
    "gmlp-base": gmlp_parameters(48, 512, 3072, 512),
    "gmlp-large": gmlp_parameters(96, 768, 3072, 512),
    "gmlp-x-large": gmlp_parameters(144, 1024, 4096, 512),
    "amlp-base": gmlp_parameters(36, 512, 3072, 512, 64),
    "amlp-large": gmlp_parameters(72, 768, 3072, 512, 128),
    **{
        f"gmlp-36-{template}": gmlp_parameters(36, 512, 2048, 128, split=False)
        for template in ("linear", "additive", "multiplicative")
    },
    "mlp-mixer-text": 32_000 * 768 + 24 * (4 * 768 + 2 * 128 * 384 + 384 + 128 + 2 * 768 * 2304 + 2304 + 768),
    "bert-base": bert_parameters(12, 768, 128 * 768),
    "bert-large": bert_parameters(24, 1024, 512 * 1024),
    "bert-base-content-free": bert_parameters(12, 768, 0, 12 * 255, projections=2),
    **{f"bert-{layers}-relative": bert_parameters(layers, 768, 0, 12 * 255) for layers in (6, 12, 24, 48)},
    # b outputs and 2 directions of width 128: torch's LSTM has two biases a gate
    "pnlp-lstm": (3 * 1024 + 1) * 256 + 2 * 4 * (128 * (256 + 128) + 2 * 128) + 2 * 256,
    "pqrnn": (1024 + 1) * 256 + 2 * 2 * 3 * (128 * 2 * 256 + 128) + 2 * 256,
}


@pytest.mark.parametrize("name", EXACTLY)
def test_parameters_are_the_formulas_to_the_last(name: str) -> None:
    assert bodies(name) == EXACTLY[name]


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("bert-base", 109.73),
        ("bert-6-relative", 67.12),
        ("bert-12-relative", 109.67),
        ("bert-24-relative", 194.76),
        ("bert-48-relative", 364.94),
        ("bert-24-512", 92.09),
        ("bert-48-384", 97.54),
        ("bert-96-256", 84.11),
    ],
)
def test_parameters_of_bert(name: str, millions: float) -> None:
    assert round(bodies(name) / 1e6, 2) == millions


@pytest.mark.parametrize("name", [name for name in PRESETS if name.startswith(("gmlp-", "amlp-"))])
def test_a_word_has_the_same_vector_everywhere_in_a_model_of_gmlp(name: str) -> None:
    """gMLP has no position embeddings (section 2): only its spatial weights tell positions apart."""
    model = build_model(model_config(name, {"dim": 16, "num_layers": 1}), num_outputs=2, seed=0).eval()
    features = torch.tensor([[1]])
    index = torch.ones(1, 20, dtype=torch.int64)
    vectors = model.embedding.embed(features, None, index, index != 0)[0]
    torch.testing.assert_close(vectors, vectors[:1].expand_as(vectors))


FAMILY = ["transformer", "linear-transformer", "fnet", "mlp-mixer", "gmlp", "hypermixer", "hypermixer-untied"]


@pytest.mark.parametrize("name", FAMILY)
def test_the_family_of_hypermixer_is_matched_at_11_million(name: str) -> None:
    assert bodies(name) == pytest.approx(10_976_768, rel=5e-4)


def test_rivals_of_hypermixer_with_the_same_feed_forward() -> None:
    """gMLP's channels are chosen so that it has attention's parameters; FNet, which has no weights, has fewer."""
    d, n, f = 256, 128, 680
    gating = d * f + f + 2 * (f // 2) + (2 * n - 1) + n + (f // 2) * d + d
    final_norm = 2 * d  # FNet is post-norm, and has none
    assert bodies("gmlp-512") - bodies("fnet-512") == 6 * gating + final_norm
    assert bodies("transformer") - bodies("fnet-512") == 6 * 4 * (d * d + d) + final_norm
    assert bodies("gmlp-512") == pytest.approx(bodies("transformer"), rel=5e-4)
    for name in ("gmlp-512", "fnet-512"):
        (layer,) = PRESETS[name].config.layers
        assert layer.feed_forward is not None
        assert layer.feed_forward.ffn_dim == 512


def test_hypermixers_budget_identity() -> None:
    """Attention's 4 (d^2 + d) = tied with d' = 3d = untied with d' = d; HyperMixing has its output norm beside."""
    assert bodies("hypermixer") == bodies("hypermixer-untied") == bodies("transformer") + 6 * 2 * 256


@pytest.mark.parametrize("name", PNLP_MIXERS)
def test_parameters_follow_the_formula_of_the_paper(name: str) -> None:
    config = PRESETS[name].config
    m, w, b, s = config.text.projection.num_features, config.embedding.window, config.dim, config.text.max_len
    h, layers = 256, len(config.blocks)
    bottleneck = ((2 * w + 1) * m + 1) * b
    layer = (2 * s * h + h + s) + (2 * b * h + h + b) + 4 * b
    assert counted(name, 10, "tokens") == bottleneck + layers * layer + 10 * b + 10
    assert counted(name, 10, "text") == bottleneck + layers * layer + (b + 1) + 10 * b + 10


def test_every_preset_is_the_papers_configuration() -> None:
    for name in PNLP_MIXERS:
        config = PRESETS[name].config
        assert config.text.projection.type == "minhash", name
        assert config.text.projection.num_hashes == 64, name
        assert config.text.max_len == 64, name
        assert config.head.pooling == "attention", name
    assert DEFAULT_PRESET in PRESETS


def test_changes_are_laid_over_a_preset_which_stays() -> None:
    before = PRESETS["pnlp-mixer-base"].config.to_dict()
    changes = read_overrides(["dim=32", "text.projection.num_features=4096", "embedding.window=2", "num_layers=1"])
    config = model_config("pnlp-mixer-base", changes)
    assert (config.dim, config.text.projection.num_features, config.embedding.window) == (32, 4096, 2)
    assert config.text.projection.num_hashes == 64
    assert len(config.blocks) == 1
    assert PRESETS["pnlp-mixer-base"].config.to_dict() == before


def test_another_projection_replaces_the_papers() -> None:
    config = model_config("pnlp-mixer-base", {"text": {"projection": {"type": "tsp", "num_features": 256}}})
    assert config.text.projection.to_dict() == {"type": "tsp", "num_features": 256}
    assert config.text.max_len == 64


@pytest.mark.parametrize(
    ("name", "changes", "reported"),
    [
        ("pnlp-mixer-bass", {}, ["unknown preset 'pnlp-mixer-bass'", "did you mean 'pnlp-mixer-base'?", ".toml"]),
        ("pnlp-mixer-base", {"dims": 3}, ["model: unknown key 'dims'; did you mean 'dim'?"]),
        ("pnlp-mixer-base", {"text": {"projection": {"num_hashs": 3}}}, ["'text.projection.num_hashs'", "num_hashes"]),
        ("pnlp-mixer-base", {"layers": [{"mixers": [{"type": "token_mpl"}]}]}, ["layers.0.mixers", "'token_mlp'"]),
        ("pnlp-mixer-base", {"layers": [{}, {}]}, ["num_layers repeats one layer; got 2"]),
        ("pnlp-mixer-base", {"layers": []}, ["got none in `layers`"]),
        ("pnlp-mixer-base", {"dim": 0}, ["dim: got 0"]),
        ("missing.toml", {}, ["missing.toml: cannot be read"]),
    ],
)
def test_what_does_not_exist_is_reported(name: str, changes: dict, reported: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        model_config(name, changes)
    assert all(part in str(caught.value) for part in reported), caught.value


def test_a_file_starts_from_a_preset(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('preset = "pnlp-mixer-small"\ndim = 48\n[text]\nmax_len = 128\n[head]\npooling = "mean"\n')
    config = model_config(str(path), {"dim": 24})
    expected = model_config("pnlp-mixer-small", {"dim": 24, "text": {"max_len": 128}, "head": {"pooling": "mean"}})
    assert config == expected


def test_a_file_needs_no_preset(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('dim = 8\n[[layers]]\nnorm = "post"\n[[layers.mixers]]\ntype = "token_mlp"\nhidden_dim = 4\n')
    (block,) = model_config(str(path)).blocks
    assert block.mixers == (TokenMLPConfig(hidden_dim=4),)
    assert block.norm == "post"
    assert block.feed_forward is None


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        ('preset = "pnlp-mixer-smal"', "did you mean 'pnlp-mixer-small'?"),
        ("preset = 3", "unknown preset '3'"),
        ('preset = "pnlp-mixer-small"\ndmi = 3', "unknown key 'dmi'; did you mean 'dim'?"),
        ("dim = = 3", "line 1"),
    ],
)
def test_problems_of_a_file_are_reported_with_its_name(tmp_path: Path, content: str, reported: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        model_config(str(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert reported in str(caught.value)


@pytest.mark.parametrize("name", PRESETS)
def test_a_resolved_configuration_builds_the_same_model(name: str) -> None:
    config = PRESETS[name].config
    assert type(config).model_validate(config.to_dict()) == config
